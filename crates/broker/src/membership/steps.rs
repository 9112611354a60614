//! The steps of the plan (`cluster/src/control/plan.rs`), taken by whoever leads a group.

use cluster::NodeId;
use cluster::control::plan::{GroupView, Step, has_arrived, is_settled, next_step};
use cluster::control::{CONTROL, Command, NodeStage};
use cluster::replica::{MemberChange, Members};
use mqtt::now::Now;
use state_service::Groups;

use super::status::report_of;
use super::{all_members, replica_of};
use crate::control_group::ControlGroup;
use crate::node::{Action, Node};

impl Node {
    /// Lets those lead whom an operator wants to.
    pub(super) fn want_leaders(&mut self, now: Now, actions: &mut Vec<Action>) {
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
            if let Some(to) = wanted.filter(|to| control.can_take_over(now, *to)) {
                control.transfer(now, to, outputs, actions);
            }
        });
    }

    /// The next step of each group that this node leads, up to the first that is not done. A node that leaves hears nothing any more of
    /// groups that it has left, so it does not wait for them.
    pub(super) fn take_steps(&mut self, now: Now, actions: &mut Vec<Action>) {
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
            let hands_over = |node| self.is_serving(node);
            let is_done = is_settled(control.control(), replica.members(), &hands_over);
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
                .flatten()
                .filter(|step| !self.is_early(step));
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

    /// Whether a step would end the copies of a node that still hands over.
    fn is_early(&self, step: &Step) -> bool {
        let Step::Change(changes) = step else { return false };
        changes
            .iter()
            .any(|change| matches!(change, MemberChange::Leave(node) if self.is_serving(*node)))
    }

    /// A node that leaves can be reached, and may have entries that other owners still merge.
    fn is_serving(&self, node: NodeId) -> bool {
        self.replication.is_present(node) && !self.replication.do_all_run()
    }

    /// Who has arrived in every group, who is gone from every group, and who is elsewhere than before.
    pub(super) fn note_arrivals(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.with_control(now, actions, |control, groups, outputs, actions| {
            if !control.replica().is_leader() {
                return;
            }
            control.forget_arrived();
            let nodes = control.control().nodes().iter();
            let nodes: Vec<_> = nodes.map(|(node, found)| (*node, found.stage)).collect();
            let mut commands = Vec::new();
            for (node, stage) in nodes {
                match stage {
                    NodeStage::Joining if has_joined(now, control, groups, node) => {
                        commands.push(Command::Joined(node));
                    }
                    NodeStage::Leaving if is_gone(control, groups, node) => {
                        commands.push(Command::Left(node));
                    }
                    NodeStage::Joining | NodeStage::Leaving | NodeStage::Member => {}
                }
            }
            commands.extend(control.moved().into_iter().map(Command::Moved));
            for command in commands {
                control.propose(now, command, None, outputs, actions);
            }
        });
    }

    /// Nobody at a removed node watches anything any more.
    pub(super) fn end_watches_of_removed(&mut self, now: Now, actions: &mut Vec<Action>) {
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
}

/// Whether a node has in every group what it is to have, and has confirmed that it has caught up.
fn has_joined(now: Now, control: &mut ControlGroup, groups: &Groups, node: NodeId) -> bool {
    let members = all_members(control, groups);
    let takes_part = |(_, members): &(_, &Members)| has_arrived(control.control(), members, node);
    if !members.iter().all(takes_part) {
        return false;
    }
    let stores = groups.iter().map(|service| service.replica());
    let replicas = stores.chain([control.replica()]);
    // A leader has all there is, and no report of itself.
    let replicas = replicas.filter(|replica| replica.leader() != Some(node));
    let reports: Vec<_> = replicas.map(|replica| report_of(now, control, replica)).collect();
    let mut reports = reports.iter();
    reports.all(|report| {
        let report = report.as_ref();
        report.is_some_and(|report| control.has_caught_up(node, report))
    })
}

/// Whether a node takes part in no group.
fn is_gone(control: &ControlGroup, groups: &Groups, node: NodeId) -> bool {
    let members = all_members(control, groups);
    !members.iter().any(|(_, members)| members.contains(node))
}
