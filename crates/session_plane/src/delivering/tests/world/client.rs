//! Clients of the world: each keeps what it has of QoS 2 messages until PUBREL, over connections.

use super::feed::Feed;
use super::{CLOCK_SKEW, NODES, Payload, RECEIVE_MAXIMUM, World};
use crate::delivering::tests::*;

/// Connection of a client.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) connection: ConnectionId,
    /// Message of each packet id that the node uses.
    pub(super) ids: BTreeMap<PacketId, Payload>,
    /// Packet ids whose entry the node has made, whether or not the owners have it.
    pub(super) written: BTreeSet<PacketId>,
    /// Packet ids of messages that are not stored.
    pub(super) unstored: BTreeSet<PacketId>,
    pub(super) is_paused: bool,
    /// Entry of each packet id at the owners.
    entries: BTreeMap<PacketId, Dot>,
    /// Packet ids of PUBLISH packets without acknowledgement.
    pub(super) unacknowledged: BTreeSet<PacketId>,
    pub(super) to_client: VecDeque<ToClient>,
    pub(super) to_node: VecDeque<(PacketId, DeliveryAnswer)>,
    /// Messages that groups have given.
    pub(super) given: BTreeSet<Dot>,
}

/// PUBLISH that a node has sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    packet_id: PacketId,
    /// Entry of the packet id.
    entry: Option<Dot>,
}

#[derive(Debug, Clone)]
pub(super) enum ToClient {
    Publish(Published<Payload>),
    /// PUBLISH with QoS 1 of a message that is not stored.
    Unstored(PacketId),
    Pubrel(PacketId),
}

#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) place: Option<Place>,
    pub(super) feed: Feed,
    /// Connection before, which may not know that it has ended.
    older: Option<Place>,
    /// QoS 2 messages between PUBLISH and PUBREL.
    receiving: BTreeMap<PacketId, Payload>,
    received: BTreeSet<Payload>,
    /// Last PUBLISH of each message.
    sent: BTreeMap<Payload, Sent>,
    /// Entries that give messages their packet ids.
    pub(super) given_ids: BTreeMap<Dot, Payload>,
    /// Messages of which the side of the client did not know that they were sent, or under which packet id
    /// they are to be.
    sent_elsewhere: BTreeSet<Payload>,
    /// Last entry of each message that the client was told a packet of.
    stages: BTreeMap<Payload, Dot>,
    /// Messages of which the side of the client did not know what it was told.
    moved: BTreeSet<Payload>,
}

impl Client {
    pub(super) fn node(&self) -> Option<usize> {
        self.place.as_ref().map(|place| place.node)
    }

    pub(super) fn connection(&self) -> Option<ConnectionId> {
        self.place.as_ref().map(|place| place.connection)
    }

    pub(super) fn lose_connection(&mut self) {
        self.older = self.place.take();
        self.feed = Feed::default();
    }

    /// Its feed ends with the ring.
    pub(super) fn lose_feed(&mut self) {
        self.feed.source = None;
    }

    pub(super) fn feed_at(&mut self, node: usize) -> Option<&mut Feed> {
        (self.node() == Some(node)).then_some(&mut self.feed)
    }

    pub(super) fn feed_of(&mut self, node: usize, connection: ConnectionId) -> Option<&mut Feed> {
        let is_of = self.node() == Some(node) && self.connection() == Some(connection);
        is_of.then_some(&mut self.feed)
    }

    #[track_caller]
    pub(super) fn assert_has_received(&self, message: Payload) {
        assert!(self.received.contains(&message), "{message:?} is lost");
    }

    /// No packet is under way.
    pub(super) fn is_idle(&self) -> bool {
        let place = self.place.as_ref();
        place.is_none_or(|place| place.to_client.is_empty() && place.to_node.is_empty())
    }

    #[track_caller]
    pub(super) fn assert_is_at_rest(&self) {
        assert_eq!(self.receiving, BTreeMap::new(), "packet ids without PUBREL");
    }
}

