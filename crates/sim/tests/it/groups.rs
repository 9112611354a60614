//! A state store of several groups is one to its clients.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::Packet;
use protocol::packet::QoS;
use sim::machine::{Machine, MachineConfig};
use state_service::group_of_key;

use crate::client::{self, Client};
use crate::clock::now;

const GROUPS: u32 = 3;

const KEYS: usize = 60;

/// Room for a page with a token and a few keys.
const PACKET_SIZE_MAX: u32 = 600;

#[test]
fn a_scan_lists_the_keys_of_all_groups_once_also_after_a_crash() {
    let mut machine = machine();
    let client = Client::connected(&mut machine, "c");
    let keys: BTreeSet<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
    for key in &keys {
        assert_eq!(client.answer(&mut machine, &["SET", key, key]), "+OK\r\n");
    }
    let groups: BTreeSet<_> = keys
        .iter()
        .map(|key| group_of_key(key.as_bytes(), GROUPS))
        .collect();
    assert_eq!(groups.len(), GROUPS as usize);
    let mut scan_for = |pattern| scan(pattern, |arguments| client.answer(&mut machine, arguments));
    assert_eq!(scan_for("key*"), keys);
    assert_eq!(scan_for("key1"), BTreeSet::from(["key1".to_owned()]));

    let mut machine = machine.crash();
    let client = Client::connected(&mut machine, "c");
    let listed = scan("*", |arguments| client.answer(&mut machine, arguments));
    assert_eq!(listed, keys);
}

#[test]
fn a_token_of_a_scan_shows_no_key_and_is_for_its_pattern_alone() {
    let mut machine = machine();
    let client = Client::connected(&mut machine, "c");
    for number in 0..KEYS {
        client.answer(&mut machine, &["SET", &format!("secret{number}"), "v"]);
    }
    let first = client.answer(&mut machine, &["SCAN", "secret*"]);
    assert!(first.starts_with("*2\r\n"), "{first}");
    let token = first.rsplit("\r\n").nth(1).expect("a token").to_owned();
    assert!(!token.contains("secret"), "{token}");
    let second = client.answer(&mut machine, &["SCAN", "secret*", &token]);
    assert!(second.starts_with("*2\r\n"), "{second}");
    let refused = "-ERR the continuation token does not hold here; start the scan again\r\n";
    let shorter = &token[..token.len() - 1];
    for (pattern, token) in [
        ("*", &*token),
        ("secret?*", &token),
        ("secret*", shorter),
        ("secret*", &token.to_lowercase()),
        // As they were made before they were sealed.
        ("secret*", "\u{1}secret5"),
        ("secret*", "\u{2}\0\0\0\u{1}"),
    ] {
        let answer = client.answer(&mut machine, &["SCAN", pattern, token]);
        assert_eq!(answer, refused, "{pattern} {token:?}");
    }
}

#[test]
fn pages_of_a_scan_fit_a_client_with_a_small_maximum_packet_size() {
    let mut machine = machine();
    let connection = machine.open();
    let mut connect = client::connect("c");
    connect.properties.packet_size_max = Some(PACKET_SIZE_MAX);
    machine.receive(connection, Packet::Connect(Box::new(connect)));
    machine.receive(
        connection,
        client::subscribe(&["clients/c/response"], QoS::AtMostOnce),
    );
    machine.write_all();
    machine.take_sent(connection);
    let name = "c".to_owned();
    let client = Client { name, connection };
    let keys: BTreeSet<String> = (0..KEYS)
        .map(|number| format!("key{number}{}", "x".repeat(number)))
        .collect();
    for key in &keys {
        assert_eq!(client.answer(&mut machine, &["SET", key, key]), "+OK\r\n");
    }
    let listed = scan("key*", |arguments| client.answer(&mut machine, arguments));
    assert_eq!(listed, keys);
    let longest = format!("key{}{}", "0", "y".repeat(600));
    assert_eq!(client.answer(&mut machine, &["SET", &longest, "v"]), "+OK\r\n");
    let refused = client.answer(&mut machine, &["SCAN", "key0y*"]);
    assert!(refused.starts_with("-ERR the reply is a packet of "), "{refused}");
    assert_eq!(machine.node().counters().dropped.too_large, 0);
}

#[test]
fn registrations_end_in_all_groups_with_their_connection() {
    let mut machine = machine();
    let client = Client::connected(&mut machine, "c");
    for number in 0..KEYS {
        let key = format!("key{number}");
        assert_eq!(client.answer(&mut machine, &["KEYNOTIFY", &key]), "+OK\r\n");
    }
    assert_eq!(machine.node().gauges().store.watches, KEYS as u64);
    machine.lose(client.connection);
    machine.write_all();
    assert_eq!(machine.node().gauges().store.watches, 0);
}

#[test]
fn keys_of_all_groups_expire() {
    let mut machine = machine();
    let client = Client::connected(&mut machine, "c");
    for number in 0..KEYS {
        let key = format!("key{number}");
        client.answer(&mut machine, &["SET", &key, "v", "PX", "500"]);
    }
    machine.advance(Duration::from_secs(1));
    assert_eq!(machine.node().gauges().store.keys, 0);
}

/// All keys that a SCAN lists, page by page. Each page is in order, and no key comes twice.
pub(crate) fn scan(pattern: &str, mut answer: impl FnMut(&[&str]) -> String) -> BTreeSet<String> {
    let mut listed = BTreeSet::new();
    let mut token: Option<String> = None;
    loop {
        let mut arguments = vec!["SCAN", pattern];
        arguments.extend(token.as_deref());
        let page = answer(&arguments);
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

fn machine() -> Machine {
    let mut config = MachineConfig::new(1);
    config.groups = GROUPS;
    Machine::new(config, now())
}
