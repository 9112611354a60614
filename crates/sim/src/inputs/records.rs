//! What a disk holds.
//!
//! An input is a list of records: keyspace (1), length of the key (1), key, length of the value (2), value. Either the
//! server refuses to start on them, or it starts, serves the sessions it found, and understands what it then wrote.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use broker::Recovery;
use bytes::Bytes;
use cluster::NodeId;
use cluster::write::{Keyspace, Write};
use protocol::packet::{Connect, ConnectProperties, PacketId, QoS, Subscribe};
use protocol::{Packet, ReasonCode, Text};
use storage::{Drawn, Identity, SimulatedDisk, Storage};

use super::client::Client;
use super::config;
use super::conversation::publish;
use super::cursor::Cursor;
use crate::machine::Machine;

/// Plays an input. `origin` is any instant; only differences matter. False if the server refused to start.
pub fn records(input: &[u8], origin: Instant) -> bool {
    let (disk, client_ids) = disk_of(input);
    let mut machine = match Machine::on_disk(config(0), disk, origin) {
        Ok(machine) => machine,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    for _ in 0..2 {
        machine.write_all();
        for client_id in &client_ids {
            serve(&mut machine, client_id);
        }
        machine.advance(Duration::from_secs(100_000));
        machine.write_all();
        machine = machine.crash();
    }
    true
}

/// The input that means what is on this disk.
pub(super) fn records_input(disk: &SimulatedDisk) -> Vec<u8> {
    let mut input = Vec::new();
    for (place, keyspace) in (0..).zip(Recovery::KEYSPACES) {
        let mut visit = |key: &[u8], value: Bytes| {
            let lengths = u8::try_from(key.len()).ok().zip(u16::try_from(value.len()).ok());
            if let Some((key_length, value_length)) = lengths {
                input.extend([place, key_length]);
                input.extend_from_slice(key);
                input.extend(value_length.to_be_bytes());
                input.extend_from_slice(&value);
            }
            ControlFlow::Continue(())
        };
        disk.scan(keyspace, &[], &mut visit)
            .expect("the simulated disk works");
    }
    input
}

/// The disk that an input means, and some of those who may have a session on it.
fn disk_of(input: &[u8]) -> (SimulatedDisk, Vec<Text>) {
    let mut input = Cursor::new(input);
    let (mut writes, mut client_ids) = (Vec::new(), Vec::new());
    while !input.is_empty() && writes.len() < RECORDS_MAX {
        let keyspace = input.pick(&Recovery::KEYSPACES);
        let key = Bytes::copy_from_slice(input.chunk());
        if keyspace == Keyspace::Sessions
            && client_ids.len() < CLIENTS_MAX
            && let Ok(client_id) = Text::from_bytes(key.clone())
        {
            client_ids.push(client_id);
        }
        let value = Bytes::copy_from_slice(input.long_chunk());
        writes.push(Write::Put { keyspace, key, value });
    }
    let mut disk = SimulatedDisk::new(0);
    let drawn = Drawn {
        node: NodeId(1),
        nonce: 0,
    };
    Identity::take(&mut disk, drawn).expect("an empty disk gets one");
    disk.write(&writes).expect("the simulated disk works");
    disk.sync().expect("the simulated disk works");
    (disk, client_ids)
}

/// The client comes back, subscribes, publishes, answers what it gets, and goes.
pub(super) fn serve(machine: &mut Machine, client_id: &Text) {
    let mut client = Client::new();
    client.open(machine);
    client.send(machine, &connect(client_id));
    machine.write_all();
    client.send(machine, &subscribe());
    client.send(
        machine,
        &Packet::Publish(Box::new(publish(&mut Cursor::new(&[1, 0])))),
    );
    client.send(
        machine,
        &Packet::Publish(Box::new(publish(&mut Cursor::new(&[6, 1])))),
    );
    for _ in 0..ROUNDS {
        machine.write_all();
        client.be_read(machine);
        if client.listen(machine).is_empty() {
            break;
        }
        client.answer(machine, usize::MAX, ReasonCode::Success);
    }
    client.lose(machine);
}

fn connect(client_id: &Text) -> Packet {
    Packet::Connect(Box::new(Connect {
        clean_start: false,
        properties: ConnectProperties {
            session_expiry: Some(10),
            ..ConnectProperties::default()
        },
        ..Connect::new(client_id.clone())
    }))
}

fn subscribe() -> Packet {
    let packet_id = PacketId::new(100).expect("not 0");
    Packet::Subscribe(Subscribe::new(
        packet_id,
        QoS::AtMostOnce,
        [Text::from_static("#")],
    ))
}

const RECORDS_MAX: usize = 64;
pub(super) const CLIENTS_MAX: usize = 4;
/// In which a client answers everything: more deliveries than the records of an input can hold.
const ROUNDS: usize = 100;
