//! Requests of the state store that nobody can decide have a limit, wherever they wait.

use std::time::{Duration, Instant};

use broker::ConnectionId;
use cluster::{GroupId, NodeId};
use protocol::Packet;
use protocol::Text;
use protocol::packet::{Connect, ConnectProperties, ProtocolVersion};
use sim::machine::{Machine, MachineConfig};
use sim::transcript::request;

const REQUESTS_MAX: u16 = 8;

#[test]
fn a_leader_that_hears_nobody_takes_so_many_reads_and_no_more() {
    let mut nodes: Vec<Machine> = [1, 2, 3].map(node).into();
    let leader = elect(&mut nodes);
    let machine = &mut nodes[leader];
    let [patient, late] = ["patient", "late"].map(|name| client(machine, name));

    for packet_id in 1..=REQUESTS_MAX {
        get(machine, patient, packet_id);
        // Each is on its way by itself.
        machine.flush();
    }
    get(machine, late, 1);
    assert!(machine.node().leads(GroupId(0)).is_some());
    assert_eq!(decided(machine.take_sent(patient)), 0);
    assert_eq!(decided(machine.take_sent(late)), 1, "unavailable");
    assert_eq!(
        machine.node().gauges().store_requests_waiting,
        usize::from(REQUESTS_MAX)
    );

    talk(&mut nodes);
    assert_eq!(
        decided(nodes[leader].take_sent(patient)),
        usize::from(REQUESTS_MAX)
    );
}

fn node(number: u64) -> Machine {
    let mut config = MachineConfig::new(number);
    config.node = NodeId(number);
    config.voters = [1, 2, 3].map(NodeId).into();
    config.store_requests_max = REQUESTS_MAX.into();
    Machine::new(config, epoch())
}

/// Time passes until somebody leads, and knows that it does.
fn elect(nodes: &mut [Machine]) -> usize {
    for _ in 0..1_000 {
        for machine in &mut *nodes {
            machine.advance(Duration::from_millis(10));
        }
        talk(nodes);
        if let Some(leader) = nodes
            .iter()
            .position(|machine| machine.node().leads(GroupId(0)).is_some())
        {
            return leader;
        }
    }
    panic!("nobody leads");
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

/// The acknowledgements of requests come with their answers.
fn decided(packets: Vec<Packet>) -> usize {
    let is_ack = |packet: &Packet| matches!(packet, Packet::PubAck(_));
    packets.into_iter().filter(is_ack).count()
}

fn get(machine: &mut Machine, client: ConnectionId, packet_id: u16) {
    let packet = request("c", machine.now(), packet_id, &["GET", "k"]);
    machine.receive(client, packet);
}

fn client(machine: &mut Machine, name: &'static str) -> ConnectionId {
    let id = machine.open();
    machine.receive(
        id,
        Packet::Connect(Box::new(Connect {
            version: ProtocolVersion::V5,
            client_id: Text::from_static(name),
            clean_start: true,
            keep_alive: 0,
            will: None,
            username: None,
            password: None,
            properties: ConnectProperties::default(),
        })),
    );
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
