//! Faults, as they happen: to the network, to nodes, to their disks and clocks, and to the connections of clients.

use super::World;
use super::faults::Fault;
use super::member::Power;
use crate::machine::{Machine, Torn};

/// Steps for which a node is away at most: half a second, or a second; an election takes as long.
const AWAY_MAX: usize = 1_500;

/// Steps for which a node that starts at once is away at most.
const BLINK_MAX: usize = 60;

/// Bytes that a disk takes at most until it is full.
const FULL_AFTER_MAX: usize = 2_000;

/// By how many milliseconds clocks are set at most.
const JUMP_MAX: i64 = 5_000;

/// By how many they are set at most if they leap, by one of these: the allowed skew of clients is 60 s; an hour; twenty years.
const LEAPS_MAX: [i64; 3] = [150_000, 3_600_000, 20 * 365 * 24 * 3_600_000];

/// By how many millionths clocks are too fast or too slow at most: much more than any clock of a computer, since runs are short.
const DRIFT_MAX: usize = 50_000;

/// One of so many nodes that lose their power has a damaged record then.
const DAMAGED_EVERY: usize = 8;

impl World {
    /// Clocks begin to run at their own speeds.
    pub(super) fn begin_drift(&mut self) {
        if !self.faults.has(Fault::Drift) {
            return;
        }
        for member in &mut self.nodes {
            let drift = self.weather.between(0, 2 * DRIFT_MAX) as i64 - DRIFT_MAX as i64;
            member.drift = drift;
        }
    }

    /// Something goes wrong, or comes back.
    pub(super) fn worsen(&mut self) -> Result<(), String> {
        self.return_from_away()?;
        let index = self.weather.between(0, self.nodes.len());
        let other = (index + self.weather.between(1, self.nodes.len())) % self.nodes.len();
        let fault = match self.weather.between(0, 1_000) {
            0..7 => Fault::Drop,
            7..11 => Fault::Split,
            11..16 => {
                self.network.heal();
                return Ok(());
            }
            16 => Fault::Flap,
            17..20 => Fault::Crash,
            20..23 => Fault::Pause,
            23 => Fault::FullDisk,
            24 | 25 => Fault::ClockJump,
            26 => Fault::ClockLeap,
            27 => Fault::Stop,
            28..46 => Fault::Retry,
            46..49 => Fault::Members,
            _ => return Ok(()),
        };
        if !self.faults.has(fault) || self.nodes[index].is_lost() {
            return Ok(());
        }
        if !matches!(fault, Fault::Retry | Fault::Members) {
            self.trace
                .note(self.now, || format!("{fault:?} {} {}", index + 1, other + 1));
        }
        match fault {
            Fault::Drop => self.network.break_link((index, other)),
            Fault::Split => {
                self.summary.splits += 1;
                self.network.split(self.nodes.len());
            }
            Fault::Flap => self.network.flap((index, other)),
            Fault::Crash => self.crash(index),
            Fault::Stop => self.summary.stops += u64::from(self.nodes[index].stop()),
            Fault::Pause => {
                self.summary.pauses += 1;
                self.nodes[index].away = self.weather.between(0, AWAY_MAX) as u64;
            }
            Fault::FullDisk => {
                let bytes = self.weather.between(0, FULL_AFTER_MAX) as u64;
                if let Some(machine) = self.nodes[index].running() {
                    self.summary.filled += 1;
                    machine.fill_disk(bytes);
                }
            }
            Fault::ClockJump => self.set_clock(index, JUMP_MAX),
            Fault::ClockLeap => {
                let by_max = LEAPS_MAX[self.weather.between(0, LEAPS_MAX.len())];
                self.set_clock(index, by_max);
            }
            Fault::Members => self.want_change(),
            _ => self.ask_again(),
        }
        Ok(())
    }

    /// Nodes that were away long enough are back; those whose disk failed are switched off.
    fn return_from_away(&mut self) -> Result<(), String> {
        for index in 0..self.nodes.len() {
            let member = &mut self.nodes[index];
            if member.machine().is_some_and(Machine::has_failed) {
                self.crash(index);
            } else if member.has_stopped() {
                self.switch_off(index);
                self.nodes[index].away = self.weather.between(1, AWAY_MAX) as u64;
            } else if member.away > 0 {
                member.away -= 1;
                if member.away == 0 {
                    self.switch_on(index)?;
                }
            }
        }
        Ok(())
    }

