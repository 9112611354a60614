//! Sessions in a circle, each at the hash of its client id: who is next, and who is nearest to a hash.
//!
//! Where a session stands follows from its client id alone, so every node, and every run of it, chooses the same one. The
//! nearest one is found by multi-probe consistent hashing (Appleton, O'Reilly 2015): one point for each session and
//! several probes for each choice. So the circle is as small as it can be, the load is even, and when a session comes or
//! goes only its own hashes move.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::ids::SessionKey;

/// A place in the circle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point(u64);

/// A session at its point. Two sessions with one point are told apart by their keys.
pub(super) type Place = (Point, SessionKey);

/// Sessions in a circle.
#[derive(Debug, Default)]
pub(super) struct Circle(BTreeSet<Place>);

/// The point of a client id, or of what is to be kept together: the same on every node, for ever.
pub fn point_of(text: &str) -> Point {
    Point(xxh3_64_with_seed(text.as_bytes(), POINT_SEED))
}

impl Point {
    /// As it travels between nodes.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The reverse of [`Point::number`].
    pub fn of_number(number: u64) -> Self {
        Self(number)
    }
}

impl Circle {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn insert(&mut self, place: Place) {
        self.0.insert(place);
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.0.remove(&place);
    }

    /// The first one behind `place`, where somebody may stand or not.
    pub(super) fn next(&self, place: Place) -> Option<Place> {
        let next = self.0.range((Excluded(place), Unbounded)).next();
        next.or_else(|| self.0.first()).copied()
    }

    /// The one that is nearest to one of the probes of `point`, and how far it is.
    pub(super) fn nearest(&self, point: Point) -> Option<(u64, Place)> {
        let first = *self.0.first()?;
        let probes = (0..PROBES).map(|probe| xxh3_64_with_seed(&point.0.to_be_bytes(), probe));
        let found = probes.map(|probe| {
            let place = self.0.range((Point(probe), SessionKey(0))..).next();
            let place = place.copied().unwrap_or(first);
            (place.0.0.wrapping_sub(probe), place)
        });
        found.min()
    }
}

/// With 21 probes the session with the most hashes has 5 % more than the average one (the paper's figure).
const PROBES: u64 = 21;

/// Not secret and never changed: other nodes and later runs must find the same points.
const POINT_SEED: u64 = 0x5348_4152_4544_0001;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn circle(names: impl Iterator<Item = u32>) -> Circle {
        let mut circle = Circle::default();
        for key in names {
            circle.insert((point_of(&format!("client{key}")), SessionKey(key)));
        }
        circle
    }

    fn nearest(circle: &Circle, text: &str) -> SessionKey {
        circle.nearest(point_of(text)).unwrap().1.1
    }

    #[test]
    fn points_are_the_same_for_ever() {
        assert_eq!(point_of(""), Point(POINT_OF_NOTHING));
        assert_eq!(point_of("client1"), Point(POINT_OF_CLIENT1));
    }

    #[test]
    fn a_turn_visits_everybody_once() {
        let circle = circle(0..10);
        let mut place = (Point(0), SessionKey(0));
        let mut seen: Vec<u32> = (0..10)
            .map(|_| {
                place = circle.next(place).unwrap();
                place.1.0
            })
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn the_load_is_even_and_only_the_hashes_of_one_that_goes_move() {
        let (before, mut after) = (circle(0..10), circle(0..10));
        after.remove((point_of("client3"), SessionKey(3)));
        let mut loads: BTreeMap<SessionKey, u32> = BTreeMap::new();
        for number in 0..10_000 {
            let text = format!("topic/{number}");
            let chosen = nearest(&before, &text);
            *loads.entry(chosen).or_default() += 1;
            if chosen != SessionKey(3) {
                assert_eq!(nearest(&after, &text), chosen);
            }
        }
        assert!(
            loads.values().all(|load| (700..1_300).contains(load)),
            "{loads:?}"
        );
    }

    /// Computed once; a change would send messages to other clients than before.
    const POINT_OF_NOTHING: u64 = 14_017_681_694_039_196_982;
    const POINT_OF_CLIENT1: u64 = 13_728_484_443_694_251_989;
}
