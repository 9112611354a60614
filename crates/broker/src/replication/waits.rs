//! Waits: what goes on when events of this node are durable, or its filters are known.
//!
//! ```text
//!   events of one packet, position of its filters ---> Awaited ---> Waiter: PUBACK, SUBACK, UNSUBACK, ...
//! ```
//!
//! *Invariant*: a waiter goes on once, when all that it waits for has come about.

use std::collections::BTreeMap;
use std::time::Instant;

use cluster::replica::record::LogPoint;
use mqtt::acks::{AckSequence, Acknowledgement};
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use protocol::Packet;
use session_plane::connecting::ConnectionId as ClaimId;
use session_plane::plane::PersistPoint;
use session_plane::{Dot, GroupId, MadeEvent};
use slab::Slab;
use smallvec::SmallVec;

use super::Replication;
use crate::node::{Action, Node};
use crate::slow::SlowKind;

/// Event of this node's run that somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicatedEvent(pub(super) u64);

/// What is waited for before something is acknowledged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Awaited {
    /// Events of this run.
    pub(crate) events: SmallVec<[ReplicatedEvent; 2]>,
    /// Position of a change of filters, which all present nodes are to know.
    pub(crate) told: u64,
    /// Shared groups that a session becomes a member of, or is not any more.
    pub(crate) groups: SmallVec<[GroupWait; 1]>,
}

/// Shared group that a connection has entered or left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupWait {
    pub(crate) claim: ClaimId,
    pub(crate) group: GroupId,
}

/// Somebody who waits.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A received PUBLISH.
    Ack {
        connection: ConnectionId,
        sequence: AckSequence,
        acknowledgement: Acknowledgement,
    },
    /// A SUBSCRIBE, and when it came.
    Suback {
        connection: ConnectionId,
        packet: Packet,
        received: Instant,
    },
    /// The record of the control group's state, as of this point of its log.
    ControlRecorded(LogPoint),
    /// The record of a state of the control group that another node sent.
    ControlKept(LogPoint),
    /// The plane, whose records up to a point are in the batch.
    PlanePersisted(PersistPoint),
    /// An operator who wanted something done.
    Administered { question: u64 },
    /// An operator for whom something is put back.
    Restored { question: u64 },
    /// Anything else for one connection.
    Act {
        connection: ConnectionId,
        action: Action,
    },
}

/// Waiter with what is left of its wait.
#[derive(Debug)]
struct Waiting {
    left: usize,
    then: Waiter,
}

/// All that waits for events and for positions of filters.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waiting: Slab<Waiting>,
    /// Own events that are not durable, and who waits for them.
    open: BTreeMap<u64, SmallVec<[usize; 1]>>,
    /// Positions that some present node does not know.
    untold: BTreeMap<u64, SmallVec<[usize; 1]>>,
    groups: BTreeMap<GroupWait, SmallVec<[usize; 1]>>,
}

impl ReplicatedEvent {
    /// Event that this run has made.
    pub(crate) fn of(made: MadeEvent) -> Self {
        Self::of_dot(made.dot)
    }

    /// The same by its dot.
    pub(crate) fn of_dot(dot: Dot) -> Self {
        Self(dot.number)
    }
}

impl Awaited {
    /// Adds what else is waited for.
    pub(crate) fn add(&mut self, more: Awaited) {
        self.events.extend(more.events);
        self.told = self.told.max(more.told);
        self.groups.extend(more.groups);
    }
}

impl Waits {
    /// An own event is made.
    pub(super) fn open(&mut self, event: u64) {
        self.open.entry(event).or_default();
    }

    /// Own events that are not durable.
    pub(super) fn open_len(&self) -> usize {
        self.open.len()
    }

