//! A broker whose disk is quick, and clients that say what they are told to.

use std::time::Duration;

use broker::{Action, Event, Node};
use bytes::Bytes;
use mqtt::ids::ConnectionId;
use mqtt::limits::Limits;
use mqtt::now::Now;
use protocol::packet::{
    Connect, ConnectProperties, PacketId, Publish, QoS, Subscribe, SubscriptionId, TopicAlias, Will,
};
use protocol::properties::MessageProperties;
use protocol::{Packet, Text};
use smallvec::SmallVec;
use state_service::StateStoreConfig;

use crate::alone;

pub(crate) struct BrokerOfTest {
    node: Node,
    now: Now,
    connections: u32,
    /// What a disk has to write that does nothing any more.
    stalled: Option<Vec<Action>>,
}

/// What a client says of itself.
#[derive(Default)]
pub(crate) struct Who {
    pub(crate) client_id: String,
    /// Its session stays when it goes.
    pub(crate) is_durable: bool,
    pub(crate) topic_alias_maximum: u16,
    pub(crate) will: Option<Will>,
}

impl BrokerOfTest {
    pub(crate) fn new() -> Self {
        let now = alone::now();
        let state_store = StateStoreConfig {
            pending_max: 1_000_000,
            snapshot_log_bytes: 1 << 40,
            ..alone::state_store()
        };
        let (node, actions) = alone::node(now, Limits::default(), state_store);
        let mut broker = Self {
            node,
            now,
            connections: 0,
            stalled: None,
        };
        broker.carry_out(actions);
        broker
    }

    /// What the broker says that it holds.
    pub(crate) fn account(&self) -> u64 {
        self.node.gauges().memory.total()
    }

    /// A client that is let in.
    pub(crate) fn connect(&mut self, who: Who) -> ConnectionId {
        let connection = self.open(false);
        self.send(connection, Packet::Connect(Box::new(connect(who, None))));
        connection
    }

    /// A client that waits until it is known who it is.
    pub(crate) fn ask(&mut self, who: Who, password: Bytes) -> ConnectionId {
        let connection = self.open(true);
        let connect = connect(who, Some(password));
        self.send(connection, Packet::Connect(Box::new(connect)));
        connection
    }

    fn open(&mut self, is_asked: bool) -> ConnectionId {
        let connection = ConnectionId::new(self.connections + 1, self.connections);
        self.connections += 1;
        self.step(Event::Opened {
            connection,
            waited: Duration::ZERO,
            is_asked,
            policy: None,
        });
        connection
    }

    pub(crate) fn lose(&mut self, connection: ConnectionId) {
        self.step(Event::Lost { connection });
    }

    /// Lets time pass until what is cut into turns is done.
    pub(crate) fn rest(&mut self) {
        for _ in 0..TURNS_MAX {
            self.now.instant += TURN;
            if self
                .node
                .deadline(self.now)
                .is_none_or(|deadline| deadline > self.now.instant)
            {
                return;
            }
            self.step(Event::Timeout);
        }
        panic!("the broker does not come to rest");
    }

    /// One SUBSCRIBE with many filters, of which the first turn is done.
    pub(crate) fn subscribe_all(&mut self, connection: ConnectionId, filters: &[String]) {
        // As they arrive: all in one block.
        let block = Bytes::from(filters.concat());
        let mut begin = 0;
        let lines = filters.iter().map(|filter| {
            let text = Text::from_bytes(block.slice(begin..begin + filter.len())).unwrap();
            begin += filter.len();
            text
        });
        let subscribe = Subscribe::new(packet_id(1), QoS::AtMostOnce, lines);
        self.send(connection, Packet::Subscribe(subscribe));
    }

    pub(crate) fn send(&mut self, connection: ConnectionId, packet: Packet) {
        self.step(Event::Received { connection, packet });
    }

    pub(crate) fn subscribe(&mut self, connection: ConnectionId, filter: String, qos: QoS, id: Option<u32>) {
        let subscribe = Subscribe {
            subscription_id: id.and_then(SubscriptionId::new),
            ..Subscribe::new(packet_id(1), qos, [Text::new(filter).unwrap()])
        };
        self.send(connection, Packet::Subscribe(subscribe));
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.node.step(self.now, event, &mut actions);
        self.carry_out(actions);
    }

    /// The disk does nothing any more.
    pub(crate) fn stall(&mut self) {
        self.stalled = Some(Vec::new());
    }

    /// Writes to the disk, and forgets what is sent.
    fn carry_out(&mut self, mut actions: Vec<Action>) {
        loop {
            if let Some(stalled) = &mut self.stalled {
                let is_write = |action: &mut Action| matches!(action, Action::Persist { .. });
                stalled.extend(actions.extract_if(.., is_write));
            }
            let persisted: Vec<_> = actions
                .drain(..)
                .filter_map(|action| match action {
                    Action::Persist { ticket, .. } => Some(ticket),
                    _ => None,
                })
                .collect();
            for ticket in persisted {
                self.node.step(self.now, Event::Durable { ticket }, &mut actions);
            }
            self.node.step(self.now, Event::Flush, &mut actions);
            if !actions
                .iter()
                .any(|action| matches!(action, Action::Persist { .. }))
            {
                return;
            }
        }
    }
}

/// A turn and the pause before the next one.
const TURN: Duration = Duration::from_millis(2);

/// More than anything here takes.
const TURNS_MAX: usize = 100_000;

fn connect(who: Who, password: Option<Bytes>) -> Connect {
    Connect {
        clean_start: false,
        will: who.will,
        password,
        properties: ConnectProperties {
            session_expiry: who.is_durable.then_some(3_600),
            topic_alias_maximum: Some(who.topic_alias_maximum),
            ..ConnectProperties::default()
        },
        ..Connect::new(Text::new(who.client_id).unwrap())
    }
}

/// A PUBLISH to `topic` as a client sends it, with everything in one block.
pub(crate) fn publish(topic: &str, qos: QoS, payload: usize, properties: MessageProperties) -> Publish {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: Text::new(topic).unwrap(),
        packet_id: (qos != QoS::AtMostOnce).then(|| packet_id(1)),
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties,
        payload: Bytes::from(vec![7; payload]),
    }
}

pub(crate) fn with_alias(publish: Publish, alias: u16) -> Packet {
    Packet::Publish(Box::new(Publish {
        topic_alias: TopicAlias::new(alias),
        ..publish
    }))
}

fn packet_id(id: u16) -> PacketId {
    PacketId::new(id).unwrap()
}
