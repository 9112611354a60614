//! Authentication of a client: questions to the edge, its answers, and how far an exchange has come. (MQTT 5.0 section 4.12)
//!
//! The node knows no method. It keeps the rules of the exchange (who may send what, for how long, with which method), hands on
//! what clients say of themselves, and does what the edge answers.
//!
//! Invariant: a connection has at most one question at the edge, so an answer needs no name but that of its connection.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::packet::Connect;
use protocol::{ReasonCode, Text};

use crate::memory::Held;
use crate::principal::Principal;

/// What a client says of itself. Secrets are never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    /// Authentication Method, the same in all questions of a connection. `None`: there is nothing but the CONNECT, and an
    /// answer cannot be [`Answer::Continue`].
    pub method: Option<Text>,
    /// Authentication Data of the packet that came.
    pub data: Option<Bytes>,
    /// What CONNECT says; in the first question of a connection only.
    pub credentials: Option<Credentials>,
    /// What the last [`Answer::Continue`] of this exchange wanted to have back.
    pub continuation: Option<Bytes>,
    /// Who the client is by the exchange before, if this one is a re-authentication.
    pub principal: Option<Principal>,
}

/// What a CONNECT says of its client.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Client id; empty: it will be given one.
    pub client_id: Text,
    /// User Name.
    pub username: Option<Text>,
    /// Password.
    pub password: Option<Bytes>,
}

/// What the edge says to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It has to know more: the client gets AUTH 0x18 and answers it.
    Continue {
        /// For the client.
        data: Option<Bytes>,
        /// To come back with the next question, so that the edge remembers nothing of an exchange.
        continuation: Bytes,
    },
    /// The client is let in, or stays.
    Accept {
        /// Who it is; `None`: nobody asked.
        principal: Option<Principal>,
        /// For the client.
        data: Option<Bytes>,
        /// For how long. A client that has not authenticated again by then is disconnected.
        expires_in: Option<Duration>,
    },
    /// The client is not let in, or has to go.
    Refuse {
        /// For CONNACK. A DISCONNECT has fewer: there it becomes Server busy or Not authorized.
        reason: ReasonCode,
        /// For the operator and the client.
        why: Cow<'static, str>,
    },
}

/// Authentication of a connection's client, as far as it has come.
#[derive(Debug)]
pub struct Authentication {
    /// Method of the CONNECT; it stays the same.
    pub method: Option<Text>,
    /// Principal that the edge has named.
    pub principal: Option<Principal>,
    /// End of the time for which the edge has let the client in.
    pub expires_at: Option<Instant>,
    /// Exchange that is under way.
    pub exchange: Option<Exchange>,
    /// CONNECT that waits until its client is known, and its part of the account of memory.
    pub connect: Option<(Box<Connect>, Held)>,
}

/// An exchange that is under way.
#[derive(Debug)]
pub struct Exchange {
    /// Side that speaks next.
    pub turn: Turn,
    /// When it is given up. The first one has what is left of the time for CONNECT, which another timer watches.
    pub until: Instant,
}

/// Side that speaks next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// The edge has a question.
    Edge,
    /// The client, with what the edge wants to have back.
    Client(Bytes),
}

impl Authentication {
    /// Of a client that another node has let in.
    pub fn of(principal: Option<Principal>) -> Option<Self> {
        let principal = Some(principal?);
        Some(Self {
            method: None,
            principal,
            expires_at: None,
            exchange: None,
            connect: None,
        })
    }

    /// Who it is, if that is known.
    pub fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }

    /// True while the edge has a question.
    pub fn is_asked(&self) -> bool {
        self.exchange
            .as_ref()
            .is_some_and(|exchange| exchange.turn == Turn::Edge)
    }

    /// When to look at it again.
    pub fn deadline(&self) -> Option<Instant> {
        let until = self.exchange.as_ref().map(|exchange| exchange.until);
        until.into_iter().chain(self.expires_at).min()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("method", &self.method)
            .field("data", &self.data.as_ref().map(|_| "(secret)"))
            .field("credentials", &self.credentials)
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("client_id", &self.client_id)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "(secret)"))
            .finish()
    }
}
