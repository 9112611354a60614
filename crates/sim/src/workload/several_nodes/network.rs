//! The network between the nodes of a run.
//!
//! Each pair of nodes has a connection each way. On it messages arrive in their order, unless the run has reordering, and until it breaks;
//! between connections there is no order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::random::Random;

use super::broken::BrokenLinks;
use super::faults::{Fault, Faults};

/// Who sends, and to whom.
pub(super) type Link = (usize, usize);

/// What is on its way from one node to another.
#[derive(Debug)]
pub(super) struct Network {
    random: Random,
    faults: Faults,
    links: BTreeMap<Link, VecDeque<Sent>>,
    /// Links that carry nothing.
    cut: BTreeSet<Link>,
    /// Links that carry nothing until all is repaired.
    broken: BTreeSet<Link>,
    /// Links that there are not, because of a wrong clock.
    parted: BTreeSet<Link>,
    /// A connection that comes and goes, for so many steps.
    flapping: Option<(Link, u64)>,
    /// The longest that a message takes in this run.
    delay_max: Duration,
    sent: u64,
}

#[derive(Debug)]
struct Sent {
    due: Instant,
    message: Bytes,
}

/// Messages on one link; more of them are lost, as when a connection breaks.
const LINK_MAX: usize = 256;

/// One of so many messages is lost, or doubled.
const RARE: usize = 50;

/// One of so many messages overtakes others.
const OVERTAKING: usize = 4;

/// How long a message takes at most, in milliseconds, in one run or another: more than a heartbeat, less than an election.
const DELAYS_MAX: [u64; 4] = [1, 5, 30, 120];

/// Steps after which a connection that flaps changes, and for which it flaps.
const FLAPS_EVERY: u64 = 20;
const FLAPS_FOR: u64 = 600;

impl Network {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let mut random = Random::new(seed ^ 0x6E65_7477_6F72_6B00);
        let delay_max = if faults.has(Fault::Delay) {
            DELAYS_MAX[random.between(0, DELAYS_MAX.len())]
        } else {
            0
        };
        Self {
            random,
            faults,
            links: BTreeMap::new(),
            cut: BTreeSet::new(),
            broken: BTreeSet::new(),
            parted: BTreeSet::new(),
            flapping: None,
            delay_max: Duration::from_millis(delay_max),
            sent: 0,
        }
    }

    /// Nothing goes wrong from here on.
    pub(super) fn repair(&mut self) {
        self.faults = Faults::NONE;
        self.delay_max = Duration::ZERO;
        self.flapping = None;
        self.cut.clear();
        self.broken.clear();
    }

    /// Links carry nothing from here on, until all is repaired.
    pub(super) fn break_for_good(&mut self, broken: BrokenLinks, nodes: usize) {
        self.broken = broken.links(nodes).collect();
    }

    pub(super) fn send(&mut self, now: Instant, link: Link, message: Bytes) {
        self.sent += 1;
        let is_lost = self.faults.has(Fault::Drop) && self.random.between(0, RARE) == 0;
        if is_lost || !self.carries(link) {
            return;
        }
        let mut due = now;
        if !self.delay_max.is_zero() {
            let micros = usize::try_from(self.delay_max.as_micros()).expect("a short delay");
            due += Duration::from_micros(self.random.between(0, micros) as u64);
        }
        let queue = self.links.entry(link).or_default();
        if queue.len() >= LINK_MAX {
            queue.clear();
        }
        if self.faults.has(Fault::Reorder) && self.random.between(0, OVERTAKING) == 0 {
            let place = self.random.between(0, queue.len() + 1);
            queue.insert(place, Sent { due, message });
            return;
        }
        let behind = queue.back().map_or(due, |last| last.due);
        queue.push_back(Sent {
            due: due.max(behind),
            message,
        });
    }

    /// Links on which something could arrive.
    pub(super) fn busy(&self, now: Instant) -> impl Iterator<Item = Link> + '_ {
        let is_due = move |queue: &VecDeque<Sent>| queue.front().is_some_and(|sent| sent.due <= now);
        self.links
            .iter()
            .filter(move |(_, queue)| is_due(queue))
            .map(|(link, _)| *link)
    }

    /// What arrives next on a link, and whether it does so twice.
    pub(super) fn take(&mut self, link: Link) -> Option<(Bytes, bool)> {
        let sent = self.links.get_mut(&link)?.pop_front()?;
        if !self.carries(link) {
            return None;
        }
        let is_doubled = self.faults.has(Fault::Duplicate) && self.random.between(0, RARE) == 0;
        Some((sent.message, is_doubled))
    }

    /// Whether nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.links.values().all(VecDeque::is_empty)
    }

    /// Whether something that is sent now may arrive.
    pub(super) fn carries(&self, link: Link) -> bool {
        !self.cut.contains(&link) && !self.broken.contains(&link) && !self.is_parted(link)
    }

    pub(super) fn is_parted(&self, link: Link) -> bool {
        self.parted.contains(&link)
    }

    /// A node does not want to hear from another one, nor to be heard: what was on its way is lost.
    pub(super) fn part(&mut self, link: Link) {
        self.break_link(link);
        self.parted.insert(link);
    }

    /// It does again.
    pub(super) fn meet(&mut self, link: Link) {
        self.parted.remove(&link);
    }

    /// The connection between two nodes breaks.
    pub(super) fn break_link(&mut self, (from, to): Link) {
        self.links.remove(&(from, to));
        self.links.remove(&(to, from));
    }

    /// A node lost its power, and its connections with it. What others have not sent yet reaches it when it is back, or not.
    pub(super) fn forget(&mut self, node: usize) {
        let is_kept = self.random.between(0, 2) == 0;
        self.links
            .retain(|(from, to), _| *from != node && (*to != node || is_kept));
    }

    /// Some nodes do not hear some others: in both directions, or in one.
    pub(super) fn split(&mut self, nodes: usize) {
        let alone = self.random.between(0, nodes);
        let other = (alone + self.random.between(1, nodes)) % nodes;
        match self.random.between(0, 5) {
            0 => {
                self.cut.insert((alone, other));
            }
            1 => self.cut.extend((0..nodes).map(|other| (alone, other))),
            2 => self.cut.extend((0..nodes).map(|other| (other, alone))),
            3 => {
                for other in 0..nodes {
                    self.cut.extend([(alone, other), (other, alone)]);
                }
            }
            _ => {
                // Two sides, of any size.
                let side = self.random.between(1, (1 << nodes) - 1);
                let is_in = |node: usize| side & 1 << node != 0;
                for from in 0..nodes {
                    let others = (0..nodes).filter(|to| is_in(*to) != is_in(from));
                    self.cut.extend(others.map(|to| (from, to)));
                }
            }
        }
    }

    /// All nodes hear each other again.
    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    /// The connection between two nodes begins to come and go.
    pub(super) fn flap(&mut self, link: Link) {
        self.flapping = Some((link, FLAPS_FOR));
    }

    /// A step of the run is over.
    pub(super) fn step(&mut self) {
        let Some(((from, to), left)) = self.flapping else {
            return;
        };
        self.flapping = left.checked_sub(1).map(|left| ((from, to), left));
        if self.flapping.is_none() {
            self.cut.remove(&(from, to));
            self.cut.remove(&(to, from));
        } else if left.is_multiple_of(FLAPS_EVERY) {
            if (left / FLAPS_EVERY).is_multiple_of(2) {
                self.break_link((from, to));
                self.cut.extend([(from, to), (to, from)]);
            } else {
                self.cut.remove(&(from, to));
                self.cut.remove(&(to, from));
            }
        }
    }

    /// How many messages were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}
