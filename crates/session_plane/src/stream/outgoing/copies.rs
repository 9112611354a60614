//! Copies of a run's own events: which are too few, and to which owners these events are resent.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::NodeId;

use super::OutgoingStream;
use crate::stream::resend::Outstanding;
use crate::stream::ring_epoch::{Held, LivePosition, ResentCopy, RingEpoch, count, is_held_by, short_parts};
use crate::stream::{EventKind, NumberRange, Routing, StreamEvent};
use crate::{Dot, Slot, SlotSet};

/// Own events of which a slot has too few copies, or of which a new owner has none.
#[derive(Debug)]
pub struct Unconfirmed<'a, P> {
    /// Numbers, in ascending order and with a gap between each two ranges.
    pub numbers: Vec<NumberRange>,
    /// Events among these numbers that are for the slot.
    pub events: Vec<&'a StreamEvent<P>>,
}

/// Numbers that one owner of the new ring is to be resent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ResendGroup {
    to: NodeId,
    numbers: NumberRange,
}

impl<P> OutgoingStream<P> {
    /// Own events of which `slot` has fewer than the least number of copies: the node answers
    /// questions for the slot with these, beside its copy of the slot (rule `own-unconfirmed`).
    pub fn unconfirmed(&self, slot: Slot) -> Unconfirmed<'_, P> {
        let mut numbers = Vec::new();
        for epoch in &self.epochs {
            let last = epoch.numbers().map_or(self.number, |numbers| numbers.last);
            if epoch.first() <= last {
                let all = NumberRange {
                    first: epoch.first(),
                    last,
                };
                let copies = self.confirmed_copies(epoch, slot);
                let short = short_parts(&copies, all, self.limits.copies_min);
                short.into_iter().for_each(|part| append(&mut numbers, part));
            }
        }
        let events = numbers.iter().flat_map(|part| {
            let kept = self.kept.range(part.first..=part.last);
            kept.map(|(_, kept)| &kept.event)
        });
        let events = events.filter(|event| event.kind.is_for(slot)).collect();
        Unconfirmed { numbers, events }
    }

    /// Own events that are being given to new owners of `slot`: the node answers with these, too (rule
    /// `own-unconfirmed`).
    pub fn given_late(&self, slot: Slot) -> Unconfirmed<'_, P> {
        let late = self.resends.late_events(slot);
        let by_number: BTreeMap<u64, _> = late.map(|event| (event.dot.number, event)).collect();
        let mut numbers = Vec::new();
        for number in by_number.keys() {
            append(&mut numbers, NumberRange::one(*number));
        }
        let events = by_number.into_values().collect();
        Unconfirmed { numbers, events }
    }

    /// Each slot of the event has enough copies.
    pub(super) fn has_enough_copies(&self, event: &StreamEvent<P>) -> bool {
        let EventKind::Change(slots) = &event.kind else {
            return true;
        };
        let number = event.dot.number;
        let Some(epoch) = self.epoch_of(number).and_then(|index| self.epochs.get(index)) else {
            return true;
        };
        let has_enough = |slot| count(&self.confirmed_copies(epoch, slot), number) >= self.limits.copies_min;
        slots.iter().all(has_enough)
    }

    /// Ends the ring in force with the marker `number`, and resends what has too few copies.
    pub(super) fn change_ring(&mut self, routing: Arc<Routing>, number: u64) {
        if let Some(before) = self.epochs.last_mut() {
            before.close(number);
        }
        self.epochs.push(RingEpoch::new(routing, number + 1));
        for (group, slots) in self.groups_to_resend() {
            // The new owner takes the numbers as a whole, so their events stay until it has them.
            for number in self.kept_for(&slots, group.numbers) {
                if let Some(kept) = self.kept.get_mut(&number) {
                    kept.resends += 1;
                }
            }
            self.resends.add(group.to, group.numbers, slots);
        }
        self.drop_settled_epochs();
    }

    /// Counts a resend that was confirmed, and completes the events that waited for it.
    pub(super) fn add_copy(&mut self, resend: Outstanding, durable: &mut Vec<Dot>) {
        let Outstanding {
            to, slots, numbers, ..
        } = resend;
        let touched = self.kept_for(&slots, numbers);
        let epoch = self.epoch_of(numbers.first);
        if let Some(epoch) = epoch.and_then(|index| self.epochs.get_mut(index)) {
            epoch.add_copy(ResentCopy {
                node: to,
                slots,
                numbers,
            });
        }
        for number in touched {
            self.end_resend(number);
            if self.short.contains(&number) {
                self.complete_if_settled(number, durable);
            }
        }
        self.drop_settled_epochs();
    }

    /// Drops the resends to a peer that is given up.
    pub(super) fn drop_resends(&mut self, peer: NodeId) {
        let dropped = self.resends.drop_peer(peer);
        for resend in dropped.resent {
            for number in self.kept_for(&resend.slots, resend.numbers) {
                self.end_resend(number);
            }
        }
        for giving in dropped.late {
            self.settle_late(giving);
        }
    }

    /// Kept events among `numbers` that are for one of `slots`.
    fn kept_for(&self, slots: &SlotSet, numbers: NumberRange) -> Vec<u64> {
        let kept = self.kept.range(numbers.first..=numbers.last);
        kept.filter(|(_, kept)| kept.event.kind.is_for_any(slots))
            .map(|(number, _)| *number)
            .collect()
    }

    fn end_resend(&mut self, number: u64) {
        if let Some(kept) = self.kept.get_mut(&number) {
            kept.resends -= 1;
            self.forget_if_done(number);
        }
    }

    /// Forgets older rings whose numbers have enough copies in every slot.
    ///
    /// A ring is looked at when all present nodes have confirmed it, and once after each new copy.
    pub(super) fn drop_settled_epochs(&mut self) {
        let all_have = self.streams.values().map(|stream| stream.confirmed()).min();
        let all_have = all_have.unwrap_or(0);
        for mut epoch in std::mem::take(&mut self.epochs) {
            let Some(numbers) = epoch.numbers() else {
                self.epochs.push(epoch);
                continue;
            };
            let waits = epoch.is_short || all_have < numbers.last;
            if waits || self.resends.within(numbers).next().is_some() {
                self.epochs.push(epoch);
                continue;
            }
            epoch.is_short = Slot::all().any(|slot| !self.has_settled(&epoch, slot, numbers));
            if epoch.is_short {
                self.epochs.push(epoch);
            }
        }
    }

    fn has_settled(&self, epoch: &RingEpoch, slot: Slot, numbers: NumberRange) -> bool {
        let whole = epoch.count_whole(slot, numbers.last, |node| self.confirmed_position(node));
        whole >= self.limits.copies_min || {
            let held = self.confirmed_copies(epoch, slot);
            short_parts(&held, numbers, self.limits.copies_min).is_empty()
        }
    }

    /// Numbers of older rings that have too few copies and expect none, by the owners in force that
    /// lack them.
    fn groups_to_resend(&self) -> BTreeMap<ResendGroup, SlotSet> {
        let mut groups: BTreeMap<ResendGroup, SlotSet> = BTreeMap::new();
        let ring = self.routing().ring();
        for epoch in &self.epochs {
            let Some(all) = epoch.numbers() else { continue };
            for slot in Slot::all() {
                let whole = epoch.count_whole(slot, all.last, |node| self.expected_position(node));
                if whole >= self.limits.copies_min {
                    continue;
                }
                let held = self.expected_copies(epoch, slot, all);
                for numbers in short_parts(&held, all, self.limits.copies_min) {
                    let present = ring.owners(slot).filter(|owner| self.streams.contains_key(owner));
                    for to in present.filter(|owner| !is_held_by(&held, *owner, numbers.first)) {
                        let slots = groups.entry(ResendGroup { to, numbers }).or_default();
                        slots.insert(slot);
                    }
                }
            }
        }
        groups
    }

    /// Index of the ring by which `number` was routed. None if that ring is forgotten.
    fn epoch_of(&self, number: u64) -> Option<usize> {
        let after = self.epochs.partition_point(|epoch| epoch.first() <= number);
        let index = after.checked_sub(1)?;
        let closed = self.epochs.get(index)?.numbers();
        closed
            .is_none_or(|numbers| number <= numbers.last)
            .then_some(index)
    }

    fn confirmed_copies(&self, epoch: &RingEpoch, slot: Slot) -> Vec<Held> {
        epoch.held(slot, |node| self.confirmed_position(node))
    }

    /// Copies that exist, that a present owner gets by its stream, or that are being resent.
    fn expected_copies(&self, epoch: &RingEpoch, slot: Slot, all: NumberRange) -> Vec<Held> {
        let mut held = epoch.held(slot, |node| self.expected_position(node));
        let resent = self.resends.within(all);
        let for_slot = resent.filter(|resend| resend.slots.contains(slot));
        held.extend(for_slot.map(|resend| Held {
            node: resend.to,
            numbers: resend.numbers,
        }));
        held
    }

    fn confirmed_position(&self, node: NodeId) -> Option<LivePosition> {
        let stream = self.streams.get(&node)?;
        let (begin, position) = (stream.begin(), stream.confirmed());
        Some(LivePosition { begin, position })
    }

    /// A present owner will have all numbers of the ring, or will be given up.
    fn expected_position(&self, node: NodeId) -> Option<LivePosition> {
        let (begin, position) = (self.streams.get(&node)?.begin(), u64::MAX);
        Some(LivePosition { begin, position })
    }
}

/// Appends numbers behind those before, and joins them where no gap is between.
fn append(numbers: &mut Vec<NumberRange>, next: NumberRange) {
    match numbers.last_mut() {
        Some(before) if before.last + 1 == next.first => before.last = next.last,
        _ => numbers.push(next),
    }
}
