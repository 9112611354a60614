//! What counts as a sign of life for a client's Keep Alive.

use std::time::Duration;

use protocol::Packet;
use sim::machine::{Machine, MachineConfig};

use crate::client;
use crate::clock::now;

const HALF_OF_KEEP_ALIVE: Duration = Duration::from_millis(500);

#[test]
fn mqtt_3_1_2_22_a_packet_that_is_on_its_way_is_no_silence() {
    let mut machine = Machine::new(MachineConfig::new(1), now());
    let [slow, silent] = ["slow", "silent"].map(|name| {
        let connection = machine.open();
        let mut connect = client::connect(name);
        connect.keep_alive = 1;
        machine.receive(connection, Packet::Connect(Box::new(connect)));
        machine.write_all();
        connection
    });
    for _ in 0..20 {
        machine.advance(HALF_OF_KEEP_ALIVE);
        machine.receive_part(slow);
    }
    assert!(machine.is_open(slow), "bytes have come all the time");
    assert!(!machine.is_open(silent));
    machine.receive(slow, Packet::Publish(Box::new(client::publish("a"))));
    machine.advance(3 * HALF_OF_KEEP_ALIVE);
    assert!(!machine.is_open(slow), "then nothing came any more");
}

#[test]
fn a_part_of_connect_is_no_reason_to_wait() {
    let mut machine = Machine::new(MachineConfig::new(1), now());
    let connection = machine.open();
    let within = machine.limits().connect_timeout;
    machine.advance(within / 2);
    machine.receive_part(connection);
    machine.advance(within / 2);
    assert!(!machine.is_open(connection));
}
