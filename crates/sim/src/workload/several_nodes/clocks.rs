//! Nodes that compare their clocks while they are connected, as the server does, and part if one is off by too much.
//!
//! In every other run only: promises hold without that as well, as long as the checker is told how wrong clocks were. In the other runs
//! nodes with wrong clocks go on talking, which no network of real nodes lets them do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::peers::{ClockWatch, is_clock_within};

use super::World;
use super::network::Link;

/// Who watches whom.
#[derive(Debug)]
pub(super) struct Clocks {
    is_watched: bool,
    watches: BTreeMap<Link, ClockWatch>,
    next: Instant,
    /// How many connections have ended.
    parted: u64,
}

/// How often nodes ask each other what time it is. (server/src/peers/dialling.rs)
const COMPARED_EVERY: Duration = Duration::from_millis(333);

/// By how many milliseconds clocks may differ, unless an operator says something else.
const SKEW_MAX: u64 = 500;

impl Clocks {
    pub(super) fn new(seed: u64, origin: Instant) -> Self {
        Self {
            // Not every run of five nodes, which are those with a multiple of four.
            is_watched: (seed / 4).is_multiple_of(2),
            watches: BTreeMap::new(),
            next: origin,
            parted: 0,
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub(super) fn parted(&self) -> u64 {
        self.parted
    }
}

impl World {
    /// Every node asks every other one for its clock when it is time to.
    pub(super) fn compare_clocks(&mut self) {
        if !self.clocks.is_watched || self.now < self.clocks.next {
            return;
        }
        self.clocks.next = self.now + COMPARED_EVERY;
        let wall = |member: &mut super::member::Member| member.running().map(|machine| machine.now().wall);
        let walls: Vec<Option<u64>> = self.nodes.iter_mut().map(wall).collect();
        for (from, here) in walls.iter().enumerate() {
            for (to, there) in walls.iter().enumerate().filter(|(to, _)| *to != from) {
                if let Some((here, there)) = here.zip(*there) {
                    let ahead =
                        i64::try_from(i128::from(there) - i128::from(here)).expect("clocks of this time");
                    self.compare_clock((from, to), ahead);
                }
            }
        }
    }

    fn compare_clock(&mut self, link: Link, ahead: i64) {
        if self.network.is_parted(link) {
            // Whoever connects again is asked for its clock first.
            if is_clock_within(ahead, 0, SKEW_MAX) {
                self.network.meet(link);
            }
        } else if self.network.carries(link) {
            let watch = self.clocks.watches.entry(link);
            if !watch
                .or_insert_with(|| ClockWatch::new(SKEW_MAX))
                .answered(ahead, 0)
            {
                self.clocks.watches.remove(&link);
                self.clocks.parted += 1;
                self.network.part(link);
                let (from, to) = link;
                self.trace.note(self.now, || {
                    format!(
                        "{} parts with {}, whose clock is {ahead} ms ahead",
                        from + 1,
                        to + 1
                    )
                });
            }
        }
    }
}
