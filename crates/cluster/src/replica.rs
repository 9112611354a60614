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

mod busy;
mod changes;
mod clock;
mod config;
mod disk;
mod event;
mod log;
mod members;
mod message;
mod missing;
mod reads;
mod ready;
mod receiving;
pub mod record;
mod snapshots;
mod starting;
mod transfer;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use raft::eraftpb::{Entry, Message, MessageType};
use raft::{RawNode, StateRole};

pub use config::{Recovered, ReplicaConfig, ReplicaError};
pub use event::{Action, Event, ReadId, Refusal, Request, Ticket};
pub use members::{MEMBERS_MAX, MemberChange, MemberProgress, Members};
pub use message::MessageError;
pub use missing::Missing;
use record::{HardState, LogPoint};

use crate::random::Random;
use crate::{GroupId, Index, Keyspace, NodeId, Term, Write};
use busy::Work;
use clock::{Clock, TICK};
use disk::Disk;
use log::Log;
use reads::Reads;
use snapshots::Snapshots;

/// A step that comes so much after [`Replica::deadline`] is late.
const LATE_MIN: Duration = Duration::from_millis(50);

/// One node's copy of one group.
pub struct Replica {
    config: ReplicaConfig,
    raft: RawNode<Log>,
    /// Who takes part, as far as the log is applied.
    members: Members,
    /// When each other node was last heard.
    heard: BTreeMap<NodeId, Instant>,
    /// Work of followers that were silent when this leader missed an answer.
    work: BTreeMap<NodeId, Work>,
    clock: Clock,
    random: Random,
    /// The drawn election timeout, in ticks, and the state of Raft for which it was drawn.
    election_ticks: usize,
    drawn_for: (u64, StateRole),
    next_ticket: Ticket,
    in_flight: VecDeque<InFlight>,
    /// Writes that go with the next persist: members, log start, removed entries.
    waiting_writes: Vec<Write>,
    /// The hard state as last written.
    hard_state: HardState,
    applied: LogPoint,
    announced: (Option<NodeId>, Term),
    /// Bytes of this leader's proposals that are not applied.
    uncommitted_bytes: u64,
    /// Up to where this leader has told the others what is committed.
    told: Index,
    /// Up to where this follower has told the leader of the term that it has the log.
    acknowledged: (Term, Index),
    reads: Reads,
    /// Entries on disk from here to the log's start are to be removed.
    removable_from: Index,
    /// Slices of a larger removal wait until the slice before is durable.
    removing: Option<Ticket>,
    snapshots: Snapshots,
    disk: Disk,
    /// Last acknowledged entry that the log lacks, also on disk.
    missing_through: Option<Index>,
    /// Committed entries up to these were acknowledged to this replica while it led.
    acknowledged_by: BTreeMap<NodeId, Index>,
    /// Some of that is not on its way to the disk.
    has_new_acknowledged: bool,
    /// Followers that lack what they had acknowledged, with the term in which they last said so.
    short_logs: BTreeMap<NodeId, Term>,
}

