//! State of the node that expiring reads: the node gives it.

use super::Lifetime;
use crate::{ClientId, DecidingNode, Run, Slot};

/// Copies and membership, as the primary owner of sessions sees them.
pub trait ExpiryState: DecidingNode {
    /// Clients of all slots that this node decides about.
    fn clients(&self) -> Vec<ClientId>;

    /// Clients in this node's copy of a slot.
    fn clients_of(&self, slot: Slot) -> Vec<ClientId>;

    /// Sessions of a client in this node's copy, by [`known_lifetime`](super::known_lifetime).
    fn lifetime(&self, client: &ClientId) -> Lifetime;

    /// What this node knows of a run.
    fn run_state(&self, run: Run) -> RunState;
}

/// What a node knows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// It is this one, or one that is present.
    Present,
    /// It was given up. It may live, and have its connections on another side of a split.
    Absent,
    /// It has ended for certain: a later run of its node was met, or the node is no member any more.
    Ended,
}
