//! Streams of a node: that of its own run, those of its peers, and those of runs that it has given
//! up.
//!
//! *Invariants*: each present peer has a stream in both directions. A position is confirmed only
//! behind a [`PersistPoint`] that has it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use cluster::NodeId;

use super::error::PlaneError;
use super::knowledge::Knowledge;
use crate::membership::NotPresent;
use crate::stream::{
    ConfirmError, IncomingLimits, IncomingStream, NumberRange, OutgoingLimits, OutgoingStream, ResendId,
    Routing,
};
use crate::transfer::{AnswerId, RunPosition};
use crate::wire::EventPayload;
use crate::{Dot, Interval, Run, Slot, SlotSet};

/// Runs that were given up of which events are kept for passing on. Beyond, the run that was given
/// up first is forgotten: what it would have brought comes with merges.
pub(super) const ENDED_MAX: usize = 64;
/// Receipts that wait for the disk. A further resend or routed message is refused, and comes again
/// over the next connection.
const RECEIPTS_MAX: usize = 65_536;

/// Streams of one node.
#[derive(Debug)]
pub(super) struct Streams<C> {
    run: Run,
    limits: IncomingLimits,
    pub(super) outgoing: OutgoingStream<EventPayload<C>>,
    present: BTreeMap<NodeId, Peer<C>>,
    /// The run that was given up last is the last.
    ended: VecDeque<Peer<C>>,
    /// What was taken and is not durable yet.
    receipts: BTreeSet<Receipt>,
    /// Numbers of this run between which a copy of this node has refused an event.
    own_refused: Option<NumberRange>,
    /// Last own event that the last point has.
    own_pointed: u64,
}

/// Stream of a run to this node.
#[derive(Debug)]
struct Peer<C> {
    run: Run,
    /// Numbers between which a copy of this node has refused an event.
    refused: Option<NumberRange>,
    /// Position that the last point has.
    pointed: u64,
    incoming: IncomingStream<EventPayload<C>>,
}

/// What this node tells a peer, or itself, once it is durable here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Receipt {
    pub(super) to: NodeId,
    pub(super) of: ReceiptOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReceiptOf {
    /// Resend that was taken.
    Resend(ResendId),
    /// Routed number that was taken.
    Route {
        /// QoS 2 number.
        number: Dot,
        /// Ring marker that the route named.
        marker: u64,
    },
    /// Answer that was merged: its holder may delete its copy then.
    Answer(AnswerId),
}

/// What is durable once the state of the plane at this moment is on the disk.
///
/// The node takes one, persists what the plane holds, and hands it back to
/// [`Plane::persisted`](super::Plane::persisted).
#[derive(Debug)]
#[must_use = "nothing is acknowledged until the point is handed back"]
pub struct PersistPoint {
    /// What this node knows at that moment.
    pub(super) knowledge: Arc<Knowledge>,
    own: u64,
    received: Vec<RunPosition>,
    receipts: BTreeSet<Receipt>,
}

/// What became durable with a point.
#[derive(Debug, Default)]
pub(super) struct Persisted {
    /// Own changes that are durable at all who need them.
    pub(super) durable: Vec<Dot>,
    /// Peers whose streams are durable further than before.
    pub(super) streams: Vec<NodeId>,
    /// Receipts for peers.
    pub(super) receipts: Vec<Receipt>,
}

impl<C> Streams<C> {
    pub(super) fn new(
        run: Run,
        routing: Arc<Routing>,
        outgoing: OutgoingLimits,
        limits: IncomingLimits,
    ) -> Streams<C> {
        Streams {
            run,
            limits,
            outgoing: OutgoingStream::new(run, routing, outgoing),
            present: BTreeMap::new(),
            ended: VecDeque::new(),
            receipts: BTreeSet::new(),
            own_refused: None,
            own_pointed: 0,
        }
    }

    /// Begins a stay: the stream of `run` begins, or goes on.
    pub(super) fn meet(&mut self, run: Run) {
        let before = self.ended.iter().position(|ended| ended.run == run);
        let before = before.and_then(|index| self.ended.remove(index));
        let mut peer = before.unwrap_or_else(|| Peer {
            run,
            refused: None,
            pointed: 0,
            incoming: IncomingStream::new(self.run.node, run, self.limits),
        });
        peer.refused = None;
        peer.incoming.begin_stay();
        self.present.insert(run.node, peer);
    }

