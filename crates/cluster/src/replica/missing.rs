//! A log that ends before what its replica has acknowledged: the disk is older than what the leader knows.
//!
//! A leader names in its messages the committed entries that the follower has acknowledged to this leader, in this term or an earlier
//! one. In heartbeats it also says which committed entries are on its own disk: a follower that leads later names these to it. Both
//! keep that on their disks, with the entries that they append. A follower whose log ends before the named entries has lost some
//! that the group counts as stored. It grants no vote and asks for none until it has them again, since
//! a leader elected by it may lack them, too. What else follows depends on the disk:
//!
//! - The disk keeps what was synced. Then an older copy of the directory was put back, and nothing in it can be trusted. The
//!   replica is rolled back: it answers nothing but that, until the node starts with an empty directory.
//! - The disk may lose the last writes ([`super::ReplicaConfig::may_lose_tail`]). Then the leader sends the missing entries.
//!
//! ```text
//! follower: entries named beyond the log's end --> record of what is missing --> short log (a marked rejection)
//! leader:   short log --> nothing counts as acknowledged by the follower --> probes from the end that it named
//! ```
//!
//! The record is on disk, so that a start in between does not give the vote back.

use std::collections::BTreeMap;

use raft::StateRole;
use raft::eraftpb::{Message, MessageType};

use super::record;
use super::{Action, Replica};
use crate::{Index, Keyspace, NodeId, Term, Write};

/// Context of the rejection that tells of a log which ends before what was acknowledged.
const SHORT_LOG: &[u8] = b"short";

/// Acknowledged entries that a replica lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// Last entry that the replica has acknowledged.
    pub acknowledged: Index,
    /// Last entry of its log.
    pub last: Index,
    /// The disk is an older copy, and the replica takes no part. Otherwise the leader sends what is missing.
    pub is_rolled_back: bool,
}

impl Replica {
    /// Acknowledged entries that this replica lacks.
    pub fn missing(&self) -> Option<Missing> {
        Some(Missing {
            acknowledged: self.missing_through?,
            last: self.last(),
            is_rolled_back: self.is_rolled_back(),
        })
    }

    /// Whether this replica's disk is an older copy of itself, so that it takes no part in the group.
    pub fn is_rolled_back(&self) -> bool {
        self.missing_through.is_some() && !self.config.may_lose_tail
    }

    /// Compares what a leader names as acknowledged with the log. What the log lacks is recorded, and told to the leader. A heartbeat
    /// then commits nothing.
    pub(super) fn notice_missing(&mut self, message: &mut Message, actions: &mut Vec<Action>) {
        let is_heartbeat = message.msg_type() == MessageType::MsgHeartbeat;
        if is_heartbeat {
            // Raft has no use for it.
            let on_its_disk = Index(std::mem::take(&mut message.index));
            let leader = NodeId(message.from);
            if self.members.contains(leader) {
                self.has_new_acknowledged |= raise(&mut self.acknowledged_by, leader, on_its_disk);
            }
        }
        let named = match message.msg_type() {
            MessageType::MsgHeartbeat => Index(message.commit.max(message.reject_hint)),
            MessageType::MsgAppend => Index(message.reject_hint),
            _ => return,
        };
        let lacks_more = named > self.last() && self.missing_through.is_none_or(|known| known < named);
        if lacks_more {
            self.record_missing(named, actions);
        }
        if named > self.last() || self.is_rolled_back() {
            self.tell_short_log(message, actions);
        }
        if is_heartbeat && Index(message.commit) > self.last() {
            message.commit = self.committed().0;
        }
    }

    /// Remembers which committed entries followers have acknowledged to this leader. That holds in every later term.
    pub(super) fn remember_acknowledged(&mut self) {
        let raft = &self.raft.raft;
        if raft.state != StateRole::Leader {
            return;
        }
        let others = raft.prs().iter().filter(|(node, _)| **node != raft.id);
        for (node, progress) in others {
            let (node, acknowledged) = (NodeId(*node), progress.matched.min(raft.raft_log.committed));
            if self.members.contains(node) {
                self.has_new_acknowledged |= raise(&mut self.acknowledged_by, node, Index(acknowledged));
            }
        }
    }

    /// Record of what followers have acknowledged, if it is another than on disk. It goes with entries: it needs no sync of its own.
    pub(super) fn acknowledged_write(&mut self) -> Option<Write> {
        let is_new = std::mem::take(&mut self.has_new_acknowledged);
        let members = &self.members;
        self.acknowledged_by.retain(|node, _| members.contains(*node));
        is_new.then(|| Write::Put {
            keyspace: Keyspace::Meta,
            key: record::acknowledged_key(self.config.group),
            value: record::encode_acknowledged(self.config.group, &self.acknowledged_by),
        })
    }

