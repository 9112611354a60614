//! What operators ask of a cluster: it is decided by the control group's leader, which looks first whether the cluster can do it.

use std::collections::BTreeSet;

use cluster::control::plan::{check_removal, group_name};
use cluster::control::{CONTROL, Command, NodeStage};
use cluster::forming::Founder;
use cluster::replica::MemberProgress;
use cluster::session_plane::lifecycle::NodeState;
use cluster::{GroupId, NodeId};
use mqtt::now::Now;
use state_service::Groups;

use super::{all_members, replica_of};
use crate::control_group::{
    Asker, ClusterAnswer, ClusterChange, ClusterQuestion, ControlGroup, answer, leave_open,
};
use crate::node::{Action, Node};

impl Node {
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
                let answer = ClusterAnswer::Status(Box::new(self.cluster_status(now, control)));
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

    /// Nodes that are present to the session plane, also those that were not heard for a moment.
    fn serving(&self) -> BTreeSet<NodeId> {
        let states = self.node_states().into_iter();
        let present = states.filter(|(_, state)| *state != NodeState::Dead);
        present.map(|(node, _)| node).collect()
    }

    /// Decides a change if this node leads the group that has to, or lets its leader decide.
    pub(super) fn decide_change(
        &mut self,
        now: Now,
        asker: Asker,
        change: ClusterChange,
        actions: &mut Vec<Action>,
    ) {
        let serving = self.serving();
        self.with_control(now, actions, |control, groups, outputs, actions| {
            let replica = control.replica();
            if replica.is_leader() {
                return match decide(control, groups, &serving, change) {
                    Ok(Some(command)) => control.propose(now, command, Some(asker), outputs, actions),
                    Ok(None) => answer(
                        asker,
                        Ok("it is in the cluster already".to_owned()),
                        outputs,
                        actions,
                    ),
                    Err(Declined::Refused(why)) => answer(asker, Err(why), outputs, actions),
                    Err(Declined::Open(why)) => leave_open(asker, &why, actions),
                };
            }
            match (asker, replica.leader()) {
                (Asker::Here(question), Some(leader)) => {
                    control.ask(now, leader, question, change, outputs, actions);
                }
                (Asker::Here(_), None) => {
                    let why = format!("nobody leads {} at the moment", group_name(CONTROL));
                    leave_open(asker, &why, actions);
                }
                (Asker::There(..), _) => {
                    let why = format!("this node does not lead {}", group_name(CONTROL));
                    leave_open(asker, &why, actions);
                }
            }
        });
    }
}

/// Change that is not made.
enum Declined {
    /// Because of how the cluster stands.
    Refused(String),
    /// Because of what passes, or is known soon.
    Open(String),
}

impl From<String> for Declined {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// The command that makes a change; `None`: it is so already. `serving`: nodes that the failure detector does not take for dead.
fn decide(
    control: &ControlGroup,
    groups: &Groups,
    serving: &BTreeSet<NodeId>,
    change: ClusterChange,
) -> Result<Option<Command>, Declined> {
    match change {
        ClusterChange::Add(founder) => {
            let is_new = check_addition(control, &founder)?;
            Ok(is_new.then_some(Command::Add(founder)))
        }
        ClusterChange::Remove { node, is_forced } => {
            let progress = control.replica().progress();
            let is_active = |other: &MemberProgress, node| other.node == node && other.is_active;
            let is_there =
                |node| node == control.node() || progress.iter().any(|other| is_active(other, node));
            let check = |is_there: &dyn Fn(NodeId) -> bool| {
                let members = all_members(control, groups).into_iter();
                check_removal(control.control(), members, node, is_forced, is_there)
            };
            if let Err(refused) = check(&is_there) {
                // Silence for a moment is no reason to advise `--force`.
                let may_answer = |node| is_there(node) || serving.contains(&node);
                return Err(match check(&may_answer) {
                    Ok(()) => Declined::Open(refused.to_string()),
                    Err(refused) => Declined::Refused(refused.to_string()),
                });
            }
            Ok(Some(Command::Remove(node)))
        }
        ClusterChange::Transfer { group, to } => {
            check_transfer(control, groups, group, to)?;
            Ok(Some(Command::Lead { group, node: to }))
        }
    }
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
            "node {other} has the address {}; remove it first: `statehold cluster remove {other}`",
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
