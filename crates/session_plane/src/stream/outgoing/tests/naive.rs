//! Naive stream: sets of numbers for each slot and node, as the model (`session-plane-model`) has
//! them in its `sending` and `waiting`.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;

use super::{OWN, slot};
use crate::Slot;
use crate::stream::{NumberRange, Routing};

/// Slots that changes are for; they differ in their owners. The last one is of every node.
pub(crate) const SAMPLE_SLOTS: [u16; 7] = [0, 700, 1_500, 2_100, 3_000, 4_000, 4_097];

/// Number of the run in one slot at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Copy {
    pub(crate) slot: Slot,
    pub(crate) number: u64,
    pub(crate) node: NodeId,
}

/// Stream to one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NaiveStream {
    /// Distinguishes the streams to one node.
    id: u64,
    pub(crate) confirmed: u64,
    /// Numbers that the node gets as an owner of each slot.
    owned: BTreeSet<(Slot, u64)>,
    /// Numbers of events that the node needs.
    pub(crate) needed: BTreeSet<u64>,
}

/// Event with the streams that it was sent over.
#[derive(Debug, Clone)]
pub(crate) struct NaiveEvent {
    pub(crate) slots: Vec<Slot>,
    pub(crate) is_marker: bool,
    targets: Vec<(NodeId, u64)>,
    pub(crate) is_durable: bool,
}

/// Nodes that need an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Owners of the slots, and these.
    Owners(BTreeSet<NodeId>),
    EveryPeer,
}

#[derive(Debug, Default)]
pub(crate) struct Naive {
    copies_min: usize,
    pub(crate) number: u64,
    pub(crate) streams: BTreeMap<NodeId, NaiveStream>,
    pub(crate) events: BTreeMap<u64, NaiveEvent>,
    held: BTreeSet<Copy>,
    /// Copies that are being resent.
    pub(crate) resent: BTreeSet<Copy>,
    streams_begun: u64,
}

impl Naive {
    pub(crate) fn new(copies_min: usize) -> Naive {
        Naive {
            copies_min,
            streams: BTreeMap::from([(OWN, NaiveStream::default())]),
            ..Naive::default()
        }
    }

    pub(crate) fn welcome(&mut self, peer: NodeId) {
        self.streams_begun += 1;
        let new = NaiveStream {
            id: self.streams_begun,
            confirmed: self.number,
            ..NaiveStream::default()
        };
        self.streams.insert(peer, new);
    }

    pub(crate) fn give_up(&mut self, peer: NodeId) {
        self.streams.remove(&peer);
        self.resent.retain(|copy| copy.node != peer);
    }

    /// A welcomed peer owns what comes after the marker that welcomes it.
    pub(crate) fn push(&mut self, routing: &Routing, slots: &[Slot], to: &Target, welcomed: Option<NodeId>) {
        self.number += 1;
        let number = self.number;
        let ring = routing.ring();
        let mut targets = Vec::new();
        for (node, stream) in &mut self.streams {
            if Some(*node) != welcomed {
                let owned = SAMPLE_SLOTS.map(slot).into_iter();
                let owned = owned.filter(|slot| ring.is_owner(*node, *slot));
                stream.owned.extend(owned.map(|slot| (slot, number)));
            }
            let is_needed = match to {
                Target::Owners(nodes) => {
                    nodes.contains(node) || slots.iter().any(|slot| ring.is_owner(*node, *slot))
                }
                Target::EveryPeer => *node != OWN,
            };
            if is_needed {
                stream.needed.insert(number);
                targets.push((*node, stream.id));
            }
        }
        let event = NaiveEvent {
            slots: slots.to_vec(),
            is_marker: *to == Target::EveryPeer,
            targets,
            is_durable: false,
        };
        self.events.insert(number, event);
    }

    pub(crate) fn confirm(&mut self, node: NodeId, number: u64) {
        let stream = self.streams.get_mut(&node).expect("a present node");
        stream.confirmed = number;
        let owned = stream.owned.iter().filter(|(_, owned)| *owned <= number);
        let held = owned.map(|(slot, number)| Copy {
            slot: *slot,
            number: *number,
            node,
        });
        self.held.extend(held);
    }

