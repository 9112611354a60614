//! Clients of the world: connections of members, and what those acknowledge.

use super::{NODES, Wait, World, place, places};
use crate::connecting::ConnectionId;
use crate::groups::tests::*;
use crate::{ClientId, Fact, MemberTerms, Slot};

/// Client, with its session and its connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    birth: Option<Birth>,
    place: Option<Place>,
}

/// Connection of a client.
#[derive(Debug)]
pub(super) struct Place {
    node: usize,
    connection: ConnectionId,
    /// Messages that the client has and has not acknowledged, in their order.
    unacknowledged: VecDeque<Dot>,
    /// Messages that it was sent.
    sent: BTreeSet<Dot>,
}

impl World {
    /// Connects a client at a node, if its claim can succeed at once: all nodes of the side have each
    /// other.
    pub(super) fn connect(&mut self, client: usize, node: usize) {
        let Some(side) = self.connected_side(node) else {
            return;
        };
        self.close(client);
        self.merge_side(&side);
        let known = self.clients[client].birth;
        let knows = |birth: &Birth| self.machines[node].state.copy.covered.covers(birth.dot);
        let birth = known.filter(knows).unwrap_or_else(|| self.begin_session(node));
        self.clients[client].birth = Some(birth);
        self.merge_side(&side);
        self.machines[node].connections += 1;
        let connection = ConnectionId(self.machines[node].connections);
        self.clients[client].place = Some(Place {
            node,
            connection,
            unacknowledged: VecDeque::new(),
            sent: BTreeSet::new(),
        });
        let is_member = !self.machines[node].state.copy.members_of(birth.dot).is_empty();
        let groups = is_member.then(group).into_iter().collect();
        self.tell_sink(
            node,
            SinkEvent::Opened {
                connection,
                birth,
                groups,
            },
        );
    }

    fn begin_session(&mut self, node: usize) -> Birth {
        let made = self.make(node, BTreeSet::new(), Vec::new(), |_| None);
        Birth {
            dot: made.dot,
            clock: made.clock,
            is_clean: false,
        }
    }

    /// Nodes of the side of a node that have each other and reach each other.
    fn connected_side(&self, node: usize) -> Option<Vec<usize>> {
        let side = self.closed_side(node).filter(|_| self.machines[node].is_up)?;
        let is_whole = side
            .iter()
            .all(|peer| self.reaches(node, *peer) && self.has_present(node, *peer));
        is_whole.then_some(side)
    }

    /// All nodes of a side have what any of them has.
    fn merge_side(&mut self, side: &[usize]) {
        let copies = side.iter().map(|node| self.machines[*node].state.copy.clone());
        let copies: Vec<_> = copies.collect();
        for node in side {
            for copy in &copies {
                self.absorb(*node, copy.clone());
            }
            self.tell_parts(*node);
        }
    }

    /// The connection of a client ends.
    pub(super) fn close(&mut self, client: usize) {
        if let Some(place) = self.clients[client].place.take() {
            let connection = place.connection;
            self.forget_open(place.node, connection);
            self.tell_sink(place.node, SinkEvent::Closed { connection });
        }
    }

    fn forget_open(&mut self, node: usize, connection: ConnectionId) {
        let is_at = |dot: &Dot| World::node_of(dot.run) == node;
        self.open.retain(|dot, open| !(is_at(dot) && *open == connection));
    }

    /// The run of a node ends, and all its connections.
    pub(super) fn lose_connections_of(&mut self, node: usize) {
        self.open.retain(|dot, _| World::node_of(dot.run) != node);
        for client in &mut self.clients {
            client.place = client.place.take().filter(|place| place.node != node);
        }
    }

    /// SUBSCRIBE, or UNSUBSCRIBE, with what the node knows of the member.
    fn subscribed(&self, client: usize) -> Option<SubscribedGroup> {
        let Client { birth, place } = &self.clients[client];
        let (birth, place) = (birth.as_ref()?, place.as_ref()?);
        Some(SubscribedGroup {
            connection: place.connection,
            group: group(),
            known: self.machines[place.node].state.copy.members_of(birth.dot),
        })
    }

