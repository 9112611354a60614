//! Slots that are looked at again when this node comes to decide about them, or does not any more.
//!
//! A node often lacks a number that is on its way, and does not decide meanwhile. Comparing two ticks around
//! that moment misses it. So what a slot was asked in between is noted here.

use std::collections::BTreeSet;

use crate::{Slot, SlotSet};

/// Slots, by whether this node decided about them when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct WatchedSlots {
    decided: SlotSet,
    undecided: SlotSet,
}

impl WatchedSlots {
    /// Watches a slot. `decides` is what the look at it has found.
    pub(super) fn watch(&mut self, slot: Slot, decides: bool) {
        self.forget(slot);
        if decides {
            self.decided.insert(slot);
        } else {
            self.undecided.insert(slot);
        }
    }

    /// Watches a slot, unless it is watched already.
    pub(super) fn watch_new(&mut self, slot: Slot, decides: impl FnOnce() -> bool) {
        if !self.decided.contains(slot) && !self.undecided.contains(slot) {
            self.watch(slot, decides());
        }
    }

    /// Watches slots of which something was not done that is done once this node decides about them.
    pub(super) fn note_undecided(&mut self, slots: BTreeSet<Slot>) {
        if slots.is_empty() {
            return;
        }
        let slots: SlotSet = slots.into_iter().collect();
        self.decided = self.decided.minus(&slots);
        self.undecided = self.undecided.union(&slots);
    }

    /// Slots that are watched.
    pub(super) fn slots(&self) -> SlotSet {
        self.decided.union(&self.undecided)
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        self.decided.remove(slot);
        self.undecided.remove(slot);
    }

    /// Forgets the slots that this node decides about.
    pub(super) fn forget_decided(&mut self) {
        self.decided = SlotSet::default();
    }

    /// Slots about which this node has come to decide, or does not decide any more. `decided` gives those of some
    /// slots about which it decides.
    pub(super) fn take_changed(&mut self, decided: impl FnOnce(&SlotSet) -> SlotSet) -> SlotSet {
        let all = self.slots();
        if all.is_empty() {
            return all;
        }
        let now = decided(&all);
        let come = now.intersection(&self.undecided);
        let gone = self.decided.minus(&now);
        self.undecided = all.minus(&now);
        self.decided = now;
        come.union(&gone)
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
        let set = |slots: &[Slot]| slots.iter().copied().collect::<SlotSet>();
        assert_eq!(watched.take_changed(SlotSet::clone), set(&[second]));
        assert_eq!(watched.take_changed(SlotSet::clone), set(&[]));
        assert_eq!(watched.take_changed(|_| set(&[second])), set(&[first]));
        watched.forget_decided();
        assert_eq!(watched.take_changed(SlotSet::clone), set(&[first]));
        watched.forget(first);
        assert_eq!(watched.take_changed(|_| set(&[])), set(&[]));
    }
}