    pub(crate) fn confirm_resent(&mut self, copies: &[Copy]) {
        for copy in copies {
            self.resent.remove(copy);
            self.held.insert(*copy);
        }
    }

    /// Begins what goes to the owners of a new ring.
    pub(crate) fn resend(&mut self, routing: &Routing) {
        for slot in SAMPLE_SLOTS.map(slot) {
            for number in 1..=self.number {
                let expecting = self.expecting(slot, number);
                if expecting.len() >= self.copies_min {
                    continue;
                }
                let owners = routing.ring().owners(slot);
                let owners = owners.filter(|owner| self.streams.contains_key(owner));
                let lacking = owners.filter(|owner| !expecting.contains(owner));
                let copies: Vec<Copy> = lacking.map(|node| Copy { slot, number, node }).collect();
                self.resent.extend(copies);
            }
        }
    }

    /// Nodes that have the number, or will if they stay present.
    fn expecting(&self, slot: Slot, number: u64) -> BTreeSet<NodeId> {
        let by_stream = self.streams.iter();
        let by_stream = by_stream.filter(|(_, stream)| stream.owned.contains(&(slot, number)));
        let resent = self.resent.iter();
        let resent = resent.filter(|copy| copy.slot == slot && copy.number == number);
        let mut nodes = self.holders(slot, number);
        nodes.extend(by_stream.map(|(node, _)| *node));
        nodes.extend(resent.map(|copy| copy.node));
        nodes
    }

    fn holders(&self, slot: Slot, number: u64) -> BTreeSet<NodeId> {
        let first = Copy {
            slot,
            number,
            node: NodeId(0),
        };
        let held = self.held.range(first..);
        let held = held.take_while(|copy| copy.slot == slot && copy.number == number);
        held.map(|copy| copy.node).collect()
    }

    /// Numbers that are durable now and were not before.
    pub(crate) fn complete(&mut self) -> BTreeSet<u64> {
        let waiting = self.events.iter().filter(|(_, event)| !event.is_durable);
        let durable: BTreeSet<u64> = waiting
            .filter(|(number, event)| self.is_durable(**number, event))
            .map(|(number, _)| *number)
            .collect();
        for number in &durable {
            let event = self.events.get_mut(number).expect("found above");
            event.is_durable = true;
        }
        durable
    }

    fn is_durable(&self, number: u64, event: &NaiveEvent) -> bool {
        let has_confirmed = |(node, id): &(NodeId, u64)| {
            let stream = self.streams.get(node).filter(|stream| stream.id == *id);
            stream.is_none_or(|stream| stream.confirmed >= number)
        };
        let mut slots = event.slots.iter();
        event.targets.iter().all(has_confirmed)
            && slots.all(|slot| self.holders(*slot, number).len() >= self.copies_min)
    }

    /// Events that are not durable or being resent.
    pub(crate) fn kept(&self) -> Vec<u64> {
        let is_resent = |number: u64, event: &NaiveEvent| {
            let mut resent = self.resent.iter();
            resent.any(|copy| copy.number == number && event.slots.contains(&copy.slot))
        };
        let kept = self.events.iter();
        let kept = kept.filter(|(number, event)| !event.is_durable || is_resent(**number, event));
        kept.map(|(number, _)| *number).collect()
    }

    pub(crate) fn stable(&self) -> u64 {
        let peers = self.streams.iter().filter(|(node, _)| **node != OWN);
        let confirmed = peers.map(|(_, stream)| stream.confirmed);
        confirmed.min().unwrap_or(self.number)
    }

    /// Numbers of which a slot has too few copies.
    pub(crate) fn unconfirmed(&self, slot: Slot) -> BTreeSet<u64> {
        let is_short = |number: &u64| self.holders(slot, *number).len() < self.copies_min;
        (1..=self.number).filter(is_short).collect()
    }
}

pub(crate) fn numbers_of(ranges: &[NumberRange]) -> BTreeSet<u64> {
    ranges.iter().flat_map(|range| range.first..=range.last).collect()
}
