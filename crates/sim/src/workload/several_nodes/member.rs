//! One node of a run: with power or without, and with clocks of its own.

use std::time::{Duration, Instant};

use crate::machine::{Machine, Torn, Unpowered};

/// A node.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) power: Power,
    /// It does nothing for so many steps: without power, or paused.
    pub(super) away: u64,
    /// It is no node of the cluster: not yet, or not any more.
    pub(super) is_outside: bool,
    /// Somebody has stopped it, and it hands over what it leads.
    pub(super) is_stopping: bool,
    /// How often it has taken over the store of another node since it was started.
    copies: u64,
    /// What its monotonic clock says.
    local: Instant,
    /// By how many millionths its clocks are too fast.
    pub(super) drift: i64,
    /// By how many milliseconds its wall clock is set ahead.
    ahead: i64,
}

/// Whether a node runs.
#[derive(Debug)]
pub(super) enum Power {
    On(Box<Machine>),
    Off {
        unpowered: Box<Unpowered>,
        /// A record is damaged that the node needs.
        is_damaged: bool,
    },
    /// It will never run again.
    Lost,
}

impl Member {
    pub(super) fn new(machine: Machine, origin: Instant) -> Self {
        Self::with_power(Power::On(Box::new(machine)), origin)
    }

    /// One that waits to be taken in.
    pub(super) fn outside(unpowered: Unpowered, now: Instant) -> Self {
        let power = Power::Off {
            unpowered: Box::new(unpowered),
            is_damaged: false,
        };
        Self {
            is_outside: true,
            ..Self::with_power(power, now)
        }
    }

    fn with_power(power: Power, local: Instant) -> Self {
        Self {
            power,
            away: 0,
            is_outside: false,
            is_stopping: false,
            copies: 0,
            local,
            drift: 0,
            ahead: 0,
        }
    }

    pub(super) fn machine(&self) -> Option<&Machine> {
        match &self.power {
            Power::On(machine) => Some(machine),
            Power::Off { .. } | Power::Lost => None,
        }
    }

    pub(super) fn machine_mut(&mut self) -> Option<&mut Machine> {
        match &mut self.power {
            Power::On(machine) => Some(machine),
            Power::Off { .. } | Power::Lost => None,
        }
    }

    /// The machine, if it does something now.
    pub(super) fn running(&mut self) -> Option<&mut Machine> {
        if self.away > 0 {
            return None;
        }
        self.machine_mut().filter(|machine| !machine.has_failed())
    }

    /// Whether nobody counts on it any more, or yet.
    pub(super) fn is_lost(&self) -> bool {
        self.is_outside || matches!(self.power, Power::Lost)
    }

    /// Whether its disk is lost, or damaged.
    pub(super) fn has_no_disk(&self) -> bool {
        matches!(self.power, Power::Lost | Power::Off { is_damaged: true, .. })
    }

    /// Time passes; who is paused finds out later.
    pub(super) fn pass(&mut self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).expect("a short time");
        let own = nanos + nanos / 1_000 * self.drift / 1_000;
        self.local += Duration::from_nanos(own.unsigned_abs());
        let local = self.local;
        if let Some(machine) = self.running() {
            machine.tick(local);
        }
    }

    /// Its wall clock is set.
    pub(super) fn set_clock(&mut self, ahead: i64) {
        self.ahead = ahead;
        if let Some(machine) = self.machine_mut() {
            machine.set_clock(ahead);
        }
    }

    /// Its clocks run well from here on, and its wall clock is set right.
    pub(super) fn set_right(&mut self, now: Instant) {
        self.drift = 0;
        let ahead = self.local.saturating_duration_since(now).as_millis();
        let behind = now.saturating_duration_since(self.local).as_millis();
        self.set_clock(i64::try_from(behind as i128 - ahead as i128).expect("simulations are short"));
    }

    /// By how many nanoseconds its monotonic clock has run away.
    pub(super) fn drifted(&self, now: Instant) -> i128 {
        let ahead = self.local.saturating_duration_since(now).as_nanos();
        let behind = now.saturating_duration_since(self.local).as_nanos();
        ahead as i128 - behind as i128
    }

    /// Somebody stops it.
    pub(super) fn stop(&mut self) -> bool {
        let is_new = !self.is_stopping && self.running().is_some();
        if is_new && let Some(machine) = self.running() {
            machine.stop();
            self.is_stopping = true;
        }
        is_new
    }

    /// Whether it was stopped, and has said goodbye.
    pub(super) fn has_stopped(&self) -> bool {
        self.is_stopping
            && self
                .machine()
                .is_some_and(|machine| !machine.node().is_stopping())
    }

    /// How often it has taken over the store of another node since the last call.
    pub(super) fn take_copies(&mut self) -> u64 {
        let replaced = self
            .machine()
            .map_or(0, |machine| machine.node().counters().store_replaced);
        let before = std::mem::replace(&mut self.copies, replaced);
        replaced.saturating_sub(before)
    }

    /// It loses its power.
    pub(super) fn switch_off(&mut self, torn: Torn) {
        self.is_stopping = false;
        self.power = match std::mem::replace(&mut self.power, Power::Lost) {
            Power::On(machine) => Power::Off {
                unpowered: Box::new(machine.switch_off(torn)),
                is_damaged: false,
            },
            other => other,
        };
    }

    /// Its power is back. True if it starts, false if it refuses to and says why; it is lost then.
    pub(super) fn switch_on(&mut self) -> Result<bool, String> {
        match std::mem::replace(&mut self.power, Power::Lost) {
            Power::Off {
                unpowered,
                is_damaged,
            } => match unpowered.start(self.local) {
                Ok(_) if is_damaged => Err("F1: a damaged record was taken for a good one".to_owned()),
                Ok(mut machine) => {
                    machine.set_clock(self.ahead);
                    self.power = Power::On(Box::new(machine));
                    Ok(true)
                }
                Err(_) if is_damaged => Ok(false),
                Err(error) => Err(format!("F1: a node does not read what it wrote: {error}")),
            },
            other => {
                self.power = other;
                Ok(false)
            }
        }
    }
}
