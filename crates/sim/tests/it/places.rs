//! Nodes, mostly three, a network on which everything may happen, and clients.

mod departures;
mod numbered;
mod party;
mod weather;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use broker::ReplicationFigures;
use bytes::Bytes;
use cluster::NodeId;
use cluster::random::Random;
use cluster::session_plane::lifecycle::NodeState;
use mqtt::ids::ConnectionId;
use protocol::packet::{PacketId, Publish, QoS, Subscribe, Unsubscribe};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Packet, ReasonCode, Text};
use session_plane::EntryId;
use sim::few_slots;
use sim::machine::{Machine, MachineConfig};

pub(crate) use self::numbered::{QOS, all_of, number, publisher_of, qos_of};
pub(crate) use self::party::Party;
pub(crate) use self::weather::Weather;
use crate::clock;
use crate::world::NODES;

const STEP: Duration = Duration::from_millis(1);

/// Nodes that store a session, where there are so many.
const OWNERS: usize = 3;

/// The simulated nodes and all around them.
pub(crate) struct Places {
    pub(crate) now: Instant,
    pub(crate) weather: Weather,
    nodes: Vec<Option<Machine>>,
    /// Machines that are switched off, and when they are switched on.
    away: BTreeMap<usize, (Instant, Machine)>,
    /// Nodes for which no time passes: what comes for them waits.
    paused: BTreeSet<usize>,
    /// What clients have sent to these.
    unread: Vec<(usize, ConnectionId, Packet)>,
    wires: BTreeMap<(usize, usize), VecDeque<(Instant, Bytes)>>,
    cut: BTreeSet<(usize, usize)>,
    heals_at: Option<Instant>,
    /// Changes what nodes say to each other; says whether it has.
    pub(crate) tampers: Option<fn(&mut [u8]) -> bool>,
    /// How often it did.
    pub(crate) tampered: usize,
    parties: Vec<Party>,
    random: Random,
}

/// Which client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who(usize);

impl Who {
    pub(crate) fn name(self, places: &Places) -> String {
        places.parties[self.0].name.clone()
    }
}

impl Places {
    pub(crate) fn new(seed: u64, change: fn(&mut MachineConfig)) -> Self {
        Self::with_nodes(seed, NODES, change)
    }

    pub(crate) fn with_nodes(seed: u64, count: usize, change: fn(&mut MachineConfig)) -> Self {
        let now = clock::now();
        let nodes = (1..=count as u64).map(|number| {
            let mut config = MachineConfig::new(seed * 100 + number);
            config.node = NodeId(number);
            config.voters = (1..=count as u64).map(NodeId).collect();
            config.has_control = true;
            config.slots = few_slots::of_seed(seed);
            change(&mut config);
            Some(Machine::new(config, now))
        });
        Self {
            now,
            weather: Weather::FINE,
            nodes: nodes.collect(),
            away: BTreeMap::new(),
            paused: BTreeSet::new(),
            unread: Vec::new(),
            wires: BTreeMap::new(),
            cut: BTreeSet::new(),
            heals_at: None,
            tampers: None,
            tampered: 0,
            parties: Vec::new(),
            random: Random::new(seed ^ 0x0070_6C61_6365_7300),
        }
    }

    /// So many nodes that are responsible together.
    pub(crate) fn running(seed: u64, count: usize, change: fn(&mut MachineConfig)) -> Self {
        let mut places = Self::with_nodes(seed, count, change);
        places.settle();
        places.run(Duration::from_secs(5));
        places
    }

    /// All nodes know each other.
    pub(crate) fn settle(&mut self) {
        for _ in 0..5_000 {
            self.step();
            let others = self.nodes.len() - 1;
            let is_settled = |node| {
                let figures = self.figures(node);
                figures.present_nodes == others + 1 && figures.open_events == 0
            };
            if (0..self.nodes.len()).all(is_settled) {
                return;
            }
        }
        panic!("the nodes do not reach each other");
    }

    pub(crate) fn machine(&self, node: usize) -> &Machine {
        self.nodes[node].as_ref().expect("it is there")
    }