    /// Last own event that is not durable.
    pub(super) fn latest_open(&self) -> Option<u64> {
        self.open.keys().next_back().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// Lets somebody wait; gives it back where nothing of that is to come. `told` is the position that is known.
    fn wait(&mut self, awaited: &Awaited, told: u64, then: Waiter) -> Option<Waiter> {
        let open = awaited
            .events
            .iter()
            .filter(|event| self.open.contains_key(&event.0));
        let is_untold = awaited.told > told;
        let left = open.count() + usize::from(is_untold) + awaited.groups.len();
        if left == 0 {
            return Some(then);
        }
        let place = self.waiting.insert(Waiting { left, then });
        for event in &awaited.events {
            if let Some(waiting) = self.open.get_mut(&event.0) {
                waiting.push(place);
            }
        }
        if is_untold {
            self.untold.entry(awaited.told).or_default().push(place);
        }
        for group in &awaited.groups {
            self.groups.entry(group.clone()).or_default().push(place);
        }
        None
    }

    /// An event is durable: appends who goes on.
    pub(super) fn end_event(&mut self, event: u64, released: &mut Vec<Waiter>) {
        let places = self.open.remove(&event).unwrap_or_default();
        self.end(&places, released);
    }

    /// All present nodes know the filters up to a position: appends who goes on.
    pub(super) fn end_told(&mut self, told: u64, released: &mut Vec<Waiter>) {
        while let Some(first) = self.untold.first_entry().filter(|first| *first.key() <= told) {
            let places = first.remove();
            self.end(&places, released);
        }
    }

    /// A connection is in a shared group, or is not any more.
    fn end_group(&mut self, group: &GroupWait, released: &mut Vec<Waiter>) {
        let places = self.groups.remove(group).unwrap_or_default();
        self.end(&places, released);
    }

    /// A connection has ended: nothing comes of what it waits for.
    fn end_claim(&mut self, claim: ClaimId, released: &mut Vec<Waiter>) {
        let group = GroupId::first();
        let of_claim = self.groups.range(GroupWait { claim, group }..);
        let of_claim = of_claim.map(|(group, _)| group.clone());
        for group in of_claim
            .take_while(|group| group.claim == claim)
            .collect::<Vec<_>>()
        {
            self.end_group(&group, released);
        }
    }

    fn end(&mut self, places: &[usize], released: &mut Vec<Waiter>) {
        for place in places {
            let waiting = &mut self.waiting[*place];
            waiting.left -= 1;
            if waiting.left == 0 {
                released.push(self.waiting.remove(*place).then);
            }
        }
    }
}

impl Replication {
    /// An event of this run is made, for which somebody may wait.
    pub(crate) fn open_event(&mut self, dot: Dot) {
        self.waits.open(dot.number);
    }

    /// Last own event, while it is not durable: what it did may be relied on.
    pub(crate) fn latest_open(&self) -> Option<ReplicatedEvent> {
        self.waits.latest_open().map(ReplicatedEvent)
    }
}

impl Node {
    /// Lets somebody go on when all that it waits for has come about: at once if nothing is to come.
    pub(crate) fn after(&mut self, now: Now, awaited: &Awaited, waiter: Waiter, actions: &mut Vec<Action>) {
        let replication = &mut self.replication;
        let told = replication.sessions.interests_told();
        if let Some(waiter) = replication.waits.wait(awaited, told, waiter) {
            self.release(now, waiter, actions);
        }
    }

    /// Lets somebody go on when everything written so far is on the disk: at once if it is.
    pub(crate) fn after_commit(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        if let Some(waiter) = self.commits.wait(waiter) {
            self.release(now, waiter, actions);
        }
    }

    /// A connection is in a shared group, or is not any more.
    pub(crate) fn end_group_wait(&mut self, now: Now, group: &GroupWait, actions: &mut Vec<Action>) {
        let mut released = Vec::new();
        self.replication.waits.end_group(group, &mut released);
        for waiter in released {
            self.release(now, waiter, actions);
        }
    }

    /// A connection has ended: nothing that it waits for comes any more.
    pub(crate) fn end_waits_of(&mut self, now: Now, claim: ClaimId, actions: &mut Vec<Action>) {
        let mut released = Vec::new();
        self.replication.waits.end_claim(claim, &mut released);
        for waiter in released {
            self.release(now, waiter, actions);
        }
    }

    pub(crate) fn release(&mut self, now: Now, waiter: Waiter, actions: &mut Vec<Action>) {
        match waiter {
            Waiter::Ack {
                connection,
                sequence,
                acknowledgement,
            } => self.acknowledge(now, connection, sequence, acknowledgement, actions),
            Waiter::Suback {
                connection,
                packet,
                received,
            } => self.subscribed(now, (connection, packet), received, actions),
            Waiter::ControlKept(point) => self.control_kept(now, point, actions),
            Waiter::ControlRecorded(point) => self.control_recorded(now, point, actions),
            Waiter::PlanePersisted(point) => self.plane_persisted(now, point, actions),
            Waiter::Administered { question } => {
                let is_done = true;
                actions.push(Action::Administered { question, is_done });
            }
            Waiter::Restored { question } => self.item_restored(question, actions),
            Waiter::Act { connection, action } => {
                let is_there = self.connections.get(connection).is_some();
                actions.extend(is_there.then_some(action));
            }
        }
    }

    /// All that a SUBSCRIBE wants is in force everywhere: retained messages follow.
    fn subscribed(
        &mut self,
        now: Now,
        (connection, packet): (ConnectionId, Packet),
        received: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(key) = self
            .connections
            .get(connection)
            .and_then(|connection| connection.session())
        else {
            return;
        };
        actions.push(Action::Send { connection, packet });
        self.note_slow(now, connection, (SlowKind::Subscribe, received), None, actions);
        self.begin_retained_due(key);
        self.pump(now, key, actions);
    }
}
