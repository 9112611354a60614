//! Configuration of a plane: who it is, its timeouts, and its limits.

use std::time::{Duration, Instant};

use crate::SlotSet;
use crate::membership::MembershipConfig;
use crate::stream::{IncomingLimits, OutgoingLimits};
use crate::transfer::{AskerLimits, HolderLimits};

/// Reading of both clocks of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Monotonic clock, by which timeouts go. It stops while the process is suspended.
    pub monotonic: Instant,
    /// Wall clock, in milliseconds since the Unix epoch. Hybrid logical clocks follow it.
    pub wall: u64,
}

/// Configuration of a [`Plane`](super::Plane).
#[derive(Debug, Clone)]
pub struct PlaneConfig {
    /// Node, cluster, and timeouts of the membership.
    pub membership: MembershipConfig,
    /// Slots that the plane has copies of, where it is one shard of a node. None: all.
    pub slots: Option<SlotSet>,
    /// Timeouts of the plane itself.
    pub timing: Timing,
    /// Limits of what the plane keeps.
    pub limits: Limits,
}

/// Timeouts of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time between two heartbeats to a peer; a quarter of `silence_max` or less.
    pub heartbeat_every: Duration,
    /// Time that a hole of a merged copy stands before all peers are asked about it; a tenth of
    /// `silence_max` or more. An event on its way takes less.
    pub ask_after: Duration,
    /// Time from one question about a hole to the next one; about two thirds of `silence_max` (rule
    /// `ask-again`).
    pub ask_again_after: Duration,
    /// Time that a hole stands before it is asked whether anybody has it; longer than
    /// `silence_max` (rule `close-numbers`).
    pub close_after: Duration,
    /// Time between two offers of a copy that owners have not merged.
    pub offer_every: Duration,
}

/// Limits of what a plane keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Own events that are not durable.
    pub outgoing: OutgoingLimits,
    /// Events of each peer that are kept for passing on.
    pub incoming: IncomingLimits,
    /// Questions and staged answers.
    pub asker: AskerLimits,
    /// Answers.
    pub holder: HolderLimits,
}