    /// Ends a stay.
    pub(super) fn give_up(&mut self, node: NodeId, durable: &mut Vec<Dot>) {
        self.outgoing.give_up(node, durable);
        self.receipts.retain(|receipt| receipt.to != node);
        if let Some(peer) = self.present.remove(&node) {
            self.ended.push_back(peer);
        }
        while self.ended.len() > ENDED_MAX {
            self.ended.pop_front();
        }
    }

    /// Begins a new connection to a peer.
    pub(super) fn restart_connection(&mut self, node: NodeId) {
        self.outgoing.restart_connection(node);
        self.restart_incoming(node);
    }

    /// A peer sends again what was not confirmed to it.
    pub(super) fn restart_incoming(&mut self, node: NodeId) {
        if let Some(peer) = self.present.get_mut(&node) {
            peer.incoming.restart_connection();
        }
    }

    /// Position of a present peer's stream that is durable here. None before its Welcome.
    pub(super) fn durable(&self, node: NodeId) -> Option<u64> {
        let peer = self.present.get(&node).filter(|peer| peer.incoming.is_begun())?;
        Some(peer.incoming.durable())
    }

    /// Stream of a present peer, to receive from it.
    ///
    /// # Errors
    ///
    /// [`NotPresent`] where the node has none.
    pub(super) fn of_peer_mut(
        &mut self,
        node: NodeId,
    ) -> Result<&mut IncomingStream<EventPayload<C>>, NotPresent> {
        let peer = self.present.get_mut(&node).ok_or(NotPresent { node })?;
        Ok(&mut peer.incoming)
    }

    /// Stream of a run, whether it is present or was given up.
    pub(super) fn of_run(&self, run: Run) -> Option<&IncomingStream<EventPayload<C>>> {
        let present = self.present.get(&run.node).filter(|peer| peer.run == run);
        let ended = || self.ended.iter().find(|peer| peer.run == run);
        present.or_else(ended).map(|peer| &peer.incoming)
    }

    /// Stream of a run that was given up.
    pub(super) fn of_ended_mut(&mut self, run: Run) -> Option<&mut IncomingStream<EventPayload<C>>> {
        let mut ended = self.ended.iter_mut();
        ended.find(|peer| peer.run == run).map(|peer| &mut peer.incoming)
    }

    /// Position that this node has taken of a present run, its own among them.
    pub(super) fn position(&self, run: Run) -> Option<u64> {
        if run == self.run {
            return Some(self.outgoing.last().number);
        }
        let peer = self.present.get(&run.node).filter(|peer| peer.run == run)?;
        Some(peer.incoming.position())
    }

    /// Routing by which a present peer's run goes after its last event. None before its Welcome.
    pub(super) fn peer_routing(&self, peer: NodeId) -> Option<&Routing> {
        let peer = self.present.get(&peer)?;
        peer.incoming.routing().map(Arc::as_ref)
    }

    /// For each present peer's run the marker that made this node an owner of `slot`. None until
    /// each has sent one.
    pub(super) fn owner_since(&self, slot: Slot) -> Option<Vec<RunPosition>> {
        let since = self.present.values().map(|peer| {
            let number = peer
                .incoming
                .owner_since(slot)
                .filter(|_| peer.incoming.is_begun())?;
            let run = peer.run;
            Some(RunPosition { run, number })
        });
        since.collect()
    }

    /// Slots that the peers' rings in force name this node an owner of. None before each peer has
    /// sent its first marker: it may name any.
    pub(super) fn owned_by_peers(&self) -> Option<SlotSet> {
        let mut owned = SlotSet::default();
        for peer in self.present.values() {
            let next = peer.incoming.position() + 1;
            let by_peer = peer
                .incoming
                .owned_at(next)
                .filter(|_| peer.incoming.is_begun())?;
            owned = owned.union(by_peer);
        }
        Some(owned)
    }