impl Place {
    /// PUBLISH goes out.
    #[track_caller]
    pub(super) fn count_unacknowledged(&mut self, id: PacketId) {
        self.unacknowledged.insert(id);
        let in_flight = self.unacknowledged.len();
        assert!(in_flight <= usize::from(RECEIVE_MAXIMUM), "{in_flight} in flight");
    }

    pub(super) fn node(&self) -> usize {
        self.node
    }

    fn new(node: usize, connection: ConnectionId) -> Place {
        Place {
            node,
            connection,
            ids: BTreeMap::new(),
            written: BTreeSet::new(),
            unstored: BTreeSet::new(),
            is_paused: false,
            entries: BTreeMap::new(),
            unacknowledged: BTreeSet::new(),
            to_client: VecDeque::new(),
            to_node: VecDeque::new(),
            given: BTreeSet::new(),
        }
    }
}

impl World {
    /// Connects a client: its older connection is released, and the session is read from all owners.
    pub(super) fn connect(&mut self, client: usize, node: usize) {
        let side = self.side(node);
        let is_settled = side.iter().all(|other| self.machines[*other].view == side);
        if !side.contains(&node) || !is_settled {
            return;
        }
        self.disconnect(client);
        self.release_older(client, &side);
        let owners = super::machine::owners(client, &side);
        let covered: BTreeSet<Dot> = owners
            .iter()
            .flat_map(|owner| self.machines[*owner].copies[client].covered.clone())
            .collect();
        let stages = self.clients[client].stages.iter();
        let unknown = stages.filter(|(_, entry)| !covered.contains(entry));
        let unknown: Vec<Payload> = unknown.map(|(message, _)| *message).collect();
        self.clients[client].moved.extend(unknown);
        let sent = self.clients[client].sent.iter();
        let unknown = sent.filter(|(_, sent)| sent.entry.is_some_and(|entry| !covered.contains(&entry)));
        let unknown: Vec<Payload> = unknown.map(|(message, _)| *message).collect();
        self.clients[client].sent_elsewhere.extend(unknown);
        let given = self.clients[client].given_ids.iter();
        let unknown = given.filter(|(entry, _)| !covered.contains(entry));
        let unknown: Vec<Payload> = unknown.map(|(_, message)| *message).collect();
        self.clients[client].sent_elsewhere.extend(unknown);
        self.machines[node].known[client].extend(covered);
        self.machines[node].connections += 1;
        let connection = ConnectionId(self.machines[node].connections);
        self.clients[client].place = Some(Place::new(node, connection));
        self.clients[client].feed = Feed {
            own_after: self.machines[node].events,
            ..Feed::default()
        };
        let clock = self.tick();
        self.tell(
            node,
            DeliveringEvent::Opened(OpenedReceiver {
                connection,
                client: client_id(client),
                clock,
                receive_maximum: NonZeroU16::new(RECEIVE_MAXIMUM).expect("no zero"),
                sent_before: Some(Hlc::at(self.clock + NODES as u64 * CLOCK_SKEW)),
            }),
        );
    }

    pub(super) fn disconnect(&mut self, client: usize) {
        let Some(place) = &self.clients[client].place else {
            return;
        };
        let (node, connection) = (place.node, place.connection);
        self.clients[client].lose_connection();
        self.tell(node, DeliveringEvent::Closed { connection });
    }

    /// The older connection has closed when its events are durable, if its node can be asked.
    fn release_older(&mut self, client: usize, side: &BTreeSet<usize>) {
        let Some(node) = self.clients[client].older.as_ref().map(|older| older.node) else {
            return;
        };
        while side.contains(&node) && self.machines[node].has_undurable(client) {
            for other in 0..NODES {
                self.deliver(node, other);
                self.deliver(other, node);
            }
        }
    }

