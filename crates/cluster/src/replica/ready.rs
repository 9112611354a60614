//! Turns what Raft has ready into actions: writes with tickets, messages that may go now or only when a write is durable,
//! committed entries, changes of leadership. Raft's own order of calls does not leave this file.

use std::mem;

use raft::StateRole;
use raft::eraftpb::{Entry as RaftEntry, Message, MessageType};

use super::log::content;
use super::record::{self, EntryKind, HardState, LogPoint};
use super::{Action, InFlight, Refusal, Replica, Ticket, message};
use crate::{Index, Keyspace, NodeId, Term, Write};

/// Most entries removed with one persist. Each costs about a microsecond.
const REMOVED_PER_SLICE: u64 = 512;

impl Replica {
    /// Asks for the removal of some of the entries below the log's start. A large removal goes in slices, each after the
    /// one before it is durable, so that it never holds up a commit for long.
    pub(super) fn remove_next_slice(&mut self) {
        let end = self.raft.store().start().index.next();
        if self.removable_from >= end {
            return;
        }
        let (start, end) = self.removal(self.removable_from, end);
        self.removable_from = start;
        if start >= end {
            return self.remove_next_slice();
        }
        let slice_end = end.min(Index(start.0 + REMOVED_PER_SLICE));
        let from = record::entry_key(self.config.group, start);
        let to = record::entry_key(self.config.group, slice_end);
        self.waiting_writes.push(if self.was_always_alone() {
            Write::RemoveRangeOnce {
                keyspace: Keyspace::Log,
                from,
                to,
            }
        } else {
            // A follower may have replaced entries.
            Write::RemoveRange {
                keyspace: Keyspace::Log,
                from,
                to,
            }
        });
        self.removable_from = slice_end;
        self.removing = Some(self.next_ticket);
    }

    /// Handles everything that Raft has ready.
    pub(super) fn settle(&mut self, actions: &mut Vec<Action>) {
        loop {
            self.look_for_missing();
            self.leave_joint();
            self.try_restore(actions);
            if let Some(context) = self.reads.next_round() {
                self.raft.read_index(context);
            }
            if !self.raft.has_ready() {
                break;
            }
            self.handle_ready(actions);
            self.pin_election_timeout();
        }
        if self.removing.is_none() {
            self.remove_next_slice();
        }
        if !self.waiting_writes.is_empty() {
            let writes = mem::take(&mut self.waiting_writes);
            self.persist(writes, 0, Vec::new(), actions);
        }
        self.announce(actions);
        self.reads.answer(self.applied.index, actions);
        let behind = self.raft.store().take_behind().into_iter();
        actions.extend(behind.map(|to| Action::OfferSnapshot { to }));
    }

    pub(super) fn handle_ready(&mut self, actions: &mut Vec<Action>) {
        let mut ready = self.raft.ready();
        self.send(ready.take_messages(), actions);
        for state in ready.take_read_states() {
            self.reads.round_ended(&state.request_ctx, Index(state.index));
        }
        let number = ready.number();
        let messages = self.send_promising_nothing(ready.take_persisted_messages(), actions);
        let committed = ready.take_committed_entries();
        let mut writes = mem::take(&mut self.waiting_writes);
        if let Some(state) = ready.hs() {
            // The commit index is not written: it is found again from the snapshot and the leader.
            let vote = (state.vote != 0).then_some(NodeId(state.vote));
            let state = HardState {
                term: Term(state.term),
                vote,
            };
            if state != self.hard_state {
                self.hard_state = state;
                writes.push(Write::Put {
                    keyspace: Keyspace::Meta,
                    key: record::hard_state_key(self.config.group),
                    value: record::encode_hard_state(self.config.group, state),
                });
            }
        }
        if !ready.snapshot().is_empty() {
            self.restart_log(ready.snapshot(), &mut writes, actions);
        }
        self.remember_acknowledged();
        let entries = ready.take_entries();
        if !entries.is_empty() {
            writes.extend(self.acknowledged_write());
        }
        self.append(entries, &mut writes);
        self.raft.advance_append_async(ready);
        self.persist(writes, number, messages, actions);
        self.apply(committed, actions);
    }

    /// Answers to heartbeats say only which term this replica is in, and need no disk: a follower whose disk is slow is there all the same. Gives
    /// back the other messages.
    fn send_promising_nothing(
        &mut self,
        mut messages: Vec<Message>,
        actions: &mut Vec<Action>,
    ) -> Vec<Message> {
        let is_answer = |message: &mut Message| message.msg_type() == MessageType::MsgHeartbeatResponse;
        let answers: Vec<Message> = messages.extract_if(.., is_answer).collect();
        self.send(answers, actions);
        messages
    }

