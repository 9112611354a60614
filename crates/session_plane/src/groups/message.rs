//! Message of a shared group to the node of a member's connection, as a plain struct. [`crate::wire`]
//! has its encoding.

use crate::{Dot, Slot};

/// Message from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupMessage<V> {
    /// The primary owner of a part gives a message to a connection of the receiver.
    Give(Give<V>),
}

/// Message of a shared group, given to a member's connection.
///
/// Every node that its giver sees knows the assignment (rule `give-first`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Give<V> {
    /// Slot of the part.
    pub slot: Slot,
    /// Event of the presence, which names the group and the connection to the receiver.
    pub presence: Dot,
    /// Event of the message.
    pub message: Dot,
    /// Event of the assignment. An acknowledgement removes it with the message.
    pub assignment: Dot,
    /// Value of the message's entry.
    pub value: V,
}
