//! Messages about interests, as plain structs. [`crate::wire`] has their encoding.
//!
//! ```text
//!   node with filters                                        present peer
//!     | Interests (after, changes, up_to, is_all) ------------> |  notes them
//!     | <------------------------------ ConfirmInterests (up_to) |
//!     | Unstored (message) ------------------------------------> |  once, or never
//! ```

use super::TopicFilter;

/// Messages that a node wants of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// Those of QoS 0: all its sessions with the filter are durable, and get the others from their slots.
    Unstored,
    /// All: a session with the filter ends with its connection, or takes messages with QoS 0 alone.
    All,
}

/// Change of what a node wants of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterestChange {
    /// The filter.
    pub filter: TopicFilter,
    /// What the node wants; None: nothing any more.
    pub interest: Option<Interest>,
}

/// Changes of a node between two positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterestChanges {
    /// Position that the peer has; 0: it is to forget what it has.
    pub after: u64,
    /// Position behind the changes.
    pub up_to: u64,
    /// The node has no further changes at this moment.
    pub is_all: bool,
    /// Changes, each of another filter.
    pub changes: Vec<InterestChange>,
}

/// Message from one node to another. `M` is the content of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterestMessage<M> {
    /// What the sender wants.
    Changes(InterestChanges),
    /// The sender has noted the receiver's changes.
    Confirm {
        /// Position up to which it has.
        up_to: u64,
    },
    /// Message that is not stored, for connected sessions of the receiver.
    Unstored(M),
}