    fn node_of_client(&self, client: usize) -> Option<usize> {
        self.clients[client].place.as_ref().map(|place| place.node)
    }

    pub(super) fn subscribe(&mut self, client: usize) {
        let node = self.node_of_client(client);
        if let Some((node, subscribed)) = node.zip(self.subscribed(client)) {
            self.tell_sink(node, SinkEvent::Subscribed(subscribed));
        }
    }

    pub(super) fn unsubscribe(&mut self, client: usize) {
        let node = self.node_of_client(client);
        if let Some((node, left)) = node.zip(self.subscribed(client)) {
            if let Some(birth) = self.clients[client].birth {
                self.note_left(birth.dot);
            }
            self.tell_sink(node, SinkEvent::Unsubscribed(left));
        }
    }

    pub(super) fn end_session(&mut self, client: usize) {
        if self.clients[client].place.is_some() {
            self.unsubscribe(client);
            self.close(client);
            self.clients[client].birth = None;
        }
    }

    /// The client acknowledges the message that it has had for longest: PUBACK. Or the node has room for it, and
    /// moves it into the queue: each other message has QoS 2.
    pub(super) fn acknowledge(&mut self, client: usize) {
        let Some(place) = &mut self.clients[client].place else {
            return;
        };
        let (node, connection) = (place.node, place.connection);
        if let Some(message) = place.unacknowledged.pop_front() {
            let group = group();
            let event = if message.number.is_multiple_of(2) {
                SinkEvent::Moving {
                    connection,
                    group,
                    message,
                    value: message.number,
                }
            } else {
                SinkEvent::Acknowledged {
                    connection,
                    group,
                    message,
                }
            };
            self.tell_sink(node, event);
        }
    }

    pub(super) fn acknowledge_all(&mut self, client: usize) {
        for _ in 0..super::SINK.given_max {
            self.acknowledge(client);
        }
    }

    /// Members whose session is not that of a client any more: the routes remove them.
    pub(super) fn end_lost_sessions(&mut self) {
        let births: BTreeSet<Dot> = self
            .clients
            .iter()
            .filter_map(|client| Some(client.birth?.dot))
            .collect();
        let members = self.machines[0].state.copy.members();
        for (birth, _) in members.into_iter().filter(|(birth, _)| !births.contains(birth)) {
            self.note_left(birth);
            let known = self.machines[0].state.copy.members_of(birth);
            let removes = known.iter().map(|member| member.dot).collect();
            self.make(0, part_slots(), removes, |_| None);
        }
        self.deliver_all();
    }

    /// Connects a member that has no connection, at a node with room for its presence.
    pub(super) fn connect_if_member(&mut self, client: usize) {
        let Client { birth, place } = &self.clients[client];
        let is_member = |birth: &Birth| !self.machines[0].state.copy.members_of(birth.dot).is_empty();
        if birth.as_ref().is_some_and(is_member) && place.is_none() {
            let node = (0..NODES).min_by_key(|node| self.machines[*node].sink.attended());
            self.connect(client, node.expect("some nodes"));
        }
    }

    /// Nothing is under way, and all that members have is acknowledged.
    pub(super) fn has_delivered(&self) -> bool {
        let mut places = self.clients.iter().filter_map(|client| client.place.as_ref());
        self.is_quiet() && places.all(|place| place.unacknowledged.is_empty())
    }

