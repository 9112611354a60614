//! State of the node that wills read: the node gives it.

use cluster::NodeId;

use super::known_will::KnownWill;
use crate::{ClientId, DecidingNode, Dot, Run, Slot};

/// Copies and membership, as the primary owner of wills sees them.
pub trait WillState: DecidingNode {
    /// Slots that this node decides about, and clients in them whose entries have a will.
    fn clients(&self) -> Vec<ClientId>;

    /// Clients with a will in this node's copy of a slot.
    fn clients_of(&self, slot: Slot) -> Vec<ClientId>;

    /// Wills of a client in this node's copy, by [`known_wills`](super::known_wills).
    fn wills(&self, client: &ClientId) -> Vec<KnownWill>;

    /// Run of a present node. This node is present. None for a node that was given up.
    fn present_run(&self, node: NodeId) -> Option<Run>;

    /// The run has ended for certain: a later run of its node was met, or the node is no member any
    /// more. A node that was given up may live.
    fn has_ended(&self, run: Run) -> bool;

    /// The number was routed by some node, as far as the copy of the slot knows: the copy has decided
    /// upon it, has taken it, or has it as a hole.
    fn has_heard(&self, slot: Slot, number: Dot) -> bool;
}