    /// Takes entries into the log; what they replace is removed on disk.
    fn append(&mut self, entries: Vec<RaftEntry>, writes: &mut Vec<Write>) {
        let Some(first) = entries.first().map(|entry| Index(entry.index)) else {
            return;
        };
        let group = self.config.group;
        let log = self.raft.mut_store();
        let old_last = log.last();
        if first <= old_last {
            log.truncate_from(first);
        }
        for entry in entries {
            let index = Index(entry.index);
            let point = LogPoint {
                index,
                term: Term(entry.term),
            };
            let (kind, held) = content(&entry);
            let (record, data) = record::encode_entry_of_kind(group, kind, point, held);
            log.push(point, kind, data);
            writes.push(Write::Put {
                keyspace: Keyspace::Log,
                key: record::entry_key(group, index),
                value: record,
            });
        }
        let last = log.last();
        if last < old_last {
            writes.push(Write::RemoveRange {
                keyspace: Keyspace::Log,
                from: record::entry_key(group, last.next()),
                to: record::entry_key(group, old_last.next()),
            });
        }
    }

    /// Asks for `writes` to be made durable. Without writes, what waits for the disk waits for the persist before.
    fn persist(
        &mut self,
        writes: Vec<Write>,
        number: u64,
        messages: Vec<Message>,
        actions: &mut Vec<Action>,
    ) {
        if !writes.is_empty() {
            let ticket = self.next_ticket;
            self.next_ticket = Ticket(ticket.0 + 1);
            self.recorded_with(ticket);
            let bytes = writes.iter().map(bytes_of).sum();
            self.in_flight.push_back(InFlight {
                ticket,
                number,
                messages,
                bytes,
                slow_from: self.disk.give(self.clock.now(), bytes),
            });
            actions.push(Action::Persist { ticket, writes });
        } else if let Some(before) = self.in_flight.back_mut() {
            before.number = before.number.max(number);
            before.messages.extend(messages);
        } else {
            self.raft.on_persist_ready(number);
            self.send(messages, actions);
        }
    }

    fn apply(&mut self, committed: Vec<RaftEntry>, actions: &mut Vec<Action>) {
        let Some(last) = committed.last() else { return };
        let last = LogPoint {
            index: Index(last.index),
            term: Term(last.term),
        };
        let leading = self.raft.raft.state == StateRole::Leader;
        for entry in committed {
            let (index, term) = (Index(entry.index), Term(entry.term));
            assert!(
                index == self.applied.index.next(),
                "entries are applied one after the other"
            );
            self.applied = LogPoint { index, term };
            let data = self
                .raft
                .store()
                .data_at(index)
                .expect("committed entries are in the log")
                .clone();
            if leading && term == self.term() {
                // All entries of this term are this leader's own proposals.
                self.uncommitted_bytes = self.uncommitted_bytes.saturating_sub(data.len() as u64);
            }
            match self.raft.store().kind_at(index) {
                EntryKind::Data if data.is_empty() => {}
                EntryKind::Data => actions.push(Action::Apply { index, term, data }),
                EntryKind::Members => self.apply_change(index, &data, actions),
            }
        }
        self.raft.advance_apply_to(last.index.0);
        if self.was_always_alone() {
            self.raft.mut_store().drop_data_through(last.index);
        }
    }

    /// Says who leads when that has changed.
    fn announce(&mut self, actions: &mut Vec<Action>) {
        let raft = &self.raft.raft;
        let leader = match raft.state {
            StateRole::Leader => (self.applied.term.0 == raft.term).then_some(self.config.node),
            _ => (raft.leader_id != 0).then_some(NodeId(raft.leader_id)),
        };
        let now = (leader, Term(raft.term));
        if now == self.announced {
            return;
        }
        let led = self.is_leader();
        let leads_on = leader == Some(self.config.node) && now.1 == self.announced.1;
        let before = mem::replace(&mut self.announced, now);
        if led && !leads_on {
            self.uncommitted_bytes = 0;
            self.reads.refuse_all(Refusal::NotLeader { leader }, actions);
        }
        if leader.is_none() && before.0.is_none() {
            return;
        }
        actions.push(Action::Leadership { leader, term: now.1 });
    }

    pub(super) fn send(&mut self, messages: Vec<Message>, actions: &mut Vec<Action>) {
        for mut message in messages {
            self.name_acknowledged(&mut message);
            if message.msg_type() == MessageType::MsgAppendResponse && !message.reject {
                let said = (Term(message.term), Index(message.index));
                self.acknowledged = self.acknowledged.max(said);
            }
            let bytes = message::encode(self.config.group, &message);
            actions.push(Action::Send {
                to: NodeId(message.to),
                message: bytes,
            });
        }
    }
}

/// Bytes of a write's value. Keys are short.
fn bytes_of(write: &Write) -> usize {
    match write {
        Write::Put { value, .. } => value.len(),
        _ => 0,
    }
}