    /// A node uses a packet id for a message of a client. A QoS 1 message goes under its original one
    /// unless that is in use.
    pub(super) fn use_id(&mut self, node: usize, connection: ConnectionId, id: PacketId, message: Payload) {
        let Some(client) = self.client_at(node, connection) else {
            return;
        };
        let is_least = self.qos_of(message) == DeliveryQos::AtLeastOnce;
        let Client { place, feed, .. } = &self.clients[client];
        let is_granted = place.as_ref().is_some_and(|place| place.unstored.contains(&id));
        assert!(!is_granted, "{id:?} is granted, and used for {message:?}");
        let Some(place) = place.as_ref().filter(|place| !place.ids.contains_key(&id)) else {
            return self.assert_used_for(node, connection, id, message);
        };
        let sent = self.clients[client].sent.get(&message);
        let original = sent.map(|sent| sent.packet_id).filter(|original| *original != id);
        if let Some(original) = original.filter(|_| is_least && !message.is_of_group) {
            let is_told = feed.told.keys().any(|told| self.ids[told] == original);
            let is_moved = self.clients[client].sent_elsewhere.contains(&message);
            let is_in_use = is_told || place.ids.contains_key(&original);
            assert!(
                is_in_use || is_moved,
                "{message:?} leaves {original:?} for {id:?}"
            );
        }
        let Client { place, sent, .. } = &mut self.clients[client];
        // The next PUBLISH is the first one under this packet id.
        sent.extract_if(.., |of, sent| *of == message && is_least && sent.packet_id != id)
            .for_each(drop);
        if let Some(place) = place {
            place.ids.insert(id, message);
        }
    }

    #[track_caller]
    fn assert_used_for(&mut self, node: usize, connection: ConnectionId, id: PacketId, message: Payload) {
        let place = self.place_at(node, connection);
        let used = place.and_then(|place| place.ids.get(&id).copied());
        assert_eq!(used, Some(message), "{id:?} is used for two messages");
    }

    /// Entries of packet ids are removed, or a message without one.
    pub(super) fn free_ids_of(
        &mut self,
        node: usize,
        connection: ConnectionId,
        message: Option<Dot>,
        deliveries: &[Dot],
    ) {
        let Some(place) = self.place_at(node, connection) else {
            return;
        };
        let (entries, written) = (&place.entries, &place.written);
        place.ids.retain(|id, used| match entries.get(id) {
            Some(entry) => !deliveries.contains(entry),
            None => {
                // An entry on its way to the owners stays, though its message goes.
                let is_other = used.is_of_group || Some(used.message) != message;
                written.contains(id) || is_other || !deliveries.is_empty()
            }
        });
        place.entries.retain(|_, entry| !deliveries.contains(entry));
        place.written.retain(|id| place.ids.contains_key(id));
    }

    /// A message of a group is acknowledged: with QoS 1 its packet id is free.
    pub(super) fn free_ids_of_group(&mut self, node: usize, connection: ConnectionId, message: Dot) {
        if let Some(place) = self.place_at(node, connection) {
            let entries = &place.entries;
            let is_used = |id: &PacketId, used: &Payload| used.message != message || entries.contains_key(id);
            place
                .ids
                .retain(|id, used| !used.is_of_group || is_used(id, used));
        }
    }

    /// Client of a connection.
    fn client_at(&self, node: usize, connection: ConnectionId) -> Option<usize> {
        let is_of = |client: &Client| client.node() == Some(node) && client.connection() == Some(connection);
        self.clients.iter().position(is_of)
    }

    pub(super) fn note_stored(&mut self, node: usize, connection: ConnectionId, id: PacketId, entry: Dot) {
        let place = self.place_at(node, connection);
        if let Some(place) = place {
            place.entries.insert(id, entry);
        }
    }

    pub(super) fn place_at(&mut self, node: usize, connection: ConnectionId) -> Option<&mut Place> {
        let client = self.client_at(node, connection)?;
        self.clients[client].place.as_mut()
    }

