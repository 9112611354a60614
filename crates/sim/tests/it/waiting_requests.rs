//! Requests of the state store that nobody can decide have a limit, wherever they wait.

use cluster::GroupId;
use protocol::Packet;

use crate::world::{Place, World};

const LEADER: usize = 0;

const REQUESTS_MAX: u16 = 8;

#[test]
fn a_leader_that_hears_nobody_takes_so_many_reads_and_no_more() {
    let mut world = World::with_config(1, |config| {
        config.groups = 1;
        config.store_requests_max = REQUESTS_MAX.into();
    });
    world.await_first_leader();
    let [patient, late] = ["patient", "late"].map(|name| world.client(LEADER, name));

    for number in 1..=REQUESTS_MAX {
        world.ask(patient, "patient", number, &["GET", "k"]);
        // Each is on its way by itself.
        world.machine(LEADER).flush();
    }
    world.ask(late, "late", 1, &["GET", "k"]);
    assert!(world.machine(LEADER).node().leads(GroupId(0)).is_some());
    assert_eq!(decided(&mut world, patient), 0);
    assert_eq!(decided(&mut world, late), 1, "unavailable");
    assert_eq!(
        world.machine(LEADER).node().gauges().store_requests_waiting,
        usize::from(REQUESTS_MAX)
    );

    world.settle();
    assert_eq!(decided(&mut world, patient), usize::from(REQUESTS_MAX));
}

/// The acknowledgements of requests come with their answers.
fn decided(world: &mut World, at: Place) -> usize {
    let packets = world.machine(at.node).take_sent(at.connection);
    let is_ack = |packet: &&Packet| matches!(packet, Packet::PubAck(_));
    packets.iter().filter(is_ack).count()
}
