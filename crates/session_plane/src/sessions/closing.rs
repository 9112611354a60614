//! Closing: what a connection of this node leaves when it ends.
//!
//! Last acknowledgements are made before. The expiry of the session, or its end, follows, then the end of
//! the will, then that of the connection itself. So a copy that has the end of a connection has what is left
//! of its session.

use super::acting::Queue;
use super::entries::{OwnWrite, Written};
use super::{Sessions, SessionsAction, SessionsValue};
use crate::connecting::{ConnectionEvent, ConnectionId, KnownSession};
use crate::delivering::DeliveringEvent;
use crate::expiring::SessionExpiry;
use crate::groups::SinkEvent;
use crate::plane::{CopyRef, Matching, NewBirth, NewChange, NewEntry, Now};
use crate::transfer::TransferBytes;
use crate::wills::WillEnd;
use crate::{ClientId, ConnectionOrder, Dot, Entry, EntryKind, Fact, Slot};

/// What a connection leaves when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionRest {
    /// What becomes of its will.
    pub will: WillEnd,
    /// What becomes of its session.
    pub session: SessionRest,
}

/// What becomes of the session of a connection that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRest {
    /// A later connection has it, or it has ended: nothing is written.
    TakenOver,
    /// It expires: by the interval that CONNECT or DISCONNECT has said last.
    Expires(SessionExpiry),
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Ends a connection: the client has left, or was told to. Its last acknowledgements are made
    /// before. [`SessionsAction::Closed`] says when all that it leaves is durable.
    ///
    /// `rest` says what becomes of its will and of its session.
    pub fn close(
        &mut self,
        now: Now,
        connection: ConnectionId,
        rest: ConnectionRest,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let Some(client) = self.clients.get_mut(&connection) else {
            return;
        };
        let is_first = !std::mem::replace(&mut client.is_closing, true);
        let mut queue = Queue::default();
        self.close_exchanges(connection, &mut queue);
        self.end_feed(connection, &mut queue);
        self.step_members(SinkEvent::Closed { connection }, &mut queue);
        self.step_delivering(DeliveringEvent::Closed { connection }, &mut queue);
        self.give_up_stalled(connection);
        if let SessionRest::Expires(expiry) = rest.session
            && is_first
        {
            self.leave_session(connection, expiry);
        }
        self.end_will(now, connection, rest.will, &mut queue);
        self.step(ConnectionEvent::Ended { connection }, &mut queue);
        self.close_if_durable(connection, &mut queue);
        self.apply(now, queue, actions);
    }

    /// Writes what becomes of a session, behind what waits. A claim that was refused may write its
    /// session's entry yet.
    fn leave_session(&mut self, connection: ConnectionId, expiry: SessionExpiry) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.leaves_session = true;
            let client = client.client().clone();
            self.write_later(connection, client, OwnWrite::SessionRest(expiry));
        }
    }

    /// Change that an ending connection makes of its session. None where it has written no entry of a
    /// session, or where the session does not count any more.
    ///
    /// The session is ended only if the routes have no other entry of a session: another connection may
    /// have that, and the primary owner decides. Where a later connection has written it, what that one has
    /// said of the session's end stays (rule `loser-released`).
    pub(super) fn session_rest(
        &self,
        connection: Option<ConnectionId>,
        expiry: SessionExpiry,
    ) -> Option<NewChange<V>> {
        let client = self.clients.get(&connection?)?;
        let written = &client.session.as_ref()?.entry;
        let own = written.dot;
        let (client, birth) = (client.client(), self.birth(connection?)?);
        let routes = self.plane.copy(Slot::ROUTES)?;
        let live = routes
            .entries
            .live(routes.covered, client.as_bytes(), EntryKind::Session);
        let counting: Vec<(Dot, &Entry<V>)> = live.collect();
        if !counting.iter().any(|(_, entry)| entry.birth.dot == birth.dot) {
            return None;
        }
        let is_alone = matches!(counting[..], [(dot, _)] if dot == own);
        if expiry == SessionExpiry::WITH_CONNECTION && is_alone {
            return self.bare_end(&routes, client);
        }
        let removes = match is_overtaken((own, &written.entry), &counting) {
            true => Vec::new(),
            false => self.known_expiries(client),
        };
        Some(NewChange {
            client: client.clone(),
            removes,
            adds: Some(NewEntry {
                birth: NewBirth::Of(birth),
                fact: Fact::Expiry {
                    connected: ConnectionOrder::named_by(own, &written.entry),
                },
                value: V::of_expiry(expiry),
            }),
        })
    }

    /// End of all sessions of a client that a copy has, or the routes. None where it has none.
    pub(super) fn bare_end(&self, copy: &CopyRef<'_, V>, client: &ClientId) -> Option<NewChange<V>> {
        let known = KnownSession::of_whole(copy.entries, copy.covered, client);
        let end = known.bare_end(copy.covered);
        let ending = end.left?;
        Some(NewChange {
            client: client.clone(),
            removes: end.removes.into_iter().collect(),
            adds: Some(self.blank(ending.birth, ending.fact)),
        })
    }

    /// Expiries of a client in this node's copy, if it has one.
    fn known_expiries(&self, client: &ClientId) -> Vec<Dot> {
        let copy = self.plane.copy(Slot::of_client(client.as_bytes()));
        let session = copy.and_then(|copy| copy.entries.session(client.as_bytes()));
        let expiries = session.into_iter();
        let expiries = expiries.flat_map(|session| session.of_kind(EntryKind::Expiry));
        expiries.map(|(dot, _)| dot).collect()
    }

    /// The entry of a session that expires, or its end, is made.
    pub(super) fn rest_written(
        &mut self,
        connection: ConnectionId,
        written: Option<Written<V>>,
        queue: &mut Queue<V, M>,
    ) {
        if let Some(written) = written {
            self.note_event(Some(connection), written.made.dot);
        }
        if let Some(client) = self.clients.get_mut(&connection) {
            client.leaves_session = false;
        }
        self.close_if_durable(connection, queue);
    }
}

/// A later connection has written one of the sessions that count.
fn is_overtaken<V>(own: (Dot, &Entry<V>), counting: &[(Dot, &Entry<V>)]) -> bool {
    let order = |(dot, entry): (Dot, &Entry<V>)| ConnectionOrder::named_by(dot, entry);
    counting.iter().any(|other| order(*other) > order(own))
}

#[cfg(test)]
mod tests {
    use cluster::session_plane::Hlc;

    use super::*;
    use crate::Birth;
    use crate::copy::tests::entry_of;
    use crate::copy::tests::history::dot;

    /// Its client leaves before it is released, or its session is to end with it: the expiry of the later one stays.
    #[test]
    fn a_connection_is_overtaken_if_a_later_one_has_written_a_session() {
        let session = |of: u64, connected: Option<u64>| {
            let dot = dot(of, 2);
            let clock = Hlc::at(9);
            let birth = Birth {
                dot,
                clock,
                is_clean: false,
            };
            let connected = connected.map(Hlc::at);
            (dot, entry_of(Fact::Session { connected }, birth, clock, dot))
        };
        let (own, later, earlier, carried) = (
            session(1, Some(5)),
            session(2, Some(6)),
            session(3, Some(4)),
            session(0, None),
        );
        let own = (own.0, &own.1);
        assert!(is_overtaken(own, &[(later.0, &later.1), own]));
        assert!(!is_overtaken(
            own,
            &[own, (earlier.0, &earlier.1), (carried.0, &carried.1)]
        ));
    }
}
