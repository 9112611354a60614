//! From the members that a group has to those that it is to have: one step at a time, each of which leaves it able to decide.
//!
//! Every node has a copy of every group; as many as are wanted vote, the others learn. A node that comes learns first, and gets a vote
//! where one is missing, as soon as it has caught up. The vote of a node that goes is given to another one in the same step, if
//! there is one; then it leaves as a learner. Groups go one after the other, so that a node that joins is not sent everything
//! at once.
//!
//! All of it are pure functions. Each group's leader asks for the steps of its own group; the others it knows as its node has applied
//! their logs.

use std::collections::BTreeSet;

use super::{Control, NodeStage};
use crate::replica::{MemberChange, MemberProgress, Members};
use crate::{GroupId, Index, NodeId};

/// What a group's leader knows of its group.
#[derive(Debug, Clone, Copy)]
pub struct GroupView<'a> {
    /// The leader.
    pub leader: NodeId,
    /// Who takes part.
    pub members: &'a Members,
    /// Where the others stand.
    pub progress: &'a [MemberProgress],
    /// The last entry of the leader's log.
    pub last: Index,
}

/// What a group's leader is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Change the members.
    Change(Vec<MemberChange>),
    /// Let this node lead: the leader itself is to go.
    HandOver(NodeId),
}

/// Why a node cannot be removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemovalRefused {
    /// There is no such node.
    #[error("no node {node} is in the cluster")]
    Unknown { node: NodeId },
    /// Nobody would be left.
    #[error("node {node} is the only one that is not leaving")]
    Last { node: NodeId },
    /// It may come back.
    #[error(
        "node {node} cannot be reached; if it is gone for good: `statehold cluster remove {node} --force`"
    )]
    Unreachable { node: NodeId },
    /// A group would have no majority.
    #[error("{} could decide nothing any more: of its voters {} only {} can be reached",
        group_name(*group), list(voters), list(reachable))]
    NoMajority {
        group: GroupId,
        voters: BTreeSet<NodeId>,
        reachable: BTreeSet<NodeId>,
    },
}

/// As many entries may be missing on a node that is given a vote, as [`crate::replica`] wants it.
const ENTRIES_BEHIND_MAX: u64 = 100;

/// Whether a group has everybody that it is to have, and nobody else but nodes without a vote that still hand over. A vote may
/// still be missing.
pub fn is_settled(control: &Control, members: &Members, hands_over: &dyn Fn(NodeId) -> bool) -> bool {
    let is_there = |node| members.contains(node);
    let may_stay = |node| !members.is_voter(node) && hands_over(node);
    !members.is_joint() && control.staying().all(is_there) && leavers(control, members).all(may_stay)
}

/// Whether a node takes part in a group as it is to: as a member, and with a vote if one is missing. It may have nothing yet.
pub fn has_arrived(control: &Control, members: &Members, node: NodeId) -> bool {
    let has_vote = members.voters.contains(&node) || !is_vote_missing(control, members);
    !members.is_joint() && members.contains(node) && has_vote
}

/// What the leader of a group is to do next, if anything.
pub fn next_step(control: &Control, view: GroupView<'_>) -> Option<Step> {
    if view.members.is_joint() {
        return None;
    }
    if let Some(node) = control.staying().find(|node| !view.members.contains(*node)) {
        return Some(Step::Change(vec![MemberChange::Learn(node)]));
    }
    let is_vote_missing = is_vote_missing(control, view.members);
    let candidate = is_vote_missing.then(|| candidate(control, view)).flatten();
    let mut voting = leavers(control, view.members).filter(|node| view.members.voters.contains(node));
    // Who may go has changed if a node has died since the removal was decided.
    let leaving =
        voting.find(|node| *node == view.leader || keeps_majority(view, &without(*node, candidate)));
    match (leaving, candidate) {
        (Some(node), _) if node == view.leader => hand_over(control, view, candidate),
        // Somebody will have caught up soon.
        (Some(_), None) if is_vote_missing && is_anyone_catching_up(control, view) => None,
        (Some(node), _) => Some(Step::Change(without(node, candidate))),
        (None, Some(ready)) => Some(Step::Change(vec![MemberChange::Vote(ready)])),
        (None, None) => {
            let mut learners = leavers(control, view.members).filter(|node| !view.members.is_voter(*node));
            learners
                .next()
                .map(|node| Step::Change(vec![MemberChange::Leave(node)]))
        }
    }
}