/// A persist that is on its way.
#[derive(Debug)]
struct InFlight {
    ticket: Ticket,
    /// Raft's number of the newest state that is durable with this persist; 0: none.
    number: u64,
    /// What may be said when it is durable.
    messages: Vec<Message>,
    /// Bytes of its values.
    bytes: usize,
    /// Moment from which on the disk is slow with it.
    slow_from: Instant,
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
    /// Takes one event.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        self.catch_up(now);
        self.look_at_disk(now);
        match event {
            Event::Propose { data } => self.propose(data, actions),
            Event::Read { read } => self.read(read, actions),
            Event::ChangeMembers { changes } => self.change_members(changes, actions),
            Event::Persisted { ticket } => self.persisted(ticket, actions),
            Event::Message { from, bytes } => self.receive(from, &bytes, actions),
            Event::Heard { from } => self.hear(from),
            Event::Transfer { to } => self.transfer(to, actions),
            Event::SnapshotTaken { index, term } => self.snapshot_taken(LogPoint { index, term }),
            Event::SnapshotOffered { index, term } => self.answer_offer(LogPoint { index, term }),
            Event::SnapshotReceived { index, term, members } => {
                self.snapshot_received(LogPoint { index, term }, members, actions);
            }
            Event::SnapshotKept { index, term } => self.snapshot_kept(LogPoint { index, term }),
            Event::Flush => self.tell_committed(),
            Event::Timeout => {}
        }
        self.settle(actions);
    }

    /// When [`Event::Timeout`] is due. None for a group of one, which waits for nothing but its owner and its disk, for a replica
    /// without a vote that knows no leader, and for one that is rolled back.
    pub fn deadline(&self) -> Option<Instant> {
        let raft = &self.raft.raft;
        let waits_for_leader = !raft.promotable() && raft.leader_id == raft::INVALID_ID;
        if self.leads_alone() || waits_for_leader || self.is_rolled_back() {
            return None;
        }
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

    /// Whether this leader has something to say at [`Event::Flush`].
    pub fn has_news(&self) -> bool {
        self.raft.raft.state == StateRole::Leader && self.told < self.committed() && !self.is_alone()
    }

    /// Whether something is on its way to the disk.
    pub fn is_persisting(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Bytes of entries since the last snapshot, give or take a mebibyte.
    pub fn log_bytes(&self) -> u64 {
        self.raft.store().bytes_since_snapshot()
    }

    /// Bytes of entries that are held in memory.
    pub fn held_bytes(&self) -> u64 {
        self.raft.store().held_bytes()
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.config.group
    }

    /// The other nodes with a replica of this group.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.config.node;
        let all = self.raft.raft.prs().iter().map(|(id, _)| NodeId(*id));
        all.filter(move |id| *id != own)
    }

    /// Whether a proposal of so many bytes is taken beside those that are not applied. If there are none of them, any is.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let bytes = self.uncommitted_bytes + bytes as u64;
        self.uncommitted_bytes == 0 || bytes <= self.config.uncommitted_bytes_max
    }

    fn propose(&mut self, data: Bytes, actions: &mut Vec<Action>) {
        assert!(!data.is_empty(), "empty entries are Raft's own");
        let len = data.len() as u64;
        let refusal = if !self.takes_requests() || self.is_handing_over() {
            Some(Refusal::NotLeader {
                leader: self.leader(),
            })
        } else if !self.has_room_for(data.len()) {
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
            .raft
            .step(proposal(self.config.node, data))
            .expect("a leader that is not handing over takes proposals");
        self.uncommitted_bytes += len;
        self.told = self.committed();
    }

    /// The others learn what is committed with the next entries. If there are none, they are told here.
    fn tell_committed(&mut self) {
        if self.has_news() {
            self.raft.raft.bcast_append();
            self.told = self.committed();
        }
    }

    fn committed(&self) -> Index {
        Index(self.raft.raft.raft_log.committed)
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
            self.disk
                .wrote(self.clock.now(), persist.bytes, persist.slow_from);
            self.send(persist.messages, actions);
        }
        if number > 0 {
            self.raft.on_persist_ready(number);
        }
        self.snapshots_persisted(ticket, actions);
        if self.removing.is_some_and(|removing| removing <= ticket) {
            self.removing = None;
        }
    }

    fn snapshot_taken(&mut self, snapshot: LogPoint) {
        assert!(
            snapshot.index <= self.applied.index,
            "a snapshot holds what was applied"
        );
        self.raft.mut_store().snapshot_taken(snapshot.index);
        let cut = self.cut_point(snapshot.index);
        let log = self.raft.mut_store();
        if cut <= log.start().index {
            return;
        }
        log.cut_through(cut);
        self.waiting_writes.push(Write::Put {
            keyspace: Keyspace::Meta,
            key: record::log_start_key(self.config.group),
            value: record::encode_log_start(self.config.group, log.start()),
        });
    }

    fn catch_up(&mut self, now: Instant) {
        if self.leads_alone() {
            self.clock.skip_to(now);
            return;
        }
        // More ticks than the longest wait tell nothing new.
        let mut ticks_max = ticks(self.config.election_timeout_max);
        if self.is_late(now) {
            ticks_max = ticks_max.min(self.excuse_silence());
        }
        if self.wait_quietly(now, ticks_max) {
            return;
        }
        let ticks = self.clock.elapsed(now, ticks_max);
        if ticks > 0 {
            self.wait_for_busy_followers();
        }
        for _ in 0..ticks {
            self.raft.tick();
            self.forget_silent_leader();
            self.pin_election_timeout();
        }
    }

    /// Whether this step comes so late that the replica was held up itself, and what others sent meanwhile has not been read.
    fn is_late(&self, now: Instant) -> bool {
        let is_late = |due| now.saturating_duration_since(due) >= LATE_MIN;
        // Nothing is due before the last step.
        is_late(self.clock.now()) && self.deadline().is_some_and(is_late)
    }

    /// Lets nobody have been silent while the replica was held up. Gives the ticks that are counted of that time.
    ///
    /// A follower looks for its leader a heartbeat later, and a leader for its quorum an election timeout later. A tick is counted
    /// however often the replica is late.
    fn excuse_silence(&mut self) -> usize {
        let raft = &mut self.raft.raft;
        let left = if raft.state == StateRole::Leader {
            for (_, progress) in raft.mut_prs().iter_mut() {
                progress.recent_active = true;
            }
            raft.election_timeout().saturating_sub(raft.election_elapsed)
        } else {
            let left = self.election_ticks.saturating_sub(raft.election_elapsed);
            left.saturating_sub(ticks(self.config.heartbeat_interval))
        };
        left.max(1)
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

    fn leads_alone(&self) -> bool {
        self.is_alone() && self.raft.raft.state == StateRole::Leader
    }
}

/// What Raft makes of a proposal, but that the data is not copied where others hold it as well.
fn proposal(node: NodeId, data: Bytes) -> Message {
    let entry = Entry {
        data,
        ..Entry::default()
    };
    let mut message = Message {
        from: node.0,
        entries: vec![entry],
        ..Message::default()
    };
    message.set_msg_type(MessageType::MsgPropose);
    message
}

fn members_write(group: GroupId, members: &Members) -> Write {
    Write::Put {
        keyspace: Keyspace::Meta,
        key: record::members_key(group),
        value: record::encode_members(group, members),
    }
}

/// A duration in ticks, rounded up.
fn ticks(duration: std::time::Duration) -> usize {
    usize::try_from(duration.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
