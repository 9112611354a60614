//! One node's copy of one group: Raft, wrapped whole.
//!
//! The replica makes no I/O and reads no clock. It takes an [`Event`] at a time and answers with [`Action`]s. What Raft
//! asks to be durable leaves as [`Action::Persist`]; only when [`Event::Persisted`] comes back are entries applied and
//! answers sent. New proposals may be made meanwhile: any number of persists can be on the way.
//!
//! Not here: what entries mean (the owner applies them), how requests are batched into entries (the broker), and sockets.
//!
//! ```text
//!   Propose --> Persist(ticket) --> Persisted(ticket) --> Apply
//!                    \--> Send to followers (leader) .... answers of a majority --> Apply
//!   Message --> Persist(ticket) --> Persisted(ticket) --> Send (follower: an answer promises what is on disk)
//! ```

mod clock;
mod config;
mod log;
mod message;
mod reads;
pub mod record;

use std::collections::VecDeque;
use std::mem;
use std::time::Instant;

use bytes::Bytes;
use raft::eraftpb::Message;
use raft::{RawNode, StateRole};

pub use config::{Recovered, ReplicaConfig, ReplicaError};
pub use message::MessageError;
use message::Route;
use record::{HardState, LogPoint};

use crate::random::Random;
use crate::{GroupId, Index, Keyspace, NodeId, Term, Write};
use clock::{Clock, TICK};
use log::Log;
use reads::Reads;

/// Names one [`Action::Persist`] of a replica. Tickets rise by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Names a read; chosen by the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Append this to the group's log. Must not be empty. Ends in [`Action::Apply`] or [`Action::Refused`]; after a
    /// change of leadership perhaps in neither.
    Propose { data: Bytes },
    /// From which index on does a read see everything acknowledged before now?
    Read { read: ReadId },
    /// Everything up to this ticket is durable.
    Persisted { ticket: Ticket },
    /// A peer sent these bytes.
    Message { from: NodeId, bytes: Bytes },
    /// The state machine at this point is durable as a snapshot: the log before it may go.
    SnapshotTaken { index: Index, term: Term },
    /// [`Replica::deadline`] has passed.
    Timeout,
}

/// What the owner shall do. [`Action::Apply`], [`Action::ReadReady`] and [`Action::Leadership`] take effect in the order
/// given; [`Action::Persist`]s of a replica are carried out in the order of their tickets; the rest in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make all these writes durable together, then say [`Event::Persisted`]. May share a batch and a sync with others.
    Persist { ticket: Ticket, writes: Vec<Write> },
    /// Execute this entry: it is committed, and durable here. Indexes rise; those of entries without data are left out.
    Apply { index: Index, term: Term, data: Bytes },
    /// The read may be served: everything up to `index` was given out as [`Action::Apply`] before.
    ReadReady { read: ReadId, index: Index },
    /// The request was not taken; nothing changed.
    Refused { request: Request, refusal: Refusal },
    /// Give these bytes to the replica of the same group on that node. May be lost, doubled and reordered.
    Send { to: NodeId, message: Bytes },
    /// Who leads, in which term. This replica names itself only when everything committed before its term was applied.
    Leadership { leader: Option<NodeId>, term: Term },
    /// A peer's message was dropped.
    Dropped { from: NodeId, error: MessageError },
}

/// A request that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// [`Event::Propose`]; the data comes back.
    Propose { data: Bytes },
    /// [`Event::Read`].
    Read { read: ReadId },
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Only the leader takes requests.
    #[error("this replica does not lead")]
    NotLeader { leader: Option<NodeId> },
    /// [`ReplicaConfig::uncommitted_bytes_max`] is reached.
    #[error("too many bytes wait for being committed")]
    UncommittedBytesMax,
}

