//! Nodes come and go while requests go on, and the power of some fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use broker::{ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus};
use bytes::Bytes;
use cluster::control::{CONTROL, NodeStage};
use cluster::random::Random;
use cluster::{GroupId, NodeId};
use sim::machine::{Machine, MachineConfig, founder};

use crate::client::Client;
use crate::clock::now;

const GROUPS: u32 = 2;
const STEP: Duration = Duration::from_millis(5);

/// Nodes, and clients that count upwards in keys of their own.
struct World {
    now: Instant,
    machines: BTreeMap<NodeId, Option<Machine>>,
    wire: VecDeque<(NodeId, NodeId, Bytes)>,
    counters: Vec<Counter>,
    random: Random,
    /// Of a thousand messages so many are lost, and as many doubled.
    trouble: usize,
}

/// A client of one node that sets its key to 1, 2, 3, ...: the next number when the last one was acknowledged.
struct Counter {
    node: NodeId,
    client: Option<Client>,
    key: String,
    asked: u64,
    acknowledged: u64,
    packet: u16,
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            now: now(),
            machines: BTreeMap::new(),
            wire: VecDeque::new(),
            counters: Vec::new(),
            random: Random::new(seed),
            trouble: 0,
        };
        for node in 1..=3 {
            world.start(node);
        }
        world.pass(Duration::from_secs(3));
        world
    }

    /// A new node, with a client.
    fn start(&mut self, node: u64) {
        let mut config = MachineConfig::new(self.random.next());
        config.node = NodeId(node);
        config.voters = [1, 2, 3].map(NodeId).into();
        config.has_control = true;
        config.groups = GROUPS;
        config.clock_ahead = self.random.between(0, 40) as i64;
        let mut machine = Machine::new(config, self.now);
        machine.tick(self.now);
        self.machines.insert(NodeId(node), Some(machine));
        self.counters.push(Counter {
            node: NodeId(node),
            client: None,
            key: format!("counter{node}"),
            asked: 0,
            acknowledged: 0,
            packet: 0,
        });
    }

    fn machine(&mut self, node: u64) -> &mut Machine {
        let machine = self.machines.get_mut(&NodeId(node)).and_then(Option::as_mut);
        machine.expect("it is there")
    }

    fn crash(&mut self, node: u64) {
        let machine = self.machines.get_mut(&NodeId(node)).and_then(Option::take);
        let machine = machine.expect("it is there").crash();
        self.machines.insert(NodeId(node), Some(machine));
        for counter in self
            .counters
            .iter_mut()
            .filter(|counter| counter.node == NodeId(node))
        {
            counter.client = None;
        }
    }

    /// It never comes back.
    fn destroy(&mut self, node: u64) {
        self.machines.insert(NodeId(node), None);
        self.counters.retain(|counter| counter.node != NodeId(node));
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            for (node, machine) in &mut self.machines {
                let Some(machine) = machine else { continue };
                machine.tick(self.now);
                machine.write_all();
                let node = *node;
                let sent: Vec<_> = machine.take_to_peers().collect();
                self.wire
                    .extend(sent.into_iter().map(|(to, message)| (node, to, message)));
            }
            for (from, to, message) in std::mem::take(&mut self.wire) {
                let Some(Some(machine)) = self.machines.get_mut(&to) else {
                    continue;
                };
                match self.random.between(0, 1_000) {
                    luck if luck < self.trouble => {}
                    luck if luck < 2 * self.trouble => {
                        machine.hear(from, message.clone());
                        machine.hear(from, message);
                    }
                    _ => machine.hear(from, message),
                }
            }
            for counter in &mut self.counters {
                if let Some(Some(machine)) = self.machines.get_mut(&counter.node) {
                    counter.count(machine);
                }
            }
        }
    }

    /// Until it is so; at most a minute.
    fn pass_until(&mut self, what: &str, is_so: impl Fn(&mut World) -> bool) {
        for _ in 0..600 {
            if is_so(self) {
                return;
            }
            self.pass(Duration::from_millis(100));
        }
        let status = self.status(*self.machines.keys().next().expect("nodes"));
        panic!("not within a minute: {what}; {status:#?}");
    }

    fn status(&mut self, node: NodeId) -> ClusterStatus {
        let machine = self.machine(node.0);
        machine.ask_cluster(ClusterQuestion::Status);
        match machine.take_cluster_answers().pop() {
            Some(ClusterAnswer::Status(status)) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// Asks until it is decided; the last refusal.
    fn change(&mut self, node: u64, asks: &ClusterQuestion) -> Result<String, String> {
        let mut refused = String::new();
        for _ in 0..20 {
            self.machine(node).ask_cluster(asks.clone());
            for _ in 0..20 {
                self.pass(Duration::from_millis(100));
                match self.machine(node).take_cluster_answers().pop() {
                    Some(ClusterAnswer::Taken(said)) => return Ok(said),
                    Some(ClusterAnswer::Refused(why) | ClusterAnswer::Open(why)) => {
                        refused = why;
                        break;
                    }
                    Some(other) => panic!("{other:?}"),
                    None => {}
                }
            }
        }
        Err(refused)
    }

    fn add(&mut self, through: u64, node: u64) {
        self.start(node);
        self.machine(through).hear_caller(founder(NodeId(node)));
        let who = founder(NodeId(node)).address.as_str().to_owned();
        self.change(through, &ClusterQuestion::Add { who })
            .expect("it is added");
        self.pass_until("the new node is a member", |world| {
            world.stage(through, node) == Some(NodeStage::Member)
        });
    }

    fn stage(&mut self, through: u64, node: u64) -> Option<NodeStage> {
        let status = self.status(NodeId(through));
        let found = status.nodes.iter().find(|found| found.node == NodeId(node));
        found.map(|found| found.stage)
    }

    /// Who votes in each group, as one node sees it.
    fn voters(&mut self, through: u64) -> Vec<(GroupId, Vec<u64>)> {
        let status = self.status(NodeId(through));
        let voters = |members: &cluster::replica::Members| members.voters.iter().map(|node| node.0).collect();
        let groups = status.groups.iter();
        groups
            .map(|group| (group.group, voters(&group.members)))
            .collect()
    }

    /// All nodes have the same, and nothing that was acknowledged is lost.
    fn check(&mut self) {
        self.trouble = 0;
        self.pass(Duration::from_secs(5));
        for group in (0..GROUPS).map(GroupId) {
            let machines = self.machines.values().flatten();
            let applied: BTreeSet<_> = machines
                .filter_map(|machine| machine.node().applied(group))
                .collect();
            assert!(applied.len() <= 2, "group {group}: {applied:?}");
        }
        for counter in &self.counters {
            let group = state_service::group_of_key(counter.key.as_bytes(), GROUPS);
            for (node, machine) in &self.machines {
                let Some(machine) = machine else { continue };
                let store = machine.node().state_store(group).expect("it has the group");
                let found = store.get(counter.key.as_bytes(), 0);
                let found = found.map_or(0, |found| {
                    String::from_utf8_lossy(&found.value).parse().expect("a number")
                });
                let range = counter.acknowledged.saturating_sub(2)..=counter.asked;
                assert!(
                    range.contains(&found),
                    "node {node}, {}: {found} of {range:?}",
                    counter.key
                );
            }
        }
    }

    /// All clients were answered lately.
    fn check_progress(&mut self) {
        let before: Vec<_> = self.counters.iter().map(|counter| counter.acknowledged).collect();
        self.pass(Duration::from_secs(3));
        for (counter, before) in self.counters.iter().zip(before) {
            assert!(
                counter.acknowledged > before,
                "{} stands still at {before}",
                counter.key
            );
        }
    }
}

impl Counter {
    fn count(&mut self, machine: &mut Machine) {
        let Some(client) = &self.client else {
            self.client = Some(Client::connect(machine, &self.key));
            self.ask(machine);
            return;
        };
        for response in client.responses(machine) {
            if response.payload == "+OK\r\n" {
                self.acknowledged = self.asked;
                self.asked += 1;
            }
            self.ask(machine);
        }
    }

    /// Sets the same number again until it is acknowledged.
    fn ask(&mut self, machine: &mut Machine) {
        self.asked = self.asked.max(1);
        self.packet = self.packet % 60_000 + 1;
        let value = self.asked.to_string();
        let client = self.client.as_ref().expect("it is connected");
        client.ask(machine, self.packet, &["SET", &self.key, &value]);
    }
}

#[test]
fn a_cluster_grows_to_five_and_shrinks_to_others() {
    let mut world = World::new(1);
    world.add(1, 4);
    assert!(world.voters(1).iter().all(|(_, voters)| voters == &[1, 2, 3]));
    world.add(4, 5);
    world.check_progress();

    let remove = |node| {
        ClusterQuestion::Change(ClusterChange::Remove {
            node: NodeId(node),
            is_forced: false,
        })
    };
    for gone in [2, 3] {
        world.change(5, &remove(gone)).expect("the others go on");
        world.pass_until("the node is gone", |world| world.stage(5, gone).is_none());
        world.destroy(gone);
        assert!(!world.machine(5).peers.contains(&founder(NodeId(gone))));
    }
    let voters = world.voters(4);
    assert_eq!(voters.len(), GROUPS as usize + 1);
    assert!(
        voters.iter().all(|(_, voters)| voters == &[1, 4, 5]),
        "{voters:?}"
    );
    world.check_progress();
    world.check();
}

#[test]
fn what_would_stop_the_cluster_is_refused() {
    let mut world = World::new(2);
    let remove = |node, is_forced| {
        ClusterQuestion::Change(ClusterChange::Remove {
            node: NodeId(node),
            is_forced,
        })
    };
    let refused = world.change(1, &remove(9, true)).expect_err("there is none");
    assert_eq!(refused, "no node 0000000000000009 is in the cluster");
    let unknown = ClusterQuestion::Add {
        who: "nowhere:1".to_owned(),
    };
    let refused = world.change(1, &unknown).expect_err("it did not call");
    assert!(refused.starts_with("no node `nowhere:1` has called"), "{refused}");

    world.destroy(3);
    world.pass(Duration::from_secs(2));
    let refused = world.change(1, &remove(3, false)).expect_err("it may come back");
    assert!(
        refused.ends_with("statehold cluster remove 0000000000000003 --force`"),
        "{refused}"
    );
    let refused = world
        .change(1, &remove(2, true))
        .expect_err("two of three are needed");
    assert!(refused.contains("could decide nothing any more"), "{refused}");

    world.change(1, &remove(3, true)).expect("two are there");
    world.pass_until("the node is gone", |world| world.stage(1, 3).is_none());
    world.add(2, 4);
    assert!(world.voters(1).iter().all(|(_, voters)| voters == &[1, 2, 4]));
    world.check_progress();
    world.check();
}

#[test]
fn an_operator_says_who_leads() {
    let mut world = World::new(4);
    for (group, to) in [(GroupId(0), 2), (GroupId(0), 3), (GroupId(1), 1), (CONTROL, 3)] {
        let transfer = ClusterQuestion::Change(ClusterChange::Transfer {
            group,
            to: NodeId(to),
        });
        world.change(1, &transfer).expect("it votes");
        let leader = |world: &mut World| {
            let status = world.status(NodeId(2));
            let found = status.groups.iter().find(|found| found.group == group);
            found.and_then(|found| found.leader)
        };
        world.pass_until("it leads", |world| leader(world) == Some(NodeId(to)));
        world.pass(Duration::from_secs(20));
        assert_eq!(leader(&mut world), Some(NodeId(to)), "and goes on leading");
    }
    world.add(1, 4);
    let transfer = |to| {
        ClusterQuestion::Change(ClusterChange::Transfer {
            group: GroupId(0),
            to: NodeId(to),
        })
    };
    let refused = world.change(1, &transfer(4)).expect_err("it does not vote");
    assert_eq!(
        refused,
        "node 0000000000000004 does not vote in group 0, and cannot lead it"
    );
    world.check_progress();
}

/// Who is a member may be counted on: another node may be away.
#[test]
fn a_node_is_a_member_when_no_vote_is_missing_that_it_could_have() {
    let mut world = World::new(5);
    world.destroy(3);
    world.pass(Duration::from_secs(2));
    let remove = ClusterQuestion::Change(ClusterChange::Remove {
        node: NodeId(3),
        is_forced: true,
    });
    world.change(1, &remove).expect("two are there");
    world.pass_until("the node is gone", |world| world.stage(1, 3).is_none());

    join_late(&mut world, "it has no vote");
    assert!(world.voters(1).iter().all(|(_, voters)| voters == &[1, 2, 4]));
    world.destroy(2);
    world.check_progress();
    world.check();
}

/// Node 4 has called and is added, is away for five seconds, which are not enough for it to be a member, and starts then.
#[track_caller]
fn join_late(world: &mut World, why_not: &str) {
    // It has called, and is away since.
    world.machine(1).hear_caller(founder(NodeId(4)));
    let who = NodeId(4).to_string();
    world
        .change(1, &ClusterQuestion::Add { who })
        .expect("it is added");
    world.pass_until("it learns everywhere", |world| {
        let status = world.status(NodeId(1));
        let mut groups = status.groups.iter();
        groups.all(|group| group.members.learners.contains(&NodeId(4)))
    });
    world.pass(Duration::from_secs(5));
    assert_eq!(world.stage(1, 4), Some(NodeStage::Joining), "{why_not}");

    world.start(4);
    world.pass_until("it is a member", |world| {
        world.stage(1, 4) == Some(NodeStage::Member)
    });
}

/// Nobody waits for a vote of it, so only what it has confirmed says how far it is.
#[test]
fn a_node_is_no_member_while_it_has_nothing() {
    let mut world = World::new(5);
    world.pass(Duration::from_secs(2));
    join_late(&mut world, "it has nothing");
    world.check_progress();
    world.check();
}

/// A dead node's clients watch nothing.
#[test]
fn watches_end_with_the_node() {
    let mut world = World::new(3);
    let machine = world.machine(3);
    let client = Client::connect(machine, "watcher");
    for (number, key) in (1..).zip(["counter1", "counter2", "x", "y"]) {
        client.ask(machine, number, &["KEYNOTIFY", key]);
    }
    let watches = |world: &mut World| world.machine(1).node().gauges().store.watches;
    world.pass_until("the keys are watched", |world| watches(world) == 4);
    world.destroy(3);
    world.pass(Duration::from_secs(2));
    assert_eq!(watches(&mut world), 4, "it may come back");
    let remove = ClusterQuestion::Change(ClusterChange::Remove {
        node: NodeId(3),
        is_forced: true,
    });
    world.change(2, &remove).expect("two are there");
    world.pass_until("nothing is watched", |world| watches(world) == 0);
}

/// Nodes come, go and lose their power in any order, and messages are lost and doubled.
#[test]
fn any_order_of_changes_and_crashes_loses_nothing() {
    for seed in 0..seeds() {
        let mut world = World::new(seed);
        world.trouble = 20;
        let mut newest = 3;
        for _ in 0..6 {
            let there: Vec<u64> = world
                .machines
                .iter()
                .filter(|(_, machine)| machine.is_some())
                .map(|(node, _)| node.0)
                .collect();
            let any = there[world.random.between(0, there.len())];
            let through = there[world.random.between(0, there.len())];
            match world.random.between(0, 4) {
                0 if there.len() < 5 => {
                    newest += 1;
                    world.start(newest);
                    world.machine(through).hear_caller(founder(NodeId(newest)));
                    let who = NodeId(newest).to_string();
                    let _ = world.change(through, &ClusterQuestion::Add { who });
                }
                1 if there.len() > 3 && any != through => {
                    let remove = ClusterQuestion::Change(ClusterChange::Remove {
                        node: NodeId(any),
                        is_forced: true,
                    });
                    if world.change(through, &remove).is_ok() {
                        world.pass_until("the node is gone", |world| world.stage(through, any).is_none());
                        world.destroy(any);
                    }
                }
                _ => world.crash(any),
            }
            let time = world.random.between(0, 2_000) as u64;
            world.pass(Duration::from_millis(time));
        }
        world.trouble = 0;
        let first = world
            .machines
            .iter()
            .find(|(_, machine)| machine.is_some())
            .map(|(node, _)| node.0);
        let first = first.expect("nodes");
        world.pass_until("all are members", |world| {
            let status = world.status(NodeId(first));
            status.nodes.iter().all(|node| node.stage == NodeStage::Member)
        });
        let status = world.status(NodeId(first));
        let members: BTreeSet<_> = status.nodes.iter().map(|node| node.node).collect();
        // Whose addition was never decided is in no cluster.
        let others: Vec<_> = world
            .machines
            .keys()
            .copied()
            .filter(|node| !members.contains(node))
            .collect();
        for node in others {
            world.destroy(node.0);
        }
        world.check_progress();
        world.check();
    }
}

fn seeds() -> u64 {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    seeds.unwrap_or(6)
}
