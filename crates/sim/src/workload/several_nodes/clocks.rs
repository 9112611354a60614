//! Nodes that compare their clocks while they are connected, as the server does, and part if one is off by too much.
//!
//! In every other run only: promises hold without that as well. In the other runs
//! nodes with wrong clocks go on talking, which no network of real nodes lets them do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::peers::{ClockWatch, is_clock_within};

use super::World;
use super::member::Member;
use super::network::Link;
use crate::history::{MILLISECOND, Tolerance};
use crate::machine::Machine;

/// Who watches whom.
#[derive(Debug)]
pub(super) struct Clocks {
    is_watched: bool,
    watches: BTreeMap<Link, ClockWatch>,
    next: Instant,
    /// How many connections have ended.
    parted: u64,
}

/// How wrong clocks were, and whether that may have mattered.
#[derive(Debug, Default)]
pub(super) struct Wrong {
    /// By how many nanoseconds a monotonic clock ever ran away.
    drifted: u64,
    /// All replicas had stopped, and leases went on by the wall clock.
    is_reckoned: bool,
}

impl Wrong {
    pub(super) fn note(&mut self, member: &Member, now: Instant) {
        let nanos = |wrong: i128| u64::try_from(wrong.unsigned_abs()).unwrap_or(u64::MAX);
        self.drifted = self.drifted.max(nanos(member.drifted(now)));
    }

    pub(super) fn note_reckoned(&mut self, machine: &Machine) {
        self.is_reckoned |= machine.node().counters().times_reckoned > 0;
    }

    /// Leases last as long as monotonic clocks say, whatever wall clocks are set to; but for stops of all replicas.
    ///
    /// A follower may run ahead of its leader's clock while it runs away from the true one: the two add up.
    pub(super) fn tolerance(&self) -> Tolerance {
        let clocks = 2 * self.drifted;
        if self.is_reckoned {
            // Wall clocks that agree are those that nobody has set, or that were set alike; where none agree leases last longer by the stop.
            let early = clocks + ALIKE_MAX;
            return Tolerance {
                early,
                late: u64::MAX,
            };
        }
        Tolerance {
            early: clocks + MILLISECOND,
            late: clocks + WAY_MAX,
        }
    }
}

/// By how many nanoseconds two clocks may be wrong that were set by chance to the same time.
const ALIKE_MAX: u64 = 2 * 5_000 * MILLISECOND;

/// For how many nanoseconds what a leader says of the time is on its way at most.
const WAY_MAX: u64 = 2_000 * MILLISECOND;

/// How often nodes ask each other what time it is. (server/src/peers/dialling.rs)
const COMPARED_EVERY: Duration = Duration::from_millis(333);

/// By how many milliseconds clocks may differ, unless an operator says something else.
pub(super) const SKEW_MAX: u64 = 500;

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
        let wall = |member: &mut Member| member.running().map(|machine| machine.system_clock().wall);
        let walls: Vec<Option<u64>> = self.nodes.iter_mut().map(wall).collect();
        for (from, here) in walls.iter().enumerate() {
            for (to, there) in walls.iter().enumerate().filter(|(to, _)| *to != from) {
                if let Some((here, there)) = here.zip(*there) {
                    let ahead =
                        i64::try_from(i128::from(there) - i128::from(here)).expect("clocks of this time");
                    self.compare_clock((from, to), ahead);
                    self.tell_clock((from, to), there);
                }
            }
        }
    }

    /// Who is connected hears what the other's clock says.
    fn tell_clock(&mut self, (from, to): Link, wall: u64) {
        let is_connected = !self.network.is_parted((from, to)) && self.network.carries((from, to));
        if is_connected && let Some(machine) = self.nodes[from].running() {
            machine.hear_clock(NodeId(to as u64 + 1), wall);
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
