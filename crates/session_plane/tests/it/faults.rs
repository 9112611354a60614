//! Faults of a history: splits, broken and slow connections, pauses, crashes and restarts.

use super::machine::SILENCE_MAX;
use super::network::Way;
use super::world::{TICK, World};

impl World {
    /// One of the faults, now and then.
    pub(super) fn disturb(&mut self) {
        let now = self.now;
        if !self.random.once_in(4_000 / TICK / 10) {
            return;
        }
        match self.random.below(9) {
            0 | 1 => self.split(),
            2 | 3 => self.network.heal(),
            4 => {
                let way = self.any_way();
                self.network.break_off(way);
            }
            5 => {
                let (way, millis) = (self.any_way(), self.random.below(2 * SILENCE_MAX));
                self.network.slow(way, now + millis);
            }
            6 => {
                let (id, millis) = (self.any_node(), self.random.below(3 * SILENCE_MAX));
                self.machine(id).pause(now, millis);
            }
            7 => {
                let id = self.any_node();
                self.crash(id);
            }
            _ => self.start_all(),
        }
    }

    /// Cuts all links between two groups of machines, or a single one.
    fn split(&mut self) {
        let mask = self.random.below(1 << self.nodes);
        let single = self.random.once_in(3).then(|| self.any_way());
        for way in self.ways() {
            let parts = (mask >> (way.from - 1)) & 1 != (mask >> (way.to - 1)) & 1;
            if single.map_or(parts, |single| single == way) {
                self.network.cut(way);
            }
        }
    }

    fn any_node(&mut self) -> u64 {
        1 + self.random.below(self.nodes)
    }

    fn any_way(&mut self) -> Way {
        let from = self.any_node();
        let to = self.any_node();
        Way { from, to }
    }

    pub(super) fn start_all(&mut self) {
        for id in 1..=self.nodes {
            if self.machine(id).sessions.is_none() {
                self.start(id);
            }
        }
    }

    /// Ends all faults.
    pub(super) fn mend(&mut self) {
        self.network.heal();
        self.start_all();
        for id in 1..=self.nodes {
            let now = self.now;
            self.machine(id).go_on(now);
        }
    }
}
