//! Connecting: the claim of a session at the node of a CONNECT, and what other nodes do for it.
//!
//! ```text
//!  node of the CONNECT            owners                   node of an older connection
//!    | connection's entry --------> |                                |
//!    | AskSession (known) --------> | waits until its copy is merged |
//!    | <------------------- Session | and covers `known`             |
//!    | Release -----------------------------------------------------> | DISCONNECT, last
//!    | <---------------------------------------------------- Released | acknowledgements, will
//!    | AskSession ----------------> |                                |
//!    | <------------------- Session |                                |
//!    | session's entry -----------> |                                |
//!    | <--------- durable           |                                |
//!   CONNACK
//! ```
//!
//! [`Connections`] are those of one node, as claimant and as holder of older ones. [`Questions`]
//! are at an owner, and so is [`release_losers`] after a merge. Entries travel in streams, which
//! belong to others. The node passes messages to itself on as any other.
//!
//! *Invariant*: of two claims of one client each present owner shows at least one to the other,
//! since an owner answers only with the asking connection's entry in its copy.
//! `docs/decisions/2026-11-28-connecting.md` says why it is made so.

mod action;
mod cluster_state;
mod connections;
mod error;
mod known_session;
mod losers;
mod message;
mod questions;
mod session_start;

pub use action::{ConnectingAction, ConnectionId, DisconnectReason, RefuseReason, Write};
pub use cluster_state::{ClusterState, OwnedSessions};
pub use connections::{Connect, ConnectionEvent, ConnectionLimits, Connections};
pub use error::{ConnectingError, ConnectionsFull};
pub use known_session::{KnownSession, KnownSessionError};
pub(crate) use losers::release_loser;
pub use losers::release_losers;
pub use message::{
    AskRefusal, AskSession, Claimant, ConnectingMessage, Outgoing, QuestionRefused, Release, Released,
    SessionAnswer,
};
pub use questions::{QuestionLimits, Questions};
pub use session_start::{ConnectionEnd, SessionBirth, SessionEnd, SessionStart};

#[cfg(test)]
mod tests;
