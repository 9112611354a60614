//! Nodes whose clocks differ agree on what has expired.

use std::time::Duration;

use cluster::NodeId;
use protocol::Packet;
use protocol::properties::UserProperties;
use sim::transcript::request;

use crate::world::World;

const LEADER: usize = 0;
const AHEAD: usize = 1;
/// By how many milliseconds the one node is ahead.
const BY: i64 = 200;

#[test]
fn a_key_that_a_node_said_is_gone_does_not_come_back_at_another_one() {
    let mut world = World::with_config(1, |config| {
        config.groups = 1;
        let is_ahead = config.node == NodeId(AHEAD as u64 + 1);
        config.clock_ahead = if is_ahead { BY } else { 0 };
    });
    world.await_first_leader();
    let clients = [0, 1, 2].map(|node| world.client(node, "c"));
    let ask = |world: &mut World, node: usize, arguments: &[&str]| {
        world.ask(clients[node], "c", 1, arguments);
        world.settle();
        let mut responses = world.responses(clients[node]);
        assert_eq!(responses.len(), 1, "{arguments:?}");
        responses.remove(0).payload
    };

    assert_eq!(
        ask(&mut world, LEADER, &["SET", "k", "v", "PX", "100"]),
        "+OK\r\n"
    );
    // By the clock of the one node its time is over, by that of the leader it is not.
    assert_eq!(ask(&mut world, AHEAD, &["GET", "k"]), "$1\r\nv\r\n");
    assert_eq!(ask(&mut world, AHEAD, &["SCAN", "*"]), "*1\r\n*1\r\n$1\r\nk\r\n");
    assert_eq!(ask(&mut world, LEADER, &["GET", "k"]), "$1\r\nv\r\n");
    assert_eq!(ask(&mut world, LEADER, &["SET", "k", "w", "NX"]), ":-1\r\n");
    assert_eq!(ask(&mut world, AHEAD, &["GET", "other"]), "$-1\r\n");

    for machine in world.nodes.iter_mut().flatten() {
        machine.advance(Duration::from_millis(101));
    }
    world.settle();
    assert_eq!(ask(&mut world, AHEAD, &["GET", "k"]), "$-1\r\n");
    assert_eq!(ask(&mut world, AHEAD, &["SCAN", "*"]), "*1\r\n*0\r\n");
    assert_eq!(ask(&mut world, LEADER, &["GET", "k"]), "$-1\r\n");
}

/// The leader's clock is ahead by more than a client's token may be. What it gives as a version is a token all the same, at a node
/// whose clock is right.
#[test]
fn a_token_that_the_store_has_given_is_never_too_far_ahead() {
    const FAR: u64 = 3_600_000;
    let mut world = World::with_config(1, |config| {
        config.groups = 1;
        let is_ahead = config.node == NodeId(LEADER as u64 + 1);
        config.clock_ahead = if is_ahead { FAR as i64 } else { 0 };
    });
    world.await_first_leader();
    let holder = world.client(LEADER, "holder");
    world.ask(
        holder,
        "holder",
        1,
        &["SET", "lock", "holder", "NX", "PX", "60000"],
    );
    world.settle();
    let given = world.machine(LEADER).now().wall;
    assert_eq!(world.responses(holder)[0].payload, "+OK\r\n");

    let writer = world.client(AHEAD, "writer");
    let write = |world: &mut World, number: u16, wall: u64| {
        let machine = world.machine(AHEAD);
        let mut packet = request("writer", machine.now(), number, &["SET", "k", "v"]);
        if let Packet::Publish(publish) = &mut packet {
            let (now, token) = (machine.now().wall, format!("{wall}:1:StateStore"));
            let pairs = [("__ts", format!("{now}:0:writer")), ("__ft", token)];
            let pairs = pairs.iter().map(|(name, value)| (*name, value.as_str()));
            publish.properties.user_properties = UserProperties::from_pairs(pairs).expect("short");
        }
        machine.receive(writer.connection, packet);
        world.settle();
        world.responses(writer).remove(0).payload
    };
    assert!(
        given > world.machine(AHEAD).now().wall + FAR / 2,
        "the token is far ahead"
    );
    assert_eq!(write(&mut world, 1, given), "+OK\r\n");
    let beyond = write(&mut world, 2, given + FAR);
    assert!(
        beyond.contains("fencing token timestamp is too far in the future"),
        "{beyond}"
    );
}

/// A holder and a rival of a lock with a lease of a minute, at the node that does not lead.
struct Lock {
    world: World,
    next: u16,
}

const LEASE: Duration = Duration::from_secs(60);
const HOUR: i64 = 3_600_000;
const DECADES: i64 = 20 * 365 * 24 * HOUR;
const JUMPS: [i64; 6] = [3_000, -3_000, HOUR, -HOUR, DECADES, -DECADES];

impl Lock {
    fn taken() -> Self {
        let mut world = World::with_config(1, |config| {
            config.groups = 1;
            config.clock_members = 3;
        });
        world.await_first_leader();
        let mut lock = Self { world, next: 1 };
        assert_eq!(lock.set("holder"), "+OK\r\n");
        lock
    }

    /// What the leader says to somebody who wants the lock.
    fn set(&mut self, name: &str) -> String {
        let leader = self.world.leaders()[0].expect("somebody leads");
        let client = self.world.client(leader, name);
        self.next += 1;
        let arguments = ["SET", "lock", name, "NX", "PX", "60000"];
        self.world.ask(client, name, self.next, &arguments);
        self.world.run(Duration::from_millis(100), |_| false);
        let mut responses = self.world.responses(client);
        assert_eq!(responses.len(), 1, "{name}");
        responses.remove(0).payload
    }

    fn wait(&mut self, time: Duration) {
        self.world.run(time, |_| false);
    }

