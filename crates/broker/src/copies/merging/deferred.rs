//! Sessions that give way to one of this node, and wait while another one does.
//!
//! A session takes in one other at a time. One that begins to give way displaces the one before, and that one is *deferred*: it is told to begin
//! anew when the other is done. Told at once, the two would displace each other without end.
//!
//! *Invariant*: whoever is deferred is told so in the end: when the other one is done, or after [`DEFERRED_MAX`] if it never is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::NodeId;
use mqtt::ids::SessionNumber;
use mqtt::now::Now;

use super::MergeMessage;
use crate::node::Node;

/// How long a session waits for another one that may have been given up without a word.
const DEFERRED_MAX: Duration = Duration::from_secs(1);

/// Who waits. A session of this node has at most one entry for each other node.
#[derive(Debug, Default)]
pub(in crate::copies) struct Deferred {
    /// The session of this node for which each waits.
    places: BTreeMap<Place, SessionNumber>,
    /// The same the other way round.
    by_session: BTreeSet<(SessionNumber, Place)>,
    /// When all of them are told, whatever they wait for.
    until: Option<Instant>,
}

/// A session that gives way: its node, and its number there.
type Place = (NodeId, SessionNumber);

impl Deferred {
    pub(in crate::copies) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn contains(&self, place: Place) -> bool {
        self.places.contains_key(&place)
    }

    /// Adds a session that was displaced by another one that gives way to the same.
    pub(super) fn add(&mut self, now: Now, place: Place, number: SessionNumber) {
        self.remove(place);
        self.places.insert(place, number);
        self.by_session.insert((number, place));
        self.until.get_or_insert(now.instant + DEFERRED_MAX);
    }

    /// Removes a session that gives way anew, or was told to.
    pub(super) fn remove(&mut self, place: Place) {
        if let Some(number) = self.places.remove(&place) {
            self.by_session.remove(&(number, place));
        }
        if self.places.is_empty() {
            self.until = None;
        }
    }

    /// Takes out one that waits for a session of this node.
    fn pop_of(&mut self, number: SessionNumber) -> Option<Place> {
        let first = (number, (NodeId(0), SessionNumber(0)));
        let (of, place) = *self.by_session.range(first..).next()?;
        if of != number {
            return None;
        }
        self.remove(place);
        Some(place)
    }
}

impl Node {
    /// A session of this node has taken in another one: those that were displaced begin anew.
    pub(super) fn end_deferral(&mut self, number: SessionNumber) {
        while let Some(copies) = &mut self.copies
            && let Some((to, there)) = copies.deferred.pop_of(number)
        {
            self.tell_merging(to, &MergeMessage::Merged(there, false));
        }
    }

    /// Those that have waited for too long begin anew.
    pub(super) fn end_deferrals(&mut self, now: Now) {
        let Some(copies) = &mut self.copies else { return };
        if copies.deferred.until.is_none_or(|until| until > now.instant) {
            return;
        }
        let Deferred { places, .. } = std::mem::take(&mut copies.deferred);
        for (to, there) in places.into_keys() {
            self.tell_merging(to, &MergeMessage::Merged(there, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: SessionNumber = SessionNumber(7);

    #[test]
    fn those_that_wait_for_a_session_are_taken_out_once_and_no_others() {
        let mut deferred = Deferred::default();
        let now = Now {
            instant: crate::epoch(),
            wall: 0,
            system_wall: 0,
        };
        let place = |node: u64| (NodeId(node), SessionNumber(node));
        deferred.add(now, place(1), HERE);
        deferred.add(now, place(2), SessionNumber(8));
        deferred.add(now, place(3), HERE);
        assert!(deferred.contains(place(3)));
        assert_eq!(deferred.pop_of(HERE), Some(place(1)));
        assert_eq!(deferred.pop_of(HERE), Some(place(3)));
        assert_eq!(deferred.pop_of(HERE), None);
        assert_eq!(deferred.deadline(), Some(now.instant + DEFERRED_MAX));
        deferred.remove(place(2));
        assert_eq!(deferred.deadline(), None);
    }
}
