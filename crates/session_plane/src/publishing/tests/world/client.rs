//! Clients of the world: they send again after CONNECT what was not received.

use super::{CLIENTS, World};
use crate::publishing::tests::*;

/// Connection of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) connection: ConnectionId,
}

#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) place: Option<Place>,
    /// Where the client was last, whether it knows that the connection has ended or not.
    last_place: Option<Place>,
    pub(super) exchanges: BTreeMap<PacketId, Exchange>,
    /// Messages with PUBREC.
    pub(super) received: BTreeSet<u128>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    message: u128,
    stage: ClientStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientStage {
    Published,
    Received,
    Released,
}

impl World {
    pub(super) fn publish(&mut self, client: usize, packet_id: PacketId) {
        let Some(Place { node, connection }) = self.clients[client].place else {
            return;
        };
        if self.clients[client].exchanges.contains_key(&packet_id) {
            return;
        }
        self.last_message += 1;
        let message = self.last_message;
        let stage = ClientStage::Published;
        self.clients[client]
            .exchanges
            .insert(packet_id, Exchange { message, stage });
        self.tell(
            node,
            PublishingEvent::Published(Publish {
                body: (),
                connection,
                packet_id,
                is_dup: false,
                content: ContentId(message),
            }),
        );
    }

    /// Connects a client: its older connection is released, and all owners tell its entries.
    pub(super) fn connect(&mut self, client: usize, node: usize) {
        let up: BTreeSet<usize> = self.up().into_iter().collect();
        let is_settled = self.machines[node].view == up;
        if !self.machines[node].is_up || !is_settled {
            return;
        }
        self.release_older(client);
        let owners = self.machines[node].owners(client);
        let entries = owners
            .iter()
            .flat_map(|owner| self.machines[*owner].disk.entries(client));
        let uses: BTreeMap<Dot, UseEntry> = entries.map(|entry| (entry.dot, entry)).collect();
        self.machines[node].connections += 1;
        let connection = ConnectionId(self.machines[node].connections);
        let place = Some(Place { node, connection });
        self.clients[client].place = place;
        self.clients[client].last_place = place;
        let clock = self.tick();
        self.tell(
            node,
            PublishingEvent::Opened(OpenedConnection {
                connection,
                client: client_id(client),
                clock,
                uses: uses.into_values().collect(),
            }),
        );
        self.go_on(client);
    }

    /// Ends the older connection; what it has written is at the owners then.
    fn release_older(&mut self, client: usize) {
        self.disconnect(client);
        let Some(older) = self.clients[client].last_place else {
            return;
        };
        let run = self.machines[older.node].run;
        let is_entry =
            |packet: &super::Packet| packet.from == run && matches!(packet.content, super::Content::Entry(_));
        while let Some(index) = self.under_way.iter().position(is_entry) {
            self.deliver(index);
        }
    }

    /// Sends again what was published, and PUBREL for what was received.
    fn go_on(&mut self, client: usize) {
        for (packet_id, exchange) in self.clients[client].exchanges.clone() {
            let Some(Place { node, connection }) = self.clients[client].place else {
                return;
            };
            if exchange.stage == ClientStage::Published {
                self.tell(
                    node,
                    PublishingEvent::Published(Publish {
                        body: (),
                        connection,
                        packet_id,
                        is_dup: true,
                        content: ContentId(exchange.message),
                    }),
                );
            } else {
                self.send_pubrel(client, packet_id);
            }
        }
    }

    pub(super) fn disconnect(&mut self, client: usize) {
        if let Some(Place { node, connection }) = self.clients[client].place.take() {
            self.tell(node, PublishingEvent::Closed { connection });
        }
    }

    pub(super) fn pubrel(&mut self, client: usize, packet_id: PacketId) {
        let exchange = self.clients[client].exchanges.get(&packet_id);
        if exchange.is_some_and(|exchange| exchange.stage == ClientStage::Received) {
            self.send_pubrel(client, packet_id);
        }
    }

    fn send_pubrel(&mut self, client: usize, packet_id: PacketId) {
        let Some(Place { node, connection }) = self.clients[client].place else {
            return;
        };
        if let Some(exchange) = self.clients[client].exchanges.get_mut(&packet_id) {
            exchange.stage = ClientStage::Released;
        }
        self.tell(
            node,
            PublishingEvent::Released {
                connection,
                packet_id,
            },
        );
    }

    pub(super) fn receive_pubrec(&mut self, node: usize, connection: ConnectionId, packet_id: PacketId) {
        let Some(client) = self.client_at(Place { node, connection }) else {
            panic!("PUBREC on a connection that has ended");
        };
        let exchange = self.clients[client].exchanges.get_mut(&packet_id);
        let exchange = exchange.expect("PUBREC for what was published");
        assert_eq!(exchange.stage, ClientStage::Published);
        exchange.stage = ClientStage::Received;
        let message = exchange.message;
        self.clients[client].received.insert(message);
        self.assert_is_everywhere(message);
    }

    pub(super) fn receive_pubcomp(&mut self, node: usize, connection: ConnectionId, packet_id: PacketId) {
        if let Some(client) = self.client_at(Place { node, connection }) {
            let exchange = self.clients[client].exchanges.remove(&packet_id);
            let stage = exchange.map(|exchange| exchange.stage);
            assert_eq!(stage, Some(ClientStage::Released), "PUBCOMP is for a PUBREL");
        }
    }

    fn client_at(&self, place: Place) -> Option<usize> {
        (0..CLIENTS).find(|client| self.clients[*client].place == Some(place))
    }
}