    pub(crate) fn figures(&self, node: usize) -> ReplicationFigures {
        self.machine(node).node().gauges().replication
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    pub(crate) fn step(&mut self) {
        self.now += STEP;
        self.switch_on();
        if self.heals_at.is_some_and(|at| at <= self.now) {
            self.heal();
        }
        for node in 0..self.nodes.len() {
            let now = self.now;
            if let Some(machine) = self.awake(node) {
                machine.tick(now);
            }
        }
        self.carry();
        self.let_parties_talk();
        for node in 0..self.nodes.len() {
            self.write_and_flush(node);
        }
    }

    pub(crate) fn connect(&mut self, party: Party) -> Who {
        let who = self.appear(party);
        self.until("CONNACK", |places| places.parties[who.0].is_accepted);
        who
    }

    /// Connects some time. Every second client takes messages of QoS 2 when they are released.
    pub(crate) fn appear(&mut self, party: Party) -> Who {
        let takes_at_release = self.parties.len() % 2 == 1;
        self.parties.push(Party {
            takes_at_release,
            ..party
        });
        Who(self.parties.len() - 1)
    }

    /// A node is heard by nobody, and hears nobody, for so long.
    pub(crate) fn isolate(&mut self, node: usize, time: Duration) {
        self.split(node);
        self.heals_at = Some(self.now + time);
    }

    /// Subscribes, and waits for SUBACK.
    pub(crate) fn subscribe(&mut self, who: Who, filter: &str, qos: QoS) {
        let party = &mut self.parties[who.0];
        let packet_id = PacketId::new(party.id()).expect("above 0");
        let subscribe = Subscribe::new(packet_id, qos, [Text::new(filter).expect("short")]);
        let before = party.subacks;
        self.send(who, Packet::Subscribe(subscribe));
        self.until("SUBACK", |places| places.parties[who.0].subacks > before);
    }

    /// Unsubscribes, and waits for UNSUBACK.
    pub(crate) fn unsubscribe(&mut self, who: Who, filter: &str) {
        let party = &mut self.parties[who.0];
        let unsubscribe = Unsubscribe {
            packet_id: PacketId::new(party.id()).expect("above 0"),
            user_properties: UserProperties::EMPTY,
            filters: vec![Text::new(filter).expect("short")],
        };
        let before = party.unsubacks;
        self.send(who, Packet::Unsubscribe(unsubscribe));
        self.until("UNSUBACK", |places| places.parties[who.0].unsubacks > before);
    }

    pub(crate) fn publish(&mut self, who: Who, topic: &str, qos: QoS, number: u64) {
        let party = &mut self.parties[who.0];
        let packet_id = (qos != QoS::AtMostOnce).then(|| PacketId::new(party.id()).expect("above 0"));
        let publish = Publish {
            dup: false,
            qos,
            retain: false,
            topic: Text::new(topic).expect("short"),
            packet_id,
            topic_alias: None,
            subscription_ids: smallvec::SmallVec::new(),
            properties: MessageProperties::default(),
            payload: [&number.to_be_bytes()[..], &vec![0; party.message_bytes]]
                .concat()
                .into(),
        };
        if let Some(packet_id) = packet_id {
            party.open.push_back((packet_id.get(), Some(publish.clone())));
        }
        if self.parties[who.0].is_accepted {
            self.send(who, Packet::Publish(Box::new(publish)));
        }
    }

    /// Publishes something that is to be retained, or that nothing is to be.
    pub(crate) fn retain(
        &mut self,
        who: Who,
        topic: &str,
        qos: QoS,
        (number, expiry): (Option<u64>, Option<u32>),
    ) {
        let party = &mut self.parties[who.0];
        let packet_id = (qos != QoS::AtMostOnce).then(|| PacketId::new(party.id()).expect("above 0"));
        let publish = Publish {
            dup: false,
            qos,
            retain: true,
            topic: Text::new(topic).expect("short"),
            packet_id,
            topic_alias: None,
            subscription_ids: smallvec::SmallVec::new(),
            properties: MessageProperties {
                message_expiry: expiry,
                ..MessageProperties::default()
            },
            payload: number.map_or(Bytes::new(), |number| {
                Bytes::copy_from_slice(&number.to_be_bytes())
            }),
        };
        if let Some(packet_id) = packet_id {
            party.open.push_back((packet_id.get(), Some(publish.clone())));
        }
        if self.parties[who.0].is_accepted {
            self.send(who, Packet::Publish(Box::new(publish)));
        }
    }

    pub(crate) fn heard(&self, who: Who) -> Vec<u64> {
        self.parties[who.0].heard.clone()
    }

    /// How many messages of QoS 2 a client has begun to receive, and was not sent PUBREL for: one that waits for that has not got them.
    pub(crate) fn unreleased(&self, who: Who) -> usize {
        self.parties[who.0].received.len()
    }

    /// What a client had begun to receive, and would have taken with PUBREL, when it was told that it has no session.
    pub(crate) fn forgotten(&self, who: Who) -> &BTreeSet<u64> {
        &self.parties[who.0].forgotten
    }

    pub(crate) fn unacknowledged(&self, who: Who) -> usize {
        self.parties[who.0].open.len()
    }

    /// The numbers of what it has published and nobody has taken over.
    pub(crate) fn untaken(&self, who: Who) -> Vec<u64> {
        let open = self.parties[who.0].open.iter();
        let publishes = open.filter_map(|(_, publish)| publish.as_ref());
        publishes.map(|publish| party::number(&publish.payload)).collect()
    }

    /// The client says goodbye for ever.
    pub(crate) fn disconnect(&mut self, who: Who) {
        let disconnect = protocol::packet::Disconnect::new(ReasonCode::Success);
        self.send(who, Packet::Disconnect(disconnect));
        self.parties[who.0].is_gone = true;
    }

    /// The same, and its session ends with that.
    pub(crate) fn end_session(&mut self, who: Who) {
        let disconnect = protocol::packet::Disconnect {
            session_expiry: Some(0),
            ..protocol::packet::Disconnect::new(ReasonCode::Success)
        };
        self.send(who, Packet::Disconnect(disconnect));
        self.parties[who.0].is_gone = true;
    }

    /// The client's connection breaks, and it does not come back.
    pub(crate) fn lose(&mut self, who: Who) {
        let party = &mut self.parties[who.0];
        party.is_gone = true;
        let connection = party.connection.expect("it is connected");
        self.nodes[party.node]
            .as_mut()
            .expect("it is there")
            .lose(connection);
    }

    /// The client's connection is over, and it connects to another node.
    pub(crate) fn go_to(&mut self, who: Who, node: usize) {
        let party = &mut self.parties[who.0];
        let before = party.connection.take();
        let from = std::mem::replace(&mut party.node, node);
        party.is_accepted = false;
        if let (Some(connection), Some(machine)) = (before, &mut self.nodes[from]) {
            machine.forget(connection);
        }
    }

    /// Nodes that store the session of a client.
    pub(crate) fn owners(&self, who: Who) -> BTreeSet<usize> {
        self.stored(who).into_keys().collect()
    }

    /// Entries of a client's session, at each node that stores it.
    fn stored(&self, who: Who) -> BTreeMap<usize, Vec<EntryId>> {
        let name = &self.parties[who.0].name;
        let nodes = self.nodes.iter().enumerate();
        let stored = nodes.filter_map(|(number, node)| {
            let entries = node.as_ref()?.node().stored_session(name)?;
            Some((number, entries))
        });
        stored.collect()
    }

    /// All nodes run, and nothing is on its way. So many of them store the session as there are to be, and the same entries.
    ///
    /// # Errors
    /// What is not so.
    pub(crate) fn check_rest(&self, who: Who) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            let figures = self.figures(node);
            let is_at_rest = figures.unmerged_slots == 0 && figures.open_events == 0;
            if !self.is_running(node) || !is_at_rest {
                return Err(format!("node {node} is not at rest: {figures:?}"));
            }
        }
        let stored = self.stored(who);
        if stored.len() != self.nodes.len().min(OWNERS) {
            let nodes: Vec<&usize> = stored.keys().collect();
            return Err(format!("{} is stored by {nodes:?}", who.name(self)));
        }
        let mut copies = stored.values();
        let first = copies.next();
        match copies.all(|copy| Some(copy) == first) {
            true => Ok(()),
            false => Err(format!("copies of {} differ: {stored:#?}", who.name(self))),
        }
    }

    /// A client that was gone is there again.
    pub(crate) fn come_back(&mut self, who: Who) {
        let party = &mut self.parties[who.0];
        party.is_gone = false;
        party.connection = None;
    }

    /// The client goes to another node, without a word to the one where it is, and is connected there.
    pub(crate) fn go(&mut self, who: Who, node: usize) {
        self.set_out(who, node);
        self.until("CONNACK elsewhere", |places| places.parties[who.0].is_accepted);
    }

    /// The same; it is connected some time.
    pub(crate) fn set_out(&mut self, who: Who, node: usize) {
        let party = &mut self.parties[who.0];
        let left = party.connection.map(|connection| (party.node, connection));
        if party.is_accepted {
            party.left.extend(left);
        } else if let Some((node, connection)) = left
            && let Some(machine) = &mut self.nodes[node]
        {
            // It does not wait for CONNACK any more.
            machine.lose(connection);
        }
        party.cut();
        party.node = node;
    }

    /// What CONNACK has said of its session.
    pub(crate) fn session_present(&self, who: Who) -> Option<bool> {
        self.parties[who.0].session_present
    }

    /// Whether it was told that it is not who it has to be.
    pub(crate) fn is_denied(&self, who: Who) -> bool {
        self.parties[who.0].is_denied
    }

    /// How often it was told to try again.
    pub(crate) fn refusals(&self, who: Who) -> usize {
        self.parties[who.0].refusals
    }

    /// The same of each of its CONNACKs.
    pub(crate) fn sessions_present(&self, who: Who) -> &[bool] {
        &self.parties[who.0].sessions_present
    }

    /// Whether a client was told that it is connected.
    pub(crate) fn is_connected(&self, who: Who) -> bool {
        self.parties[who.0].is_accepted
    }

    /// How many connections of a client its nodes have that are there.
    pub(crate) fn connections(&self, who: Who) -> usize {
        self.nodes_with(who).len()
    }

    /// The nodes with connections of a client, as often as they have one.
    pub(crate) fn nodes_with(&self, who: Who) -> Vec<usize> {
        let party = &self.parties[who.0];
        let present = party.connection.map(|connection| (party.node, connection));
        let all = party.left.iter().copied().chain(present);
        let is_open = |(node, connection): &(usize, ConnectionId)| {
            let machine = self.nodes[*node].as_ref();
            machine.is_some_and(|machine| machine.is_open(*connection))
        };
        all.filter(is_open).map(|(node, _)| node).collect()
    }

    /// The client does not come back when its connection ends.
    pub(crate) fn forget(&mut self, who: Who) {
        self.parties[who.0].is_gone = true;
    }

    /// Whether a node says of itself that it is responsible.
    pub(crate) fn is_running(&self, node: usize) -> bool {
        self.own_state(node) == Some(NodeState::Running)
    }

    /// In which state a node says that it is.
    pub(crate) fn own_state(&self, node: usize) -> Option<NodeState> {
        let own = NodeId(node as u64 + 1);
        let mut states = self.machine(node).node().node_states().into_iter();
        states.find(|(node, _)| *node == own).map(|(_, state)| state)
    }

    /// The numbers of what a new client finds retained at a node, in their order.
    pub(crate) fn found_retained(&mut self, node: usize, filter: &str) -> Vec<u64> {
        let name = format!("reader{node}-{:?}", self.now);
        let reader = self.connect(Party::new(node, &name));
        self.subscribe(reader, filter, QoS::AtLeastOnce);
        self.run(Duration::from_millis(100));
        let mut found = self.heard(reader);
        found.sort_unstable();
        self.disconnect(reader);
        found
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn is_there(&self, node: usize) -> bool {
        self.nodes[node].is_some()
    }

    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
        self.wires.retain(|(from, to), _| *from != node && *to != node);
    }

    /// Other policies decide at a node from now on.
    pub(crate) fn set_policies(&mut self, node: usize, rules: &[&str]) {
        let policies = sim::transcript::policies(rules).expect("the rules are understood");
        let machine = self.nodes[node].as_mut().expect("it is there");
        machine.set_policies(policies);
    }

    /// No time passes for a node, until it is woken.
    pub(crate) fn pause(&mut self, node: usize) {
        self.paused.insert(node);
    }

    /// Time has passed for everybody else.
    pub(crate) fn wake(&mut self, node: usize) {
        self.paused.remove(&node);
        let now = self.now;
        let unread = self.unread.extract_if(.., |(to, ..)| *to == node);
        for (_, connection, packet) in unread.collect::<Vec<_>>() {
            if let Some(machine) = self.nodes[node]
                .as_mut()
                .filter(|machine| machine.is_open(connection))
            {
                machine.receive(connection, packet);
            }
        }
        if let Some(machine) = self.awake(node) {
            machine.tick(now);
        }
    }

    /// A node that is there, and for which time passes.
    fn awake(&mut self, node: usize) -> Option<&mut Machine> {
        let is_paused = self.paused.contains(&node);
        self.nodes[node].as_mut().filter(|_| !is_paused)
    }

    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..10_000 {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("no {what}");
    }

    fn send(&mut self, who: Who, packet: Packet) {
        let party = &self.parties[who.0];
        let connection = party.connection.expect("it is connected");
        let machine = self.nodes[party.node].as_mut().expect("its node is there");
        if self.paused.contains(&party.node) {
            self.unread.push((party.node, connection, packet));
        } else {
            machine.receive(connection, packet);
        }
    }

    fn let_parties_talk(&mut self) {
        for number in 0..self.parties.len() {
            let party = &mut self.parties[number];
            let is_paused = self.paused.contains(&party.node);
            let Some(machine) = self.nodes[party.node].as_mut().filter(|_| !is_paused) else {
                continue;
            };
            if party.is_gone {
                continue;
            }
            let connection = party.connection.unwrap_or_else(|| {
                let connection = machine.open();
                machine.receive(connection, party.connect_packet());
                party.unsaid.clear();
                connection
            });
            party.connection = Some(connection);
            // Whoever is asked is let in.
            for (asked, _) in machine.take_questions() {
                assert_eq!(asked, connection, "one client connects at a time");
                machine.answer(asked, party.accepted_as());
            }
            for packet in machine.take_sent(connection) {
                for answer in party.hear(packet) {
                    let pause = match party.slowness {
                        0 => 0,
                        most => self.random.between(0, most) as u64,
                    };
                    party.answer(self.now + Duration::from_millis(pause), answer);
                }
            }
            while machine.is_open(connection)
                && let Some(said) = party.say(self.now)
            {
                machine.receive(connection, said);
            }
            if !machine.is_open(connection) {
                party.cut();
            }
        }
    }
}
