//! Slots that are looked at again when this node comes to decide about them, or does not any more.
//!
//! A node often lacks a number that is on its way, and does not decide meanwhile. Comparing two ticks around
//! that moment misses it. So what a slot was asked in between is noted here.

use std::collections::{BTreeMap, BTreeSet};

use crate::Slot;

/// Slots, and whether this node decided about each when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct WatchedSlots {
    slots: BTreeMap<Slot, bool>,
}

impl WatchedSlots {
    /// Watches a slot. `decides` is what the look at it has found.
    pub(super) fn watch(&mut self, slot: Slot, decides: bool) {
        self.slots.insert(slot, decides);
    }

    /// Watches a slot, unless it is watched already.
    pub(super) fn watch_new(&mut self, slot: Slot, decides: impl FnOnce() -> bool) {
        self.slots.entry(slot).or_insert_with(decides);
    }

    /// Watches slots of which something was not done that is done once this node decides about them.
    pub(super) fn note_undecided(&mut self, slots: BTreeSet<Slot>) {
        self.slots.extend(slots.into_iter().map(|slot| (slot, false)));
    }

    /// Slots that are watched.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.keys().copied()
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        self.slots.remove(&slot);
    }

    /// Forgets the slots that this node decides about.
    pub(super) fn forget_decided(&mut self) {
        self.slots.retain(|_, decides| !*decides);
    }

    /// Slots about which this node has come to decide, or does not decide any more.
    pub(super) fn take_changed(&mut self, decides: impl Fn(Slot) -> bool) -> Vec<Slot> {
        let changed = self.slots.iter_mut().filter_map(|(slot, before)| {
            let now = decides(*slot);
            (std::mem::replace(before, now) != now).then_some(*slot)
        });
        changed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_told_when_a_node_comes_to_decide_about_it() {
        let [first, second] = [1, 2].map(|number| Slot::new(number).expect("in range"));
        let mut watched = WatchedSlots::default();
        watched.watch(first, true);
        watched.watch_new(first, || false);
        watched.note_undecided(BTreeSet::from([second]));
        assert_eq!(watched.take_changed(|_| true), [second]);
        assert_eq!(watched.take_changed(|_| true), []);
        assert_eq!(watched.take_changed(|slot| slot == second), [first]);
        watched.forget_decided();
        assert_eq!(watched.take_changed(|_| true), [first]);
        watched.forget(first);
        assert_eq!(watched.take_changed(|_| false), []);
    }
}
