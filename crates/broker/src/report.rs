//! What an operator is told. The driver writes it to the log with the listener and the address.

use protocol::{ReasonCode, Text};

use crate::ids::ConnectionId;

/// Something that an operator may want to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A client was accepted.
    Connected {
        /// On which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// With the state of an earlier connection.
        session_present: bool,
    },
    /// A CONNECT was refused.
    Refused {
        /// On which connection.
        connection: ConnectionId,
        /// What the client was told.
        reason: ReasonCode,
        /// Why.
        why: String,
    },
    /// The server ended a connection.
    Disconnected {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// What the client was told.
        reason: ReasonCode,
        /// Why.
        why: String,
    },
    /// A connection ended without a DISCONNECT, or by one.
    Ended {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// Whether the client said goodbye.
        is_graceful: bool,
    },
    /// A PUBLISH was not carried out.
    PublishRefused {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// What the client was told, where it can be told.
        reason: ReasonCode,
        /// Why.
        why: &'static str,
    },
    /// A state store request had a timestamp too far ahead.
    ClockAhead {
        /// Which connection.
        connection: ConnectionId,
        /// Who.
        client_id: Text,
        /// By how many milliseconds.
        ahead_ms: u64,
    },
}
