//! A message's way through a node without others: from a publisher's PUBLISH to what a subscriber and the publisher are sent.

use std::time::{Duration, Instant};

use broker::ids::ConnectionId;
use broker::limits::Limits;
use broker::{
    Action, DialectChoice, Event, Node, NodeConfig, Now, Policies, RecoveredGroup, RecoveredStore, Recovery,
    RoutesConfig, ShareStrategy, StateStoreConfig,
};
use bytes::Bytes;
use cluster::replica::{Recovered, Replica, ReplicaConfig};
use cluster::{GroupId, NodeId};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use protocol::packet::{
    Ack, Connect, ConnectProperties, PacketId, ProtocolVersion, Publish, QoS, Subscribe, SubscribeFilter,
    SubscriptionOptions,
};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Packet, ReasonCode, Text};
use smallvec::SmallVec;
use std::hint::black_box;
use store::{Quota, ScanLimits, Store};

/// Messages of one turn.
const MESSAGES: u64 = 1_000;

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way"
)]
fn now() -> Now {
    Now {
        instant: Instant::now(),
        wall: 1_700_000_000_000,
    }
}

fn node(now: Now) -> Node {
    let config = NodeConfig {
        limits: Limits::default(),
        sys_interval: None,
        share_strategy: ShareStrategy::default(),
        routes: RoutesConfig::default(),
        policies: Policies::default(),
        redirect: None,
        traces: None,
        seed: 1,
    };
    let mut started = Vec::new();
    let replica = ReplicaConfig::new(GroupId(0), NodeId(1), vec![NodeId(1)], 1);
    let replica = Replica::new(now.instant, replica, Recovered::nothing(), &mut started);
    let group = RecoveredGroup {
        store: Store::new(),
        replica: replica.expect("it fits"),
        started,
    };
    let state_store = StateStoreConfig {
        node: 1,
        incarnation: 1,
        dialect: DialectChoice::Auto,
        quota: Quota::UNLIMITED,
        entry_bytes_max: 1 << 20,
        pending_max: 100,
        snapshot_log_bytes: 1 << 20,
        snapshot_chunk_bytes: 1_024,
        digest_interval: Duration::from_secs(5),
        scan: ScanLimits::default(),
        scan_seal: broker::ScanSeal::new(&[1; broker::SCAN_KEY_BYTES]),
    };
    let recovered = RecoveredStore {
        config: state_store,
        groups: vec![group],
        control: None,
    };
    Recovery::new(now, config, 1).start(recovered, &mut Vec::new())
}

/// A client whose session ends with its connection.
fn connect(node: &mut Node, now: Now, slot: u32) -> ConnectionId {
    let connection = ConnectionId::new(1, slot);
    let opened = Event::Opened {
        connection,
        waited: Duration::ZERO,
        is_asked: false,
        policy: None,
    };
    let connect = Connect {
        version: ProtocolVersion::V5,
        is_bridge: false,
        client_id: Text::new(format!("client{slot}")).expect("short"),
        clean_start: true,
        keep_alive: 0,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    };
    node.step(now, opened, &mut Vec::new());
    send(node, now, connection, Packet::Connect(Box::new(connect)));
    connection
}

/// Takes a packet of a client; how many packets the node sends then.
fn send(node: &mut Node, now: Now, connection: ConnectionId, packet: Packet) -> usize {
    let mut actions = Vec::new();
    node.step(now, Event::Received { connection, packet }, &mut actions);
    let is_sent = |action: &&Action| matches!(action, Action::Send { .. } | Action::Publish { .. });
    black_box(&actions).iter().filter(is_sent).count()
}

fn subscribe(qos: QoS) -> Packet {
    let options = SubscriptionOptions {
        qos,
        ..SubscriptionOptions::default()
    };
    Packet::Subscribe(Subscribe {
        packet_id: PacketId::new(1).expect("above 0"),
        subscription_id: None,
        user_properties: UserProperties::EMPTY,
        filters: vec![SubscribeFilter {
            filter: Text::from_static("plant/+/1"),
            options,
        }],
    })
}

fn publish(qos: QoS) -> Packet {
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos,
        retain: false,
        topic: Text::from_static("plant/line/1"),
        packet_id: (qos != QoS::AtMostOnce).then(|| PacketId::new(1).expect("above 0")),
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::from_static(&[7; 100]),
    }))
}

fn one_to_one(criterion: &mut Criterion, name: &str, qos: QoS) {
    let now = now();
    let mut node = node(now);
    let (publisher, subscriber) = (connect(&mut node, now, 0), connect(&mut node, now, 1));
    send(&mut node, now, subscriber, subscribe(qos));
    let mut packet_id = 0_u16;
    let mut group = criterion.benchmark_group("publish to one subscriber");
    group.throughput(Throughput::Elements(MESSAGES));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            for _ in 0..MESSAGES {
                let sent = send(&mut node, now, publisher, publish(qos));
                assert!(sent > 0, "the message goes on");
                if qos == QoS::AtLeastOnce {
                    packet_id = packet_id.checked_add(1).unwrap_or(1);
                    let ack = Ack::new(PacketId::new(packet_id).expect("above 0"), ReasonCode::Success);
                    send(&mut node, now, subscriber, Packet::PubAck(ack));
                }
            }
        });
    });
    group.finish();
}

fn messages(criterion: &mut Criterion) {
    one_to_one(criterion, "QoS 0", QoS::AtMostOnce);
    one_to_one(criterion, "QoS 1", QoS::AtLeastOnce);
}

criterion_group!(benches, messages);
criterion_main!(benches);
