//! Stays: since when pairs of nodes have seen each other without a break.

use std::collections::{BTreeMap, BTreeSet};

use super::machine::SILENCE_MAX;
use super::network::Way;
use super::world::World;

/// Milliseconds after which nodes that see each other know the same.
const SETTLED: u64 = 2_000;
/// Milliseconds after which nothing arrives any more that was sent before nodes saw each other. A process that
/// stands still for longer is given up.
const ARRIVED: u64 = SILENCE_MAX + 100;

/// Pairs of nodes that see each other, and since when.
#[derive(Debug, Default)]
pub(super) struct Stays {
    since: BTreeMap<Way, u64>,
    /// Since then all nodes that run see each other, and no others.
    whole_since: Option<u64>,
}

impl World {
    /// Notes since when all nodes that run see each other.
    pub(super) fn note_whole(&mut self) {
        let running = self.machines.iter();
        let mut running = running.filter(|(_, machine)| machine.sessions.is_some());
        let side = running.next().map(|(id, _)| self.present_to(*id));
        let is_whole = side.is_some_and(|side| self.is_whole_side(&side));
        let since = self.stays.whole_since.unwrap_or(self.now);
        self.stays.whole_since = is_whole.then_some(since);
    }

    /// Notes which nodes see each other.
    pub(super) fn note_stays(&mut self) {
        for way in self.ways() {
            let is_seen = |way: Way| self.present_to(way.from).contains(&way.to);
            if is_seen(way) && is_seen(way.back()) {
                self.stays.since.entry(way).or_insert(self.now);
            } else {
                self.stays.since.remove(&way);
            }
        }
    }

    /// All nodes that run see each other, and knew at the second time what was there at the first one.
    pub(super) fn are_together_between(&self, first: u64, second: u64) -> bool {
        let whole_since = self.stays.whole_since;
        whole_since.is_some_and(|since| second >= since + SETTLED || first >= since + ARRIVED)
    }

    /// The nodes have all seen each other since then, without a break.
    pub(super) fn have_stayed_since(&self, nodes: &BTreeSet<u64>, since: u64) -> bool {
        let mut pairs = self.ways().into_iter();
        pairs.all(|way| {
            let is_pair = nodes.contains(&way.from) && nodes.contains(&way.to);
            !is_pair || self.stays.since.get(&way).is_some_and(|at| *at <= since)
        })
    }
}
