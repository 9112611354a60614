//! Index of QoS 2 numbers: which entries name each of them.
//!
//! *Invariant*: no number is in the index without an entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::{ClientId, Dot, Interval, VectorFull, VersionVector};

/// Entries of clients, by the numbers that they name. `E` identifies an entry of a client.
///
/// Mostly one entry names a number. A change costs O(log n), a question O(log n) for each number that it
/// finds and for each interval of the vector.
#[derive(Debug)]
pub struct NumberIndex<E> {
    numbers: BTreeMap<Dot, BTreeSet<NamedBy<E>>>,
}

/// Entry that names a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamedBy<E> {
    pub(super) client: ClientId,
    pub(super) entry: E,
}

impl<E> Default for NumberIndex<E> {
    /// No number.
    fn default() -> NumberIndex<E> {
        NumberIndex {
            numbers: BTreeMap::new(),
        }
    }
}

impl<E: Ord> NumberIndex<E> {
    pub(super) fn insert(&mut self, number: Dot, client: ClientId, entry: E) {
        let named_by = self.numbers.entry(number).or_default();
        named_by.insert(NamedBy { client, entry });
    }

    pub(super) fn remove(&mut self, number: Dot, client: ClientId, entry: E) {
        if let Some(named_by) = self.numbers.get_mut(&number) {
            named_by.remove(&NamedBy { client, entry });
            if named_by.is_empty() {
                self.numbers.remove(&number);
            }
        }
    }

    /// Entries that name numbers of `events`, for each number.
    pub(super) fn within<'a>(
        &'a self,
        events: &'a VersionVector,
    ) -> impl Iterator<Item = &'a BTreeSet<NamedBy<E>>> {
        let intervals = events.intervals().iter();
        let numbers = intervals.flat_map(|events| self.numbers.range(events.first()..=events.last()));
        numbers.map(|(_, named_by)| named_by)
    }

    /// Clients whose entries name numbers of `events`.
    pub fn clients_within(&self, events: &VersionVector) -> BTreeSet<ClientId> {
        let named_by = self.within(events).flatten();
        named_by.map(|by| by.client.clone()).collect()
    }

    /// Clients whose entries name numbers that `covered` lacks.
    pub fn clients_beyond(&self, covered: &VersionVector) -> BTreeSet<ClientId> {
        let named_by = self.beyond(covered).flat_map(|(_, named_by)| named_by);
        named_by.map(|by| by.client.clone()).collect()
    }

    /// Adds the numbers that `covered` lacks to `named`. A run of which one is not routed is not settled
    /// ([`Settled::of_copies`](crate::Settled::of_copies)).
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where they are too scattered. Nothing is settled then.
    pub fn add_beyond(&self, covered: &VersionVector, named: &mut VersionVector) -> Result<(), VectorFull> {
        self.beyond(covered)
            .filter_map(|(number, _)| Interval::one(number))
            .try_for_each(|number| named.insert(number))
    }

    /// Numbers that `covered` lacks, with the entries that name them.
    fn beyond<'a>(
        &'a self,
        covered: &'a VersionVector,
    ) -> impl Iterator<Item = (Dot, &'a BTreeSet<NamedBy<E>>)> {
        let mut after = Bound::Unbounded;
        std::iter::from_fn(move || {
            loop {
                let (number, named_by) = self.numbers.range((after, Bound::Unbounded)).next()?;
                let interval = covered.interval_of(*number);
                after = Bound::Excluded(interval.map_or(*number, Interval::last));
                if interval.is_none() {
                    return Some((*number, named_by));
                }
            }
        })
    }
}
