//! What an operator sees of a node, and does to it.

use std::time::Duration;

use broker::backups::Tally;
use broker::inspection::{ClientsAsked, LOOKED_AT_MAX, RetainedAsked, SubscriptionsAsked};
use broker::{Action, Administration, Event, Node, Report};
use bytes::Bytes;
use mqtt::ids::ConnectionId;
use mqtt::limits::Limits;
use mqtt::now::Now;
use protocol::packet::{
    Connect, ConnectProperties, PacketId, ProtocolVersion, Publish, QoS, Subscribe, Will,
};
use protocol::properties::MessageProperties;
use protocol::{Packet, ReasonCode, Text, TopicFilter, TopicName};
use smallvec::SmallVec;

use crate::alone;

/// A node on its own.
pub(crate) struct World {
    pub(crate) node: Node,
    pub(crate) now: Now,
    /// How long a batch takes.
    pub(crate) disk_takes: Duration,
    pub(crate) reports: Vec<Report>,
    connections: u32,
    sent: Vec<(ConnectionId, Packet)>,
    delivered: Vec<(ConnectionId, Text, Bytes)>,
    administered: Vec<(u64, bool)>,
    pub(crate) restored: Vec<Tally>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    /// With these limits.
    pub(crate) fn with(limits: Limits) -> Self {
        let now = alone::now();
        let (node, started) = alone::node(now, limits, alone::state_store());
        let mut world = Self {
            node,
            now,
            disk_takes: Duration::ZERO,
            reports: Vec::new(),
            connections: 0,
            sent: Vec::new(),
            delivered: Vec::new(),
            administered: Vec::new(),
            restored: Vec::new(),
        };
        let events = world.execute(started);
        world.run(events);
        world
    }

    pub(crate) fn step(&mut self, event: Event) {
        self.run(vec![event, Event::Flush]);
    }

    fn run(&mut self, mut events: Vec<Event>) {
        while !events.is_empty() {
            let mut actions = Vec::new();
            if matches!(events[0], Event::Durable { .. }) {
                self.now.instant += self.disk_takes;
            }
            for event in events.drain(..) {
                self.node.step(self.now, event, &mut actions);
            }
            events = self.execute(actions);
        }
    }

    /// What follows from it.
    fn execute(&mut self, actions: Vec<Action>) -> Vec<Event> {
        let mut events = Vec::new();
        for action in actions {
            match action {
                Action::Send { connection, packet } => self.sent.push((connection, packet)),
                Action::Publish { connection, publish } => {
                    let message = &publish.delivery.message;
                    let delivered = (connection, message.topic.text().clone(), message.payload.clone());
                    self.delivered.push(delivered);
                }
                Action::Persist { ticket, .. } => {
                    events.extend([Event::Durable { ticket }, Event::Flush]);
                }
                Action::Administered { question, is_done } => {
                    self.administered.push((question, is_done));
                }
                Action::Report(report) => self.reports.push(report),
                Action::Restored { tally, .. } => self.restored.push(tally),
                _ => {}
            }
        }
        events
    }

    pub(crate) fn receive(&mut self, connection: ConnectionId, packet: Packet) {
        self.step(Event::Received { connection, packet });
    }

    /// A client whose session lasts, subscribed to these filters.
    pub(crate) fn connect(&mut self, client_id: &str, filters: &[&str]) -> ConnectionId {
        let connection = ConnectionId::new(1, self.connections);
        self.connections += 1;
        self.step(Event::Opened {
            connection,
            waited: Duration::ZERO,
            is_asked: false,
            policy: None,
        });
        let will = Will {
            topic: topic("will/of"),
            payload: Bytes::from_static(b"gone"),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay: Some(5),
            properties: MessageProperties::default(),
        };
        let connect = Connect {
            keep_alive: 25,
            will: Some(will),
            properties: ConnectProperties {
                session_expiry: Some(3_600),
                ..ConnectProperties::default()
            },
            ..Connect::new(text(client_id))
        };
        self.receive(connection, Packet::Connect(Box::new(connect)));
        if !filters.is_empty() {
            let packet_id = PacketId::new(1).expect("above 0");
            let filters = filters.iter().map(|filter| text(filter));
            let subscribe = Subscribe::new(packet_id, QoS::AtLeastOnce, filters);
            self.receive(connection, Packet::Subscribe(subscribe));
        }
        connection
    }

