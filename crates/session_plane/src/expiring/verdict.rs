//! Verdict: what the entries of a client ask of the primary owner.
//!
//! A connection *has* a session if the session's entry is later: its own CONNECT has written it, or one on
//! another side of a split. Its own *expiry* is a later event of its run. So of a connection that is gone
//! with its run the copy shows whether anything was written for its end.
//!
//! *Invariant*: what is done changes the entries, so that the next look finds something else to do, or
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::RunState;
use super::action::ExpiringAction;
use super::lifetime::{ConnectionEntry, Lifetime, LifetimeEntry};
use super::session_expiry::SessionExpiry;
use crate::{Birth, ClientId, ConnectionOrder, Dot, Run};

/// What is to be done about a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing, until the entries or the cluster change.
    Nothing,
    /// The client is looked at again when the wall clock has come to this many milliseconds.
    LookAt(u64),
    /// Open connections are earlier than one that has ended: their nodes are asked to end them. As the question
    /// may be lost, the client is looked at again when the wall clock has come to `again`.
    Release { connections: BTreeSet<Dot>, again: u64 },
    /// Something is to be written.
    Act(Act),
}

/// Time of a verdict, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    /// Wall clock.
    pub(super) wall: u64,
    /// Time that a claim takes at most.
    pub(super) claim_max: u64,
}

impl Time {
    fn end_of_claim(self, connection: &ConnectionEntry) -> u64 {
        connection.clock.wall().saturating_add(self.claim_max)
    }
}

/// What is to be written about a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    End { connections: BTreeSet<Dot> },
    Write(NewExpiry),
    Remove(BTreeSet<Dot>),
}

/// Expiry that an owner writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NewExpiry {
    birth: Birth,
    connected: Option<ConnectionOrder>,
    expiry: SessionExpiry,
    removes: BTreeSet<Dot>,
    /// Connections with wills, that are left behind the entry, and what the wills name.
    wills: BTreeMap<Dot, Birth>,
}

/// Connections of a client, by what is known of their runs.
struct Connections<'a> {
    /// Their runs are present.
    open: Vec<&'a ConnectionEntry>,
    /// Their runs were given up: they may be open.
    absent: Vec<&'a ConnectionEntry>,
    ended: Vec<&'a ConnectionEntry>,
}

impl Act {
    /// Appends the actions, of which each makes one event.
    pub(super) fn append_to(self, client: &ClientId, actions: &mut Vec<ExpiringAction>) {
        let client = client.clone();
        match self {
            Act::End { connections } => actions.push(ExpiringAction::End { client, connections }),
            Act::Remove(removes) => actions.push(ExpiringAction::Remove { client, removes }),
            Act::Write(new) => {
                actions.push(ExpiringAction::Write {
                    client: client.clone(),
                    birth: new.birth,
                    connected: new.connected,
                    expiry: new.expiry,
                    removes: new.removes,
                });
                let wills = new.wills.into_iter();
                actions.extend(wills.map(|(connection, birth)| ExpiringAction::LeaveWill {
                    client: client.clone(),
                    connection,
                    birth,
                }));
            }
        }
    }
}

impl Verdict {
    /// Removes entries, unless there are none.
    fn removing(removes: BTreeSet<Dot>) -> Verdict {
        if removes.is_empty() {
            Verdict::Nothing
        } else {
            Verdict::Act(Act::Remove(removes))
        }
    }
}

impl<'a> Connections<'a> {
    fn new(entries: &'a [ConnectionEntry], run_state: impl Fn(Run) -> RunState) -> Connections<'a> {
        let of = |state: RunState| {
            let entries = entries.iter();
            entries
                .filter(|entry| run_state(entry.dot.run) == state)
                .collect()
        };
        Connections {
            open: of(RunState::Present),
            absent: of(RunState::Absent),
            ended: of(RunState::Ended),
        }
    }

    fn may_be_open(&self) -> bool {
        !self.open.is_empty() || !self.absent.is_empty()
    }

    /// Entries that nobody needs: their run has ended, and they have no will.
    fn gone(&self) -> BTreeSet<Dot> {
        let without_will = self.ended.iter().filter(|connection| connection.will.is_none());
        without_will.map(|connection| connection.dot).collect()
    }
}

impl Lifetime {
    /// What is to be done now.
    pub(super) fn verdict(&self, time: Time, run_state: impl Fn(Run) -> RunState) -> Verdict {
        let connections = Connections::new(&self.connections, run_state);
        if self.sessions.is_empty() {
            Verdict::removing(connections.gone())
        } else if self.lacks_session {
            // The connection that has written what the copy lacks may be open. Nobody tells when a hole is closed.
            Verdict::LookAt(time.wall + LOOK_AGAIN)
        } else if connections.may_be_open() {
            self.left_beside(time, &connections)
        } else {
            self.without_connection(time.wall, &connections)
        }
    }

