//! Network of a history: one connection between two machines, in order in each direction.
//!
//! A connection that breaks loses what is on its way. A slow one keeps it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::machine::TestMessage;
use session_plane::Run;

/// Direction between two machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) from: u64,
    pub(super) to: u64,
}

#[derive(Debug)]
pub(super) struct Letter {
    pub(super) from: Run,
    pub(super) message: TestMessage,
    arrives_at: u64,
}

#[derive(Debug, Default)]
pub(super) struct Network {
    /// Both directions of each connection that is up.
    connected: BTreeSet<Way>,
    cut: BTreeSet<Way>,
    on_the_way: BTreeMap<Way, VecDeque<Letter>>,
    /// Nothing arrives before.
    slow_until: BTreeMap<Way, u64>,
}

impl Way {
    pub(super) fn back(self) -> Way {
        let (from, to) = (self.to, self.from);
        Way { from, to }
    }
}

impl Network {
    pub(super) fn is_cut(&self, way: Way) -> bool {
        self.cut.contains(&way)
    }

    pub(super) fn is_connected(&self, way: Way) -> bool {
        self.connected.contains(&way)
    }

    pub(super) fn connect(&mut self, way: Way) {
        self.connected.extend([way, way.back()]);
    }

    /// Breaks a connection: what is on its way is lost.
    pub(super) fn break_off(&mut self, way: Way) {
        for way in [way, way.back()] {
            self.connected.remove(&way);
            self.on_the_way.remove(&way);
        }
    }

    pub(super) fn cut(&mut self, way: Way) {
        self.break_off(way);
        self.cut.extend([way, way.back()]);
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
        self.slow_until.clear();
    }

    pub(super) fn slow(&mut self, way: Way, until: u64) {
        self.slow_until.insert(way, until);
    }

    pub(super) fn send(&mut self, way: Way, from: Run, message: TestMessage, arrives_at: u64) {
        if self.is_connected(way) {
            let letters = self.on_the_way.entry(way).or_default();
            letters.push_back(Letter {
                from,
                message,
                arrives_at,
            });
        }
    }

    /// Next message that has arrived.
    pub(super) fn receive(&mut self, way: Way, now: u64) -> Option<Letter> {
        if self.slow_until.get(&way).is_some_and(|until| now < *until) {
            return None;
        }
        let letters = self.on_the_way.get_mut(&way)?;
        letters.pop_front_if(|letter| letter.arrives_at <= now)
    }
}
