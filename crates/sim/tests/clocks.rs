//! Nodes whose clocks differ agree on what has expired.

use std::time::{Duration, Instant};

use broker::ConnectionId;
use cluster::{GroupId, NodeId};
use protocol::packet::{
    Connect, ConnectProperties, PacketId, ProtocolVersion, QoS, Subscribe, SubscribeFilter,
    SubscriptionOptions,
};
use protocol::properties::UserProperties;
use protocol::{Packet, Text};
use sim::machine::{Machine, MachineConfig};
use sim::transcript::request;

const LEADER: usize = 0;
const AHEAD: usize = 1;
/// By how many milliseconds the one node is ahead.
const BY: i64 = 200;

#[test]
fn a_key_that_a_node_said_is_gone_does_not_come_back_at_another_one() {
    let mut nodes: Vec<Machine> = [1, 2, 3].map(node).into();
    elect_first(&mut nodes);
    let clients: Vec<_> = nodes.iter_mut().map(connect).collect();
    let ask = |nodes: &mut [Machine], at: usize, arguments: &[&str]| {
        let packet = request("c", nodes[at].now(), 1, arguments);
        nodes[at].receive(clients[at], packet);
        talk(nodes);
        responses(&mut nodes[at], clients[at])
    };

    assert_eq!(
        ask(&mut nodes, LEADER, &["SET", "k", "v", "PX", "100"]),
        ["+OK\r\n"]
    );
    // By the clock of the one node its time is over, by that of the leader it is not.
    assert_eq!(ask(&mut nodes, AHEAD, &["GET", "k"]), ["$1\r\nv\r\n"]);
    assert_eq!(
        ask(&mut nodes, AHEAD, &["SCAN", "*"]),
        ["*1\r\n*1\r\n$1\r\nk\r\n"]
    );
    assert_eq!(ask(&mut nodes, LEADER, &["GET", "k"]), ["$1\r\nv\r\n"]);
    assert_eq!(ask(&mut nodes, LEADER, &["SET", "k", "w", "NX"]), [":-1\r\n"]);
    assert_eq!(ask(&mut nodes, AHEAD, &["GET", "other"]), ["$-1\r\n"]);

    for machine in &mut nodes {
        machine.advance(Duration::from_millis(101));
    }
    talk(&mut nodes);
    assert_eq!(ask(&mut nodes, AHEAD, &["GET", "k"]), ["$-1\r\n"]);
    assert_eq!(ask(&mut nodes, AHEAD, &["SCAN", "*"]), ["*1\r\n*0\r\n"]);
    assert_eq!(ask(&mut nodes, LEADER, &["GET", "k"]), ["$-1\r\n"]);
}

fn node(number: u64) -> Machine {
    let mut config = MachineConfig::new(number);
    config.node = NodeId(number);
    config.voters = [1, 2, 3].map(NodeId).into();
    config.clock_ahead = if number == AHEAD as u64 + 1 { BY } else { 0 };
    Machine::new(config, epoch())
}

/// Only the first one's time passes until it leads, then that of the others.
fn elect_first(nodes: &mut [Machine]) {
    let mut passed = Duration::ZERO;
    while nodes[LEADER].node().leads(GroupId(0)).is_none() {
        let step = Duration::from_millis(10);
        passed += step;
        assert!(passed < Duration::from_secs(10), "nobody leads");
        nodes[LEADER].advance(step);
        talk(nodes);
    }
    for machine in &mut nodes[LEADER + 1..] {
        machine.advance(passed);
    }
    talk(nodes);
    assert!(nodes[LEADER].node().leads(GroupId(0)).is_some());
}

/// All messages arrive, until there are none.
fn talk(nodes: &mut [Machine]) {
    let mut is_quiet = false;
    while !is_quiet {
        is_quiet = true;
        for from in 0..nodes.len() {
            nodes[from].write_all();
            let messages: Vec<_> = nodes[from].take_to_peers().collect();
            for (to, message) in messages {
                is_quiet = false;
                let to = usize::try_from(to.0 - 1).expect("few nodes");
                nodes[to].hear(NodeId(from as u64 + 1), message);
            }
        }
    }
}

fn responses(machine: &mut Machine, client: ConnectionId) -> Vec<String> {
    let payload = |packet| match packet {
        Packet::Publish(publish) => Some(String::from_utf8_lossy(&publish.payload).into_owned()),
        _ => None,
    };
    machine
        .take_sent(client)
        .into_iter()
        .filter_map(payload)
        .collect()
}

fn connect(machine: &mut Machine) -> ConnectionId {
    let id = machine.open();
    let connect = Connect {
        version: ProtocolVersion::V5,
        client_id: Text::from_static("c"),
        clean_start: true,
        keep_alive: 0,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    };
    let subscribe = Subscribe {
        packet_id: PacketId::new(1).expect("it is above 0"),
        subscription_id: None,
        user_properties: UserProperties::EMPTY,
        filters: vec![SubscribeFilter {
            filter: Text::from_static("clients/c/response"),
            options: SubscriptionOptions {
                qos: QoS::AtMostOnce,
                ..SubscriptionOptions::default()
            },
        }],
    };
    machine.receive(id, Packet::Connect(Box::new(connect)));
    machine.receive(id, Packet::Subscribe(subscribe));
    machine.write_all();
    machine.take_sent(id);
    id
}

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
fn epoch() -> Instant {
    Instant::now()
}
