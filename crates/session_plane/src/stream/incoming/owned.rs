//! Slots that this node owned by a peer's rings: at each number, and since which marker.

use std::collections::VecDeque;
use std::sync::Arc;

use cluster::NodeId;

use super::FlushedSlots;
use crate::stream::{NumberRange, Routing};
use crate::{Slot, SlotSet};

/// Ownership of this node by the rings of one stream.
///
/// *Invariant*: the sets of `since` are disjoint, not empty, and together the slots of the last
/// ring.
#[derive(Debug, Default)]
pub(super) struct Owned {
    /// In ascending order.
    rings: VecDeque<OwnedByRing>,
    since: Vec<OwnedSince>,
}

/// Slots that this node owns by one ring.
#[derive(Debug)]
struct OwnedByRing {
    /// First number that is routed by the ring.
    first: u64,
    routing: Arc<Routing>,
    slots: SlotSet,
}

/// Slots that one marker made this node an owner of.
#[derive(Debug)]
struct OwnedSince {
    marker: u64,
    slots: SlotSet,
}

impl Owned {
    /// Begins the ring of a marker. Gives the slots that this node did not own before.
    pub(super) fn change_ring(&mut self, node: NodeId, marker: u64, routing: Arc<Routing>) -> SlotSet {
        let slots = routing.ring().slots_of(node);
        let before = self.rings.back().map(|ring| &ring.slots);
        let gained = before.map_or_else(|| slots.clone(), |before| slots.minus(before));
        for since in &mut self.since {
            since.slots = since.slots.intersection(&slots);
        }
        self.since.retain(|since| !since.slots.is_empty());
        if !gained.is_empty() {
            let slots = gained.clone();
            self.since.push(OwnedSince { marker, slots });
        }
        self.rings.push_back(OwnedByRing {
            first: marker + 1,
            routing,
            slots,
        });
        gained
    }

    /// Begins a ring of a run that was given up, or slots of it in which all numbers are taken.
    pub(super) fn add_ring(&mut self, first: u64, routing: Arc<Routing>, slots: SlotSet) {
        while self.rings.pop_back_if(|ring| ring.first >= first).is_some() {}
        self.rings.push_back(OwnedByRing {
            first,
            routing,
            slots,
        });
    }

    /// Forgets rings that routed only numbers below `number`.
    pub(super) fn forget_before(&mut self, number: u64) {
        while self.rings.get(1).is_some_and(|next| next.first <= number) {
            self.rings.pop_front();
        }
    }

    pub(super) fn routing_at(&self, number: u64) -> Option<&Arc<Routing>> {
        self.ring_at(number).map(|ring| &ring.routing)
    }

    pub(super) fn slots_at(&self, number: u64) -> Option<&SlotSet> {
        self.ring_at(number).map(|ring| &ring.slots)
    }

    pub(super) fn since(&self, slot: Slot) -> Option<u64> {
        let since = self.since.iter().find(|since| since.slots.contains(slot));
        since.map(|since| since.marker)
    }

    /// Slots of the numbers above `from` and up to `to`, by ring.
    pub(super) fn between(&self, from: u64, to: u64) -> Vec<FlushedSlots<'_>> {
        let ends = self.rings.iter().skip(1).map(|next| next.first - 1).chain([to]);
        let rings = self.rings.iter().zip(ends);
        let parts = rings.map(|(ring, end)| FlushedSlots {
            numbers: NumberRange {
                first: ring.first.max(from + 1),
                last: end.min(to),
            },
            slots: &ring.slots,
        });
        parts
            .filter(|part| part.numbers.first <= part.numbers.last)
            .collect()
    }

    #[cfg(test)]
    pub(super) fn rings_count(&self) -> usize {
        self.rings.len()
    }

    fn ring_at(&self, number: u64) -> Option<&OwnedByRing> {
        let after = self.rings.partition_point(|ring| ring.first <= number);
        after.checked_sub(1).and_then(|index| self.rings.get(index))
    }
}
