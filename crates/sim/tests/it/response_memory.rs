//! State store requests while memory is full: a client that keeps up is answered, one that does not is refused, and no request is
//! acknowledged and then met with silence.

use std::collections::BTreeSet;

use bytes::Bytes;
use mqtt::ids::ConnectionId;
use mqtt::memory::MemoryLevel;
use protocol::packet::{Ack, PacketId, QoS};
use protocol::properties::UserProperties;
use protocol::{Packet, ReasonCode};
use sim::machine::{Machine, MachineConfig};
use sim::transcript::request;

use crate::client;
use crate::clock::now;

/// Requests of a client, and what became of them.
struct Asker {
    name: &'static str,
    connection: ConnectionId,
    accepted: BTreeSet<u16>,
    refused: usize,
    answered: Vec<u16>,
    /// Responses that it has not acknowledged.
    unacknowledged: Vec<PacketId>,
}

#[test]
fn a_request_is_answered_or_refused_while_memory_is_full() {
    let mut config = MachineConfig::new(1);
    config.limits.memory_max = 1 << 20;
    let mut machine = Machine::new(config, now());
    let mut quick = Asker::connect(&mut machine, "quick");
    let mut slow = Asker::connect(&mut machine, "slow");
    quick.ask(&mut machine, 1, &["SET", "k", "value"]);
    quick.acknowledge(&mut machine);
    let hog = fill(&mut machine);

    for number in 2..300 {
        quick.ask(&mut machine, number, &["GET", "k"]);
        quick.acknowledge(&mut machine);
        slow.ask(&mut machine, number, &["GET", "k"]);
    }
    assert_eq!((quick.accepted.len(), quick.refused), (299, 0));
    assert_eq!(quick.answered.len(), 299);
    assert!(slow.refused > 0, "it takes nothing, and asks on and on");
    assert!(
        slow.accepted.len() > 10,
        "for a while it was answered all the same"
    );
    assert_eq!(machine.node().counters().memory_refused, 1 + slow.refused as u64);

    // All that was accepted is answered once the client takes it.
    for _ in 0..300 {
        slow.acknowledge(&mut machine);
    }
    assert_eq!(slow.answered, slow.accepted.iter().copied().collect::<Vec<_>>());

    // There is room again: everybody is served as before.
    machine.receive(hog, Packet::Publish(Box::new(retained(0, b""))));
    machine.write_all();
    for number in 300..600 {
        slow.ask(&mut machine, number, &["GET", "k"]);
    }
    assert_eq!(slow.accepted.len(), slow.answered.len() + slow.waiting());
}

impl Asker {
    fn connect(machine: &mut Machine, name: &'static str) -> Self {
        let connection = machine.open();
        let mut connect = client::connect(name);
        connect.properties.receive_maximum = Some(4);
        machine.receive(connection, Packet::Connect(Box::new(connect)));
        let responses = format!("clients/{name}/response");
        machine.receive(connection, client::subscribe(&[&responses], QoS::AtLeastOnce));
        machine.write_all();
        assert_eq!(machine.take_sent(connection).len(), 2, "CONNACK and SUBACK");
        Self {
            name,
            connection,
            accepted: BTreeSet::new(),
            refused: 0,
            answered: Vec::new(),
            unacknowledged: Vec::new(),
        }
    }

    fn ask(&mut self, machine: &mut Machine, number: u16, arguments: &[&str]) {
        let packet = request(self.name, machine.now(), number, arguments);
        machine.receive(self.connection, packet);
        machine.write_all();
        self.take(machine);
    }

    fn acknowledge(&mut self, machine: &mut Machine) {
        for id in std::mem::take(&mut self.unacknowledged) {
            let ack = Packet::PubAck(Ack::new(id, ReasonCode::Success));
            machine.receive(self.connection, ack);
        }
        machine.write_all();
        self.take(machine);
    }

    /// Responses that were not sent yet.
    fn waiting(&self) -> usize {
        self.accepted.len() - self.answered.len()
    }

    fn take(&mut self, machine: &mut Machine) {
        for packet in machine.take_sent(self.connection) {
            match packet {
                Packet::PubAck(ack) if ack.reason == ReasonCode::Success => {
                    self.accepted.insert(ack.packet_id.get());
                }
                Packet::PubAck(ack) => {
                    assert_eq!(ack.reason, ReasonCode::QuotaExceeded);
                    self.refused += 1;
                }
                Packet::Publish(publish) => {
                    self.unacknowledged.extend(publish.packet_id);
                    let number = publish.properties.correlation_data.expect("of its request");
                    let number = u16::from_be_bytes(number.as_ref().try_into().expect("two bytes"));
                    self.answered.push(number);
                }
                other => panic!("{}: {other:?}", self.name),
            }
        }
    }
}

/// Retains messages that matter until there is no room for another one. The first of them is the largest.
fn fill(machine: &mut Machine) -> ConnectionId {
    let connection = machine.open();
    machine.receive(connection, Packet::Connect(Box::new(client::connect("hog"))));
    machine.write_all();
    machine.take_sent(connection);
    for number in 0..10_000 {
        let payload = if number == 0 {
            vec![b'x'; 300 << 10]
        } else {
            vec![b'x'; 1_000]
        };
        machine.receive(connection, Packet::Publish(Box::new(retained(number, &payload))));
        machine.write_all();
        match machine.take_sent(connection).as_slice() {
            [Packet::PubAck(ack)] if ack.reason == ReasonCode::Success => {}
            [Packet::PubAck(_)] => {
                assert_eq!(machine.node().gauges().memory_level, MemoryLevel::Full);
                return connection;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("there is always room")
}

fn retained(number: usize, payload: &[u8]) -> protocol::packet::Publish {
    let mut publish = client::publish(&format!("r/{number}"));
    publish.qos = QoS::AtLeastOnce;
    publish.packet_id = PacketId::new(1);
    publish.retain = true;
    publish.payload = Bytes::copy_from_slice(payload);
    publish.properties.user_properties = UserProperties::from_pairs([("$high_priority", "")]).expect("short");
    publish
}
