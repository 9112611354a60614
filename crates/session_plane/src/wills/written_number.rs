//! Own entries of numbers, and the numbers that this node knew when it wrote them (rule `one-number`).
//!
//! Every present node confirms the entry of a number before the will is routed, and tells what it knows
//! with that. This node may learn of another number after that. A primary owner that it does not see may
//! have routed the will under that one, and present nodes may have heard of the route. So this node writes
//! its entry anew, and waits for the confirmations of that, before it routes the will under its own number.
//!
//! *Invariant*: a run writes one more entry only for a number that it did not know, or where it goes over
//! to another number. Otherwise two primary owners would write in turns for ever.

use std::collections::BTreeSet;

use super::Wills;
use super::known_will::KnownWill;
use super::place::Place;
use super::will_state::WillState;
use crate::publishing::NumberedWill;
use crate::{ClientId, Dot, Slot};

/// Last number of a will that this run has asked Publishing to write.
#[derive(Debug)]
pub(super) struct WrittenNumber {
    /// Number of the entry. None until Publishing has told it.
    number: Option<Dot>,
    /// Numbers that this node knew by then.
    known: BTreeSet<Dot>,
}

impl Wills {
    /// Number under which a will is to be published, with the own entry that may be confirmed for it.
    /// Without such an entry Publishing writes one.
    pub(super) fn next_number(
        &mut self,
        place: &Place,
        will: &KnownWill,
        state: &impl WillState,
    ) -> Option<NumberedWill> {
        let mut numbered = will.counting(self.run, |number| state.has_heard(place.slot, number));
        if let Some(numbered) = &mut numbered
            && self.is_outdated(place, will, numbered, state)
        {
            numbered.entry = None;
        }
        if numbered.as_ref().is_none_or(|numbered| numbered.entry.is_none()) {
            let (number, known) = (None, will.number_set());
            self.written
                .insert(place.clone(), WrittenNumber { number, known });
        }
        numbered
    }

    /// The own entry of a number was written before this node knew of all numbers of the will. The entry
    /// of a number that was routed is never outdated: that number counts everywhere.
    pub(super) fn is_outdated(
        &self,
        place: &Place,
        will: &KnownWill,
        numbered: &NumberedWill,
        state: &impl WillState,
    ) -> bool {
        let written = self.written.get(place);
        let written = written.filter(|written| written.number == Some(numbered.number));
        let is_known = |number: &Dot| {
            *number == numbered.number || written.is_some_and(|written| written.known.contains(number))
        };
        let is_open = numbered.entry.is_some() && !state.has_heard(place.slot, numbered.number);
        is_open && !will.number_set().iter().all(is_known)
    }

    /// Publishing writes the entry of this number, if it was asked to write one.
    pub(super) fn writes_number(&mut self, place: &Place, number: Dot) {
        if let Some(written) = self.written.get_mut(place) {
            written.number.get_or_insert(number);
        }
    }

    /// Clients of a slot with wills whose number this run has written.
    pub(super) fn clients_with_written(&self, slot: Slot) -> BTreeSet<ClientId> {
        let written = self.written.range(Place::first_of(slot)..);
        let written = written.take_while(|(place, _)| place.slot == slot);
        written.map(|(place, _)| place.client.clone()).collect()
    }

    /// Forgets what was written for wills of a client that are gone.
    pub(super) fn forget_written(&mut self, client: &ClientId, known: &[KnownWill]) {
        let written = self.written.range(Place::of_client(client));
        let is_gone = |place: &&Place| known.iter().all(|will| will.will != place.will);
        let gone: Vec<Place> = written.map(|(place, _)| place).filter(is_gone).cloned().collect();
        for place in gone {
            self.written.remove(&place);
        }
    }
}