    fn set_clocks(&mut self, ahead: i64) {
        for machine in self.world.nodes.iter_mut().flatten() {
            machine.set_clock(ahead);
        }
    }

    /// The lock is held for the rest of the lease, of which so much is over, and no longer than a failover takes.
    fn assert_held_until_the_end(mut self, over: Duration, jump: i64) {
        assert_eq!(self.set("rival"), ":-1\r\n", "{jump}");
        self.wait(LEASE - over - Duration::from_secs(1));
        assert_eq!(self.set("rival"), ":-1\r\n", "{jump}");
        self.wait(Duration::from_secs(3));
        assert_eq!(self.set("rival"), "+OK\r\n", "{jump}");
    }
}

#[test]
fn no_wall_clock_has_a_say_in_a_lease_of_a_group_that_lives() {
    for jump in JUMPS {
        let mut lock = Lock::taken();
        lock.world.machine(LEADER).set_clock(jump);
        lock.assert_held_until_the_end(Duration::ZERO, jump);

        let mut lock = Lock::taken();
        lock.set_clocks(jump);
        lock.wait(Duration::from_secs(5));
        lock.set_clocks(0);
        lock.assert_held_until_the_end(Duration::from_secs(5), jump);
    }
}

#[test]
fn a_lease_goes_on_under_the_next_leader_whatever_its_clock_says() {
    for jump in JUMPS {
        let mut lock = Lock::taken();
        lock.wait(Duration::from_secs(20));
        for node in [1, 2] {
            lock.world.machine(node).set_clock(jump);
        }
        lock.world.kill(LEADER);
        lock.world
            .run(Duration::from_secs(10), |world| world.leaders()[0].is_some());
        lock.assert_held_until_the_end(Duration::from_secs(22), jump);
    }
}

/// A node that was started again leads with what the others know, not with what its log and its clock say.
#[test]
fn a_node_that_was_started_again_leads_with_the_time_that_others_know() {
    let mut lock = Lock::taken();
    lock.wait(Duration::from_secs(20));
    lock.world.crash(1, |_| {});
    lock.world.machine(1).set_clock(HOUR);
    lock.world.kill(LEADER);
    lock.world
        .run(Duration::from_secs(10), |world| world.leaders()[0].is_some());
    lock.assert_held_until_the_end(Duration::from_secs(22), HOUR);
}

const STOP: Duration = Duration::from_secs(30);

/// All nodes lose their power for so long.
fn stop_all(world: &mut World, time: Duration) {
    let stopped: Vec<_> = world.nodes.iter_mut().map(Option::take).collect();
    world.now += time;
    let started = stopped.into_iter().map(|machine| {
        let mut machine = machine.expect("it is there");
        machine.take_to_peers().for_each(drop);
        Some(machine.crash_for(time))
    });
    world.nodes = started.collect();
}

/// Every node hears what the clocks of the others say, as it does several times a second.
fn tell_clocks(world: &mut World) {
    let walls = [0, 1, 2].map(|node| world.machine(node).system_clock().wall);
    for node in 0..walls.len() {
        for (other, wall) in walls.iter().enumerate().filter(|(other, _)| *other != node) {
            world.machine(node).hear_clock(NodeId(other as u64 + 1), *wall);
        }
    }
}

/// All nodes lose their power for half a minute, and start with these clocks.
fn after_a_stop(ahead: [i64; 3]) -> Lock {
    let mut lock = Lock::taken();
    stop_all(&mut lock.world, STOP);
    for (node, ahead) in ahead.into_iter().enumerate() {
        lock.world.machine(node).set_clock(ahead);
    }
    tell_clocks(&mut lock.world);
    lock.world
        .run(Duration::from_secs(10), |world| world.leaders()[0].is_some());
    lock.wait(Duration::from_secs(1));
    lock
}

#[test]
fn over_a_stop_of_all_nodes_the_wall_clock_bridges_the_gap_as_far_as_a_majority_agrees() {
    for ahead in [[0, 0, 0], [HOUR, 0, 0], [0, 0, -HOUR]] {
        let over = Duration::from_secs(32);
        after_a_stop(ahead).assert_held_until_the_end(over, ahead[0]);
    }
    // Nobody knows how long they stood still: the lease lasts longer by that. Two of them follow the third one's clock, which is no
    // majority.
    after_a_stop([0, HOUR, DECADES]).assert_held_until_the_end(Duration::from_secs(2), DECADES);
}

/// Nodes that were started again do not know how late it is, until a third one has answered or they have waited for it.
#[test]
fn a_lease_that_is_over_is_shown_by_no_node_that_was_started_again() {
    const BOTH: [usize; 2] = [0, 1];
    for seed in 1..=10 {
        let mut world = World::with_config(seed, |config| config.groups = 1);
        world.await_first_leader();
        let leader = world.leaders()[0].expect("somebody leads");
        let holder = world.client(leader, "holder");
        world.ask(holder, "holder", 1, &["SET", "lock", "holder", "PX", "10000"]);
        world.settle();
        assert_eq!(world.responses(holder)[0].payload, "+OK\r\n");

        stop_all(&mut world, STOP);
        world.kill(2);
        world.run(Duration::from_secs(10), |world| world.leaders()[0].is_some());
        let readers = BOTH.map(|node| world.client(node, "reader"));
        for reader in readers {
            world.ask(reader, "reader", 1, &["GET", "lock"]);
        }
        world.run(Duration::from_secs(3), |_| false);
        for reader in readers {
            let answers = world.responses(reader);
            assert_eq!(answers.len(), 1, "seed {seed}");
            assert_eq!(
                answers[0].payload,
                "$-1\r\n",
                "seed {seed}, node {}",
                reader.node + 1
            );
        }
    }
}
