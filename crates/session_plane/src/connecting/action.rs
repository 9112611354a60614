//! Actions: what the node does for the connections of its clients.
//!
//! The node applies the actions of a call in their order: entries are events of its stream.

use cluster::NodeId;

use super::known_session::KnownSession;
use super::message::Outgoing;
use super::session_start::{ConnectionEnd, SessionEnd, SessionStart};
use crate::{ClientId, Dot};

/// Name of a connection among those of a run of this node; from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Action of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectingAction<V> {
    /// Sends a message.
    Send(Outgoing<V>),
    /// Makes an event that changes the client's entries, and sends it to the owners.
    Write {
        /// Connection that writes.
        connection: ConnectionId,
        /// Its client.
        client: ClientId,
        /// Change of the client's entries.
        write: Write,
    },
    /// Sends the entry of a connection, and that of its will, to new owners under their old dots (rule
    /// `connection-to-new-owners`).
    Give {
        /// Connection.
        connection: ConnectionId,
        /// Event of the connection.
        dot: Dot,
        /// New owners.
        to: Vec<NodeId>,
    },
    /// Waits until the session's entry, and that of the connection's will, is durable at the owners of
    /// the ring as it is now. Then the node tells
    /// [`SessionDurable`](super::ConnectionEvent::SessionDurable).
    AwaitSession {
        /// Connection that has written the entry.
        connection: ConnectionId,
        /// Event of the session's entry.
        entry: Dot,
        /// Round of the claim. A wait of an earlier round is void.
        round: u64,
    },
    /// Sends CONNACK: the session is the connection's.
    Accept {
        /// Connection.
        connection: ConnectionId,
        /// Session Present of CONNACK.
        is_present: bool,
        /// Entries of the client as the owners have told them, without what the claim has removed.
        session: Box<KnownSession<V>>,
    },
    /// Sends CONNACK with a reason code: [`RefuseReason::TakenOver`] is 0x8E, the rest is 0x88. The
    /// node closes the connection, and tells [`Closed`](super::ConnectionEvent::Closed).
    Refuse {
        /// Connection.
        connection: ConnectionId,
        /// Reason.
        reason: RefuseReason,
    },
    /// Sends DISCONNECT: 0x8E, Session taken over, or 0x98, Administrative action, where the session has
    /// ended. The node tells
    /// [`Closed`](super::ConnectionEvent::Closed) when all that the connection leaves is durable.
    Disconnect {
        /// Connection.
        connection: ConnectionId,
        /// Reason, for the log.
        reason: DisconnectReason,
    },
}

/// Change of a client's entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// The client connects: adds an entry of the connection. The node tells
    /// [`Written`](super::ConnectionEvent::Written).
    Connection,
    /// An older connection has ended: removes its entry.
    OlderEnded(ConnectionEnd),
    /// The older session ends for a Clean Start.
    SessionEnd(SessionEnd),
    /// Adds the session's entry, anew or of a new session; the entry of the connection's will follows.
    /// The node tells [`SessionWritten`](super::ConnectionEvent::SessionWritten).
    SessionStart(SessionStart),
    /// The connection itself has ended: removes its entry, and its will unless that is left behind.
    Closed {
        /// Event of the connection.
        dot: Dot,
    },
}

/// Reason for which a connection gets no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefuseReason {
    /// A later connection of the client has claimed the session.
    #[error("a later connection of the client has claimed the session")]
    TakenOver,
    /// An owner has not answered in time.
    #[error("owner {} has not told the session in time", .owner.0)]
    NotAnswered {
        /// First owner whose answer is missing.
        owner: NodeId,
    },
    /// No owner was present for as long as a claim may take.
    #[error("no owner of the session was present in time")]
    NoOwner,
    /// An owner has as many questions of this node as may wait.
    #[error("owner {} has no room for another question", .owner.0)]
    OwnerFull {
        /// The owner.
        owner: NodeId,
    },
    /// The copy of an owner was not ready for as long as a question may wait.
    #[error("the copy of owner {} is not merged in time", .owner.0)]
    OwnerNotReady {
        /// The owner.
        owner: NodeId,
    },
    /// An older connection has not ended in time.
    #[error("the older connection {old:?} has not ended in time")]
    NotReleased {
        /// Event of the first such connection.
        old: Dot,
    },
    /// The entries of the claim were not written, or not durable at the owners, in time.
    #[error("the session is not durable at its owners in time")]
    NotDurable,
    /// The session has more entries than a claim may read.
    #[error("the session has {count} entries, at most {entries_max}")]
    TooManyEntries {
        /// Entries.
        count: usize,
        /// Limit.
        entries_max: usize,
    },
    /// The vectors of the owners are too scattered to be merged.
    #[error("what the owners have told is too scattered")]
    TooScattered,
}

/// Reason for which a connection with a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisconnectReason {
    /// A later connection claims the session.
    TakenOver {
        /// Event of the later connection.
        by: Dot,
    },
    /// An owner has found a later connection after a merge.
    LosesMerge,
    /// The session does not count any more: it has expired elsewhere, or an operator has ended it.
    SessionEnded,
}
