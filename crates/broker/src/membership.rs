//! How the groups of the state store, and the control group itself, get the members that they are to have.
//!
//! Every node looks every now and then. For the groups that it leads it takes the next step of the plan
//! (`cluster/src/control/plan.rs`), one group after the other; whether the earlier ones are done it sees at its own replicas. Who leads
//! the control group notes there that a node has arrived everywhere, or is gone from everywhere.

mod operators;
mod status;
mod steps;

use bytes::Bytes;
use cluster::control::{CONTROL, NodeStage, control_key, encode_state};
use cluster::replica::record::LogPoint;
use cluster::replica::{Members, Replica};
use cluster::{GroupId, Keyspace, NodeId, Write};
use mqtt::now::Now;
use state_service::{Groups, Output};

use self::status::reports;
use crate::control_group::ControlGroup;
use crate::node::{Action, Node};
use crate::replication::Waiter;
use crate::report::Report;

impl Node {
    /// Lets the control group work, and delivers what comes out of it. Nothing happens where there is none.
    pub(crate) fn with_control<T>(
        &mut self,
        now: Now,
        actions: &mut Vec<Action>,
        work: impl FnOnce(&mut ControlGroup, &Groups, &mut Vec<Output>, &mut Vec<Action>) -> T,
    ) -> Option<T> {
        let control = self.control.as_mut()?;
        let mut outputs = std::mem::take(&mut self.outputs);
        let result = work(control, &self.groups, &mut outputs, actions);
        actions.extend(control.peers_to_tell());
        let to_keep = control.take_to_keep();
        for output in outputs.drain(..) {
            self.state_store_output(now, CONTROL, output, actions);
        }
        self.outputs = outputs;
        if let Some((point, state)) = to_keep {
            self.write_control(encode_state(point, &state));
            self.after_commit(now, Waiter::ControlKept(point), actions);
        }
        Some(result)
    }

    /// Does what is due in the control group, and takes the next step of the plan.
    pub(crate) fn control_timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        let is_time = self.with_control(now, actions, |control, _, outputs, actions| {
            control.timeout(now, outputs, actions)
        });
        if is_time != Some(true) {
            return;
        }
        self.leave_if_removed(now, actions);
        self.want_leaders(now, actions);
        self.take_steps(now, actions);
        self.note_arrivals(now, actions);
        self.end_watches_of_removed(now, actions);
        self.record_control(now, actions);
        self.report_if_due(now, actions);
    }

    /// Tells the others of the groups and copies of this node, once in a while.
    fn report_if_due(&mut self, now: Now, actions: &mut Vec<Action>) {
        let control = self.control.as_ref();
        if !control.is_some_and(|control| control.is_report_due(now)) {
            return;
        }
        let copies = self.copy_report();
        self.with_control(now, actions, |control, groups, outputs, _| {
            let reports = reports(control, groups);
            control.report(now, reports, copies, outputs);
        });
    }

    /// Begins to leave once the cluster has decided to remove this node: its clients are sent away, and its sessions go on elsewhere.
    fn leave_if_removed(&mut self, now: Now, actions: &mut Vec<Action>) {
        let stage = self
            .control
            .as_ref()
            .and_then(|control| control.control().stage(control.node()));
        if stage == Some(NodeStage::Leaving) && !self.ending.is_leaving {
            self.ending.is_leaving = true;
            actions.push(Action::Report(Report::Leaving));
            self.stop(now, actions);
        }
    }

    /// What another node's control group says.
    pub(crate) fn control_message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let taken = self.with_control(now, actions, |control, _, outputs, actions| {
            control.message(now, from, message, outputs, actions)
        });
        match taken {
            Some(Ok(Some((asker, change)))) => self.decide_change(now, asker, change, actions),
            Some(Err(error)) => crate::invoking::drop_message(from, error, actions),
            Some(Ok(None)) | None => {}
        }
    }

    /// Writes the state as one record when the log has become long.
    fn record_control(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(control) = &mut self.control else { return };
        let Some(point) = control.record_due() else {
            return;
        };
        let record = encode_state(point, control.control());
        self.write_control(record);
        self.after_commit(now, Waiter::ControlRecorded(point), actions);
    }

    fn write_control(&mut self, record: Bytes) {
        self.commits.write(Write::Put {
            keyspace: Keyspace::Meta,
            key: control_key(),
            value: record,
        });
    }

    /// The record of a state that another node sent is durable.
    pub(crate) fn control_kept(&mut self, now: Now, point: LogPoint, actions: &mut Vec<Action>) {
        self.with_control(now, actions, |control, _, outputs, actions| {
            control.kept(now, point, outputs, actions);
        });
    }

    /// The record of the control group's state is durable.
    pub(crate) fn control_recorded(&mut self, now: Now, point: LogPoint, actions: &mut Vec<Action>) {
        self.with_control(now, actions, |control, _, outputs, actions| {
            control.recorded(now, point, outputs, actions);
        });
    }
}

fn replica_of<'a>(control: &'a ControlGroup, groups: &'a Groups, group: GroupId) -> Option<&'a Replica> {
    if group == CONTROL {
        return Some(control.replica());
    }
    Some(groups.get(group)?.replica())
}

/// The members of all groups, the control group's last, as this node has applied their logs.
fn all_members<'a>(control: &'a ControlGroup, groups: &'a Groups) -> Vec<(GroupId, &'a Members)> {
    let stores = groups.iter().map(|service| service.replica());
    let all = stores.chain([control.replica()]);
    all.map(|replica| (replica.group(), replica.members())).collect()
}