/// One node's copy of one group.
pub struct Replica {
    config: ReplicaConfig,
    raft: RawNode<Log>,
    clock: Clock,
    random: Random,
    /// The drawn election timeout, in ticks, and the state of Raft for which it was drawn.
    election_ticks: usize,
    drawn_for: (u64, StateRole),
    next_ticket: Ticket,
    in_flight: VecDeque<InFlight>,
    /// Writes that go with the next persist: voters, log start, removed entries.
    waiting_writes: Vec<Write>,
    /// The hard state as last written.
    hard_state: HardState,
    applied: LogPoint,
    announced: (Option<NodeId>, Term),
    /// Bytes of this leader's proposals that are not applied.
    uncommitted_bytes: u64,
    reads: Reads,
    /// Entries on disk from here to the log's start are to be removed.
    removable_from: Index,
    /// Slices of a larger removal wait until the slice before is durable.
    removing: Option<Ticket>,
}

/// A persist that is on its way.
#[derive(Debug)]
struct InFlight {
    ticket: Ticket,
    /// Raft's number of the newest state that is durable with this persist; 0: none.
    number: u64,
    /// What may be said when it is durable.
    messages: Vec<Message>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica")
            .field("group", &self.config.group)
            .field("node", &self.config.node)
            .field("term", &self.term())
            .field("leader", &self.leader())
            .field("applied", &self.applied.index)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

impl Replica {
    /// A replica as it stands after a start. The only voter of a group elects itself here; it leads, and the recovered
    /// entries are applied, as soon as the first persist is durable.
    pub fn new(
        now: Instant,
        config: ReplicaConfig,
        recovered: Recovered,
        actions: &mut Vec<Action>,
    ) -> Result<Replica, ReplicaError> {
        check_recovered(&config, &recovered)?;
        let mut waiting_writes = Vec::new();
        let voters = if recovered.voters.is_empty() {
            waiting_writes.push(Write::Put {
                keyspace: Keyspace::Meta,
                key: record::voters_key(config.group),
                value: record::encode_voters(config.group, &config.voters),
            });
            config.voters.clone()
        } else {
            recovered.voters
        };
        if !voters.contains(&config.node) {
            return Err(ReplicaError::NotAVoter {
                group: config.group,
                node: config.node,
            });
        }
        if recovered.log_start_moved {
            waiting_writes.push(Write::Put {
                keyspace: Keyspace::Meta,
                key: record::log_start_key(config.group),
                value: record::encode_log_start(config.group, recovered.log_start),
            });
        }
        let snapshot = recovered.snapshot;
        let log = Log::new(
            recovered.log_start,
            snapshot,
            recovered.hard_state,
            voters,
            recovered.entries,
        );
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raft = RawNode::new(&raft_config(&config, snapshot.index), log, &logger).map_err(|error| {
            ReplicaError::Config {
                group: config.group,
                reason: error.to_string(),
            }
        })?;
        let mut replica = Replica {
            clock: Clock::new(now),
            random: Random::new(config.seed ^ config.node.0.rotate_left(32) ^ u64::from(config.group.0)),
            election_ticks: 0,
            drawn_for: (u64::MAX, StateRole::Follower),
            next_ticket: Ticket(1),
            in_flight: VecDeque::new(),
            waiting_writes,
            hard_state: recovered.hard_state,
            applied: snapshot,
            announced: (None, recovered.hard_state.term),
            uncommitted_bytes: 0,
            reads: Reads::default(),
            removable_from: recovered.removable_from,
            removing: None,
            config,
            raft,
        };
        replica.pin_election_timeout();
        if replica.is_alone() {
            replica
                .raft
                .campaign()
                .expect("the only voter can always campaign");
            replica.pin_election_timeout();
        }
        replica.remove_next_slice();
        replica.settle(actions);
        Ok(replica)
    }

    /// Takes one event.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.catch_up(now);
        match event {
            Event::Propose { data } => self.propose(data, actions),
            Event::Read { read } => self.read(read, actions),
            Event::Persisted { ticket } => self.persisted(ticket, actions),
            Event::Message { from, bytes } => self.receive(from, &bytes, actions),
            Event::SnapshotTaken { index, term } => self.snapshot_taken(LogPoint { index, term }),
            Event::Timeout => {}
        }
        self.settle(actions);
    }

