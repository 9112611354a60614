//! Who takes part in a group, and how that changes while requests go on.
//!
//! A change is an entry of the log: it holds as soon as it is applied. One change is under way at a time. A change of one node takes
//! effect at once; a change of several goes through a joint configuration, in which the majorities of both sides decide, and which
//! the leader ends with another entry as soon as it has been applied.
//!
//! Neighbouring configurations have a voter in common in any two majorities, so a replica may be one change behind and not more.
//! Hence the rule at a start: every change before the last one in the log was committed, since no leader appends a change before it
//! has applied the one before.

use std::collections::BTreeSet;

use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

use crate::{Index, NodeId};

/// Nodes that may take part in a group. Each costs the leader a copy of every entry.
pub const MEMBERS_MAX: usize = 64;

/// Who takes part in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    /// The log's entry from which on this holds; zero: from the beginning.
    pub index: Index,
    /// Who votes.
    pub voters: BTreeSet<NodeId>,
    /// Who voted before. While this is not empty, the configuration is joint: majorities of both sides decide.
    pub outgoing: BTreeSet<NodeId>,
    /// Who receives the log and does not vote.
    pub learners: BTreeSet<NodeId>,
    /// Who will be a learner when the joint configuration ends, and is still among `outgoing`.
    pub learners_next: BTreeSet<NodeId>,
    /// Raft ends the joint configuration by itself. Written as false: the replica ends it (see [`super::Replica`]).
    pub auto_leave: bool,
}

/// What a node is to be in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberChange {
    /// It votes.
    Vote(NodeId),
    /// It receives the log and does not vote.
    Learn(NodeId),
    /// It takes no part.
    Leave(NodeId),
}

/// Where another node stands in the log, as the leader knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberProgress {
    /// The node.
    pub node: NodeId,
    /// Whether it has a vote.
    pub is_voter: bool,
    /// Everything up to here is on its disk.
    pub matched: Index,
    /// It was heard within the longest election timeout.
    pub is_active: bool,
    /// It has said that its disk is an older copy: it takes no part.
    pub is_rolled_back: bool,
}

impl Members {
    /// The founders of a group, all of whom vote.
    pub fn founders(voters: impl IntoIterator<Item = NodeId>) -> Members {
        Members {
            index: Index::ZERO,
            voters: voters.into_iter().collect(),
            outgoing: BTreeSet::new(),
            learners: BTreeSet::new(),
            learners_next: BTreeSet::new(),
            auto_leave: false,
        }
    }

    /// Whether two majorities decide.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether the node has a vote, on either side of a joint configuration.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.outgoing.contains(&node)
    }

    /// Whether the node receives the log.
    pub fn contains(&self, node: NodeId) -> bool {
        self.is_voter(node) || self.learners.contains(&node)
    }

    /// Everybody who receives the log.
    pub fn all(&self) -> BTreeSet<NodeId> {
        let sets = [&self.voters, &self.outgoing, &self.learners];
        sets.into_iter().flatten().copied().collect()
    }

    /// Whether the nodes `are_there` suffice to decide.
    pub fn has_majority(&self, are_there: impl Fn(NodeId) -> bool) -> bool {
        let is_majority = |side: &BTreeSet<NodeId>| {
            side.is_empty() || side.iter().filter(|node| are_there(**node)).count() > side.len() / 2
        };
        is_majority(&self.voters) && is_majority(&self.outgoing)
    }

    /// What the changes make of it in the end; `None` if that is nothing that a group can have.
    pub fn after(&self, changes: &[MemberChange]) -> Option<Members> {
        let mut members = self.clone();
        for change in changes {
            let node = change.node();
            if node.0 == 0 {
                return None;
            }
            members.voters.remove(&node);
            members.learners.remove(&node);
            match change {
                MemberChange::Vote(_) => members.voters.insert(node),
                MemberChange::Learn(_) => members.learners.insert(node),
                MemberChange::Leave(_) => false,
            };
        }
        let is_possible =
            !self.is_joint() && !members.voters.is_empty() && members.all().len() <= MEMBERS_MAX;
        is_possible.then_some(members)
    }

    /// As Raft has them, from the entry at `index` on.
    pub(super) fn from_raft(index: Index, state: &ConfState) -> Members {
        let set = |nodes: &[u64]| nodes.iter().copied().map(NodeId).collect();
        Members {
            index,
            voters: set(&state.voters),
            outgoing: set(&state.voters_outgoing),
            learners: set(&state.learners),
            learners_next: set(&state.learners_next),
            auto_leave: state.auto_leave,
        }
    }

    /// As Raft wants them.
    pub(super) fn to_raft(&self) -> ConfState {
        let list = |nodes: &BTreeSet<NodeId>| nodes.iter().map(|node| node.0).collect();
        ConfState {
            voters: list(&self.voters),
            voters_outgoing: list(&self.outgoing),
            learners: list(&self.learners),
            learners_next: list(&self.learners_next),
            auto_leave: self.auto_leave,
        }
    }

    /// Whether this is a configuration that Raft can start from.
    pub(super) fn is_valid(&self) -> bool {
        let has_zero = self.all().contains(&NodeId(0));
        let is_apart = |node: &NodeId| !self.is_voter(*node);
        !self.voters.is_empty()
            && !has_zero
            && self.all().len() <= 2 * MEMBERS_MAX
            && self.learners.iter().all(is_apart)
            && self.learners_next.is_subset(&self.outgoing)
            && self.learners_next.is_disjoint(&self.voters)
            && (self.is_joint() || !self.auto_leave)
    }
}

