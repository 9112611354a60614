//! Who is connected with a client id, and since when nobody is.
//!
//! A write replaces all that it has seen, so there is one entry as long as nobody wrote without knowing of the other. Several are the states of several
//! sides of a split; all are kept until the next write, since which of them counts must not depend on the order in which copies meet.
//! Connected beats disconnected; among equals the later one counts, and of two at the same moment the one with the greater dot.

use bytes::Bytes;

use super::encoding::{put_actor, put_bytes, take_actor, take_array, take_bytes};
use super::record::{Delta, Entry, Kind, Record, Value, Writer};
use super::vector_clock::ClockFull;
use super::{Actor, Hlc};

/// A session, as of one write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionState {
    /// Whether somebody is connected.
    pub presence: Presence,
    /// After so many seconds without a connection the session ends; `u32::MAX` is for ever.
    pub expiry: u32,
    /// What else belongs to it, opaque here.
    pub attributes: Bytes,
}

/// Whether somebody is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// Nobody, since the entry's moment.
    Disconnected,
    /// A client, since the entry's moment.
    Connected(Connection),
}

/// One connection, among those of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Connection {
    /// The node that holds it, as started when it was made.
    pub front: Actor,
    /// Which of that node's.
    pub number: u64,
}

/// What a front is to do with a connection that it holds, after the session's record has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The session is this connection's. Nothing.
    Holds,
    /// The session was taken over: DISCONNECT with reason code 0x8E, and nothing is written, since nobody asks any more whether this one ended.
    TakenOver,
    /// The other side took the front for dead. It is not: the home writes again what the front has ([`Record::write_again`]).
    PresumedLost,
}

impl Record<SessionState> {
    /// Somebody has connected or disconnected, or something else of the session is another.
    pub fn replace(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        state: SessionState,
    ) -> Result<Delta<SessionState>, ClockFull> {
        let seen = self.all_dots();
        self.write(writer, wall, seen, vec![state])
    }

    /// The state that counts, and since when; `None`: there is no session.
    pub fn state(&self) -> Option<(&SessionState, Hlc)> {
        let rank = |entry: &&Entry<SessionState>| {
            let is_connected = entry.value.presence != Presence::Disconnected;
            (is_connected, entry.hlc, entry.dot)
        };
        self.entries()
            .max_by_key(rank)
            .map(|entry| (&entry.value, entry.hlc))
    }

    /// How a connection stands that was accepted for this session and not ended yet.
    pub fn standing(&self, connection: Connection) -> Standing {
        match self.state().map(|(state, _)| state.presence) {
            Some(Presence::Connected(holder)) if holder == connection => Standing::Holds,
            Some(Presence::Connected(_)) => Standing::TakenOver,
            Some(Presence::Disconnected) | None => Standing::PresumedLost,
        }
    }
}

impl Value for SessionState {
    const KIND: Kind = Kind::Session;

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self.presence {
            Presence::Disconnected => bytes.push(DISCONNECTED),
            Presence::Connected(connection) => {
                bytes.push(CONNECTED);
                put_connection(connection, bytes);
            }
        }
        bytes.extend(self.expiry.to_be_bytes());
        put_bytes(&self.attributes, bytes);
    }

    fn decode(bytes: &mut &[u8]) -> Option<SessionState> {
        let presence = match take_array(bytes)? {
            [DISCONNECTED] => Presence::Disconnected,
            [CONNECTED] => Presence::Connected(take_connection(bytes)?),
            _ => return None,
        };
        Some(SessionState {
            presence,
            expiry: u32::from_be_bytes(take_array(bytes)?),
            attributes: take_bytes(bytes)?,
        })
    }
}

pub(super) fn put_connection(connection: Connection, bytes: &mut Vec<u8>) {
    put_actor(connection.front, bytes);
    bytes.extend(connection.number.to_be_bytes());
}

pub(super) fn take_connection(bytes: &mut &[u8]) -> Option<Connection> {
    Some(Connection {
        front: take_actor(bytes)?,
        number: u64::from_be_bytes(take_array(bytes)?),
    })
}

const DISCONNECTED: u8 = 0;
const CONNECTED: u8 = 1;
