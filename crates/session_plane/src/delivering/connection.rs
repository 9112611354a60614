//! Open connection: the packet ids that it uses, and what waits for its turn.
//!
//! *Invariants*: a packet id is free, or this connection uses it, or older deliveries do. A message of
//! the queue has one packet id of this connection at most.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use super::DeliveringLimits;
use super::action::{DeliveringAction, DeliveryViolation, RemovedDelivery, WrittenDelivery};
use super::delivery::{DeliveryQos, DeliveryStage, PacketDelivery};
use super::event::OpenedReceiver;
use super::in_flight::{InFlight, Phase, Source};
use super::moving::MovingMessages;
use super::older::OlderDeliveries;
use super::packet_ids::PacketIds;
use super::turns::{Outgoing, ResumingTurns};
use super::unstored::Unstored;
use super::waiting::WaitingMessages;
use crate::connecting::ConnectionId;
use crate::feed::QueueKey;
use crate::publishing::PacketId;
use crate::{ClientId, Dot};

/// Connection that has its session, and receives.
#[derive(Debug)]
pub(super) struct OpenConnection<V> {
    id: ConnectionId,
    client: ClientId,
    /// Clock of the session's entry that its CONNECT has written.
    clock: Hlc,
    receive_maximum: usize,
    limits: DeliveringLimits,
    sent_before: Option<Hlc>,
    /// An owner has told the packet ids that the session has.
    pub(super) is_fed: bool,
    /// It is to be closed: nothing goes on.
    is_closing: bool,
    /// The client does not take more at this moment: no message begins.
    pub(super) is_paused: bool,
    pub(super) ids: PacketIds,
    pub(super) in_flight: BTreeMap<PacketId, InFlight<V>>,
    /// Packet ids in flight, but for those that are released.
    by_source: BTreeMap<Source, PacketId>,
    pub(super) older: OlderDeliveries,
    pub(super) resuming: ResumingTurns,
    pub(super) outgoing: Outgoing,
    pub(super) waiting: WaitingMessages<V>,
    pub(super) moving: MovingMessages<V>,
    pub(super) unstored: Unstored,
    /// Messages that the feed has passed on, and that are in the queue as far as this node knows.
    pub(super) held: BTreeMap<Dot, QueueKey>,
    /// Messages that this connection has removed while the feed had not passed them on, until that is
    /// durable: an owner that does not know yet may pass them on.
    pub(super) removed: BTreeSet<Dot>,
    /// Packet ids in flight that take a place of the Receive Maximum.
    counted: usize,
    next_order: u64,
}

impl<V> OpenConnection<V> {
    pub(super) fn new(opened: OpenedReceiver, limits: DeliveringLimits) -> OpenConnection<V> {
        OpenConnection {
            id: opened.connection,
            client: opened.client,
            clock: opened.clock,
            receive_maximum: usize::from(opened.receive_maximum.get()),
            limits,
            sent_before: opened.sent_before,
            // A new session has no packet ids.
            is_fed: opened.sent_before.is_none(),
            is_closing: false,
            is_paused: false,
            ids: PacketIds::default(),
            in_flight: BTreeMap::new(),
            by_source: BTreeMap::new(),
            older: OlderDeliveries::default(),
            resuming: ResumingTurns::default(),
            outgoing: Outgoing::default(),
            waiting: WaitingMessages::default(),
            moving: MovingMessages::default(),
            unstored: Unstored::default(),
            held: BTreeMap::new(),
            removed: BTreeSet::new(),
            counted: 0,
            next_order: 0,
        }
    }

    pub(super) fn id(&self) -> ConnectionId {
        self.id
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Packet ids that this connection uses, or has a place for.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len() + self.unstored.len() + self.moving.len()
    }

    /// Places of the Receive Maximum that are taken.
    fn receiving(&self) -> usize {
        self.counted + self.unstored.len() + self.moving.len()
    }

