//! Messages that are not stored: nodes ask for packet ids, and clients are paused.

use super::World;
use super::client::ToClient;
use crate::delivering::tests::*;

impl World {
    /// The node of a client has a message. Its session outlives the connection, so it has QoS 1.
    pub(super) fn request(&mut self, client: usize) {
        if let Some(place) = &self.clients[client].place {
            let (node, connection) = (place.node, place.connection);
            self.tell(
                node,
                DeliveringEvent::Requested {
                    connection,
                    qos: LEAST,
                },
            );
        }
    }

    pub(super) fn pause(&mut self, client: usize, is_paused: bool) {
        if let Some(place) = &mut self.clients[client].place {
            place.is_paused = is_paused;
            let (node, connection) = (place.node, place.connection);
            let paused = DeliveringEvent::Paused {
                connection,
                is_paused,
            };
            self.tell(node, paused);
        }
    }

    /// A node sends the message for which it was granted a packet id.
    pub(super) fn send_unstored(&mut self, node: usize, connection: ConnectionId, id: PacketId) {
        let place = self.place_at(node, connection).expect("an open connection");
        assert!(!place.is_paused, "a client that is paused gets no message");
        assert!(!place.ids.contains_key(&id), "{id:?} is in use");
        assert!(place.unstored.insert(id), "{id:?} is granted twice");
        place.count_unacknowledged(id);
        if connection.0.is_multiple_of(3) {
            place.to_node.push_back((id, DeliveryAnswer::Discarded));
        } else {
            place.to_client.push_back(ToClient::Unstored(id));
        }
    }
}
