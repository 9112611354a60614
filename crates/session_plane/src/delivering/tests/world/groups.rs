//! Messages that shared groups give to connections. What becomes of one whose connection ends is not
//! of this world.

use super::copy::Fact;
use super::machine::GroupAcknowledgement;
use super::{GIVEN_MAX, Payload, PublishedMessage, World};
use crate::delivering::tests::*;

impl World {
    /// A group gives a message to the connection of a client: a new one, or one that is in the queue of
    /// the client, too.
    pub(super) fn give_of_group(&mut self, client: usize, qos: DeliveryQos, at: usize) {
        let place = self.clients[client].place.as_ref();
        let Some((node, given)) = place.map(|place| (place.node(), place.given.clone())) else {
            return;
        };
        let connection = self.clients[client].connection().expect("it is connected");
        let queued = self.queued(client, at).filter(|_| at.is_multiple_of(3));
        let message = match queued {
            Some((_, message)) => message,
            None => self.machines[node].next_dot(),
        };
        if given.len() >= GIVEN_MAX || self.of_groups.contains_key(&message) {
            return;
        }
        self.of_groups.insert(message, PublishedMessage { client, qos });
        if let Some(place) = self.place_at(node, connection) {
            place.given.insert(message);
        }
        let is_of_group = true;
        let value = Payload { message, is_of_group };
        let message = group_message_of(message);
        let given = GivenMessage { message, qos, value };
        self.tell(node, DeliveringEvent::Given { connection, given });
    }

    /// A node moves a message into the queue of its client.
    pub(super) fn move_into_queue(&mut self, node: usize, connection: ConnectionId, from: SharedMessage) {
        let PublishedMessage { client, qos } = self.of_groups[&from.message];
        assert_eq!(qos, ONCE);
        let clock = self.tick();
        let dot = self.write(node, client, Vec::new(), Some(Fact::Message { clock }), None);
        self.published.insert(dot, PublishedMessage { client, qos });
        self.machines[node].acknowledging.insert(dot);
        self.moving.insert(dot, connection);
        self.machines[node].of_groups.push_back(GroupAcknowledgement {
            connection,
            message: from.message,
            moved: Some(dot),
        });
        let to = QueuedMessage {
            key: QueueKey { clock, dot },
            qos,
            value: Payload::queued(dot),
        };
        self.tell(node, DeliveringEvent::Moved { connection, from, to });
    }

    /// Every node knows an acknowledgement of a connection of this node, or a move.
    pub(super) fn group_knows(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        let undurable = &machine.undurable;
        let is_known = |of: &mut GroupAcknowledgement| {
            machine.is_up && of.moved.is_none_or(|moved| !undurable.contains_key(&moved))
        };
        let Some(known) = machine.of_groups.pop_front_if(is_known) else {
            return;
        };
        let connection = known.connection;
        if let Some(place) = self.place_at(node, connection) {
            place.given.remove(&known.message);
        }
        if let Some(message) = known.moved {
            self.moving.remove(&message);
            self.tell(node, DeliveringEvent::MoveKnown { connection, message });
        }
    }

    /// Message for which a connection uses a packet id.
    pub(super) fn payload_at(
        &mut self,
        node: usize,
        connection: ConnectionId,
        packet_id: PacketId,
        message: Dot,
    ) -> Payload {
        let place = self.place_at(node, connection);
        let used = place.and_then(|place| place.ids.get(&packet_id).copied());
        let used = used.filter(|used| used.message == message);
        // An id that the client may keep names the message that it was last used for.
        let is_of_group = !self.published.contains_key(&message);
        used.unwrap_or(Payload { message, is_of_group })
    }

    /// QoS of a message.
    pub(super) fn qos_of(&self, payload: Payload) -> DeliveryQos {
        let messages = if payload.is_of_group {
            &self.of_groups
        } else {
            &self.published
        };
        messages[&payload.message].qos
    }
}

fn group_message_of(message: Dot) -> SharedMessage {
    let group = GroupId::new(b"presses/cmd").expect("a short name");
    SharedMessage { group, message }
}
