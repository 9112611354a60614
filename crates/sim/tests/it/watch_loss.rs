//! Each change of a watched key is sent once, or the connection of its watcher ends.

use std::time::Duration;

use mqtt::ids::ConnectionId;
use protocol::packet::{Ack, QoS};
use protocol::{Packet, ReasonCode};
use sim::machine::{Machine, MachineConfig};

use crate::client::{self, Client};
use crate::clock::now;
use crate::world::{World, key_of};

const SECOND: Duration = Duration::from_secs(1);

/// Keys that one client watches, many more than its queue has room for messages.
const KEYS: u16 = 2_000;

fn machine() -> Machine {
    let mut config = MachineConfig::new(1);
    config.limits.queue_messages_max = 10;
    Machine::new(config, now())
}

/// A client that is registered for `KEYS` keys, each of which is there for a second.
fn watcher(machine: &mut Machine) -> Client {
    let watcher = Client::connected(machine, "watcher");
    for number in 0..KEYS {
        watcher.ask(machine, 1, &["KEYNOTIFY", &format!("key{number}")]);
        machine.write_all();
    }
    for number in 0..KEYS {
        watcher.ask(machine, 1, &["SET", &format!("key{number}"), "v", "PX", "60000"]);
        machine.write_all();
        take(machine, watcher.connection);
    }
    watcher
}

/// Packets that came for a client, which acknowledges them.
fn take(machine: &mut Machine, connection: ConnectionId) -> Vec<Packet> {
    let mut taken = Vec::new();
    loop {
        let packets = machine.take_sent(connection);
        if packets.is_empty() {
            return taken;
        }
        for packet in &packets {
            if let Packet::Publish(publish) = packet
                && let Some(packet_id) = publish.packet_id
            {
                let ack = Packet::PubAck(Ack::new(packet_id, ReasonCode::Success));
                machine.receive(connection, ack);
            }
        }
        machine.write_all();
        taken.extend(packets);
    }
}

#[test]
fn keys_that_expire_at_once_are_all_notified() {
    let mut machine = machine();
    let watcher = watcher(&mut machine);
    machine.advance(61 * SECOND);
    machine.write_all();
    let packets = take(&mut machine, watcher.connection);
    let notified = client::notifications(&packets, "watcher");
    assert_eq!(notified.len(), usize::from(KEYS));
    assert_eq!(machine.node().counters().dropped.queue_full, 0);
}

#[test]
fn a_slow_watcher_is_given_the_replies_to_its_own_requests() {
    let mut machine = machine();
    let watcher = watcher(&mut machine);
    let responses = client::subscribe(&["clients/watcher/response", "news"], QoS::AtLeastOnce);
    machine.receive(watcher.connection, responses);
    machine.write_all();
    take(&mut machine, watcher.connection);
    machine.advance(61 * SECOND);
    machine.write_all();
    let publisher = Client::connected(&mut machine, "publisher");
    for number in 0..100 {
        let mut publish = client::publish("news");
        publish.qos = QoS::AtLeastOnce;
        publish.packet_id = protocol::packet::PacketId::new(number + 1);
        machine.receive(publisher.connection, Packet::Publish(Box::new(publish)));
    }
    watcher.ask(&mut machine, 7, &["GET", "key0"]);
    machine.write_all();
    let packets = take(&mut machine, watcher.connection);
    let notified = client::notifications(&packets, "watcher").len();
    let responses = client::responses(packets);
    let numbers: Vec<_> = responses.iter().map(|response| response.number).collect();
    assert_eq!((notified, numbers), (usize::from(KEYS), vec![7]));
}

#[test]
fn a_watcher_is_told_that_nobody_leads_its_keys() {
    const CUT_OFF: usize = 1;

    for seed in 1..=3 {
        let mut world = World::new(seed);
        world.run(10 * SECOND, World::is_spread);
        let (cut_off, other) = (world.client(CUT_OFF, "watcher"), world.client(2, "other"));
        let idle = world.client(CUT_OFF, "idle");
        for (at, name) in [(cut_off, "watcher"), (other, "other")] {
            world.ask(at, name, 1, &["KEYNOTIFY", &key_of(0)]);
            world.run(SECOND, |_| false);
            assert_eq!(world.responses(at)[0].payload, "+OK\r\n");
        }
        world.cut_off = Some(CUT_OFF);
        world.run(8 * SECOND, |_| false);
        let ends = |packet: &Packet| match packet {
            Packet::Disconnect(disconnect) => Some(disconnect.reason),
            _ => None,
        };
        let ended = [cut_off, other, idle].map(|at| {
            let packets = world.machine(at.node).take_sent(at.connection);
            packets.iter().find_map(ends)
        });
        assert_eq!(ended, [Some(ReasonCode::ServerBusy), None, None], "seed {seed}");
    }
}
