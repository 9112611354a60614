//! Messages that shared groups give to connections. What becomes of one whose connection ends is not
//! of this world.

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

    /// Every node knows an acknowledgement of a connection of this node.
    pub(super) fn group_knows(&mut self, node: usize) {
        let machine = &mut self.machines[node];
        let acknowledged = machine.of_groups.pop_front().filter(|_| machine.is_up);
        let Some(GroupAcknowledgement { connection, message }) = acknowledged else {
            return;
        };
        if let Some(place) = self.place_at(node, connection) {
            place.given.remove(&message.message);
        }
        self.tell(node, DeliveringEvent::GroupKnows { connection, message });
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