    pub(crate) fn retain(&mut self, by: ConnectionId, topic: &str, payload: &'static str) {
        let publish = Publish {
            dup: false,
            qos: QoS::AtMostOnce,
            retain: true,
            topic: text(topic),
            packet_id: None,
            topic_alias: None,
            subscription_ids: SmallVec::new(),
            properties: MessageProperties::default(),
            payload: Bytes::from_static(payload.as_bytes()),
        };
        self.receive(by, Packet::Publish(Box::new(publish)));
    }

    pub(crate) fn administer(&mut self, question: u64, wanted: Administration) {
        self.step(Event::Administer { question, wanted });
    }

    /// The client ids of all pieces.
    fn clients(&self, asked: &ClientsAsked) -> Vec<Vec<String>> {
        let (mut asked, mut pieces) = (asked.clone(), Vec::new());
        loop {
            let piece = self.node.clients_seen(&asked);
            let found = piece.found.iter().map(|client| client.client_id.to_string());
            pieces.push(found.collect());
            match piece.next {
                Some(next) => asked.after = next,
                None => return pieces,
            }
        }
    }
}

pub(crate) fn text(text: &str) -> Text {
    Text::new(text).expect("short")
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(text(name)).expect("a topic name")
}

fn retained(filter: &str, limit: usize) -> RetainedAsked {
    RetainedAsked {
        filter: TopicFilter::parse(text(filter)).expect("a topic filter"),
        from: Vec::new(),
        limit,
    }
}

#[test]
fn clients_are_found_in_pieces_by_their_names_and_by_whether_they_are_there() {
    let mut world = World::new();
    world.connect("Pump-1", &["a/+", "b/#"]);
    let gone = world.connect("pump-2", &[]);
    world.connect("valve", &[]);
    world.step(Event::Lost { connection: gone });
    let all = ClientsAsked {
        limit: 2,
        ..ClientsAsked::default()
    };
    let pieces = world.clients(&all);
    assert_eq!(pieces[0], ["Pump-1", "pump-2"]);
    assert_eq!(pieces[1..].concat(), ["valve"]);
    let search = "PUMP".to_owned();
    let asked = ClientsAsked {
        search,
        ..all.clone()
    };
    let found = world.clients(&asked).concat();
    assert_eq!(found, ["Pump-1", "pump-2"]);
    let is_connected = Some(false);
    let asked = ClientsAsked {
        is_connected,
        ..all.clone()
    };
    let found = world.clients(&asked).concat();
    assert_eq!(found, ["pump-2"]);

    let piece = world.node.clients_seen(&all);
    assert_eq!(piece.total, 3);
    let [pump, gone] = piece.found.as_slice() else {
        panic!("two were asked for");
    };
    assert_eq!((pump.subscriptions, pump.session_expiry), (2, 3_600));
    let connection = pump.connection.expect("it is there");
    assert_eq!((connection.keep_alive, connection.since), (25, world.now.wall));
    assert_eq!(connection.version, ProtocolVersion::V5);
    assert_eq!(gone.connection, None);
}

#[test]
fn a_piece_ends_when_it_has_looked_at_many() {
    let mut world = World::new();
    let count = LOOKED_AT_MAX * 2 + 10;
    for number in 0..count {
        world.connect(&format!("client{number}"), &[]);
    }
    let search = "nobody".to_owned();
    let nobody = ClientsAsked {
        search,
        limit: 100,
        ..ClientsAsked::default()
    };
    let pieces = world.clients(&nobody);
    assert!(pieces.len() >= 3, "{}", pieces.len());
    assert!(pieces.iter().all(Vec::is_empty));
    let asked = SubscriptionsAsked {
        limit: 100,
        ..SubscriptionsAsked::default()
    };
    assert!(world.node.subscriptions_seen(&asked).next.is_some());
}

