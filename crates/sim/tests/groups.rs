//! A state store of several groups is one to its clients.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use broker::{ConnectionId, group_of_key};
use bytes::Bytes;
use protocol::packet::{
    Connect, ConnectProperties, PacketId, ProtocolVersion, QoS, Subscribe, SubscribeFilter,
    SubscriptionOptions,
};
use protocol::properties::UserProperties;
use protocol::{Packet, Text};
use sim::machine::{Machine, MachineConfig};
use sim::transcript::request;

const GROUPS: u32 = 3;

const KEYS: usize = 60;

#[test]
fn a_scan_lists_the_keys_of_all_groups_once_also_after_a_crash() {
    let mut machine = machine();
    let client = connect(&mut machine);
    let keys: BTreeSet<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
    for key in &keys {
        assert_eq!(ask(&mut machine, client, &["SET", key, key]), "+OK\r\n");
    }
    let groups: BTreeSet<_> = keys
        .iter()
        .map(|key| group_of_key(key.as_bytes(), GROUPS))
        .collect();
    assert_eq!(groups.len(), GROUPS as usize);
    assert_eq!(scan(&mut machine, client, "key*"), keys);
    assert_eq!(
        scan(&mut machine, client, "key1"),
        BTreeSet::from(["key1".to_owned()])
    );

    let mut machine = machine.crash();
    let client = connect(&mut machine);
    assert_eq!(scan(&mut machine, client, "*"), keys);
    let another = ask(&mut machine, client, &["SCAN", "*", "\u{2}\0\0\0\u{3}"]);
    assert_eq!(another, "-ERR syntax error\r\n", "there is no group 3");
}

#[test]
fn registrations_end_in_all_groups_with_their_connection() {
    let mut machine = machine();
    let client = connect(&mut machine);
    for number in 0..KEYS {
        let key = format!("key{number}");
        assert_eq!(ask(&mut machine, client, &["KEYNOTIFY", &key]), "+OK\r\n");
    }
    assert_eq!(machine.node().gauges().store.watches, KEYS as u64);
    machine.lose(client);
    machine.write_all();
    assert_eq!(machine.node().gauges().store.watches, 0);
}

#[test]
fn keys_of_all_groups_expire() {
    let mut machine = machine();
    let client = connect(&mut machine);
    for number in 0..KEYS {
        let key = format!("key{number}");
        ask(&mut machine, client, &["SET", &key, "v", "PX", "500"]);
    }
    machine.advance(Duration::from_secs(1));
    assert_eq!(machine.node().gauges().store.keys, 0);
}

/// Everything that a SCAN lists; each page is in order, and no key comes twice.
fn scan(machine: &mut Machine, client: ConnectionId, pattern: &str) -> BTreeSet<String> {
    let mut listed = BTreeSet::new();
    let mut token: Option<String> = None;
    loop {
        let mut arguments = vec!["SCAN", pattern];
        arguments.extend(token.as_deref());
        let page = ask(machine, client, &arguments);
        let mut lines = page.split("\r\n");
        let has_more = lines.next() == Some("*2");
        let count = lines.next().and_then(|line| line.strip_prefix('*')?.parse().ok());
        let count: usize = count.expect("a page of keys");
        let keys: Vec<&str> = lines.by_ref().skip(1).step_by(2).take(count).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for key in keys {
            assert!(listed.insert(key.to_owned()), "{key} comes twice");
        }
        if !has_more {
            return listed;
        }
        token = page.rsplit("\r\n").nth(1).map(str::to_owned);
    }
}

/// The answer to a request.
fn ask(machine: &mut Machine, client: ConnectionId, arguments: &[&str]) -> String {
    let packet = request("c", machine.now(), 1, arguments);
    machine.receive(client, packet);
    machine.write_all();
    let responses = machine
        .take_sent(client)
        .into_iter()
        .filter_map(|packet| match packet {
            Packet::Publish(publish) => Some(publish.payload),
            _ => None,
        });
    let all: Vec<Bytes> = responses.collect();
    assert_eq!(all.len(), 1, "{arguments:?}: {all:?}");
    String::from_utf8_lossy(&all[0]).into_owned()
}

fn machine() -> Machine {
    let mut config = MachineConfig::new(1);
    config.groups = GROUPS;
    Machine::new(config, epoch())
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