impl MemberChange {
    /// Whom it is about.
    pub fn node(self) -> NodeId {
        match self {
            Self::Vote(node) | Self::Learn(node) | Self::Leave(node) => node,
        }
    }
}

/// The bytes of a change in an entry: role u8, node u64, for each node. Nothing at all ends a joint configuration.
pub(super) fn encode_changes(changes: &[MemberChange]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(changes.len() * CHANGE_LENGTH);
    for change in changes {
        bytes.push(match change {
            MemberChange::Vote(_) => VOTE,
            MemberChange::Learn(_) => LEARN,
            MemberChange::Leave(_) => LEAVE,
        });
        bytes.extend_from_slice(&change.node().0.to_be_bytes());
    }
    bytes
}

/// The change that an entry holds; `None` if it is none.
pub(super) fn decode_changes(bytes: &[u8]) -> Option<Vec<MemberChange>> {
    let (changes, rest) = bytes.as_chunks::<CHANGE_LENGTH>();
    if !rest.is_empty() || changes.len() > MEMBERS_MAX {
        return None;
    }
    let decode = |[role, node @ ..]: &[u8; CHANGE_LENGTH]| {
        let node = NodeId(u64::from_be_bytes(*node));
        match (*role, node.0) {
            (_, 0) => None,
            (VOTE, _) => Some(MemberChange::Vote(node)),
            (LEARN, _) => Some(MemberChange::Learn(node)),
            (LEAVE, _) => Some(MemberChange::Leave(node)),
            _ => None,
        }
    };
    changes.iter().map(decode).collect()
}

/// The change as Raft executes it: one node at once, several through a joint configuration, none ends one.
pub(super) fn change_to_raft(changes: &[MemberChange]) -> ConfChangeV2 {
    let mut raft = ConfChangeV2 {
        changes: changes.iter().map(|change| single_to_raft(*change)).collect(),
        ..ConfChangeV2::default()
    };
    raft.set_transition(if changes.len() > 1 {
        ConfChangeTransition::Explicit
    } else {
        ConfChangeTransition::Auto
    });
    raft
}

fn single_to_raft(change: MemberChange) -> ConfChangeSingle {
    let mut raft = ConfChangeSingle {
        node_id: change.node().0,
        ..ConfChangeSingle::default()
    };
    raft.set_change_type(match change {
        MemberChange::Vote(_) => ConfChangeType::AddNode,
        MemberChange::Learn(_) => ConfChangeType::AddLearnerNode,
        MemberChange::Leave(_) => ConfChangeType::RemoveNode,
    });
    raft
}

const CHANGE_LENGTH: usize = 1 + 8;
const VOTE: u8 = 1;
const LEARN: u8 = 2;
const LEAVE: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGES: [MemberChange; 3] = [
        MemberChange::Vote(NodeId(1)),
        MemberChange::Learn(NodeId(0x0203)),
        MemberChange::Leave(NodeId(u64::MAX)),
    ];

    #[test]
    fn changes_are_read_as_they_were_written() {
        for count in 0..=CHANGES.len() {
            let changes = &CHANGES[..count];
            assert_eq!(decode_changes(&encode_changes(changes)).as_deref(), Some(changes));
        }
    }

    #[test]
    fn what_is_no_change_is_refused() {
        let good = encode_changes(&CHANGES);
        assert_eq!(decode_changes(&good[1..]), None);
        assert_eq!(decode_changes(&[9, 0, 0, 0, 0, 0, 0, 0, 1]), None);
        assert_eq!(decode_changes(&[VOTE, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        let many = [MemberChange::Vote(NodeId(1)); MEMBERS_MAX + 1];
        assert_eq!(decode_changes(&encode_changes(&many)), None);
    }

    #[test]
    fn changes_lead_where_they_say() {
        let members = Members::founders([1, 2, 3].map(NodeId));
        let after = members.after(&[
            MemberChange::Vote(NodeId(4)),
            MemberChange::Learn(NodeId(1)),
            MemberChange::Leave(NodeId(2)),
        ]);
        let after = after.expect("it can be");
        assert_eq!(after.voters, [3, 4].map(NodeId).into());
        assert_eq!(after.learners, [NodeId(1)].into());
        let all = [1, 2, 3].map(NodeId).map(MemberChange::Leave);
        assert_eq!(members.after(&all), None, "somebody has to vote");
        assert_eq!(members.after(&[MemberChange::Vote(NodeId(0))]), None);
    }

    #[test]
    fn both_sides_of_a_joint_configuration_need_a_majority() {
        let mut members = Members::founders([1, 2, 3].map(NodeId));
        assert!(members.has_majority(|node| node.0 != 3));
        members.outgoing = [3, 4, 5].map(NodeId).into();
        assert!(!members.has_majority(|node| node.0 < 4));
        assert!(members.has_majority(|node| node.0 != 2 && node.0 != 5));
    }
}
