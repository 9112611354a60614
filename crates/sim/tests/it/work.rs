//! Work by its counters: in proportion to the packet that asks for it, and cut into turns. They are the same on every machine.

use std::time::Duration;

use broker::WorkCounters;
use mqtt::ids::ConnectionId;
use protocol::packet::{Disconnect, PacketId, QoS, Subscribe, Unsubscribe};
use protocol::properties::UserProperties;
use protocol::{Packet, ReasonCode, Text};
use sim::machine::{Machine, MachineConfig};
use sim::transcript::policies;

use crate::client::{self, Client};
use crate::clock::now;

/// As many as the limits allow in one packet.
const FILTERS: usize = 10_000;

/// What any turn may do: 1,024 units, and the last of those who have a part of it.
const TURN_MAX: u64 = 1_024 + 512;

/// Units for each filter, whatever else the packet has.
const UNITS_PER_FILTER: u64 = 5;

fn machine() -> Machine {
    Machine::new(MachineConfig::new(1), now())
}

fn connected(machine: &mut Machine, name: &str) -> ConnectionId {
    let id = machine.open();
    machine.receive(id, Packet::Connect(Box::new(client::connect(name))));
    machine.write_all();
    machine.take_sent(id);
    id
}

fn text(text: impl Into<String>) -> Text {
    Text::new(text.into()).expect("a text")
}

fn subscribe(filters: impl Iterator<Item = String>) -> Packet {
    let packet_id = PacketId::new(1).expect("not zero");
    Packet::Subscribe(Subscribe::new(packet_id, QoS::AtMostOnce, filters.map(text)))
}

fn unsubscribe(filters: impl Iterator<Item = String>) -> Packet {
    Packet::Unsubscribe(Unsubscribe {
        packet_id: PacketId::new(2).expect("not zero"),
        user_properties: UserProperties::EMPTY,
        filters: filters.map(text).collect(),
    })
}

/// What the server did since `before`.
fn since(machine: &Machine, before: WorkCounters) -> WorkCounters {
    let after = machine.node().work();
    WorkCounters {
        units: after.units - before.units,
        filters: after.filters - before.filters,
        filters_checked: after.filters_checked - before.filters_checked,
        trie_nodes: after.trie_nodes - before.trie_nodes,
        ..after
    }
}

