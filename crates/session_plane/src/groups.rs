//! Shared groups at one node (rules 63 to 65).
//!
//! ```text
//!  node of a connection          primary owner of the part           other nodes
//!    | presence ------------------> |                                     |
//!    |                              | message: the presence with          |
//!    |                              | the fewest, by an assignment -----> |
//!    | <------------------------------------------ confirmed by all nodes |
//!    | <----------------------- Give |
//!   QoS 1: PUBLISH, PUBACK
//!   QoS 2: place in the Receive Maximum
//!    | removes message, assignment > |
//! ```
//!
//! The event that removes a QoS 2 message puts it into the queue of the member's session (rule
//! 86).
//!
//! A part of a group has a slot, and its entries are kept there as those of a session are. [`GroupSink`]
//! is at the node of connections, [`GroupSource`] at the primary owner. Entries travel in streams, which
//! belong to others, and so do the waits for them.
//!
//! *Invariant*: a message is given to a connection when every present node knows its assignment. So of
//! two nodes that take themselves for primary at the same time, at least one sees the other's assignment
//! before it gives, and goes on with that. `docs/decisions/2026-11-28-groups-as-a-state-machine.md` says
//! why groups are made so, and `2026-11-28-rival-assignments-of-a-group.md` beside it what two such nodes
//! do.

mod error;
mod group_id;
mod message;
mod sink;
mod source;

pub use error::{GroupError, NoGroup};
pub use group_id::GroupId;
pub use message::{Give, GroupMessage};
pub use sink::{
    GivenDots, GroupSink, GroupWrite, KnownMember, MemberViolation, SinkAction, SinkEvent, SinkLimits,
    SubscribedGroup,
};
pub use source::{
    GroupCopies, GroupEntry, GroupPlace, GroupSource, ReadEntry, SourceAction, SourceEvent, SourceLimits,
};

#[cfg(test)]
mod tests;
