//! Ending: sessions that this node ends as their primary owner, or for an operator, and connections whose
//! session has ended elsewhere.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::acting::Queue;
use super::entries::{EntryWrite, OwnWrite};
use super::willing::new_entry;
use super::{Sessions, SessionsAction, SessionsValue};
use crate::connecting::{ConnectionEvent, ConnectionId};
use crate::expiring::{ExpiringAction, ExpiringEvent};
use crate::plane::{Matching, NewChange, NewEntry, Now};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, EntryKind, Fact, Slot, SlotSet};

/// Change of a session that expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LifetimeWrite<V> {
    change: NewChange<V>,
    /// It is void if the client has later entries than this when it is made: a CONNECT, or the end of a
    /// connection. None where it always holds.
    as_of: Option<Hlc>,
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Ends the sessions of a client for an operator, by this node's routes. The connection that has the
    /// session, here or elsewhere, is told to leave. False where there is no session.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the operator waits.
    pub fn end_session(
        &mut self,
        now: Now,
        client: &ClientId,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<bool, StreamFull> {
        let routes = self.plane.copy(Slot::ROUTES);
        let Some(change) = routes.and_then(|routes| self.bare_end(&routes, client)) else {
            return Ok(false);
        };
        let mut queue = Queue::default();
        let slots = with_routes(client);
        self.plane.change(now, slots, change, &mut queue.plane)?;
        self.apply(now, queue, actions);
        Ok(true)
    }

    /// Does what sessions that expire ask for.
    pub(super) fn apply_expiring(&mut self, now: Now, action: ExpiringAction, queue: &mut Queue<V, M>) {
        let client = action.client().clone();
        let as_of = action.is_of_moment().then(|| self.latest_clock(&client));
        let change = match action {
            ExpiringAction::End { client, connections } => self.expired_end(&client, connections),
            ExpiringAction::Write {
                client,
                birth,
                connected,
                expiry,
                removes,
            } => {
                let adds = new_entry(birth, Fact::Expiry { connected }, V::of_expiry(expiry));
                Some(changing(client, removes, Some(adds)))
            }
            ExpiringAction::LeaveWill {
                client,
                connection,
                birth,
            } => {
                let adds = new_entry(birth, Fact::ConnectionEnd { connection }, V::of_will_end(None));
                Some(changing(client, BTreeSet::from([connection]), Some(adds)))
            }
            ExpiringAction::Remove { client, removes } => Some(changing(client, removes, None)),
            ExpiringAction::Release { connections, .. } => {
                return self.release_overtaken(&connections, queue);
            }
        };
        match change {
            Some(change) => self.stalled.push_back(EntryWrite {
                connection: None,
                client,
                write: OwnWrite::Lifetime(LifetimeWrite { change, as_of }),
            }),
            None => self.step_expiring(now, ExpiringEvent::Made { client }),
        }
    }

    /// Change of a session that expires. None where something was written meanwhile.
    pub(super) fn lifetime_change(&self, write: &LifetimeWrite<V>) -> Option<NewChange<V>> {
        let latest = || self.latest_clock(&write.change.client);
        let holds = write.as_of.is_none_or(|as_of| latest() == as_of);
        holds.then(|| write.change.clone())
    }

    /// End of a client's sessions, by this node's copy of its slot.
    fn expired_end(&self, client: &ClientId, connections: BTreeSet<Dot>) -> Option<NewChange<V>> {
        let copy = self.plane.copy(Slot::of_client(client.as_bytes()))?;
        let mut end = self.bare_end(&copy, client)?;
        end.removes.extend(connections);
        Some(end)
    }

    /// Latest clock of what this node has of a client's sessions. An expiry that it writes is later.
    pub(super) fn latest_clock(&self, client: &ClientId) -> Hlc {
        let slots = [Slot::of_client(client.as_bytes()), Slot::ROUTES];
        let copies = slots.into_iter().filter_map(|slot| self.plane.copy(slot));
        let sessions = copies.filter_map(|copy| copy.entries.session(client.as_bytes()));
        let kinds = [EntryKind::Session, EntryKind::Expiry];
        let entries = sessions.flat_map(|session| kinds.map(|kind| session.of_kind(kind)));
        let clocks = entries.flatten().map(|(_, entry)| entry.clock);
        clocks.max().unwrap_or(Hlc::ZERO)
    }

    /// Parts with a client whose session does not count any more in this node's routes.
    pub(super) fn part_if_ended(&mut self, client: &ClientId, queue: &mut Queue<V, M>) {
        let Some(connection) = self.fed.get(client).copied() else {
            return;
        };
        if self.has_session_ended(client, connection) {
            self.step(ConnectionEvent::SessionEnded { connection }, queue);
        }
    }

    /// As [`Sessions::part_if_ended`], behind CONNACK: the session may have ended since it was claimed.
    pub(super) fn part_if_accepted_late(&mut self, connection: ConnectionId, queue: &mut Queue<V, M>) {
        let client = self
            .clients
            .get(&connection)
            .map(|client| client.client().clone());
        if let Some(client) = client {
            self.part_if_ended(&client, queue);
        }
    }

    /// The routes have merged: parts with all clients whose session does not count.
    pub(super) fn part_with_ended(&mut self, queue: &mut Queue<V, M>) {
        let fed = self.fed.iter();
        let ended = fed.filter(|(client, connection)| self.has_session_ended(client, **connection));
        let ended: Vec<ConnectionId> = ended.map(|(_, connection)| *connection).collect();
        for connection in ended {
            self.step(ConnectionEvent::SessionEnded { connection }, queue);
        }
    }

    /// The merged routes have no session that has the birth of the connection's.
    fn has_session_ended(&self, client: &ClientId, connection: ConnectionId) -> bool {
        let routes = self.plane.copy(Slot::ROUTES);
        let routes = routes.filter(|_| self.plane.is_merged(Slot::ROUTES));
        let Some((routes, birth)) = routes.zip(self.birth(connection)) else {
            return false;
        };
        let mut live = routes
            .entries
            .live(routes.covered, client.as_bytes(), EntryKind::Session);
        !live.any(|(_, session)| session.birth.dot == birth.dot)
    }
}

fn changing<V>(client: ClientId, removes: BTreeSet<Dot>, adds: Option<NewEntry<V>>) -> NewChange<V> {
    NewChange {
        client,
        removes: removes.into_iter().collect(),
        adds,
    }
}

/// Slots of a session and of its end.
pub(super) fn with_routes(client: &ClientId) -> SlotSet {
    SlotSet::from_iter([Slot::of_client(client.as_bytes()), Slot::ROUTES])
}
