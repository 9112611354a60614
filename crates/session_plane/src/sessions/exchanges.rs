//! Exchanges: QoS 2 messages of clients, from PUBLISH to PUBCOMP, upon the plane (rules 40 to 52).
//!
//! Entries of packet ids are events of the plane, and routes of numbers go behind them. What the disk
//! and the peers confirm goes to [`Publishing`].

use std::collections::BTreeMap;

use super::acting::Queue;
use super::entries::ClientConnection;
use super::{Sessions, SessionsAction, SessionsValue};
use crate::connecting::{ConnectionId, KnownSession};
use crate::plane::{Matching, Now, OwnEntry, use_entry};
use crate::publishing::{OpenedConnection, PacketId, Publish, PublishingError, PublishingEvent};
use crate::stream::GivingId;
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, EntryKind, Slot};

/// Entry of a packet id whose number waits to be routed, or of a will whose number is on its way.
#[derive(Debug)]
pub(super) struct WaitingUse<V> {
    pub(super) entry: OwnEntry<V>,
    /// It goes to all owners of the ring in force. None where the event itself does.
    pub(super) giving: Option<GivingId>,
}

/// Entries of packet ids and of wills, by the numbers that they name.
pub(super) type WaitingUses<V> = BTreeMap<Dot, WaitingUse<V>>;

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Publishes a message with QoS 2. [`SessionsAction::Received`] or [`SessionsAction::NotReceived`]
    /// answers it, or the connection ends.
    pub fn publish_once(&mut self, now: Now, publish: Publish<M>, actions: &mut Vec<SessionsAction<V, M>>) {
        self.exchange(now, PublishingEvent::Published(publish), actions);
    }

    /// Frees a packet id: the client has sent PUBREL. [`SessionsAction::Freed`] answers it.
    pub fn release(
        &mut self,
        now: Now,
        connection: ConnectionId,
        packet_id: PacketId,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        let released = PublishingEvent::Released {
            connection,
            packet_id,
        };
        self.exchange(now, released, actions);
    }

    fn exchange(&mut self, now: Now, event: PublishingEvent<M>, actions: &mut Vec<SessionsAction<V, M>>) {
        let mut queue = Queue::default();
        self.step_own_publishing(event, &mut queue);
        self.apply(now, queue, actions);
    }

    /// Hands an event of this node to the publishing. Only a peer is refused.
    pub(super) fn step_own_publishing(&mut self, event: PublishingEvent<M>, queue: &mut Queue<V, M>) {
        let stepped = self.step_publishing(event, queue);
        debug_assert!(stepped.is_ok(), "this node keeps to the protocol");
    }

    pub(super) fn step_publishing(
        &mut self,
        event: PublishingEvent<M>,
        queue: &mut Queue<V, M>,
    ) -> Result<(), PublishingError> {
        let stepped = self.publishing.step(event, &mut queue.publishing);
        self.plane.reserve(self.publishing.reserved());
        stepped
    }

    /// Opens the exchanges of a connection that has its session.
    pub(super) fn open_exchanges(
        &mut self,
        connection: ConnectionId,
        session: &KnownSession<V>,
        queue: &mut Queue<V, M>,
    ) {
        let Some(client) = self.clients.get(&connection) else {
            return;
        };
        let Some(written) = client.session.as_ref() else {
            return;
        };
        // The session's own entry is not among what was told: this CONNECT has written it.
        let birth = written.entry.entry.birth;
        let told = session.entries().of_kind(EntryKind::Received);
        let of_session = told.filter(|(_, entry)| entry.birth == birth);
        let uses = of_session.filter_map(|(dot, entry)| use_entry(dot, entry));
        let opened = OpenedConnection {
            connection,
            client: client.client().clone(),
            clock: written.entry.entry.clock,
            uses: uses.collect(),
        };
        self.step_own_publishing(PublishingEvent::Opened(opened), queue);
    }

    /// Ends the exchanges of a connection.
    pub(super) fn close_exchanges(&mut self, connection: ConnectionId, queue: &mut Queue<V, M>) {
        let numbers: Vec<Dot> = self.publishing.waiting_of(connection).collect();
        self.step_own_publishing(PublishingEvent::Closed { connection }, queue);
        for number in numbers {
            if !self.publishing.has_message(number) {
                self.waiting_uses.remove(&number);
            }
        }
    }

    /// Forgets the entry of a packet id whose message is routed. That of a will's number stays: the nodes of
    /// another ring get it before the will.
    pub(super) fn forget_use(&mut self, number: Dot) {
        let is_of_will = |waiting: &WaitingUse<V>| waiting.entry.entry.fact.kind() == EntryKind::WillNumber;
        if !self.waiting_uses.get(&number).is_some_and(is_of_will) {
            self.waiting_uses.remove(&number);
        }
    }

    /// Tells the connections of a slot, or of one client there, what this node's own copy has come to
    /// have of their packet ids.
    pub(super) fn tell_uses(&mut self, slot: Slot, of: Option<&ClientId>, queue: &mut Queue<V, M>) {
        let connections: Vec<ConnectionId> = self.connections.of_slot(slot).collect();
        for connection in connections {
            self.tell_uses_of(connection, slot, of, queue);
        }
    }

    fn tell_uses_of(
        &mut self,
        connection: ConnectionId,
        slot: Slot,
        of: Option<&ClientId>,
        queue: &mut Queue<V, M>,
    ) {
        let client = self.clients.get(&connection);
        let client = client.filter(|client| client.session.is_some() && !client.is_closing);
        let client = client.map(ClientConnection::client);
        let Some(client) = client.filter(|client| of.is_none_or(|of| of == *client)) else {
            return;
        };
        if !self.plane.is_merged(slot) {
            return;
        }
        let uses = self.plane.packet_uses(client);
        self.step_own_publishing(PublishingEvent::UsesMerged { connection, uses }, queue);
    }
}