#[test]
fn a_client_is_shown_with_its_subscriptions_and_its_will() {
    let mut world = World::new();
    let connection = world.connect("pump", &["b/#", "$share/s/a/+"]);
    let seen = world.node.client_seen("pump").expect("it is here");
    let filters = seen.subscriptions.iter().map(|of| of.filter.to_string());
    assert_eq!(filters.collect::<Vec<_>>(), ["b/#", "$share/s/a/+"]);
    let will = seen.will.expect("it has one");
    assert_eq!((will.topic.as_str(), will.delay, will.bytes), ("will/of", 5, 4));
    // While its delay has not passed it is still the session's.
    world.step(Event::Lost { connection });
    let seen = world.node.client_seen("pump");
    assert!(seen.is_some_and(|seen| seen.will.is_some() && seen.client.connection.is_none()));
    assert_eq!(world.node.client_seen("valve"), None);
}

#[test]
fn subscriptions_go_on_within_a_session() {
    let mut world = World::new();
    world.connect("one", &["a/1", "a/2", "b/1"]);
    world.connect("two", &["$share/s/a/3", "c"]);
    let mut asked = SubscriptionsAsked {
        search: "A/".to_owned(),
        limit: 1,
        ..SubscriptionsAsked::default()
    };
    let mut found = Vec::new();
    loop {
        let piece = world.node.subscriptions_seen(&asked);
        assert!(piece.found.len() <= 1);
        assert_eq!(piece.total, 5);
        let one = piece
            .found
            .into_iter()
            .map(|seen| format!("{} {}", seen.client_id, seen.filter));
        found.extend(one);
        match piece.next {
            Some(next) => asked.after = next,
            None => break,
        }
    }
    assert_eq!(found, ["one a/1", "one a/2", "two $share/s/a/3"]);
}

#[test]
fn a_retained_message_is_removed_as_an_empty_one_does() {
    let mut world = World::new();
    let publisher = world.connect("publisher", &[]);
    for topic in ["line/1/state", "line/2/state", "other"] {
        world.retain(publisher, topic, "on");
    }
    let piece = world.node.retained_seen(world.now, &retained("line/+/state", 1));
    assert_eq!((piece.found.len(), piece.total), (1, 3));
    let seen = &piece.found[0];
    assert_eq!(seen.message.topic.as_str(), "line/1/state");
    assert_eq!(seen.stored_at, Some(world.now.wall));
    let from = piece.next.expect("there is another");
    let rest = world.node.retained_seen(
        world.now,
        &RetainedAsked {
            from,
            ..retained("line/+/state", 9)
        },
    );
    assert_eq!((rest.found.len(), rest.next), (1, None));

    let subscriber = world.connect("subscriber", &["line/#"]);
    world.delivered.clear();
    let remove = |name| Administration::RemoveRetained { topic: topic(name) };
    world.administer(7, remove("line/1/state"));
    world.administer(8, remove("line/1/state"));
    world.administer(9, remove("$SYS/broker/version"));
    assert_eq!(world.administered, [(7, true), (8, false), (9, false)]);
    assert_eq!(world.node.retained_message(world.now, "line/1/state"), None);
    assert!(world.node.retained_message(world.now, "line/2/state").is_some());
    assert_eq!(
        world.delivered,
        [(subscriber, text("line/1/state"), Bytes::new())]
    );
}

#[test]
fn a_client_that_is_disconnected_is_told_so_and_keeps_its_session() {
    let mut world = World::new();
    let connection = world.connect("pump", &[]);
    world.sent.clear();
    let disconnect = |client_id| Administration::Disconnect {
        client_id: text(client_id),
        why: "an operator wants it".to_owned(),
    };
    world.administer(1, disconnect("pump"));
    world.administer(2, disconnect("pump"));
    world.administer(3, disconnect("nobody"));
    assert_eq!(world.administered, [(1, true), (2, false), (3, false)]);
    let [(to, Packet::Disconnect(said))] = world.sent.as_slice() else {
        panic!("{:?}", world.sent);
    };
    assert_eq!((*to, said.reason), (connection, ReasonCode::AdministrativeAction));
    let reason = said.explanation.reason_string.as_deref();
    assert_eq!(reason, Some("an operator wants it"));
    assert!(world.node.client_seen("pump").is_some());
}
