//! Lifetime of a client's sessions, as a copy has it: the entries that decide when they end.

use std::collections::BTreeMap;

use cluster::session_plane::Hlc;

use super::{LifetimeValue, SessionExpiry};
use crate::{Birth, ConnectionOrder, Dot, Entry, EntryKind, SessionEntries};

/// Entry of a session, or of its expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeEntry {
    /// Event that made the entry.
    pub dot: Dot,
    /// Clock of that event.
    pub clock: Hlc,
    /// Birth of the session.
    pub birth: Birth,
    /// Interval in the value.
    pub expiry: SessionExpiry,
    /// Connection whose CONNECT has written the session's entry, or whose end the expiry follows.
    pub connection: Option<ConnectionOrder>,
}

/// Entry of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionEntry {
    /// Event that opened the connection.
    pub dot: Dot,
    /// Clock of that event.
    pub clock: Hlc,
    /// Birth that the will of the connection names. None where there is no will that counts.
    pub will: Option<Birth>,
}

/// Sessions of a client, and what says whether they have a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Entries of sessions that count.
    pub sessions: Vec<LifetimeEntry>,
    /// The routes have the entry of a session that the copy has not decided upon. So it may lack the
    /// connection that has written it.
    pub lacks_session: bool,
    /// Expiries whose session counts.
    pub expiries: Vec<LifetimeEntry>,
    /// Connections, whether or not they are open.
    pub connections: Vec<ConnectionEntry>,
}

impl LifetimeEntry {
    /// Reads an entry. Without an interval it is one that a peer has made wrong, and does not expire.
    pub fn new<V: LifetimeValue>(dot: Dot, entry: &Entry<V>) -> LifetimeEntry {
        LifetimeEntry {
            dot,
            clock: entry.clock,
            birth: entry.birth,
            expiry: entry.value.session_expiry().unwrap_or(SessionExpiry::NEVER),
            connection: ConnectionOrder::named_by(dot, entry),
        }
    }

    /// Place in the order of entries of a client: the last one is read. That of the later connection is
    /// later, whatever their own clocks: each side of a split may have written one.
    pub(super) fn order(&self) -> (Option<ConnectionOrder>, Hlc, Dot) {
        (self.connection, self.clock, self.dot)
    }
}

impl ConnectionEntry {
    /// Place among the connections of the client.
    pub(super) fn order(&self) -> ConnectionOrder {
        ConnectionOrder::of_connection(self.dot, self.clock)
    }
}

/// Lifetime of a client's sessions in a copy, without what only the routes have.
///
/// `covers` is that of [`SessionEntries::live`].
pub fn known_lifetime<V: LifetimeValue + Ord>(
    entries: &SessionEntries<V>,
    covers: impl Fn(Dot) -> bool + Copy,
) -> Lifetime {
    let read = |kind: EntryKind| {
        let counting = entries.live(kind, covers);
        let read = counting.map(|(dot, entry)| LifetimeEntry::new(dot, entry));
        read.collect::<Vec<LifetimeEntry>>()
    };
    let wills = entries.live(EntryKind::Will, covers);
    let wills: BTreeMap<Dot, Birth> = wills
        .filter_map(|(_, entry)| Some((entry.fact.named()?, entry.birth)))
        .collect();
    let connections = entries.of_kind(EntryKind::Connection);
    let connections = connections.map(|(dot, entry)| ConnectionEntry {
        dot,
        clock: entry.clock,
        will: wills.get(&dot).copied(),
    });
    Lifetime {
        sessions: read(EntryKind::Session),
        lacks_session: false,
        expiries: read(EntryKind::Expiry),
        connections: connections.collect(),
    }
}
