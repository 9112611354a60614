//! Node that decides about slots, as those read it that act for their primary owner: wills, sessions that expire,
//! and limits of queues.

use crate::Slot;

/// Node with the copies of some slots.
pub trait DecidingNode {
    /// This node decides about the slot (rule `fire-merged`): it is the primary owner by its last ring
    /// marker. Its copy has merged with all present holders. All of them have answered about the
    /// copy's holes: a hole that none of them can fill does not count. The node is RUNNING, and none that has
    /// given it up is about to meet it again.
    fn decides(&self, slot: Slot) -> bool;
}