    /// When [`Event::Timeout`] is due. None for a group of one: it waits for nothing but its owner and its disk.
    pub fn deadline(&self) -> Option<Instant> {
        if self.is_alone() {
            return None;
        }
        let raft = &self.raft.raft;
        let ticks = if raft.state == StateRole::Leader {
            let heartbeat = raft.heartbeat_timeout().saturating_sub(raft.heartbeat_elapsed());
            heartbeat.min(raft.election_timeout().saturating_sub(raft.election_elapsed))
        } else {
            self.election_ticks.saturating_sub(raft.election_elapsed)
        };
        Some(self.clock.after(ticks.max(1)))
    }

    /// Whether this replica leads and has applied everything that was committed before its term.
    pub fn is_leader(&self) -> bool {
        self.announced.0 == Some(self.config.node)
    }

    /// Who leads, as far as this replica knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.announced.0
    }

    /// The newest term that this replica has seen.
    pub fn term(&self) -> Term {
        Term(self.raft.raft.term)
    }

    /// The last entry that was given out to be applied, or was in the snapshot.
    pub fn applied(&self) -> LogPoint {
        self.applied
    }

    /// Bytes of entries since the last snapshot, give or take a mebibyte.
    pub fn log_bytes(&self) -> u64 {
        self.raft.store().bytes_since_snapshot()
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.config.group
    }

    fn propose(&mut self, data: Bytes, actions: &mut Vec<Action>) {
        assert!(!data.is_empty(), "empty entries are Raft's own");
        let len = data.len() as u64;
        let refusal = if !self.takes_requests() {
            Some(Refusal::NotLeader {
                leader: self.leader(),
            })
        } else if self.uncommitted_bytes > 0
            && self.uncommitted_bytes + len > self.config.uncommitted_bytes_max
        {
            Some(Refusal::UncommittedBytesMax)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            actions.push(Action::Refused {
                request: Request::Propose { data },
                refusal,
            });
            return;
        }
        self.raft
            .propose(Vec::new(), data.into())
            .expect("a leader that is not handing over takes proposals");
        self.uncommitted_bytes += len;
    }

    fn read(&mut self, read: ReadId, actions: &mut Vec<Action>) {
        if !self.takes_requests() {
            let refusal = Refusal::NotLeader {
                leader: self.leader(),
            };
            actions.push(Action::Refused {
                request: Request::Read { read },
                refusal,
            });
        } else if self.is_alone() {
            // Nobody else can have committed anything, and what was acknowledged is applied.
            actions.push(Action::ReadReady {
                read,
                index: self.applied.index,
            });
        } else {
            self.reads.ask(read);
        }
    }

    fn persisted(&mut self, ticket: Ticket, actions: &mut Vec<Action>) {
        assert!(
            ticket < self.next_ticket,
            "only what was asked for can be persisted"
        );
        let mut number = 0;
        while self
            .in_flight
            .front()
            .is_some_and(|persist| persist.ticket <= ticket)
        {
            let persist = self.in_flight.pop_front().expect("just seen");
            number = number.max(persist.number);
            self.send(persist.messages, actions);
        }
        if number > 0 {
            self.raft.on_persist_ready(number);
        }
        if self.removing.is_some_and(|removing| removing <= ticket) {
            self.removing = None;
            self.remove_next_slice();
        }
    }

    fn receive(&mut self, from: NodeId, bytes: &Bytes, actions: &mut Vec<Action>) {
        let route = Route {
            group: self.config.group,
            from,
            to: self.config.node,
        };
        let checked = message::decode(bytes, route).and_then(|message| {
            self.check_against_log(&message)?;
            Ok(message)
        });
        let error = match checked {
            Ok(message) => match self.raft.step(message) {
                Ok(()) => None,
                Err(raft::Error::StepPeerNotFound) => Some(MessageError::Stranger),
                Err(_) => Some(MessageError::Impossible),
            },
            Err(error) => Some(error),
        };
        self.pin_election_timeout();
        if let Some(error) = error {
            actions.push(Action::Dropped { from, error });
        }
    }

    fn snapshot_taken(&mut self, snapshot: LogPoint) {
        assert!(
            snapshot.index <= self.applied.index,
            "a snapshot holds what was applied"
        );
        let alone = self.is_alone();
        let log = self.raft.mut_store();
        log.snapshot_taken(snapshot.index);
        let tail = if alone { 0 } else { self.config.log_tail_entries };
        let cut = Index(snapshot.index.0.saturating_sub(tail));
        if cut <= log.start().index {
            return;
        }
        log.cut_through(cut);
        self.waiting_writes.push(Write::Put {
            keyspace: Keyspace::Meta,
            key: record::log_start_key(self.config.group),
            value: record::encode_log_start(self.config.group, log.start()),
        });
        if self.removing.is_none() {
            self.remove_next_slice();
        }
    }

    /// Asks for the removal of some of the entries below the log's start. A large removal goes in slices, each after the
    /// one before it is durable, so that it never holds up a commit for long.
    fn remove_next_slice(&mut self) {
        let end = self.raft.store().start().index.next();
        if self.removable_from >= end {
            return;
        }
        let slice_end = end.min(Index(self.removable_from.0 + REMOVED_PER_SLICE));
        let from = record::entry_key(self.config.group, self.removable_from);
        let to = record::entry_key(self.config.group, slice_end);
        self.waiting_writes.push(if self.is_alone() {
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
    fn settle(&mut self, actions: &mut Vec<Action>) {
        loop {
            if let Some(context) = self.reads.next_round() {
                self.raft.read_index(context);
            }
            if !self.raft.has_ready() {
                break;
            }
            self.handle_ready(actions);
            self.pin_election_timeout();
        }
        if !self.waiting_writes.is_empty() {
            let writes = mem::take(&mut self.waiting_writes);
            self.persist(writes, 0, Vec::new(), actions);
        }
        self.announce(actions);
        self.reads.answer(self.applied.index, actions);
    }

    fn handle_ready(&mut self, actions: &mut Vec<Action>) {
        let mut ready = self.raft.ready();
        assert!(
            ready.snapshot().is_empty(),
            "snapshots are not accepted from messages"
        );
        self.send(ready.take_messages(), actions);
        for state in ready.take_read_states() {
            self.reads.round_ended(&state.request_ctx, Index(state.index));
        }
        let number = ready.number();
        let messages = ready.take_persisted_messages();
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
        self.append(ready.take_entries(), &mut writes);
        self.raft.advance_append_async(ready);
        self.persist(writes, number, messages, actions);
        self.apply(committed, actions);
    }

    /// Takes entries into the log; what they replace is removed on disk.
    fn append(&mut self, entries: Vec<raft::eraftpb::Entry>, writes: &mut Vec<Write>) {
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
            let (index, term) = (Index(entry.index), Term(entry.term));
            let (record, data) = record::encode_entry(group, index, term, &entry.data);
            log.push(index, term, data);
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
            self.in_flight.push_back(InFlight {
                ticket,
                number,
                messages,
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

    fn apply(&mut self, committed: Vec<raft::eraftpb::Entry>, actions: &mut Vec<Action>) {
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
            if !data.is_empty() {
                actions.push(Action::Apply { index, term, data });
            }
        }
        self.raft.advance_apply_to(last.index.0);
        if self.is_alone() {
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

    fn send(&self, messages: Vec<Message>, actions: &mut Vec<Action>) {
        for message in messages {
            let bytes = message::encode(self.config.group, &message);
            actions.push(Action::Send {
                to: NodeId(message.to),
                message: bytes,
            });
        }
    }

    fn catch_up(&mut self, now: Instant) {
        if self.is_alone() {
            self.clock.skip_to(now);
            return;
        }
        // More ticks than the longest wait tell nothing new.
        let ticks = self.clock.elapsed(now, ticks(self.config.election_timeout_max));
        for _ in 0..ticks {
            self.raft.tick();
            self.pin_election_timeout();
        }
    }

    /// Raft draws election timeouts from a generator of its own at each reset; this puts the replica's own in its place.
    /// Every reset changes the term or the role, except none that matters, so the draws depend on the seed alone.
    fn pin_election_timeout(&mut self) {
        let raft = &mut self.raft.raft;
        let state = (raft.term, raft.state);
        if self.drawn_for != state {
            self.drawn_for = state;
            let low = ticks(self.config.election_timeout_min);
            self.election_ticks = self.random.between(low, ticks(self.config.election_timeout_max));
        }
        raft.set_randomized_election_timeout(self.election_ticks);
    }

    /// Whether it said that it leads, and still does: time may have passed since.
    fn takes_requests(&self) -> bool {
        self.is_leader() && self.raft.raft.state == StateRole::Leader
    }

    /// Whether this is the only voter.
    fn is_alone(&self) -> bool {
        self.raft.raft.prs().is_singleton()
    }

    /// Refuses what no correct peer sends and what Raft would answer with a panic.
    fn check_against_log(&self, message: &Message) -> Result<(), MessageError> {
        use raft::eraftpb::MessageType;

        let raft = &self.raft.raft;
        if raft.prs().get(message.from).is_none() || message.from == self.config.node.0 {
            return Err(MessageError::Stranger);
        }
        let log = &raft.raft_log;
        let leads = raft.state == StateRole::Leader && message.term == raft.term;
        let possible = match message.msg_type() {
            MessageType::MsgAppend => !leads,
            MessageType::MsgHeartbeat => !leads && message.commit <= log.last_index(),
            MessageType::MsgAppendResponse if message.term == raft.term && !message.reject => {
                message.index <= log.last_index()
            }
            // This replica asks for votes only when its whole log is durable.
            MessageType::MsgRequestVoteResponse => log.persisted == log.last_index(),
            _ => true,
        };
        if possible {
            Ok(())
        } else {
            Err(MessageError::Impossible)
        }
    }
}

/// Most entries removed with one persist. Each costs about a microsecond.
const REMOVED_PER_SLICE: u64 = 512;

fn raft_config(config: &ReplicaConfig, applied: Index) -> raft::Config {
    raft::Config {
        id: config.node.0,
        election_tick: ticks(config.election_timeout_min),
        max_election_tick: ticks(config.election_timeout_max),
        heartbeat_tick: ticks(config.heartbeat_interval),
        applied: applied.0,
        max_size_per_msg: config.message_bytes_max,
        max_inflight_msgs: config.messages_inflight_max,
        check_quorum: true,
        pre_vote: true,
        batch_append: true,
        ..raft::Config::default()
    }
}

/// A duration in ticks, rounded up.
fn ticks(duration: std::time::Duration) -> usize {
    usize::try_from(duration.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(usize::MAX)
}

fn check_recovered(config: &ReplicaConfig, recovered: &Recovered) -> Result<(), ReplicaError> {
    let inconsistent = |reason| {
        Err(ReplicaError::Inconsistent {
            group: config.group,
            reason,
        })
    };
    if config.node.0 == 0 || config.voters.iter().any(|voter| voter.0 == 0) {
        return Err(ReplicaError::Config {
            group: config.group,
            reason: "a node id is zero".to_owned(),
        });
    }
    let mut last = recovered.log_start;
    for entry in &recovered.entries {
        if entry.index != last.index.next() {
            return inconsistent("an entry is missing");
        }
        if entry.term < last.term {
            return inconsistent("terms fall");
        }
        last = LogPoint {
            index: entry.index,
            term: entry.term,
        };
    }
    if recovered.snapshot.index < recovered.log_start.index {
        return inconsistent("the log begins after the snapshot");
    }
    if recovered.snapshot.index > last.index {
        return inconsistent("the snapshot is ahead of the log");
    }
    if recovered.hard_state.term < last.term {
        return inconsistent("the log is of a later term than the hard state");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
