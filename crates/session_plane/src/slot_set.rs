//! Set of slots, for events and for what a node owns.
//!
//! An event is for few slots, an owner has thousands. So a set is a sorted list while it is short,
//! and bits when it is not, as a container of Roaring bitmaps is (Chambi et al., Better bitmap
//! performance with Roaring bitmaps, 2016). It takes 520 bytes at most. *Invariant*: which form a
//! set has depends on its length only, so equal sets are equal values.

use smallvec::SmallVec;

use crate::Slot;

/// Slots that a list has at most: as many as take the place of the bits.
const LISTED_MAX: usize = WORDS * 4;
/// Slots of a list that needs no memory of its own. Most events are for fewer.
const LISTED_INLINE: usize = 4;
const WORDS: usize = (Slot::COUNT as usize).div_ceil(64);

/// Set of slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotSet(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// In ascending order, at most [`LISTED_MAX`].
    List(SmallVec<[Slot; LISTED_INLINE]>),
    /// More than [`LISTED_MAX`].
    Bits(Box<Bits>),
}

/// One bit for each slot.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bits([u64; WORDS]);

impl SlotSet {
    /// Adds a slot. False if the set had it.
    pub fn insert(&mut self, slot: Slot) -> bool {
        match &mut self.0 {
            Form::List(slots) => {
                let Err(at) = slots.binary_search(&slot) else {
                    return false;
                };
                slots.insert(at, slot);
                if slots.len() > LISTED_MAX {
                    self.0 = Form::Bits(Box::new(Bits::of(slots)));
                }
                true
            }
            Form::Bits(bits) => bits.insert(slot),
        }
    }

    /// The slot is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        match &self.0 {
            Form::List(slots) => slots.binary_search(&slot).is_ok(),
            Form::Bits(bits) => bits.contains(slot),
        }
    }

    /// Number of slots in the set.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::List(slots) => slots.len(),
            Form::Bits(bits) => bits.len(),
        }
    }

    /// The set has no slot.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let (listed, bits) = match &self.0 {
            Form::List(slots) => (slots.as_slice(), None),
            Form::Bits(bits) => (&[][..], Some(bits)),
        };
        let in_bits = bits.into_iter().flat_map(|bits| bits.iter());
        listed.iter().copied().chain(in_bits)
    }

    /// Slots that are in this set or in `other`.
    pub fn union(&self, other: &SlotSet) -> SlotSet {
        self.combined(other, |mine, theirs| mine | theirs)
    }

    /// Slots that are in this set and in `other`.
    pub fn intersection(&self, other: &SlotSet) -> SlotSet {
        let ((Form::List(listed), _) | (_, Form::List(listed))) = (&self.0, &other.0) else {
            return self.combined(other, |mine, theirs| mine & theirs);
        };
        let is_in_both = |slot: &Slot| self.contains(*slot) && other.contains(*slot);
        SlotSet(Form::List(listed.iter().copied().filter(is_in_both).collect()))
    }

    /// Slots of this set that are not in `other`.
    pub fn minus(&self, other: &SlotSet) -> SlotSet {
        if let Form::List(slots) = &self.0 {
            let left = slots.iter().copied().filter(|slot| !other.contains(*slot));
            return SlotSet(Form::List(left.collect()));
        }
        self.combined(other, |mine, theirs| mine & !theirs)
    }

    /// Each slot of this set is in `other`: at most 260 look-ups, or 65 steps.
    pub fn is_within(&self, other: &SlotSet) -> bool {
        match (&self.0, &other.0) {
            (Form::List(slots), _) => slots.iter().all(|slot| other.contains(*slot)),
            (Form::Bits(_), Form::List(_)) => false,
            (Form::Bits(mine), Form::Bits(theirs)) => {
                let mut words = mine.0.iter().zip(theirs.0);
                words.all(|(mine, theirs)| mine & !theirs == 0)
            }
        }
    }

    /// Removes a slot. False if the set did not have it.
    pub fn remove(&mut self, slot: Slot) -> bool {
        match &mut self.0 {
            Form::List(slots) => {
                let found = slots.binary_search(&slot);
                found.is_ok_and(|at| slots.remove(at) == slot)
            }
            Form::Bits(bits) => {
                let is_there = bits.remove(slot);
                if bits.len() <= LISTED_MAX {
                    self.0 = Form::List(bits.iter().collect());
                }
                is_there
            }
        }
    }

    /// Combines both sets word by word: 65 steps, whatever the sets have.
    fn combined(&self, other: &SlotSet, operation: impl Fn(u64, u64) -> u64) -> SlotSet {
        let mut bits = self.to_bits();
        for (mine, theirs) in bits.0.iter_mut().zip(other.to_bits().0) {
            *mine = operation(*mine, theirs);
        }
        bits.into_set()
    }

    fn to_bits(&self) -> Bits {
        match &self.0 {
            Form::List(slots) => Bits::of(slots),
            Form::Bits(bits) => Bits::clone(bits),
        }
    }
}

