//! Other rules for many clients: nobody waits for all of them, and nobody gets anything by an old rule.

use std::time::Duration;

use mqtt::authorization::Right;
use mqtt::ids::ConnectionId;
use protocol::Packet;
use protocol::packet::{PacketId, QoS};
use sim::machine::{Machine, MachineConfig};
use sim::transcript::policies;

use crate::client;
use crate::clock::now;

/// More than are gone through in one turn.
const CLIENTS: usize = 3_000;

#[test]
fn what_many_may_not_have_any_more_is_taken_from_them_in_turns() {
    let mut config = MachineConfig::new(7);
    config.policies =
        policies(&["client=* connect publish=# subscribe=old,new"]).expect("the rules are understood");
    let mut machine = Machine::new(config, now());
    let clients: Vec<_> = (0..CLIENTS).map(|n| client(&mut machine, n)).collect();
    let publisher = client(&mut machine, CLIENTS);
    machine.write_all();
    machine.take_sent(publisher);
    for id in &clients {
        assert_eq!(machine.take_sent(*id).len(), 2, "CONNACK and SUBACK");
    }

    let rules = policies(&["client=* connect publish=# subscribe=new"]);
    machine.set_policies(rules.expect("the rules are understood"));
    // One turn.
    machine.advance(Duration::ZERO);
    let after_one_turn = withdrawn(&machine);
    assert!(after_one_turn > 0, "it begins at once");
    assert!(after_one_turn < CLIENTS as u64, "others have their turn");
    machine.receive(publisher, publish("old", 1));
    machine.receive(publisher, publish("new", 2));
    machine.write_all();
    assert_eq!(machine.take_sent(publisher).len(), 2, "PUBACKs come at once");

    machine.advance(Duration::from_secs(1));
    assert_eq!(withdrawn(&machine), CLIENTS as u64 + 1);
    assert_eq!(machine.node().gauges().subscriptions, CLIENTS + 1);
    assert_eq!(machine.node().gauges().waiting_messages, 0);
    for id in clients.into_iter().chain([publisher]) {
        let topics: Vec<_> = machine.take_sent(id).into_iter().map(topic_of).collect();
        assert_eq!(topics, ["new"]);
    }
}

fn withdrawn(machine: &Machine) -> u64 {
    machine.node().counters().withdrawn[Right::Subscribe as usize]
}

fn client(machine: &mut Machine, n: usize) -> ConnectionId {
    let id = machine.open();
    machine.receive(id, Packet::Connect(Box::new(client::connect(&format!("c{n}")))));
    machine.receive(id, client::subscribe(&["old", "new"], QoS::AtMostOnce));
    id
}

fn publish(topic: &str, packet_id: u16) -> Packet {
    let mut publish = client::publish(topic);
    publish.qos = QoS::AtLeastOnce;
    publish.packet_id = PacketId::new(packet_id);
    Packet::Publish(Box::new(publish))
}

fn topic_of(packet: Packet) -> String {
    match packet {
        Packet::Publish(publish) => publish.topic.to_string(),
        other => format!("{other:?}"),
    }
}