/// Sends a packet whose answer takes several turns; somebody else is answered in each of them. Returns the reasons.
fn answered_in_turns(machine: &mut Machine, id: ConnectionId, packet: Packet) -> Vec<ReasonCode> {
    let other = connected(machine, "other");
    machine.receive(id, packet);
    for _ in 0..FILTERS {
        machine.receive(other, Packet::PingReq);
        machine.write_all();
        assert_eq!(machine.take_sent(other), [Packet::PingResp], "nobody else waits");
        match machine.take_sent(id).pop() {
            Some(Packet::SubAck(ack)) => return ack.reasons,
            Some(Packet::UnsubAck(ack)) => return ack.reasons,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        assert!(!machine.is_reading(id), "one packet after the other");
        machine.advance(Duration::from_millis(1));
    }
    panic!("it is not answered");
}

#[test]
fn a_subscribe_is_work_for_each_filter_and_takes_turns() {
    let mut machine = machine();
    let id = connected(&mut machine, "a");
    let before = machine.node().work();
    // In the opposite of their order, and the same again: neither the list of filters nor that of what is due is gone through for each.
    let names = (0..FILTERS / 2).rev().map(|number| format!("{number:05}"));
    let packet = subscribe(names.clone().chain(names));
    let reasons = answered_in_turns(&mut machine, id, packet);
    assert_eq!(reasons, [ReasonCode::Success; FILTERS]);
    let work = since(&machine, before);
    assert_eq!(work.filters, FILTERS as u64);
    assert!(work.units <= UNITS_PER_FILTER * FILTERS as u64, "{work:?}");
    assert!(work.turn_units_max <= TURN_MAX, "{work:?}");
    assert_eq!(machine.node().gauges().subscriptions, FILTERS / 2);
    machine.advance(Duration::from_secs(1));
    assert!(machine.is_reading(id));

    let before = machine.node().work();
    let packet = unsubscribe((0..FILTERS).map(|number| format!("{number:05}")));
    let reasons = answered_in_turns(&mut machine, id, packet);
    let ended = reasons
        .iter()
        .filter(|reason| **reason == ReasonCode::Success)
        .count();
    assert_eq!((reasons.len(), ended), (FILTERS, FILTERS / 2));
    let work = since(&machine, before);
    assert!(work.units <= UNITS_PER_FILTER * FILTERS as u64, "{work:?}");
    assert!(work.turn_units_max <= TURN_MAX, "{work:?}");
}

#[test]
fn a_filter_with_many_levels_is_more_work_than_one_with_few() {
    let mut machine = machine();
    let id = connected(&mut machine, "a");
    let before = machine.node().work();
    let packet = subscribe((0..500).map(|number| format!("{number}{}", "/a".repeat(127))));
    let reasons = answered_in_turns(&mut machine, id, packet);
    assert_eq!(reasons, [ReasonCode::Success; 500]);
    let work = since(&machine, before);
    // Half a unit for each level.
    assert!(work.units >= 500 * 64, "{work:?}");
    assert!(work.turn_units_max <= TURN_MAX, "{work:?}");

    // Few of them are too many to end at once.
    let before = machine.node().work();
    machine.receive(id, Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    machine.write_all();
    assert!(
        machine.node().gauges().subscriptions > 400,
        "most wait for their turn"
    );
    machine.advance(Duration::from_secs(60));
    assert_eq!(machine.node().gauges().subscriptions, 0);
    let work = since(&machine, before);
    assert!(work.turn_units_max <= TURN_MAX, "{work:?}");
}

#[test]
fn filters_that_a_policy_denies_are_checked_in_turns() {
    let mut config = MachineConfig::new(1);
    config.policies = policies(&["client=* connect subscribe=own/#"]).expect("the rules are understood");
    let mut machine = Machine::new(config, now());
    let id = connected(&mut machine, "a");
    let before = machine.node().work();
    let packet = subscribe((0..FILTERS).map(|_| "x".to_owned()));
    let reasons = answered_in_turns(&mut machine, id, packet);
    assert_eq!(reasons, [ReasonCode::NotAuthorized; FILTERS]);
    let work = since(&machine, before);
    assert_eq!(work.filters_checked, FILTERS as u64);
    assert!(work.turn_units_max <= TURN_MAX, "{work:?}");
}

#[test]
fn many_who_subscribe_at_once_share_a_turn() {
    let mut machine = machine();
    let ids: Vec<_> = (0..50)
        .map(|number| connected(&mut machine, &format!("c{number}")))
        .collect();
    for id in &ids {
        machine.receive(*id, subscribe((0..1_000).map(|number| format!("{number}/+"))));
        machine.write_all();
    }
    machine.advance(Duration::from_secs(60));
    assert!(machine.node().work().turn_units_max <= TURN_MAX);
    for id in ids {
        assert!(
            matches!(&machine.take_sent(id)[..], [Packet::SubAck(_)]),
            "in the end"
        );
    }
}

#[test]
fn a_session_with_many_subscriptions_ends_in_turns() {
    let mut machine = machine();
    let id = connected(&mut machine, "a");
    let names = (0..FILTERS).map(|number| format!("{number:05}/+"));
    answered_in_turns(&mut machine, id, subscribe(names));
    machine.receive(id, Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
    machine.write_all();
    assert!(
        machine.node().gauges().subscriptions > FILTERS / 2,
        "most wait for their turn"
    );
    // Nobody gets what is for a session that has ended, nor does the next one of the same name.
    let id = connected(&mut machine, "a");
    let other = connected(&mut machine, "b");
    machine.receive(other, Packet::Publish(Box::new(client::publish("09999/x"))));
    machine.write_all();
    assert_eq!(machine.take_sent(id), []);
    machine.advance(Duration::from_secs(60));
    assert_eq!(machine.node().gauges().subscriptions, 0);
    assert_eq!(machine.node().gauges().sessions, 3, "each client has one");
    assert!(machine.node().work().turn_units_max <= TURN_MAX);
}

/// A filter that differs from all others in its first levels, and from the topic in its last one.
fn many_plus(number: usize) -> String {
    let first = (0..14).map(|bit| if number >> bit & 1 == 1 { "+" } else { "a" });
    let mut levels: Vec<_> = first.collect();
    levels.resize(127, "a");
    levels.push("b");
    levels.join("/")
}

#[test]
fn a_message_is_found_its_way_in_a_bounded_number_of_steps_whatever_others_subscribed_to() {
    let mut machine = machine();
    let publisher = connected(&mut machine, "p");
    // As many as it takes to use up what all may cause together.
    for name in 0..20 {
        let id = connected(&mut machine, &format!("c{name}"));
        let filters = (0..500).map(|number| many_plus(20 * number + name));
        machine.receive(id, subscribe(filters));
        machine.advance(Duration::from_secs(1));
        let reasons = match &machine.take_sent(id)[..] {
            [Packet::SubAck(ack)] => ack.reasons.clone(),
            other => panic!("{other:?}"),
        };
        let refused = reasons
            .iter()
            .filter(|reason| **reason == ReasonCode::QuotaExceeded)
            .count();
        assert!(refused > 400, "{refused} were refused");
    }
    let before = machine.node().work();
    machine.receive(
        publisher,
        Packet::Publish(Box::new(client::publish(&vec!["a"; 128].join("/")))),
    );
    machine.write_all();
    let work = since(&machine, before);
    assert!(work.trie_nodes > 1_000, "{work:?}");
    assert!(work.trie_nodes <= 8_192, "{work:?}");
    assert!(work.units <= 1_024, "{work:?}");

    // What does not overlap with that is taken all the same.
    let id = connected(&mut machine, "late");
    machine.receive(
        id,
        subscribe((0..100).map(|number| format!("plant/{number}/+/#"))),
    );
    machine.advance(Duration::from_secs(1));
    match &machine.take_sent(id)[..] {
        [Packet::SubAck(ack)] => assert!(ack.reasons.iter().all(|reason| !reason.is_error())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_of_a_scan_is_bounded_by_the_bytes_of_keys() {
    let mut machine = machine();
    let client = Client::connected(&mut machine, "c");
    // 1,000 bytes are as much as 16 keys.
    let long = "k".repeat(1_000);
    for number in 0..1_000 {
        assert_eq!(
            client.answer(&mut machine, &["SET", &format!("{long}{number}"), "v"]),
            "+OK\r\n"
        );
    }
    let before = machine.node().work().scan_keys;
    client.ask(&mut machine, 1, &["SCAN", "*x"]);
    machine.write_all();
    let walked = machine.node().work().scan_keys - before;
    assert!(walked > 9_000, "{walked}");
    assert!(walked <= 10_000 + 16, "{walked}");
}
