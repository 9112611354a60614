//! Start of a session: the entries that a claim writes once older connections have ended.
//!
//! The session's entry is written anew with the birth of the session that is found (rule
//! `session-anew`), or with a birth of its own. A Clean Start ends the older session first. All
//! that is written follows from what the node has seen of the client.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::known_session::KnownSession;
use crate::queue_limits::QueueValue;
use crate::{Birth, Dot, Ending, Entry, EntryKind, Fact, VersionVector};

/// Birth of the session whose entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionBirth {
    /// The session is found, and goes on.
    Resumed(Birth),
    /// The session is born with the event that is to be made.
    New {
        /// Clock of the birth: that of the connection. A session that began after it stays.
        clock: Hlc,
        /// The CONNECT asks for a Clean Start.
        is_clean: bool,
    },
}

impl SessionBirth {
    /// Birth in the entry that the event `dot` makes.
    pub fn at(self, dot: Dot) -> Birth {
        match self {
            SessionBirth::Resumed(birth) => birth,
            SessionBirth::New { clock, is_clean } => Birth { dot, clock, is_clean },
        }
    }
}

/// Session's entry to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStart {
    /// Birth of the session.
    pub birth: SessionBirth,
    /// Clock of the connection, which the entry names.
    pub connected: Hlc,
    /// Events whose entries are removed: older entries of the session, its expiries, and delayed wills that
    /// it cancels (rule `will-cancelled`).
    pub removes: BTreeSet<Dot>,
    /// The clock of the event is after this one, so that the entry is the latest of the session.
    pub after: Hlc,
    /// Clock of the end of the last connection. None where that is not known, or there was none.
    pub left_at: Option<Hlc>,
}

/// End of an older session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEnd {
    /// Events whose entries are removed.
    pub removes: BTreeSet<Dot>,
    /// Entry that the session leaves. None where there is no session.
    pub left: Option<Ending>,
}

/// End of an older connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionEnd {
    /// Event of the connection, whose entry is removed.
    pub connection: Dot,
    /// Birth that the will of the connection names: the event adds a [`Fact::ConnectionEnd`] with it
    /// (rule `will-left`). None: the connection has no will, or was released and has left it itself.
    pub will: Option<Birth>,
}

/// CONNECT whose session is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Starting {
    /// Event of the connection.
    pub(super) connection: Dot,
    /// Clock of that event.
    pub(super) clock: Hlc,
    pub(super) is_clean: bool,
}

impl<V: Ord + QueueValue> KnownSession<V> {
    /// Birth of the latest session that counts, but for the one whose entry `start` has made.
    pub(super) fn latest_session(&self, start: Option<Dot>) -> Option<Birth> {
        let counting = self.entries().live(EntryKind::Session, |_| true);
        let others = counting.filter(|(dot, _)| Some(*dot) != start);
        let latest = others.max_by_key(|(dot, entry)| (entry.clock, *dot));
        latest.map(|(_, entry)| entry.birth)
    }

    /// End of the session that the node has seen. `decided` are the events that the owners, and this
    /// node's routes, have decided upon (rule `end-covers`).
    pub(super) fn session_end(&self, decided: &VersionVector) -> SessionEnd {
        let left = self.entries().ending(decided);
        let is_removed = |kind: EntryKind| match kind {
            EntryKind::Connection | EntryKind::Will | EntryKind::ConnectionEnd | EntryKind::WillNumber => {
                false
            }
            // What an older end has beaten is beaten by the new one.
            EntryKind::End => left.is_some(),
            _ => true,
        };
        let removed = self.entries().iter().filter(|(id, _)| is_removed(id.kind));
        SessionEnd {
            removes: removed.map(|(id, _)| id.dot).collect(),
            left,
        }
    }

    /// End of the sessions that an owner, or this node's routes, have seen, without a CONNECT. It names
    /// only what says that they exist.
    ///
    /// A CONNECT that the maker has not seen may have resumed a session. Then all that is left of the
    /// session counts again, and otherwise it is garbage.
    pub(crate) fn bare_end(&self, decided: &VersionVector) -> SessionEnd {
        let left = self.entries().ending(decided);
        let is_removed =
            |kind: EntryKind| matches!(kind, EntryKind::Session | EntryKind::Expiry | EntryKind::End);
        let removed = self.entries().iter().filter(|(id, _)| is_removed(id.kind));
        SessionEnd {
            removes: removed.map(|(id, _)| id.dot).filter(|_| left.is_some()).collect(),
            left,
        }
    }

    /// Session's entry for a CONNECT. `resumed` is the birth of the session that goes on.
    pub(super) fn session_start(&self, starting: Starting, resumed: Option<Birth>) -> SessionStart {
        let new = SessionBirth::New {
            clock: starting.clock,
            is_clean: starting.is_clean,
        };
        let sessions = self.entries().of_kind(EntryKind::Session);
        let is_older = |entry: &Entry<V>| resumed.is_some_and(|birth| birth.dot == entry.birth.dot);
        let older = sessions.filter(|(_, entry)| is_older(entry)).map(|(dot, _)| dot);
        let expiries = self.entries().of_kind(EntryKind::Expiry);
        let expiries = expiries.filter(|(_, entry)| is_older(entry)).map(|(dot, _)| dot);
        let wills = self.entries().of_kind(EntryKind::Will);
        let cancelled = wills
            .filter(|(_, entry)| starting.cancels(entry))
            .map(|(dot, _)| dot);
        let clocks = self.entries().iter().map(|(_, entry)| entry.clock);
        SessionStart {
            birth: resumed.map_or(new, SessionBirth::Resumed),
            connected: starting.clock,
            removes: older.chain(expiries).chain(cancelled).collect(),
            after: clocks.chain([starting.clock]).max().unwrap_or(Hlc::ZERO),
            left_at: resumed.and_then(|_| self.left_at()),
        }
    }

    /// Clock of the end of the last connection, as its own node has written it: that node had seen the clocks of
    /// all messages that it sent. After a split nobody knows which connection was the last.
    fn left_at(&self) -> Option<Hlc> {
        let mut sessions = self.entries().of_kind(EntryKind::Session);
        let (Some((begun, session)), None) = (sessions.next(), sessions.next()) else {
            return None;
        };
        let expiries = self.entries().of_kind(EntryKind::Expiry);
        let own = expiries.filter(|(dot, entry)| dot.run == begun.run && entry.clock > session.clock);
        own.map(|(_, entry)| entry.clock).max()
    }

    /// End of a connection of the client. One that was released has decided itself whether its will is
    /// left: after DISCONNECT it is not.
    pub(super) fn connection_end(&self, connection: Dot, is_released: bool) -> ConnectionEnd {
        let mut wills = self.entries().of_kind(EntryKind::Will);
        let will = wills.find(|(_, entry)| entry.fact.named() == Some(connection));
        ConnectionEnd {
            connection,
            will: will.filter(|_| !is_released).map(|(_, entry)| entry.birth),
        }
    }
}

impl Starting {
    /// The will waits for its delay, which the CONNECT ends unless it begins clean.
    fn cancels<V>(&self, will: &Entry<V>) -> bool {
        match &will.fact {
            Fact::Will(terms) => {
                let is_older = terms.connection != self.connection;
                !self.is_clean && is_older && terms.delayed_since.is_some()
            }
            _ => false,
        }
    }
}