impl Default for SlotSet {
    /// The empty set.
    fn default() -> SlotSet {
        SlotSet(Form::List(SmallVec::new()))
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> SlotSet {
        let mut set = SlotSet::default();
        for slot in slots {
            set.insert(slot);
        }
        set
    }
}

impl Bits {
    fn of(slots: &[Slot]) -> Bits {
        let mut bits = Bits([0; WORDS]);
        for slot in slots {
            bits.insert(*slot);
        }
        bits
    }

    fn insert(&mut self, slot: Slot) -> bool {
        let (word, bit) = (&mut self.0[slot.index() / 64], 1 << (slot.index() % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn remove(&mut self, slot: Slot) -> bool {
        let (word, bit) = (&mut self.0[slot.index() / 64], 1 << (slot.index() % 64));
        let is_there = *word & bit != 0;
        *word &= !bit;
        is_there
    }

    fn contains(&self, slot: Slot) -> bool {
        self.0[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Slots in ascending order: a step for each word, and one for each slot of the set.
    fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        (0_u16..)
            .step_by(64)
            .zip(self.0)
            .flat_map(|(first, word)| slots_of_word(first, word))
    }

    fn into_set(self) -> SlotSet {
        if self.len() > LISTED_MAX {
            SlotSet(Form::Bits(Box::new(self)))
        } else {
            SlotSet(Form::List(self.iter().collect()))
        }
    }
}

/// Slots of a word, of which the lowest bit stands for the slot `first`.
fn slots_of_word(first: u16, mut word: u64) -> impl Iterator<Item = Slot> {
    std::iter::from_fn(move || {
        let bit = u16::try_from(word.trailing_zeros())
            .ok()
            .filter(|bit| *bit < 64)?;
        word &= word - 1;
        Slot::new(first + bit).ok()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).expect("a sample is in range")
    }

    /// Short lists, sets around the change of form, and nearly all slots.
    fn samples() -> impl Strategy<Value = BTreeSet<Slot>> {
        let range = (0..Slot::COUNT, 0..300_u16).prop_map(|(first, more)| {
            let last = first.saturating_add(more).min(Slot::COUNT - 1);
            (first..=last).map(slot).collect::<Vec<Slot>>()
        });
        let ranges = proptest::collection::vec(range, 0..4);
        let of_every_node = prop_oneof![Just(Slot::ROUTES), Just(Slot::RETAINED)];
        let single = prop_oneof![9 => (0..Slot::HASHED).prop_map(slot), 1 => of_every_node];
        let singles = proptest::collection::vec(single, 0..40);
        (ranges, singles).prop_map(|(ranges, singles)| ranges.into_iter().flatten().chain(singles).collect())
    }

    fn set_of(slots: &BTreeSet<Slot>) -> SlotSet {
        slots.iter().copied().collect()
    }

    proptest! {
        #[test]
        fn a_set_is_the_set_of_its_slots(slots in samples()) {
            let set = set_of(&slots);
            prop_assert_eq!(set.len(), slots.len());
            prop_assert_eq!(set.is_empty(), slots.is_empty());
            prop_assert!(set.iter().eq(slots.iter().copied()));
            for slot in Slot::all() {
                prop_assert_eq!(set.contains(slot), slots.contains(&slot));
            }
            prop_assert_eq!(slots.iter().rev().copied().collect::<SlotSet>(), set);
        }

        #[test]
        fn operations_are_those_of_sets(one in samples(), other in samples()) {
            let (left, right) = (set_of(&one), set_of(&other));
            prop_assert_eq!(left.union(&right), set_of(&(&one | &other)));
            prop_assert_eq!(left.intersection(&right), set_of(&(&one & &other)));
            prop_assert_eq!(left.minus(&right), set_of(&(&one - &other)));
            prop_assert_eq!(left.is_within(&right), one.is_subset(&other));
            prop_assert!(set_of(&(&one & &other)).is_within(&left));
        }

        #[test]
        fn a_slot_is_removed_once_in_either_form(slots in samples(), removed in samples()) {
            let (mut set, mut left) = (set_of(&slots), slots);
            for slot in removed {
                prop_assert_eq!(set.remove(slot), left.remove(&slot));
            }
            prop_assert_eq!(set, set_of(&left));
        }
    }

    #[test]
    fn a_slot_is_added_once_in_either_form() {
        let mut set = SlotSet::default();
        for slot in Slot::all() {
            assert!(set.insert(slot));
            assert!(!set.insert(slot));
        }
        assert_eq!(set.len(), usize::from(Slot::COUNT));
        assert!(set.minus(&set).is_empty());
    }
}
