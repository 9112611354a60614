//! How the groups of the state store, and the control group itself, get the members that they are to have.
//!
//! Every node looks every now and then. For the groups that it leads it takes the next step of the plan
//! (`cluster/src/control/plan.rs`), one group after the other; whether the earlier ones are done it sees at its own replicas. Who leads
//! the control group notes there that a node has arrived everywhere, or is gone from everywhere.

use bytes::Bytes;
use cluster::control::plan::{
    GroupView, Step, check_removal, group_name, has_arrived, is_settled, next_step,
};
use cluster::control::{CONTROL, Command, NodeStage, control_key, encode_state};
use cluster::forming::Founder;
use cluster::replica::record::LogPoint;
use cluster::replica::{MemberProgress, Members, Replica};
use cluster::{GroupId, Keyspace, NodeId, Write};

use crate::control_group::{
    Asker, ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus, ControlGroup, GroupReport,
    GroupStatus, MemberReport, NodeStatus, answer,
};
use crate::groups::Groups;
use crate::node::{Action, Node};
use crate::now::Now;
use crate::state_store_service::Output;
use crate::waiting::Waiter;

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
        self.want_leaders(now, actions);
        self.take_steps(now, actions);
        self.note_arrivals(now, actions);
        self.end_watches_of_removed(now, actions);
        self.record_control(now, actions);
        self.with_control(now, actions, |control, groups, outputs, _| {
            if control.is_report_due(now) {
                let reports = reports(control, groups);
                control.report(now, reports, outputs);
            }
        });
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

    /// An operator asks.
    pub(crate) fn cluster_question(
        &mut self,
        now: Now,
        question: u64,
        asks: ClusterQuestion,
        actions: &mut Vec<Action>,
    ) {
        let Some(control) = &self.control else {
            let answer = ClusterAnswer::NoCluster;
            return actions.push(Action::ClusterAnswer { question, answer });
        };
        let asker = Asker::Here(question);
        match asks {
            ClusterQuestion::Status => {
                let answer = ClusterAnswer::Status(Box::new(status(now, control, &self.groups)));
                actions.push(Action::ClusterAnswer { question, answer });
            }
            ClusterQuestion::Add { who } => match control.caller(&who) {
                Some(caller) => self.decide_change(now, asker, ClusterChange::Add(caller), actions),
                None => {
                    let answer = ClusterAnswer::Refused(unknown_caller(&who, control));
                    actions.push(Action::ClusterAnswer { question, answer });
                }
            },
            ClusterQuestion::Change(change) => self.decide_change(now, asker, change, actions),
        }
    }

    /// Decides a change if this node leads the group that has to, or lets its leader decide.
    fn decide_change(&mut self, now: Now, asker: Asker, change: ClusterChange, actions: &mut Vec<Action>) {
        self.with_control(now, actions, |control, groups, outputs, actions| {
            let replica = control.replica();
            if replica.is_leader() {
                let said = match change {
                    ClusterChange::Add(founder) => check_addition(control, &founder)
                        .map(|is_new| is_new.then_some(Command::Add(founder))),
                    ClusterChange::Remove { node, is_forced } => {
                        let progress = control.replica().progress();
                        let is_active = |other: &MemberProgress, node| other.node == node && other.is_active;
                        let is_there = |node| {
                            node == control.node() || progress.iter().any(|other| is_active(other, node))
                        };
                        let members = all_members(control, groups);
                        check_removal(control.control(), members.into_iter(), node, is_forced, &is_there)
                            .map(|()| Some(Command::Remove(node)))
                            .map_err(|refused| refused.to_string())
                    }
                    ClusterChange::Transfer { group, to } => check_transfer(control, groups, group, to)
                        .map(|()| Some(Command::Lead { group, node: to })),
                };
                return match said {
                    Ok(Some(command)) => control.propose(now, command, Some(asker), outputs, actions),
                    Ok(None) => answer(
                        asker,
                        Ok("it is in the cluster already".to_owned()),
                        outputs,
                        actions,
                    ),
                    Err(refused) => answer(asker, Err(refused), outputs, actions),
                };
            }
            match (asker, replica.leader()) {
                (Asker::Here(question), Some(leader)) => {
                    control.ask(now, leader, question, change, outputs, actions);
                }
                (Asker::Here(_), None) => {
                    let refused = format!("nobody leads {} at the moment", group_name(CONTROL));
                    answer(asker, Err(refused), outputs, actions);
                }
                // Whoever asked finds out who leads, and asks again.
                (Asker::There(..), _) => {
                    let refused = format!(
                        "this node does not lead {} any more; try again",
                        group_name(CONTROL)
                    );
                    answer(asker, Err(refused), outputs, actions);
                }
            }
        });
    }

    /// Lets those lead whom an operator wants to.
    fn want_leaders(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(control) = &self.control else { return };
        let leaving = control.control().leaving().collect();
        for group in self.groups.ids() {
            let wanted = control.control().leads(group);
            if let Some(service) = self.groups.get_mut(group) {
                service.want_leader(wanted, &leaving);
            }
        }
        self.with_control(now, actions, |control, _, outputs, actions| {
            let wanted = control.control().leads(CONTROL);
            if let Some(to) = wanted.filter(|to| control.replica().may_hand_over(*to)) {
                control.transfer(now, to, outputs, actions);
            }
        });
    }

    /// The next step of each group that this node leads, up to the first that is not done. A node that leaves hears nothing any more of
    /// groups that it has left, so it does not wait for them.
    fn take_steps(&mut self, now: Now, actions: &mut Vec<Action>) {
        let control = self
            .control
            .as_ref()
            .map(|control| control.control().stage(control.node()));
        let is_leaving = control == Some(Some(NodeStage::Leaving));
        for group in self.groups.ids().chain([CONTROL]) {
            let Some(control) = &self.control else { return };
            let Some(replica) = replica_of(control, &self.groups, group) else {
                return;
            };
            let is_done = is_settled(control.control(), replica.members());
            let progress = replica.progress();
            let view = GroupView {
                leader: control.node(),
                members: replica.members(),
                progress: &progress,
                last: replica.last(),
            };
            let step = replica
                .is_leader()
                .then(|| next_step(control.control(), view))
                .flatten();
            match step {
                Some(Step::Change(changes)) if group == CONTROL => {
                    self.with_control(now, actions, |control, _, outputs, actions| {
                        control.change_members(now, changes, outputs, actions);
                    });
                }
                Some(Step::Change(changes)) => {
                    self.with_group(now, group, actions, |service, outputs| {
                        service.change_members(now, changes, outputs);
                    });
                }
                Some(Step::HandOver(to)) if group == CONTROL => {
                    self.with_control(now, actions, |control, _, outputs, actions| {
                        control.transfer(now, to, outputs, actions);
                    });
                }
                Some(Step::HandOver(to)) => {
                    self.with_group(now, group, actions, |service, outputs| {
                        service.transfer(now, to, outputs);
                    });
                }
                None => {}
            }
            if !is_done && !is_leaving {
                return;
            }
        }
    }

    /// Who has arrived in every group, and who is gone from every group.
    fn note_arrivals(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.with_control(now, actions, |control, groups, outputs, actions| {
            if !control.replica().is_leader() {
                return;
            }
            let members = all_members(control, groups);
            let mut commands = Vec::new();
            for (node, found) in control.control().nodes() {
                let has_arrived =
                    |(_, members): &(_, &Members)| has_arrived(control.control(), members, *node);
                match found.stage {
                    NodeStage::Joining if members.iter().all(has_arrived) => {
                        commands.push(Command::Joined(*node));
                    }
                    NodeStage::Leaving if !members.iter().any(|(_, members)| members.contains(*node)) => {
                        commands.push(Command::Left(*node));
                    }
                    NodeStage::Joining | NodeStage::Leaving | NodeStage::Member => {}
                }
            }
            for command in commands {
                control.propose(now, command, None, outputs, actions);
            }
        });
    }

    /// Nobody at a removed node watches anything any more.
    fn end_watches_of_removed(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(control) = &self.control else { return };
        let removed: Vec<_> = control.control().removed().collect();
        for group in self.groups.ids() {
            for node in &removed {
                self.with_group(now, group, actions, |service, outputs| {
                    service.end_watches_of(now, *node, outputs);
                });
            }
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

/// Whether a node may lead a group.
fn check_transfer(control: &ControlGroup, groups: &Groups, group: GroupId, to: NodeId) -> Result<(), String> {
    let Some(replica) = replica_of(control, groups, group) else {
        return Err(format!("there is no group {group}"));
    };
    if control.control().stage(to) == Some(NodeStage::Leaving) {
        return Err(format!("node {to} is leaving the cluster"));
    }
    if replica.members().voters.contains(&to) {
        Ok(())
    } else {
        Err(format!(
            "node {to} does not vote in {}, and cannot lead it",
            group_name(group)
        ))
    }
}

/// Whether a node may be added, and is not there already.
fn check_addition(control: &ControlGroup, founder: &Founder) -> Result<bool, String> {
    let nodes = control.control().nodes();
    let node = founder.node;
    if control.control().is_removed(node) {
        return Err(format!(
            "node {node} was removed from the cluster; start it with an empty data directory"
        ));
    }
    if let Some(found) = nodes.get(&node) {
        return match found.stage {
            NodeStage::Leaving => Err(format!("node {node} is leaving the cluster")),
            NodeStage::Joining | NodeStage::Member => Ok(false),
        };
    }
    if nodes.len() >= cluster::replica::MEMBERS_MAX {
        let max = cluster::replica::MEMBERS_MAX;
        return Err(format!("a cluster has at most {max} nodes"));
    }
    match nodes.iter().find(|(_, other)| other.address == founder.address) {
        Some((other, _)) => Err(format!(
            "node {other} has the address {}; remove it first",
            founder.address.as_str()
        )),
        None => Ok(true),
    }
}

fn unknown_caller(who: &str, control: &ControlGroup) -> String {
    let callers = control.callers();
    let callers: Vec<_> = callers
        .iter()
        .map(|caller| format!("{} at {}", caller.node, caller.address.as_str()))
        .collect();
    let waiting = if callers.is_empty() {
        "none is waiting".to_owned()
    } else {
        format!("waiting are {}", callers.join(", "))
    };
    format!(
        "no node `{who}` has called; start it with an empty data directory, --peer-listen, and --join with the address of a node \
         of this cluster ({waiting})"
    )
}

fn reports(control: &ControlGroup, groups: &Groups) -> Vec<GroupReport> {
    let stores = groups.iter().map(|service| service.replica());
    let led = stores
        .chain([control.replica()])
        .filter(|replica| replica.is_leader());
    led.map(report).collect()
}

fn report(replica: &Replica) -> GroupReport {
    let member = |progress: MemberProgress| MemberReport {
        node: progress.node,
        matched: progress.matched,
        is_active: progress.is_active,
    };
    GroupReport {
        group: replica.group(),
        term: replica.term(),
        last: replica.last(),
        members: replica.progress().into_iter().map(member).collect(),
    }
}

fn status(now: Now, control: &ControlGroup, groups: &Groups) -> ClusterStatus {
    let nodes = control.control().nodes().iter().map(|(node, found)| NodeStatus {
        node: *node,
        address: found.address.clone(),
        stage: found.stage,
        since: found.since,
        is_heard: control.is_heard(now, *node),
    });
    let stores = groups.iter().map(|service| service.replica());
    let groups = stores.chain([control.replica()]).map(|replica| GroupStatus {
        group: replica.group(),
        leader: replica.leader(),
        term: replica.term(),
        members: replica.members().clone(),
        report: match replica.leader() {
            Some(leader) if leader == control.node() => Some(report(replica)),
            Some(leader) => control.report_of(now, leader, replica.group()),
            None => None,
        },
    });
    ClusterStatus {
        cluster: control.control().cluster(),
        node: control.node(),
        nodes: nodes.collect(),
        groups: groups.collect(),
        callers: control.callers(),
    }
}