    /// There is room to take a resend, or a message that is routed.
    pub(super) fn check_receipt_room(&self) -> Result<(), PlaneError> {
        if self.receipts.len() >= RECEIPTS_MAX {
            return Err(PlaneError::TooManyReceipts { max: RECEIPTS_MAX });
        }
        Ok(())
    }

    /// Notes what is told once it is durable.
    pub(super) fn add_receipt(&mut self, receipt: Receipt) {
        self.receipts.insert(receipt);
    }

    /// Notes that a copy has refused an event among `numbers` of a run, which is a hole there. The
    /// run is confirmed only up to before, until the copy has it.
    pub(super) fn hold_back(&mut self, run: Run, numbers: NumberRange) {
        let of_peer = self.present.get_mut(&run.node).filter(|peer| peer.run == run);
        let refused = match of_peer {
            Some(peer) => &mut peer.refused,
            None if run == self.run => &mut self.own_refused,
            None => return,
        };
        let (first, last) = (numbers.first, numbers.last);
        *refused = Some(refused.map_or(numbers, |before| NumberRange {
            first: before.first.min(first),
            last: before.last.max(last),
        }));
    }

    /// Something was taken that the last point does not have, or that a copy lacks.
    pub(super) fn has_unpointed(&self) -> bool {
        let is_behind = |peer: &Peer<C>| peer.refused.is_some() || peer.pointed != peer.incoming.position();
        !self.receipts.is_empty()
            || self.own_refused.is_some()
            || self.own_pointed != self.outgoing.last().number
            || self.present.values().any(is_behind)
    }

    /// Point that has everything that was taken so far. `lacks` says whether a copy that this node owns
    /// has a hole among some events.
    pub(super) fn persist_point(
        &mut self,
        knowledge: Arc<Knowledge>,
        lacks: impl Fn(&Interval) -> bool,
    ) -> PersistPoint {
        let still_lacks = |run: Run, refused: Option<NumberRange>| {
            refused.filter(|range| {
                Interval::new(run, range.first, range.last).is_some_and(|events| lacks(&events))
            })
        };
        let before = |refused: Option<NumberRange>, position: u64| {
            refused.map_or(position, |range| position.min(range.first - 1))
        };
        self.own_refused = still_lacks(self.run, self.own_refused);
        self.own_pointed = self.outgoing.last().number;
        for peer in self.present.values_mut() {
            peer.refused = still_lacks(peer.run, peer.refused);
            peer.pointed = peer.incoming.position();
        }
        let begun = self.present.values().filter(|peer| peer.incoming.is_begun());
        let received = begun.map(|peer| RunPosition {
            run: peer.run,
            number: before(peer.refused, peer.incoming.position()),
        });
        let is_taken = |receipt: &Receipt| match receipt.of {
            ReceiptOf::Route { number, .. } => Interval::one(number).is_none_or(|number| !lacks(&number)),
            ReceiptOf::Resend(_) | ReceiptOf::Answer(_) => true,
        };
        PersistPoint {
            knowledge,
            own: before(self.own_refused, self.outgoing.last().number),
            received: received.collect(),
            receipts: self.receipts.extract_if(.., is_taken).collect(),
        }
    }

    /// Takes note that a point is on the disk.
    pub(super) fn persisted(&mut self, point: PersistPoint) -> Result<Persisted, ConfirmError> {
        let mut persisted = Persisted::default();
        let own = self.run.node;
        self.outgoing.confirm(own, point.own, &mut persisted.durable)?;
        for RunPosition { run, number } in point.received {
            let Some(peer) = self.present.get_mut(&run.node).filter(|peer| peer.run == run) else {
                continue;
            };
            let before = peer.incoming.durable();
            peer.incoming.persisted(number);
            if peer.incoming.durable() > before && peer.incoming.is_begun() {
                persisted.streams.push(run.node);
            }
        }
        for receipt in point.receipts {
            match receipt.of {
                ReceiptOf::Resend(id) if receipt.to == own => {
                    self.outgoing.confirm_resend(own, id, &mut persisted.durable)?;
                }
                ReceiptOf::Route { .. } if receipt.to == own => persisted.receipts.push(receipt),
                _ if self.present.contains_key(&receipt.to) => persisted.receipts.push(receipt),
                _ => {}
            }
        }
        Ok(persisted)
    }
}
