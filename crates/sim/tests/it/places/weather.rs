//! What goes wrong between the nodes, and with them.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cluster::NodeId;
use cluster::random::Random;

use super::{Places, STEP};

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) delay: Duration,
    /// Up to so much more.
    pub(crate) delay_max: Duration,
    pub(crate) reorders: bool,
    pub(crate) doubles: bool,
    pub(crate) breaks: bool,
    pub(crate) splits: bool,
    pub(crate) crashes: bool,
    pub(crate) slow_disks: bool,
    pub(crate) frozen_disk: Option<usize>,
}

impl Weather {
    pub(crate) const FINE: Self = Self {
        delay: STEP,
        delay_max: Duration::ZERO,
        reorders: false,
        doubles: false,
        breaks: false,
        splits: false,
        crashes: false,
        slow_disks: false,
        frozen_disk: None,
    };

    /// Nothing but the time that messages and disks take.
    pub(crate) fn of_storm(seed: u64) -> Self {
        Self {
            delay_max: Duration::from_millis([0, 2, 10, 40][seed as usize % 4]),
            slow_disks: seed & 4 == 0,
            ..Self::FINE
        }
    }

    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut flag = || random.next() & 1 == 1;
        Self {
            reorders: flag(),
            doubles: flag(),
            breaks: flag(),
            splits: flag(),
            crashes: flag(),
            slow_disks: flag(),
            delay_max: Duration::from_millis([0, 2, 10, 40][random.between(0, 4)]),
            ..Self::FINE
        }
    }
}

impl Places {
    /// Time passes, and things happen; the node `mortal` may lose its power.
    pub(crate) fn storm(&mut self, time: Duration, mortal: usize) {
        let end = self.now + time;
        while self.now < end {
            if self.weather.breaks && self.random.between(0, 40) == 0 {
                let (one, other) = (
                    self.random.between(0, self.nodes.len()),
                    self.random.between(0, self.nodes.len()),
                );
                self.break_link(one, other);
            }
            if self.weather.splits && self.heals_at.is_none() && self.random.between(0, 150) == 0 {
                self.split_somehow();
            }
            if self.weather.crashes && self.away.is_empty() && self.random.between(0, 300) == 0 {
                let down = Duration::from_millis(self.random.between(1, 500) as u64);
                self.crash(mortal, down);
            }
            self.step();
        }
    }

    /// A node loses its power for a while.
    pub(crate) fn crash(&mut self, node: usize, down: Duration) {
        let Some(machine) = self.nodes[node].take() else {
            return;
        };
        self.wires.retain(|(from, to), _| *from != node && *to != node);
        self.away.insert(node, (self.now + down, machine.crash_for(down)));
        for party in self.parties.iter_mut().filter(|party| party.node == node) {
            party.connection = None;
            party.is_accepted = false;
        }
    }

    /// A node is heard by nobody, and hears nobody.
    pub(crate) fn split(&mut self, node: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            self.cut.extend([(node, other), (other, node)]);
        }
    }

    /// These nodes and the others do not hear each other.
    pub(crate) fn part(&mut self, side: &BTreeSet<usize>) {
        for one in side {
            for other in (0..self.nodes.len()).filter(|other| !side.contains(other)) {
                self.cut.extend([(*one, other), (other, *one)]);
            }
        }
    }

    /// Nothing gets from the first to the second node of each pair.
    pub(crate) fn cut_ways(&mut self, pairs: Vec<(usize, usize)>) {
        self.cut.extend(pairs);
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.heals_at = None;
    }

    /// What is on its way between two nodes is lost.
    pub(crate) fn break_link(&mut self, one: usize, other: usize) {
        self.wires.remove(&(one, other));
        self.wires.remove(&(other, one));
    }

    fn tampered(&mut self, message: Bytes) -> Bytes {
        let Some(tamper) = self.tampers else {
            return message;
        };
        let mut changed = message.to_vec();
        self.tampered += usize::from(tamper(&mut changed));
        changed.into()
    }

    fn split_somehow(&mut self) {
        let alone = self.random.between(0, self.nodes.len());
        let other = (alone + 1) % self.nodes.len();
        match self.random.between(0, 3) {
            0 => self.split(alone),
            1 => self.cut.extend([(alone, other), (other, alone)]),
            _ => self.cut.extend([(alone, other)]),
        }
        let long = Duration::from_millis(self.random.between(10, 1_200) as u64);
        self.heals_at = Some(self.now + long);
    }

    pub(super) fn switch_on(&mut self) {
        let due: Vec<_> = self
            .away
            .iter()
            .filter(|(_, (at, _))| *at <= self.now)
            .map(|(node, _)| *node)
            .collect();
        for node in due {
            if let Some((_, mut machine)) = self.away.remove(&node) {
                machine.tick(self.now);
                self.nodes[node] = Some(machine);
            }
        }
    }

    pub(super) fn carry(&mut self) {
        for ((from, to), wire) in &mut self.wires {
            if self.paused.contains(to) {
                continue;
            }
            while let Some((_, message)) = wire.pop_front_if(|(at, _)| *at <= self.now) {
                if self.cut.contains(&(*from, *to)) {
                    continue;
                }
                let Some(machine) = &mut self.nodes[*to] else {
                    continue;
                };
                if self.weather.doubles && self.random.between(0, 10) == 0 {
                    machine.hear(NodeId(*from as u64 + 1), message.clone());
                }
                machine.hear(NodeId(*from as u64 + 1), message);
            }
        }
    }

    pub(super) fn write_and_flush(&mut self, node: usize) {
        let is_paused = self.paused.contains(&node);
        let Some(machine) = self.nodes[node].as_mut().filter(|_| !is_paused) else {
            return;
        };
        let is_slow = self.weather.slow_disks && self.random.between(0, 4) != 0;
        if !is_slow && self.weather.frozen_disk != Some(node) {
            while machine.write_one() {}
        }
        machine.flush();
        let sent: Vec<_> = machine.take_to_peers().collect();
        for (to, message) in sent {
            let message = self.tampered(message);
            let to = usize::try_from(to.0 - 1).expect("few nodes");
            let more = usize::try_from(self.weather.delay_max.as_millis()).expect("short");
            let delay = Duration::from_millis(self.random.between(0, more + 1) as u64);
            let due = self.now + self.weather.delay + delay;
            let wire = self.wires.entry((node, to)).or_default();
            if self.weather.reorders && self.random.between(0, 4) == 0 {
                let place = self.random.between(0, wire.len() + 1);
                wire.insert(place, (due, message));
            } else {
                let behind = wire.back().map_or(due, |(at, _)| *at);
                wire.push_back((due.max(behind), message));
            }
        }
    }
}