    pub(super) fn send_publish(&mut self, node: usize, published: Published<Payload>) {
        let (id, message, qos) = (published.packet_id, published.value, published.qos);
        let connection = published.connection;
        assert_eq!(qos, self.qos_of(message));
        let moving = self.moving.get(&message.message);
        let is_own = message.message.run == self.machines[node].run && !message.is_of_group;
        let is_moving = is_own && moving == Some(&connection);
        assert!(!is_moving, "some node does not know that {message:?} has moved");
        self.use_id(node, connection, id, message);
        let client = self.client_at(node, connection).expect("an open connection");
        let is_moved = self.clients[client].sent_elsewhere.contains(&message);
        let place = self.place_at(node, connection).expect("an open connection");
        let (packet_id, entry) = (id, place.entries.get(&id).copied());
        let before = self.clients[client]
            .sent
            .insert(message, Sent { packet_id, entry });
        let is_again = before.is_some() && !message.is_of_group;
        assert!(
            !is_again || published.is_dup || is_moved,
            "{message:?} is sent without DUP"
        );
        let place = self.place_at(node, connection).expect("an open connection");
        place.count_unacknowledged(id);
        let has_entry = place.entries.contains_key(&id);
        assert!(
            qos == DeliveryQos::AtLeastOnce || has_entry,
            "the owners lack {id:?}"
        );
        if (message.message.number + connection.0).is_multiple_of(9) {
            place.to_node.push_back((id, DeliveryAnswer::Discarded));
            self.excepted.insert(message.message);
        } else {
            place.to_client.push_back(ToClient::Publish(published));
        }
    }

    pub(super) fn send_pubrel(&mut self, node: usize, connection: ConnectionId, id: PacketId) {
        let place = self.place_at(node, connection).expect("an open connection");
        place.to_client.push_back(ToClient::Pubrel(id));
    }

    /// A client reads a packet, and answers.
    pub(super) fn read(&mut self, client: usize) {
        let Some(place) = &mut self.clients[client].place else {
            return;
        };
        let Some(packet) = place.to_client.pop_front() else {
            return;
        };
        let answer = match packet {
            ToClient::Pubrel(id) => {
                let entry = place.entries.get(&id).copied();
                let message = self.clients[client].receiving.remove(&id);
                if let Some((message, entry)) = message.zip(entry) {
                    self.clients[client].stages.insert(message, entry);
                }
                (id, DeliveryAnswer::Pubcomp)
            }
            ToClient::Unstored(id) => (id, DeliveryAnswer::Puback),
            ToClient::Publish(published) => (published.packet_id, self.receive(client, &published)),
        };
        if let Some(place) = &mut self.clients[client].place {
            place.to_node.push_back(answer);
        }
    }

    /// A client receives PUBLISH: a QoS 2 message is new unless the packet id is known.
    fn receive(&mut self, client: usize, published: &Published<Payload>) -> DeliveryAnswer {
        let (id, message) = (published.packet_id, published.value);
        let client = &mut self.clients[client];
        let place = client.place.as_ref();
        let entry = place.and_then(|place| place.entries.get(&id)).copied();
        client.stages.extend(entry.map(|entry| (message, entry)));
        if published.qos == DeliveryQos::AtLeastOnce {
            client.received.insert(message);
            return DeliveryAnswer::Puback;
        }
        if message.message.number.is_multiple_of(11) {
            client.received.insert(message);
            client.receiving.remove(&id);
            return DeliveryAnswer::PubrecError;
        }
        let is_excused = client.moved.contains(&message);
        match client.receiving.insert(id, message) {
            Some(known) if known == message => {
                assert!(published.is_dup || is_excused, "{message:?} again without DUP");
            }
            Some(known) => {
                let is_excused = is_excused || client.moved.contains(&known);
                assert!(is_excused, "{message:?} is swallowed for {known:?}");
                client.receiving.insert(id, known);
                client.received.insert(message);
            }
            None => {
                let is_new = client.received.insert(message);
                assert!(is_new || is_excused, "{message:?} comes twice");
            }
        }
        DeliveryAnswer::Pubrec
    }

    /// A node reads a packet of a client.
    pub(super) fn answer(&mut self, client: usize) {
        let Some(place) = &mut self.clients[client].place else {
            return;
        };
        let Some((packet_id, answer)) = place.to_node.pop_front() else {
            return;
        };
        if answer != DeliveryAnswer::Pubrec {
            place.unacknowledged.remove(&packet_id);
            place.unstored.remove(&packet_id);
        }
        let (node, connection) = (place.node, place.connection);
        self.tell(
            node,
            DeliveringEvent::Answered {
                connection,
                packet_id,
                answer,
            },
        );
    }
}