    /// Messages without a packet id, and older deliveries that this connection has not gone on with.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.older.len()
    }

    /// As many messages wait as may.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.limits.waiting_max
    }

    /// An older connection may have sent the message, as far as this node can know.
    pub(super) fn may_have_been_sent(&self, message: QueueKey) -> bool {
        self.sent_before.is_some_and(|before| message.clock <= before)
    }

    /// Begins what is next, as far as the limits allow. At the Receive Maximum only PUBREL goes on
    /// [MQTT-3.3.4-9] [MQTT-3.3.4-10].
    pub(super) fn begin_next(&mut self, actions: &mut Vec<DeliveringAction<V>>) {
        let in_flight_max = usize::from(self.limits.in_flight_max.get());
        self.begin_moved(actions);
        while self.is_fed && !self.is_closing && self.in_flight() < in_flight_max {
            if let Some(packet_id) = self.resuming.next_release() {
                self.begin_release(packet_id, actions);
                continue;
            }
            if self.is_paused || self.receiving() >= self.receive_maximum {
                return;
            }
            if let Some(packet_id) = self.resuming.next_resend() {
                self.begin_resend(packet_id, actions);
            } else if !self.begin_in_turn(actions) {
                return;
            }
        }
    }

    /// Packet id in flight of a message.
    pub(super) fn id_of(&self, source: &Source) -> Option<PacketId> {
        self.by_source.get(source).copied()
    }

    /// Packet id in flight of a message of the queue.
    pub(super) fn id_of_queued(&self, message: Dot) -> Option<PacketId> {
        self.id_of(&Source::Queue(message))
    }

    /// Uses a packet id, which is free or has older deliveries.
    pub(super) fn insert(&mut self, packet_id: PacketId, in_flight: InFlight<V>) {
        self.ids.take(packet_id);
        self.resuming.remove(packet_id);
        if !matches!(in_flight.source, Source::Freed(_)) {
            let before = self.by_source.insert(in_flight.source.clone(), packet_id);
            assert!(before.is_none(), "a message has one packet id of a connection");
        }
        self.counted += usize::from(in_flight.is_counted);
        let before = self.in_flight.insert(packet_id, in_flight);
        assert!(before.is_none(), "a packet id is of one message");
    }

    /// This connection uses the packet id.
    pub(super) fn is_in_use(&self, packet_id: PacketId) -> bool {
        self.in_flight.contains_key(&packet_id) || self.unstored.uses(packet_id)
    }

    /// The packet id is free, unless it is used.
    pub(super) fn free_if_unused(&mut self, packet_id: PacketId) {
        if !self.is_in_use(packet_id) && !self.older.uses(packet_id) {
            self.ids.free(packet_id);
        }
    }

    /// The message of a packet id goes no further: PUBREL is next, and it says nothing of the message.
    pub(super) fn free(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        let Some(in_flight) = self.in_flight.get_mut(&packet_id) else {
            return;
        };
        let freed = Source::Freed(in_flight.message());
        let source = std::mem::replace(&mut in_flight.source, freed);
        in_flight.phase = Phase::StoringPubrel;
        in_flight.value = None;
        self.counted -= usize::from(std::mem::take(&mut in_flight.is_counted));
        self.by_source.remove(&source);
        self.outgoing.pubrels.push_back(packet_id);
        self.write(packet_id, actions);
    }

    /// Ends the use of a packet id, which is free at once; gives its source and the events to remove.
    ///
    /// The next use is written behind the removal, in the stream of the same run: no copy has both.
    fn end(&mut self, packet_id: PacketId) -> Option<(Source, Vec<Dot>)> {
        let in_flight = self.in_flight.remove(&packet_id)?;
        self.by_source.remove(&in_flight.source);
        self.counted -= usize::from(in_flight.is_counted);
        let mut deliveries = self.older.take_id(packet_id);
        deliveries.extend(in_flight.entry);
        self.free_if_unused(packet_id);
        Some((in_flight.source, deliveries))
    }

    /// Ends a delivery whose message is done, and releases its packet id if the client may keep it.
    pub(super) fn finish(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        if !self.is_kept_by_client(packet_id) {
            return self.complete(packet_id, actions);
        }
        let connection = self.id;
        match self.in_flight.get(&packet_id).map(|of| of.source.clone()) {
            Some(Source::Queue(message)) => {
                self.older.remove_message(message);
                self.remove(Some(message), Vec::new(), actions);
            }
            Some(Source::Group(message)) => {
                actions.push(DeliveringAction::AcknowledgeGroup { connection, message });
            }
            Some(Source::Freed(_)) | None => {}
        }
        self.free(packet_id, actions);
    }

    /// The client may keep the packet id until PUBREL, as an older connection has told it.
    pub(super) fn is_kept_by_client(&self, packet_id: PacketId) -> bool {
        let in_flight = self.in_flight.get(&packet_id);
        let is_resumed = in_flight.is_some_and(|of| of.is_resumed && of.qos == DeliveryQos::ExactlyOnce);
        is_resumed || self.older.is_kept_by_client(packet_id)
    }

    /// Ends a delivery whose message goes with it. The client keeps nothing of it.
    pub(super) fn complete(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        let Some((source, deliveries)) = self.end(packet_id) else {
            return;
        };
        match source {
            Source::Queue(message) => {
                self.older.remove_message(message);
                self.remove(Some(message), deliveries, actions);
            }
            Source::Group(message) => {
                let connection = self.id;
                actions.push(DeliveringAction::AcknowledgeGroup { connection, message });
                self.remove(None, deliveries, actions);
            }
            Source::Freed(_) => self.remove(None, deliveries, actions),
        }
    }

    /// Ends a delivery that the client was not told of. Its message has left the queue.
    pub(super) fn drop_untold(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        if let Some((_, deliveries)) = self.end(packet_id) {
            self.remove(None, deliveries, actions);
        }
    }

    /// Removes a message, and deliveries.
    pub(super) fn remove(
        &mut self,
        message: Option<Dot>,
        deliveries: Vec<Dot>,
        actions: &mut Vec<DeliveringAction<V>>,
    ) {
        if message.is_none() && deliveries.is_empty() {
            return;
        }
        let held = message.and_then(|message| self.held.remove(&message));
        if held.is_none() {
            self.removed.extend(message);
        }
        actions.push(DeliveringAction::Remove(RemovedDelivery {
            connection: self.id,
            client: self.client.clone(),
            message,
            held,
            deliveries,
        }));
    }

    /// Writes a packet id and its stage, in the place of all entries of it (rules `stage-first` and
    /// `stage-anew`).
    pub(super) fn write(&mut self, packet_id: PacketId, actions: &mut Vec<DeliveringAction<V>>) {
        let Some(in_flight) = self.in_flight.get_mut(&packet_id) else {
            return;
        };
        let mut removes = match in_flight.stage() {
            // What the client may keep is released behind PUBACK.
            DeliveryStage::Sent(DeliveryQos::AtLeastOnce) => self.older.take_at_least_once(packet_id),
            _ => self.older.take_id(packet_id),
        };
        removes.extend(in_flight.entry.take());
        actions.push(DeliveringAction::Write(WrittenDelivery {
            connection: self.id,
            client: self.client.clone(),
            message: in_flight.message(),
            delivery: PacketDelivery {
                packet_id,
                connection_clock: self.clock,
                order: in_flight.order,
                stage: in_flight.stage(),
            },
            removes,
        }));
    }

    /// Takes the next place among the packets of the session.
    pub(super) fn take_order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order = order.saturating_add(1);
        order
    }

    /// Later places are behind that of an older connection.
    pub(super) fn set_order_behind(&mut self, order: u64) {
        self.next_order = self.next_order.max(order.saturating_add(1));
    }

    pub(super) fn disconnect(&mut self, reason: DeliveryViolation, actions: &mut Vec<DeliveringAction<V>>) {
        self.is_closing = true;
        let connection = self.id;
        actions.push(DeliveringAction::Disconnect { connection, reason });
    }

    pub(super) fn too_many_waiting(&self) -> DeliveryViolation {
        let waiting_max = self.limits.waiting_max;
        DeliveryViolation::TooManyWaiting { waiting_max }
    }
}