    /// A node loses its power, for a while.
    fn crash(&mut self, index: usize) {
        if self.nodes[index].machine().is_none() {
            return;
        }
        self.summary.crashes += 1;
        self.switch_off(index);
        // Often it is back before anybody has noticed.
        let away_max = [AWAY_MAX, BLINK_MAX][self.weather.between(0, 2)];
        self.nodes[index].away = self.weather.between(1, away_max) as u64;
        let draws = self.weather.between(0, DAMAGED_EVERY) == 0;
        let lost = self.nodes.iter().filter(|member| member.is_lost()).count();
        let damaged = self
            .nodes
            .iter()
            .filter(|member| matches!(&member.power, Power::Off { is_damaged, .. } if *is_damaged));
        let is_minority = lost + damaged.count() < (self.nodes.len() - 1) / 2;
        let may_lose = if self.faults.has(Fault::Members) {
            draws && self.may_lose_disk(index)
        } else {
            is_minority
        };
        if draws
            && may_lose
            && self.faults.has(Fault::FlippedBit)
            && let Power::Off {
                unpowered,
                is_damaged,
            } = &mut self.nodes[index].power
        {
            *is_damaged = unpowered.flip_bit(&mut self.weather);
        }
    }

    /// A node has no power from here on.
    pub(super) fn switch_off(&mut self, index: usize) {
        let at = self.at();
        for (node, keeper) in &mut self.keepers {
            if *node == index {
                keeper.client.cut();
            }
        }
        for watcher in &mut self.watchers {
            if watcher.node == index {
                watcher.cut(at, &mut self.notifications);
            }
        }
        self.retainers.cut(index);
        self.wanderers.cut(index);
        self.network.forget(index);
        let torn = if self.faults.has(Fault::Torn) {
            Torn::Somewhere
        } else {
            Torn::AtTheSync
        };
        self.nodes[index].switch_off(torn);
    }

    /// A node has power again.
    pub(super) fn switch_on(&mut self, index: usize) -> Result<(), String> {
        let was_off = self.nodes[index].machine().is_none() && !self.nodes[index].is_lost();
        if !was_off {
            return Ok(());
        }
        let is_on = self.nodes[index].switch_on()?;
        self.trace.note(self.now, || {
            format!("{} {}", index + 1, if is_on { "starts" } else { "is damaged" })
        });
        match self.nodes[index].machine() {
            Some(machine) => self.look.restarted(index, machine)?,
            None => {
                self.summary.damaged += 1;
                self.leave(index);
            }
        }
        Ok(())
    }

    /// A node will never be there again: its clients go elsewhere.
    pub(super) fn leave(&mut self, index: usize) {
        self.retainers.leave(index);
        for number in 0..self.keepers.len() {
            if self.keepers[number].0 == index {
                self.move_keeper(number);
            }
        }
        for number in 0..self.watchers.len() {
            if self.watchers[number].node == index {
                self.move_watcher(number);
            }
        }
    }

    fn set_clock(&mut self, index: usize, by_max: i64) {
        self.summary.jumps += 1;
        let range = usize::try_from(2 * by_max).expect("it is above 0");
        let ahead = self.weather.between(0, range) as i64 - by_max;
        self.nodes[index].set_clock(ahead);
    }

    /// A client sends something again: to its node, or to another one; or a watcher goes to another node.
    fn ask_again(&mut self) {
        let number = self.weather.between(0, self.keepers.len());
        match self.weather.between(0, 8) {
            0..5 => {
                let (node, keeper) = &mut self.keepers[number];
                if let Some(machine) = self.nodes[*node].running() {
                    let is_sent = keeper.ask_again(machine, &mut self.weather);
                    self.summary.retried += u64::from(is_sent);
                }
            }
            5 | 6 => self.move_keeper(number),
            _ => self.move_watcher(number % self.watchers.len()),
        }
    }

    /// A watcher goes to another node, where it watches nothing.
    fn move_watcher(&mut self, number: usize) {
        let at = self.at();
        let another = self.another_node(self.watchers[number].node);
        let watcher = &mut self.watchers[number];
        if let Some(machine) = self.nodes[watcher.node].machine_mut() {
            watcher.client.lose(machine);
        }
        watcher.cut(at, &mut self.notifications);
        watcher.node = another;
    }

    /// A keeper goes to another node, and sends there what was not answered.
    fn move_keeper(&mut self, number: usize) {
        let another = self.another_node(self.keepers[number].0);
        let (node, keeper) = &mut self.keepers[number];
        self.summary.retried += keeper.asked_len() as u64;
        if let Some(machine) = self.nodes[*node].machine_mut() {
            keeper.client.lose(machine);
        }
        keeper.client.turn_away();
        *node = another;
    }

    /// A node other than this one that is not lost.
    fn another_node(&mut self, index: usize) -> usize {
        let others = (0..self.nodes.len()).filter(|other| *other != index && !self.nodes[*other].is_lost());
        let others: Vec<usize> = others.collect();
        others[self.weather.between(0, others.len())]
    }
}