    /// The connection has a session, or had it.
    fn has_session(&self, connection: &ConnectionEntry) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|session| session.clock > connection.clock)
    }

    /// The connection has no claim any more, whose CONNECT may fail. A claim of another side may be older than
    /// a session's entry.
    fn is_settled(&self, time: Time, connection: &ConnectionEntry) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|session| is_own(session, connection)) || time.end_of_claim(connection) <= time.wall
    }

    /// Removes what is left beside a connection that may be open.
    ///
    /// An open connection with a session writes an expiry of its own when it ends. One that claims a session
    /// may fail, and one whose node was given up may have ended before: what is there stays. It stays, too, beside
    /// a connection that is earlier than one which has ended: that one said until when the session lasts.
    fn left_beside(&self, time: Time, connections: &Connections<'_>) -> Verdict {
        let open = connections.open.iter().copied();
        let (holders, claims): (Vec<&ConnectionEntry>, Vec<&ConnectionEntry>) = open
            .filter(|of| self.has_session(of))
            .partition(|of| self.is_settled(time, of));
        let overtaken = self.overtaken(&holders);
        if !overtaken.is_empty() {
            let (connections, again) = (overtaken, time.wall + LOOK_AGAIN);
            return Verdict::Release { connections, again };
        }
        let is_left = |expiry: &LifetimeEntry| holders.iter().any(|holder| !is_own(expiry, holder));
        let expiries = self.expiries.iter().filter(|expiry| is_left(expiry));
        let mut left: BTreeSet<Dot> = expiries.map(|expiry| expiry.dot).collect();
        left.append(&mut self.outdated());
        if !holders.is_empty() {
            left.append(&mut connections.gone());
        }
        let end = claims.into_iter().map(|of| time.end_of_claim(of)).min();
        match end.filter(|_| left.is_empty()) {
            Some(end) => Verdict::LookAt(end),
            None => Verdict::removing(left),
        }
    }

    /// Open connections that are earlier than one whose CONNECT has written a session's entry.
    fn overtaken(&self, holders: &[&ConnectionEntry]) -> BTreeSet<Dot> {
        let latest = self
            .sessions
            .iter()
            .filter_map(|session| session.connection)
            .max();
        let overtaken = holders.iter().filter(|holder| Some(holder.order()) < latest);
        overtaken.map(|holder| holder.dot).collect()
    }

    /// Expiries of sessions that a CONNECT has resumed since.
    fn outdated(&self) -> BTreeSet<Dot> {
        let is_outdated = |expiry: &&LifetimeEntry| {
            let mut sessions = self.sessions.iter();
            sessions.any(|session| session.birth.dot == expiry.birth.dot && session.order() > expiry.order())
        };
        let outdated = self.expiries.iter().filter(is_outdated);
        outdated.map(|expiry| expiry.dot).collect()
    }

    /// No connection may be open.
    fn without_connection(&self, wall: u64, connections: &Connections<'_>) -> Verdict {
        let sessions = self.latest_sessions();
        let ended = connections.ended.iter().copied();
        let unwritten: Vec<&ConnectionEntry> = ended.filter(|of| self.is_unwritten(of)).collect();
        let latest = sessions.values().max_by_key(|session| session.order());
        let without_expiry = sessions.values().filter(|of| self.expiry_of(of).is_none());
        let due = match unwritten.is_empty() {
            true => without_expiry.max_by_key(|session| session.order()),
            false => latest,
        };
        match due {
            Some(session) => self.begin(session, &unwritten, connections),
            None => self.wait(wall, &sessions, connections),
        }
    }

    /// Latest entry of each session, by its birth.
    fn latest_sessions(&self) -> BTreeMap<Dot, &LifetimeEntry> {
        let mut latest: BTreeMap<Dot, &LifetimeEntry> = BTreeMap::new();
        for session in &self.sessions {
            let last = latest.entry(session.birth.dot).or_insert(session);
            if session.order() > last.order() {
                *last = session;
            }
        }
        latest
    }

    /// The connection had a session, and no expiry follows its end, or that of a later connection.
    fn is_unwritten(&self, connection: &ConnectionEntry) -> bool {
        let order = Some(connection.order());
        let mut expiries = self.expiries.iter();
        let is_written = expiries.any(|expiry| is_own(expiry, connection) || expiry.connection >= order);
        self.has_session(connection) && !is_written
    }

    /// Expiry that holds for the latest entry of a session: that of the latest connection. Owners on two sides of
    /// a split may have written one each for it, and neither knew of the other's: the one that lasts longer holds.
    fn expiry_of(&self, session: &LifetimeEntry) -> Option<&LifetimeEntry> {
        let of_session = self
            .expiries
            .iter()
            .filter(|expiry| expiry.birth.dot == session.birth.dot && expiry.order() > session.order());
        of_session.max_by_key(|expiry| {
            let end = expiry.expiry.end(expiry.clock.wall());
            (expiry.connection, end.is_none(), end, expiry.order())
        })
    }

    /// The interval of a session begins now: nothing was written when its connection has ended. Also one without an end is
    /// written: another side of a split may have written a shorter one, later than the session's entry.
    fn begin(
        &self,
        session: &LifetimeEntry,
        unwritten: &[&ConnectionEntry],
        connections: &Connections<'_>,
    ) -> Verdict {
        let expiry = self.said(session, unwritten);
        let mut sessions = self.sessions.iter();
        let is_only = sessions.all(|other| other.birth.dot == session.birth.dot);
        if expiry == SessionExpiry::WITH_CONNECTION && is_only {
            let connections = connections.gone();
            return Verdict::Act(Act::End { connections });
        }
        let of_session = self.expiries.iter();
        let of_session = of_session.filter(|expiry| expiry.birth.dot == session.birth.dot);
        let mut removes: BTreeSet<Dot> = of_session.map(|expiry| expiry.dot).collect();
        removes.append(&mut self.outdated());
        removes.append(&mut connections.gone());
        let wills = unwritten.iter().filter_map(|of| Some((of.dot, of.will?)));
        let connections = unwritten.iter().map(|of| of.order());
        Verdict::Act(Act::Write(NewExpiry {
            birth: session.birth,
            connected: connections.max().max(session.connection),
            expiry,
            removes,
            wills: wills.collect(),
        }))
    }

    /// Interval of a session whose connections have written nothing at their end.
    ///
    /// What was said on another side holds as long as that of their own CONNECT, or instead of it if the
    /// copy has none: a later CONNECT has replaced it.
    fn said(&self, session: &LifetimeEntry, unwritten: &[&ConnectionEntry]) -> SessionExpiry {
        let is_of = |entry: &&LifetimeEntry| unwritten.iter().any(|of| is_own(entry, of));
        let written = self.sessions.iter().filter(is_of);
        let written = written.max_by_key(|entry| entry.order());
        let said = [written, self.expiry_of(session)].into_iter().flatten();
        let longest = said.map(|entry| entry.expiry).max();
        longest.unwrap_or(session.expiry)
    }

    /// Each session has an expiry that holds: the last one to end decides.
    fn wait(
        &self,
        wall: u64,
        sessions: &BTreeMap<Dot, &LifetimeEntry>,
        connections: &Connections<'_>,
    ) -> Verdict {
        let ends = sessions.values().filter_map(|session| self.expiry_of(session));
        let ends: Option<Vec<u64>> = ends
            .map(|expiry| expiry.expiry.end(expiry.clock.wall()))
            .collect();
        let end = ends.and_then(|ends| ends.into_iter().max());
        let mut left = self.outdated();
        left.append(&mut connections.gone());
        match end {
            Some(end) if end <= wall => {
                let connections = connections.gone();
                Verdict::Act(Act::End { connections })
            }
            Some(end) if left.is_empty() => Verdict::LookAt(end),
            _ => Verdict::removing(left),
        }
    }
}

/// The entry is a later event of the run that has, or had, the connection.
fn is_own(entry: &LifetimeEntry, connection: &ConnectionEntry) -> bool {
    entry.dot.run == connection.dot.run && entry.dot.number > connection.dot.number
}

/// Milliseconds after which a client is looked at again whose copy lacks a session's entry, or whose earlier
/// connection is open.
const LOOK_AGAIN: u64 = 1_000;
