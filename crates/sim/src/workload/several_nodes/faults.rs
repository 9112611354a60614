//! What may go wrong in a run of several nodes. Each run has some of it, as its seed decides, and any of it can be left out, to find out what a
//! failure needs.

use std::fmt;

use cluster::random::Random;

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Messages take their time.
    Delay,
    /// Messages overtake each other, as they do around a new connection.
    Reorder,
    /// Messages arrive twice.
    Duplicate,
    /// Messages are lost, one by one and with their connection.
    Drop,
    /// Nodes do not hear others: in one direction, in both, or all of a side.
    Split,
    /// A connection comes and goes, many times in a short while.
    Flap,
    /// Nodes lose their power.
    Crash,
    /// Nodes are stopped by somebody: others lead before they go.
    Stop,
    /// Of what was not synced, some is there after a crash.
    Torn,
    /// A record is damaged while the power is off.
    FlippedBit,
    /// The disk is full, and the node stops.
    FullDisk,
    /// Nodes stand still, for longer than an election takes.
    Pause,
    /// Wall clocks are set, by less than the allowed skew.
    ClockJump,
    /// Wall clocks are set, by more than that.
    ClockLeap,
    /// Clocks run at different speeds.
    Drift,
    /// Clients go to other nodes, and send there again what was not answered.
    Retry,
    /// Nodes come and go, and lose their disks; leaders are named.
    Members,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Delay,
        Self::Reorder,
        Self::Duplicate,
        Self::Drop,
        Self::Split,
        Self::Flap,
        Self::Crash,
        Self::Stop,
        Self::Torn,
        Self::FlippedBit,
        Self::FullDisk,
        Self::Pause,
        Self::ClockJump,
        Self::ClockLeap,
        Self::Drift,
        Self::Retry,
        Self::Members,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Reorder => "reorder",
            Self::Duplicate => "duplicate",
            Self::Drop => "drop",
            Self::Split => "split",
            Self::Flap => "flap",
            Self::Crash => "crash",
            Self::Stop => "stop",
            Self::Torn => "torn",
            Self::FlippedBit => "flipped-bit",
            Self::FullDisk => "full-disk",
            Self::Pause => "pause",
            Self::ClockJump => "clock-jump",
            Self::ClockLeap => "clock-leap",
            Self::Drift => "drift",
            Self::Retry => "retry",
            Self::Members => "members",
        }
    }

    /// In how many of eight runs it is: what most others need is rare if it keeps them from happening.
    fn in_eight(self) -> usize {
        match self {
            Self::Crash | Self::Split | Self::Torn | Self::Retry => 6,
            Self::Delay
            | Self::Duplicate
            | Self::Drop
            | Self::Stop
            | Self::Pause
            | Self::ClockJump
            | Self::Drift => 4,
            Self::Reorder | Self::Flap | Self::Members => 3,
            Self::FlippedBit | Self::FullDisk | Self::ClockLeap => 2,
        }
    }
}

/// A set of faults.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// None.
    pub const NONE: Self = Self(0);

    /// Those of the run with this seed.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed.rotate_left(17));
        let drawn = Fault::ALL
            .into_iter()
            .filter(|fault| random.between(0, 8) < fault.in_eight());
        drawn.fold(Self::NONE, Self::with)
    }

    /// These, read from a list of names.
    ///
    /// # Errors
    /// The name that there is not.
    pub fn parse(names: &str) -> Result<Self, String> {
        names.split(',').try_fold(Self::NONE, |faults, name| {
            let known = Fault::ALL.into_iter().find(|fault| fault.name() == name);
            known
                .map(|fault| faults.with(fault))
                .ok_or_else(|| format!("there is no fault {name}: {:?}", Self(u32::MAX)))
        })
    }

    /// These and another one.
    #[must_use]
    pub fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u32)
    }

    /// These without those.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether this is one of them.
    pub fn has(self, fault: Fault) -> bool {
        self.0 & 1 << fault as u32 != 0
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Fault::ALL.into_iter().filter(|fault| self.has(*fault));
        let names: Vec<_> = names.map(Fault::name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_and_is_in_some_runs_but_not_in_all() {
        for fault in Fault::ALL {
            assert_eq!(Faults::parse(fault.name()), Ok(Faults::NONE.with(fault)));
            let runs = (0..100).filter(|seed| Faults::of_seed(*seed).has(fault)).count();
            assert!((5..95).contains(&runs), "{fault:?}: {runs}");
        }
        assert!(Faults::parse("delay,earthquake").is_err());
    }
}