    /// Names in a leader's message what its receiver has acknowledged, and what the leader has itself.
    pub(super) fn name_acknowledged(&self, message: &mut Message) {
        if message.msg_type() == MessageType::MsgHeartbeat {
            let log = &self.raft.raft.raft_log;
            message.index = log.persisted.min(log.committed);
        }
        if matches!(
            message.msg_type(),
            MessageType::MsgHeartbeat | MessageType::MsgAppend
        ) {
            let known = self.acknowledged_by.get(&NodeId(message.to));
            message.reject_hint = known.map_or(0, |known| known.0);
        }
    }

    fn record_missing(&mut self, acknowledged: Index, actions: &mut Vec<Action>) {
        let is_known = self.missing_through.replace(acknowledged).is_some();
        self.waiting_writes.push(Write::Put {
            keyspace: Keyspace::Meta,
            key: record::missing_key(self.config.group),
            value: record::encode_missing(self.config.group, acknowledged),
        });
        if self.is_rolled_back() {
            let raft = &mut self.raft.raft;
            raft.become_follower(raft.term, raft::INVALID_ID);
        }
        if !is_known {
            self.report_missing(actions);
        }
    }

    /// Says that this replica lacks acknowledged entries, if it does.
    pub(super) fn report_missing(&self, actions: &mut Vec<Action>) {
        let report = |missing| Action::Missing { node: None, missing };
        actions.extend(self.missing().map(report));
    }

    /// Answers a leader with where the log ends. The answer is of the leader's term, which this replica need not be in.
    fn tell_short_log(&mut self, named: &Message, actions: &mut Vec<Action>) {
        let Some(Missing {
            acknowledged, last, ..
        }) = self.missing()
        else {
            return;
        };
        let mut answer = Message {
            from: self.config.node.0,
            to: named.from,
            term: named.term,
            reject: true,
            index: acknowledged.0,
            reject_hint: last.0,
            log_term: self.log_end().term.0,
            context: SHORT_LOG.to_vec(),
            ..Message::default()
        };
        answer.set_msg_type(MessageType::MsgAppendResponse);
        self.send(vec![answer], actions);
    }

    /// Takes the vote back up as soon as the log has everything that was acknowledged.
    pub(super) fn look_for_missing(&mut self) {
        let has_all = self
            .missing_through
            .is_some_and(|through| through <= self.committed());
        if has_all && !self.is_rolled_back() {
            self.missing_through = None;
            self.waiting_writes.push(Write::Remove {
                keyspace: Keyspace::Meta,
                key: record::missing_key(self.config.group),
            });
        }
    }

    /// Whether a message is about an election, in which a replica that lacks acknowledged entries takes no part; of one that
    /// is rolled back any message.
    pub(super) fn is_barred_from(&self, message: &Message) -> bool {
        let is_of_election = matches!(
            message.msg_type(),
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote | MessageType::MsgTimeoutNow
        );
        self.missing_through.is_some() && (is_of_election || self.is_rolled_back())
    }

    /// Whether a follower is rolled back, as it has said to this leader.
    pub(super) fn has_rolled_back(&self, node: NodeId) -> bool {
        !self.config.may_lose_tail && self.short_logs.get(&node) == Some(&self.term())
    }

    pub(super) fn is_short_log(message: &Message) -> bool {
        message.msg_type() == MessageType::MsgAppendResponse && message.reject && message.context == SHORT_LOG
    }

    /// Believes no more of a follower than it says, and probes from where its log ends.
    pub(super) fn receive_short_log(&mut self, message: &Message, actions: &mut Vec<Action>) {
        let raft = &mut self.raft.raft;
        if raft.state != StateRole::Leader || raft.term != message.term {
            return;
        }
        let last = message.reject_hint.min(raft.raft_log.last_index());
        let (common, _) = raft.raft_log.find_conflict_by_term(last, message.log_term);
        let Some(progress) = raft.mut_prs().get_mut(message.from) else {
            return;
        };
        let is_new = progress.matched > last;
        if is_new {
            progress.matched = 0;
            progress.become_probe();
            progress.next_idx = common + 1;
        }
        let node = NodeId(message.from);
        let was_said = self.short_logs.insert(node, Term(message.term)) == Some(Term(message.term));
        if is_new || !was_said {
            let missing = Missing {
                acknowledged: Index(message.index),
                last: Index(last),
                is_rolled_back: !self.config.may_lose_tail,
            };
            let node = Some(node);
            actions.push(Action::Missing { node, missing });
        }
    }
}

/// Remembers that a replica has committed entries on its disk. Returns whether that is news.
fn raise(known: &mut BTreeMap<NodeId, Index>, node: NodeId, through: Index) -> bool {
    let before = known.get(&node).copied().unwrap_or_default();
    if before < through {
        known.insert(node, through);
    }
    before < through
}
