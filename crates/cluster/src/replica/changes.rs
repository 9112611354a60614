//! How a replica changes who takes part in its group (`members.rs` has the rules). The leader proposes; every replica changes when it
//! applies the entry.
//!
//! Refused is whatever would leave the group unable to decide: a vote for a node that has not caught up, or a majority that nobody
//! can reach. The leader cannot take away its own vote; should it lose leadership and win it again while such a change is under
//! way, it steps down when it applies that.

use bytes::Bytes;
use raft::eraftpb::{Message, MessageType};
use raft::{INVALID_ID, StateRole};

use super::members::{MemberChange, MemberProgress, Members, change_to_raft, decode_changes, encode_changes};
use super::{Action, Refusal, Replica, Request, members_write};
use crate::{Index, NodeId};

/// As many entries may be missing on a node that is given a vote. It receives them with the messages that are on the way anyway.
const ENTRIES_BEHIND_MAX: u64 = 128;

impl Replica {
    /// Who takes part in the group, as far as this replica has applied its log.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Where the others stand, as this leader knows it; nothing if it does not lead.
    pub fn progress(&self) -> Vec<MemberProgress> {
        if self.raft.raft.state != StateRole::Leader {
            return Vec::new();
        }
        let all = self.members.all().into_iter();
        let others = all.filter(|node| *node != self.config.node);
        others.filter_map(|node| self.progress_of(node)).collect()
    }

    /// The last entry of this replica's log.
    pub fn last(&self) -> Index {
        self.raft.store().last()
    }

    /// Whether nobody else takes part in the group.
    pub fn is_alone(&self) -> bool {
        self.raft.raft.promotable() && self.raft.raft.prs().iter().len() == 1
    }

    /// Whether no entry was ever replaced: nobody else took part in the group.
    pub(super) fn was_always_alone(&self) -> bool {
        self.members.index == Index::ZERO && self.is_alone()
    }

    pub(super) fn change_members(&mut self, changes: Vec<MemberChange>, actions: &mut Vec<Action>) {
        if let Err(refusal) = self.check_changes(&changes) {
            let request = Request::ChangeMembers { changes };
            actions.push(Action::Refused { request, refusal });
            return;
        }
        let is_proposed = self
            .raft
            .propose_conf_change(encode_changes(&changes), change_to_raft(&changes))
            .is_ok();
        assert!(is_proposed, "a leader that is not handing over takes changes");
    }

    /// Ends a joint configuration as soon as it can be, also one that an earlier leader began.
    pub(super) fn leave_joint(&mut self) {
        if self.members.is_joint() && self.takes_requests() && !self.is_changing() {
            let none = encode_changes(&[]);
            let is_proposed = self.raft.propose_conf_change(none, change_to_raft(&[])).is_ok();
            assert!(is_proposed, "a leader that is not handing over takes changes");
        }
    }

    /// Applies a committed change of members.
    pub(super) fn apply_change(&mut self, index: Index, data: &Bytes, actions: &mut Vec<Action>) {
        if index <= self.members.index {
            return;
        }
        let changes = decode_changes(data).expect("it was checked when it was read");
        let Ok(state) = self.raft.apply_conf_change(&change_to_raft(&changes)) else {
            // Every replica refuses the same.
            return;
        };
        self.members = Members::from_raft(index, &state);
        self.waiting_writes
            .push(members_write(self.config.group, &self.members));
        let raft = &mut self.raft.raft;
        if raft.state == StateRole::Leader && !self.members.is_voter(self.config.node) {
            raft.become_follower(raft.term, INVALID_ID);
        }
        actions.push(Action::Members {
            members: self.members.clone(),
        });
    }

    /// Raft lets a replica without a vote follow for ever; this one notices that its leader is silent.
    pub(super) fn forget_silent_leader(&mut self) {
        let ticks = self.election_ticks;
        let raft = &mut self.raft.raft;
        if !raft.promotable() && raft.leader_id != INVALID_ID && raft.election_elapsed >= ticks {
            raft.become_follower(raft.term, INVALID_ID);
        }
    }

    /// Refuses messages that make sense only from a member. Whoever asks for votes, or leads, may be one without this replica
    /// knowing it: its log may be behind.
    pub(super) fn is_stranger(&self, message: &Message) -> bool {
        let may_be_new = matches!(
            message.msg_type(),
            MessageType::MsgAppend
                | MessageType::MsgHeartbeat
                | MessageType::MsgRequestVote
                | MessageType::MsgRequestPreVote
        );
        message.from == self.config.node.0 || !may_be_new && self.raft.raft.prs().get(message.from).is_none()
    }

    fn check_changes(&self, changes: &[MemberChange]) -> Result<(), Refusal> {
        if !self.takes_requests() {
            let leader = self.leader();
            return Err(Refusal::NotLeader { leader });
        }
        if self.is_changing() || self.members.is_joint() {
            return Err(Refusal::ChangeUnderWay);
        }
        let after = self.members.after(changes).filter(|_| !changes.is_empty());
        let after = after.ok_or(Refusal::ImpossibleMembers)?;
        let own = self.config.node;
        if !after.voters.contains(&own) {
            return Err(Refusal::Leads { node: own });
        }
        for node in after.voters.difference(&self.members.voters) {
            let has_caught_up = |progress: MemberProgress| {
                progress.is_active && progress.matched.0 + ENTRIES_BEHIND_MAX >= self.last().0
            };
            if !self.progress_of(*node).is_some_and(has_caught_up) {
                return Err(Refusal::Behind { node: *node });
            }
        }
        let is_there = |node| node == own || self.is_active(node);
        if after.has_majority(is_there) {
            Ok(())
        } else {
            Err(Refusal::NoMajority)
        }
    }

    /// Whether a change is in the log that is not applied, or leadership is being handed over.
    fn is_changing(&self) -> bool {
        self.raft.raft.has_pending_conf() || self.raft.raft.lead_transferee.is_some()
    }

    fn progress_of(&self, node: NodeId) -> Option<MemberProgress> {
        let progress = self.raft.raft.prs().get(node.0)?;
        Some(MemberProgress {
            node,
            is_voter: self.members.is_voter(node),
            matched: Index(progress.matched),
            is_active: self.is_active(node),
            is_rolled_back: self.has_rolled_back(node),
        })
    }

    pub(super) fn is_active(&self, node: NodeId) -> bool {
        let silent = |heard| self.clock.now().saturating_duration_since(heard);
        let heard = self.heard.get(&node).copied();
        heard.is_some_and(|heard| silent(heard) <= self.config.election_timeout_max)
    }
}
