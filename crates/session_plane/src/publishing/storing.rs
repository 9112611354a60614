//! First half: a PUBLISH gets its number, or goes on with one, and the packet id goes to the owners.

use cluster::session_plane::Hlc;

use super::action::{PublishViolation, PublishingAction, RefusePublish};
use super::connection::{OpenConnection, Stage};
use super::event::{OpenedConnection, Publish};
use super::message::{Message, Origin, Phase};
use super::packet_use::{NumberedMessage, UseEntry};
use super::routing::route;
use super::{Publishing, PublishingLimits};
use crate::connecting::ConnectionId;
use crate::{ClientId, Dot, MadeEvent};

impl<M: Clone> Publishing<M> {
    pub(super) fn open(&mut self, opened: OpenedConnection) {
        let OpenedConnection {
            connection,
            client,
            clock,
            uses,
        } = opened;
        let before = self
            .connections
            .insert(connection, OpenConnection::new(client, clock, uses));
        assert!(before.is_none(), "a connection is opened once");
    }

    pub(super) fn add_uses(&mut self, connection: ConnectionId, uses: Vec<UseEntry>) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.add_uses(uses);
        }
    }

    /// Goes on with the number of the packet id, or gives the message a new one. Ends, with a reason,
    /// where a limit is reached.
    pub(super) fn publish(&mut self, publish: Publish<M>, actions: &mut Vec<PublishingAction<M>>) {
        if !self.connections.contains_key(&publish.connection) {
            return;
        }
        let is_known = self.is_repeated(&publish, actions) || publish.is_dup && self.go_on(&publish, actions);
        if is_known || !self.has_room(&publish, actions) {
            return;
        }
        if self.routes_are_merged {
            self.store(&publish, actions);
            return;
        }
        if let Some(connection) = self.connections.get_mut(&publish.connection) {
            connection.early += 1;
            connection.id_mut(publish.packet_id).stage = Stage::Early(publish.content);
        }
        self.early.push_back(publish);
    }

    /// This connection has used the packet id, and not released it: whatever the PUBLISH has, it is no new message
    /// [MQTT-4.3.3-10]. One that has its PUBREC gets it again.
    fn is_repeated(&self, publish: &Publish<M>, actions: &mut Vec<PublishingAction<M>>) -> bool {
        let (connection, packet_id) = (publish.connection, publish.packet_id);
        let open = self.connections.get(&connection);
        match open.map_or(Stage::Untouched, |open| open.stage(packet_id)) {
            Stage::Early(_) | Stage::Publishing(_) => true,
            Stage::Received(_) => {
                actions.push(PublishingAction::SendPubrec {
                    connection,
                    packet_id,
                });
                true
            }
            Stage::Freeing { .. } | Stage::Untouched => false,
        }
    }

    /// Goes on with the message that an older connection used the packet id for, if it is this one (rules
    /// `dup-continues` and `same-content`). False where the message is a new one.
    fn go_on(&mut self, publish: &Publish<M>, actions: &mut Vec<PublishingAction<M>>) -> bool {
        let packet_id = publish.packet_id;
        let Some(open) = self.connections.get(&publish.connection) else {
            return true;
        };
        let untouched = open.stage(packet_id) == Stage::Untouched;
        let Some(entry) = open.counting(packet_id).filter(|_| untouched) else {
            return false;
        };
        let message = entry.packet_use.message;
        let message = message.filter(|message| self.is_of(publish, &open.client, *message));
        let Some(message) = message else {
            return false;
        };
        self.go_on_with(publish, message, entry.message_clock(), actions);
        true
    }

    /// The message of an entry is the one of `publish`, and has a number that a run has given out.
    fn is_of(&self, publish: &Publish<M>, client: &ClientId, message: NumberedMessage) -> bool {
        let NumberedMessage { number, content } = message;
        let known = self.messages.get(&number);
        let is_known_so = known.is_none_or(|known| known.is_of_packet(client, publish.packet_id));
        content == publish.content && self.is_given_out(number) && is_known_so
    }

    /// The number is a QoS 2 number that a run has given out, as far as this node can tell.
    pub(super) fn is_given_out(&self, number: Dot) -> bool {
        number.is_qos2_number() && (number.run != self.run || number.number <= self.last)
    }

    /// Goes on with the number that a packet id names: its entry is written anew, under the number.
    fn go_on_with(
        &mut self,
        publish: &Publish<M>,
        message: NumberedMessage,
        clock: Hlc,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        let (connection, number) = (publish.connection, message.number);
        if let Some(known) = self.messages.get_mut(&number) {
            let before = known.replace_connection(Some(connection));
            if let Some(before) = before.and_then(|before| self.connections.get_mut(&before)) {
                before.waiting.remove(&number);
            }
            if let Some(open) = self.connections.get_mut(&connection) {
                open.waiting.insert(number);
                open.id_mut(publish.packet_id).stage = Stage::Publishing(message);
            }
        } else if self.has_room(publish, actions) {
            self.write(publish, message, Some(clock), actions);
        }
    }

    /// There is room for another message. Otherwise the PUBLISH is refused, or its connection ends.
    fn has_room(&self, publish: &Publish<M>, actions: &mut Vec<PublishingAction<M>>) -> bool {
        let (connection, packet_id) = (publish.connection, publish.packet_id);
        let PublishingLimits {
            waiting_max,
            waiting_per_connection_max,
            given_up_max,
        } = self.limits;
        let open = self.connections.get(&connection);
        let of_connection = open.map_or(0, |open| open.waiting.len() + open.early);
        if of_connection >= waiting_per_connection_max {
            actions.push(PublishingAction::Disconnect {
                connection,
                reason: PublishViolation::ReceiveMaximumExceeded {
                    maximum: waiting_per_connection_max,
                },
            });
            return false;
        }
        let reason = if self.waiting() >= waiting_max {
            RefusePublish::TooManyWaiting { waiting_max }
        } else if self.given_up.len() >= given_up_max {
            RefusePublish::TooManyGivenUp { given_up_max }
        } else {
            return true;
        };
        actions.push(PublishingAction::Refuse {
            connection,
            packet_id,
            reason,
        });
        false
    }

    /// Reserves a number for a message, and writes the entry of its packet id.
    fn store(&mut self, publish: &Publish<M>, actions: &mut Vec<PublishingAction<M>>) {
        let (number, content) = (self.next_number(), publish.content);
        self.write(publish, NumberedMessage { number, content }, None, actions);
    }

    /// Takes the next number of the run.
    pub(super) fn next_number(&mut self) -> Dot {
        self.last += 1;
        assert!(self.last < u64::MAX, "a run does not live that long");
        self.dot(self.last)
    }

    /// Writes the entry of a packet id with a number. `clock` is that of an earlier such entry.
    fn write(
        &mut self,
        publish: &Publish<M>,
        numbered: NumberedMessage,
        clock: Option<Hlc>,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        let (connection, packet_id) = (publish.connection, publish.packet_id);
        let NumberedMessage { number, content } = numbered;
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        open.waiting.insert(number);
        let id = open.id_mut(packet_id);
        id.stage = Stage::Publishing(numbered);
        let removes = id.replace();
        let mut packet_use = open.use_by(packet_id, numbered);
        packet_use.message_clock = clock;
        let client = open.client.clone();
        actions.push(PublishingAction::Write {
            connection,
            client: client.clone(),
            packet_use,
            body: Some(publish.body.clone()),
            removes,
        });
        let origin = Origin::Packet {
            packet_id,
            connection: Some(connection),
        };
        let phase = self.writing(Some(connection));
        let message = Message {
            client,
            content,
            body: publish.body.clone(),
            clock,
            origin,
            phase,
        };
        self.add_message(number, message);
    }

    /// The event of an entry is being made, by the ring in force.
    pub(super) fn writing(&self, by: Option<ConnectionId>) -> Phase {
        let marker = self.ring.marker;
        Phase::Writing { by, marker }
    }

    /// Adds a message that waits under its number.
    pub(super) fn add_message(&mut self, number: Dot, message: Message<M>) {
        if number.run == self.run {
            self.given_up.remove(&number.number);
            self.reserved.insert(number.number);
        }
        self.messages.insert(number, message);
    }

    /// The entry of a number is made: waits until all that have to have it have it. `writer` is the
    /// connection that has asked for it; None of a will.
    pub(super) fn number_written(
        &mut self,
        writer: Option<ConnectionId>,
        number: Dot,
        made: MadeEvent,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        let Some(message) = self.messages.get_mut(&number) else {
            return;
        };
        let Phase::Writing { by, marker } = message.phase else {
            return;
        };
        if by != writer {
            return;
        }
        let MadeEvent { dot, clock } = made;
        if let Origin::Packet {
            packet_id,
            connection: Some(connection),
        } = message.origin
            && let Some(open) = self.connections.get_mut(&connection)
        {
            let content = message.content;
            let mut packet_use = open.use_by(packet_id, NumberedMessage { number, content });
            packet_use.message_clock = message.clock;
            open.add_use(UseEntry {
                dot,
                clock,
                packet_use,
            });
        }
        message.clock.get_or_insert(clock);
        message.phase = Phase::Storing { entry: dot };
        if marker != self.ring.marker {
            actions.push(give_again(message, number, dot));
        }
        actions.push(await_stored(message, number, dot, self.ring.marker));
    }

    /// All that have to have it by the ring in force have the entry of a number (rules `received-first`
    /// and `will-number-first`).
    pub(super) fn stored(
        &mut self,
        number: Dot,
        entry: Dot,
        marker: u64,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        let Some(message) = self.messages.get_mut(&number) else {
            return;
        };
        if marker != self.ring.marker {
            return;
        }
        match &mut message.phase {
            Phase::Storing { entry: stored } if *stored == entry => {
                message.phase = Phase::Ready { entry };
                if number.run != self.run {
                    self.ready_of_others.insert(number);
                }
                self.route_ready(actions);
            }
            Phase::OnTheWay {
                entry: stored,
                is_held: is_held @ true,
                ..
            } if *stored == entry => {
                *is_held = false;
                actions.extend(route(number, message, marker, |_| true));
            }
            Phase::Writing { .. } | Phase::Storing { .. } | Phase::Ready { .. } | Phase::OnTheWay { .. } => {}
        }
    }

    /// The routes are merged: PUBLISH packets that came before get their numbers.
    pub(super) fn merge_routes(&mut self, is_merged: bool, actions: &mut Vec<PublishingAction<M>>) {
        self.routes_are_merged = is_merged;
        if !is_merged {
            return;
        }
        for publish in std::mem::take(&mut self.early) {
            if let Some(open) = self.connections.get_mut(&publish.connection) {
                open.early -= 1;
                self.store(&publish, actions);
            }
        }
        self.route_ready(actions);
    }
}

/// Sends the entry of a number again, to all owners of a new ring (rule `received-to-new-owners`).
pub(super) fn give_again<M>(message: &Message<M>, number: Dot, entry: Dot) -> PublishingAction<M> {
    PublishingAction::GiveAgain {
        client: message.client.clone(),
        number,
        entry,
    }
}

pub(super) fn await_stored<M>(
    message: &Message<M>,
    number: Dot,
    entry: Dot,
    marker: u64,
) -> PublishingAction<M> {
    PublishingAction::AwaitStored {
        client: message.client.clone(),
        at: message.stored_at(),
        number,
        entry,
        marker,
    }
}