    /// Nothing is under way, each member has a connection, and all that members have is acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        let members = self.machines[0].state.copy.members();
        let is_done = |client: &Client| match &client.place {
            Some(place) => place.unacknowledged.is_empty(),
            None => client.birth.is_none_or(|birth| !members.contains_key(&birth.dot)),
        };
        self.is_settled() && self.clients.iter().all(is_done)
    }

    pub(super) fn act_as_sink(&mut self, node: usize, action: SinkAction<u64>) {
        match action {
            SinkAction::Write {
                connection,
                group,
                write,
            } => self.write(node, connection, group, write),
            SinkAction::Deliver {
                connection, message, ..
            } => {
                self.note_delivered(message);
                if let Some(place) = self.place_mut(node, connection) {
                    assert!(place.sent.insert(message), "{message:?} comes twice");
                    place.unacknowledged.push_back(message);
                }
            }
            SinkAction::Move {
                connection,
                group,
                given,
                ..
            } => self.remove_given(node, connection, group, given),
            SinkAction::RefuseSubscribe { .. } => {
                assert_eq!(self.machines[node].sink.attended(), super::SINK.presences_max);
            }
            SinkAction::Disconnect { connection, .. } => {
                let is_at = |client: &&mut Client| {
                    let place = client.place.as_ref();
                    place.is_some_and(|place| place.node == node && place.connection == connection)
                };
                if let Some(client) = self.clients.iter_mut().find(is_at) {
                    client.place = None;
                    self.forget_open(node, connection);
                    self.tell_sink(node, SinkEvent::Closed { connection });
                }
            }
        }
    }

    fn place_mut(&mut self, node: usize, connection: ConnectionId) -> Option<&mut Place> {
        let mut places = self.clients.iter_mut().filter_map(|client| client.place.as_mut());
        places.find(|place| place.node == node && place.connection == connection)
    }

    fn write(&mut self, node: usize, connection: ConnectionId, group: GroupId, write: GroupWrite) {
        match write {
            GroupWrite::Member {
                birth,
                since,
                removes,
            } => {
                let mut begun = Hlc::ZERO;
                self.make(node, part_slots(), removes, |made| {
                    begun = since.unwrap_or(made.clock);
                    let client = ClientId::new(b"press").expect("short");
                    let terms = MemberTerms { client, since };
                    Some((Fact::Member(Box::new(terms)), birth, 0))
                });
                self.members.insert(birth.dot, begun);
            }
            GroupWrite::Leave { removes } => {
                self.make(node, part_slots(), removes, |_| None);
            }
            GroupWrite::Presence { birth } => {
                let adds = Some((Fact::Presence, birth, 0));
                let made = self.make(node, part_slots(), Vec::new(), |_| adds);
                self.open.insert(made.dot, connection);
                self.tell_sink(
                    node,
                    SinkEvent::PresenceWritten {
                        connection,
                        group,
                        dot: made.dot,
                    },
                );
            }
            GroupWrite::Absence { presence } => {
                self.make(node, part_slots(), vec![presence], |_| None);
            }
            GroupWrite::Acknowledgement(given) => self.remove_given(node, connection, group, given),
        }
    }

    /// Removes a message with its assignment: it is acknowledged, or moves. The queue is not of this world.
    fn remove_given(&mut self, node: usize, connection: ConnectionId, group: GroupId, given: GivenDots) {
        let slots = BTreeSet::from([given.slot]);
        let removes = vec![given.message, given.assignment];
        let made = self.make(node, slots, removes, |_| None);
        let wait = Wait::Acknowledgement {
            connection,
            group,
            message: given.message,
        };
        self.machines[node].waits.insert(made.dot, wait);
        self.complete_waits(node);
    }

    /// A publisher's node makes the event of a message.
    pub(super) fn publish(&mut self, node: usize, part: usize) {
        if !self.machines[node].is_up {
            return;
        }
        let slots = BTreeSet::from([place(part).slot]);
        let made = self.make(node, slots, Vec::new(), |made| {
            let birth = Birth::of_group_message(made.dot, made.clock);
            Some((Fact::Message, birth, made.dot.number))
        });
        self.note_published(node, made);
    }

    /// A node learns of members: those whose connections it has are to be present.
    pub(super) fn tell_joined(&mut self, node: usize) {
        let members = self.machines[node].state.copy.members();
        let here = self.clients.iter().filter_map(|client| {
            let (birth, place) = (client.birth?, client.place.as_ref()?);
            let is_member = place.node == node && members.contains_key(&birth.dot);
            is_member.then_some(place.connection)
        });
        for connection in here.collect::<Vec<ConnectionId>>() {
            let group = group();
            self.tell_sink(node, SinkEvent::Joined { connection, group });
        }
    }
}

fn part_slots() -> BTreeSet<Slot> {
    places().map(|place| place.slot).collect()
}
