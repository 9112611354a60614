//! Messages of a claim, as plain structs. [`crate::wire`] has their encoding.
//!
//! *Invariants*: a question names a connection of its sender. A question and its answer name the
//! round of the claim, so an answer of an earlier round is void.

use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::known_session::KnownSession;
use crate::{ClientId, Dot, VersionVector};

/// Message, and its receiver. A node passes on to itself what it is the receiver of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing<V> {
    /// Node that the message is for.
    pub to: NodeId,
    /// The message.
    pub message: ConnectingMessage<V>,
}

/// Message from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectingMessage<V> {
    /// Question of a connection's node for the session of its client.
    Ask(AskSession),
    /// Answer of an owner.
    Session(SessionAnswer<V>),
    /// An owner gives no answer.
    Refused(QuestionRefused),
    /// Request to end a connection of the receiver.
    Release(Release),
    /// Answer of an older connection's node to a claimant.
    Released(Released),
}

/// Question for a client's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskSession {
    /// Client that connects.
    pub client: ClientId,
    /// Event of the connection that asks.
    pub connection: Dot,
    /// Round of the claim; from 1. A later question of the connection replaces an earlier one.
    pub round: u64,
    /// Events that the asker knows to exist. Only a copy that has them answers (rule
    /// `ask-with-known`).
    pub known: Arc<VersionVector>,
}

/// Session of a client as an owner has it, with the client's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionAnswer<V> {
    /// Connection that has asked.
    pub connection: Dot,
    /// Round of the question.
    pub round: u64,
    /// The client's entries.
    pub session: KnownSession<V>,
}

/// Refusal of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionRefused {
    /// Connection that has asked.
    pub connection: Dot,
    /// Round of the question.
    pub round: u64,
    /// Reason of the owner.
    pub reason: AskRefusal,
}

/// Reason of an owner to give no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AskRefusal {
    /// As many questions of the asker wait as may.
    Full,
    /// The copy was not merged, or did not cover what the asker knows, for as long as a question waits.
    NotReady,
}

/// Connection that claims a session. Of two that ask each other, the earlier one gives in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claimant {
    /// Clock of the connection's entry.
    pub clock: Hlc,
    /// Event of the connection.
    pub dot: Dot,
}

/// Request to end the connection `old`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Event of the connection that is to end.
    pub old: Dot,
    /// Connection that claims the session, and waits for the answer. None: an owner has found a later
    /// connection after a merge (rule `loser-released`), and no answer is due.
    pub by: Option<Claimant>,
}

/// Answer to a [`Release`] of a claimant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// Connection that was asked for.
    pub old: Dot,
    /// Event of the claimant's connection.
    pub by: Dot,
    /// The old connection has ended, and what it leaves is at the owners. False: it is the later of
    /// the two, and the claimant gives in.
    pub is_agreed: bool,
}