/// Whether a node may be removed: every group has to keep a majority of voters that are there, all the way.
pub fn check_removal<'a>(
    control: &Control,
    groups: impl Iterator<Item = (GroupId, &'a Members)>,
    node: NodeId,
    is_forced: bool,
    is_there: &dyn Fn(NodeId) -> bool,
) -> Result<(), RemovalRefused> {
    match control.stage(node) {
        None => return Err(RemovalRefused::Unknown { node }),
        Some(NodeStage::Leaving) => return Ok(()),
        Some(NodeStage::Joining | NodeStage::Member) => {}
    }
    if control.staying().count() == 1 {
        return Err(RemovalRefused::Last { node });
    }
    if !is_forced && !is_there(node) {
        return Err(RemovalRefused::Unreachable { node });
    }
    for (group, members) in groups {
        let mut after = members.clone();
        after.voters.remove(&node);
        let can_vote = |other: &NodeId| *other != node && is_there(*other) && members.contains(*other);
        let spare: Vec<_> = control.staying().filter(can_vote).collect();
        for other in spare {
            if after.voters.len() < members.voters.len() {
                after.voters.insert(other);
            }
        }
        for decides in [members, &after] {
            if !decides.has_majority(is_there) {
                let voters = decides.voters.clone();
                let reachable = voters.iter().copied().filter(|node| is_there(*node)).collect();
                return Err(RemovalRefused::NoMajority {
                    group,
                    voters,
                    reachable,
                });
            }
        }
    }
    Ok(())
}

/// How a group is called where people read it.
pub fn group_name(group: GroupId) -> String {
    if group == super::CONTROL {
        "the control group".to_owned()
    } else {
        format!("group {group}")
    }
}

/// Whether a node that stays is to have a vote, and has none.
fn is_vote_missing(control: &Control, members: &Members) -> bool {
    let staying: BTreeSet<_> = control.staying().collect();
    let voters = staying.intersection(&members.voters).count();
    voters < control.voters_wanted().min(staying.len())
}

/// Members that are to go.
fn leavers<'a>(control: &'a Control, members: &'a Members) -> impl Iterator<Item = NodeId> + 'a {
    let is_leaving = |node: &NodeId| {
        control
            .stage(*node)
            .is_none_or(|stage| stage == NodeStage::Leaving)
    };
    members.all().into_iter().filter(is_leaving)
}

/// What takes a node's vote, and gives it to who is ready for one.
fn without(node: NodeId, candidate: Option<NodeId>) -> Vec<MemberChange> {
    let vote = candidate.map(MemberChange::Vote);
    vote.into_iter().chain([MemberChange::Learn(node)]).collect()
}

/// Whether those who are there can decide after these changes.
fn keeps_majority(view: GroupView<'_>, changes: &[MemberChange]) -> bool {
    let is_there = |node| {
        let mut others = view.progress.iter();
        node == view.leader || others.any(|other| other.node == node && other.is_active)
    };
    let after = view.members.after(changes);
    after.is_some_and(|after| after.has_majority(is_there))
}

/// A node that learns, stays, and has caught up.
fn candidate(control: &Control, view: GroupView<'_>) -> Option<NodeId> {
    let is_ready = |found: &&MemberProgress| {
        is_learner_that_stays(control, view, found)
            && found.is_active
            && found.matched.0 + ENTRIES_BEHIND_MAX >= view.last.0
    };
    view.progress.iter().find(is_ready).map(|found| found.node)
}

fn is_anyone_catching_up(control: &Control, view: GroupView<'_>) -> bool {
    let mut learners = view.progress.iter();
    learners.any(|found| found.is_active && is_learner_that_stays(control, view, found))
}

fn is_learner_that_stays(control: &Control, view: GroupView<'_>, found: &MemberProgress) -> bool {
    let stays = control
        .stage(found.node)
        .is_some_and(|stage| stage != NodeStage::Leaving);
    stays && view.members.learners.contains(&found.node)
}

/// The leader is to go: it lets a voter lead that stays, or gives somebody a vote first.
fn hand_over(control: &Control, view: GroupView<'_>, candidate: Option<NodeId>) -> Option<Step> {
    let can_lead = |found: &&MemberProgress| {
        let stays = control
            .stage(found.node)
            .is_some_and(|stage| stage != NodeStage::Leaving);
        stays
            && found.is_active
            && view.members.voters.contains(&found.node)
            && found.matched.0 + ENTRIES_BEHIND_MAX >= view.last.0
    };
    let next = view
        .progress
        .iter()
        .filter(can_lead)
        .max_by_key(|found| found.matched);
    match (next, candidate) {
        (Some(found), _) => Some(Step::HandOver(found.node)),
        (None, Some(ready)) => Some(Step::Change(vec![MemberChange::Vote(ready)])),
        (None, None) => None,
    }
}

fn list(nodes: &BTreeSet<NodeId>) -> String {
    if nodes.is_empty() {
        return "none".to_owned();
    }
    let nodes: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
    nodes.join(", ")
}
