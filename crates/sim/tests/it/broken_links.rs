//! Combinations of broken links between three and five nodes: who is at most two links away from the leader of a group is served by it, and its
//! watchers are notified. A watcher that lost sight of the leader meanwhile was disconnected, and registers again.
//!
//! Of five nodes one combination of each shape is played: those that differ by the names of nodes alone are one shape. All 1,024 are played
//! with random requests and the faults of a seed, to see that every promise holds, L1 among them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sim::workload::several_nodes::{BrokenLinks, ClusterRun, ClusterSummary};

use crate::client;
use crate::clock::now;
use crate::progress::Seeds;
use crate::world::{GROUPS, NODES, Place, World, key_of};

const SECOND: Duration = Duration::from_secs(1);

/// The edge of a node finds out so late that a connection carries nothing (server/src/peers.rs).
const NOTICED_AFTER: Duration = Duration::from_millis(1_500);

/// Groups have the leaders that they keep after so long, if they can have any.
const SETTLED_AFTER: Duration = Duration::from_secs(15);

/// Steps of a run of random requests.
const STEPS: u64 = 1_500;

/// Links, the lower node first.
type Links = BTreeSet<(usize, usize)>;

/// What became of requests of nodes that are at most two links away from the leader.
#[derive(Debug, Default, PartialEq, Eq)]
struct Served {
    answered: usize,
    refused: usize,
    /// Notifications that arrived, and those that did not.
    notified: usize,
    missed: usize,
}

/// Nodes, and a client and a watcher of one key of each group at each.
struct Broken {
    world: World,
    clients: Vec<Place>,
    watchers: Vec<Place>,
    next: u16,
    served: Served,
}

impl Broken {
    fn new(nodes: usize) -> Self {
        let mut world = World::with_nodes(1, nodes, |_| {});
        world.run(10 * SECOND, World::is_spread);
        assert!(world.is_spread());
        world.tell_links();
        let clients = (0..nodes).map(|node| world.client(node, &client_name(node)));
        let clients = clients.collect();
        let watchers = (0..nodes).map(|node| watch(&mut world, node)).collect();
        world.run(SECOND, |_| false);
        Self {
            world,
            clients,
            watchers,
            next: 0,
            served: Served::default(),
        }
    }

    /// Watchers that were told that they may miss something connect and register again.
    fn watch_again(&mut self) {
        for (node, at) in self.watchers.iter_mut().enumerate() {
            if !self.world.machine(node).is_open(at.connection) {
                *at = watch(&mut self.world, node);
            }
        }
        self.world.run(SECOND, |_| false);
    }

    /// Asks each node that is near a leader to set a key of its group.
    fn ask_all(&mut self) {
        let leaders = self.world.leaders();
        for (group, leader) in (0..GROUPS).zip(leaders) {
            let Some(leader) = leader else { continue };
            for node in self.near(leader) {
                self.ask(node, group, leader);
            }
        }
    }

    fn ask(&mut self, node: usize, group: u32, leader: usize) {
        self.next += 1;
        let value = self.next.to_string();
        let at = self.clients[node];
        self.world.ask(
            at,
            &client_name(node),
            self.next,
            &["SET", &key_of(group), &value],
        );
        self.world.run(SECOND / 4, |_| false);
        let is_answered = self
            .world
            .responses(at)
            .iter()
            .any(|response| response.number == self.next && response.payload == "+OK\r\n");
        self.served.answered += usize::from(is_answered);
        self.served.refused += usize::from(!is_answered);
        for watching in self.near(leader) {
            let at = self.watchers[watching];
            let packets = self.world.machine(watching).take_sent(at.connection);
            let notified = client::notifications(&packets, &watcher_name(watching));
            let is_notified = notified
                .iter()
                .any(|change| change.value.as_deref() == Some(&value));
            self.served.notified += usize::from(is_notified);
            self.served.missed += usize::from(!is_notified);
        }
    }

    fn near(&self, node: usize) -> BTreeSet<usize> {
        near(self.world.nodes.len(), &self.world.broken, node)
    }

    fn is_led(world: &World) -> bool {
        world.leaders().iter().all(Option::is_some)
    }
}

/// All links between so many nodes.
fn links(nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nodes).flat_map(move |low| (low + 1..nodes).map(move |high| (low, high)))
}

/// Nodes that are at most two links away from this one.
fn near(nodes: usize, broken: &Links, node: usize) -> BTreeSet<usize> {
    let is_beside =
        |one: usize, other: usize| one != other && !broken.contains(&(one.min(other), one.max(other)));
    let beside = |one: usize| (0..nodes).filter(move |other| is_beside(one, *other));
    let mut near: BTreeSet<usize> = beside(node).flat_map(beside).collect();
    near.extend(beside(node).chain([node]));
    near
}

/// Every combination of broken links.
fn combinations(nodes: usize) -> impl Iterator<Item = Links> {
    let all: Vec<_> = links(nodes).collect();
    (0..1_usize << all.len()).map(move |chosen| {
        let is_chosen = |number: usize| chosen & 1 << number != 0;
        let chosen = all.iter().enumerate().filter(|(number, _)| is_chosen(*number));
        chosen.map(|(_, link)| *link).collect()
    })
}

/// One combination of each shape, the first one.
fn shapes(nodes: usize) -> Vec<Links> {
    let names = permutations((0..nodes).collect());
    let mut seen = BTreeSet::new();
    let mut is_new = |broken: &Links| {
        let renamed = names.iter().map(|names| {
            let rename = |(low, high): &(usize, usize)| {
                let (one, other) = (names[*low], names[*high]);
                (one.min(other), one.max(other))
            };
            broken.iter().map(rename).collect::<Links>()
        });
        seen.insert(renamed.min().expect("there are nodes"))
    };
    combinations(nodes).filter(|broken| is_new(broken)).collect()
}

fn permutations(of: Vec<usize>) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![of];
    }
    let with_first = |first: &usize| {
        let rest = of.iter().copied().filter(|other| other != first).collect();
        let rests = permutations(rest).into_iter();
        rests
            .map(|rest| [vec![*first], rest].concat())
            .collect::<Vec<_>>()
    };
    of.iter().flat_map(with_first).collect()
}

/// Connects a watcher of one key of each group.
fn watch(world: &mut World, node: usize) -> Place {
    let at = world.client(node, &watcher_name(node));
    for group in 0..GROUPS {
        let number = u16::try_from(group).expect("few groups") + 1;
        world.ask(at, &watcher_name(node), number, &["KEYNOTIFY", &key_of(group)]);
    }
    at
}

fn client_name(node: usize) -> String {
    format!("client{node}")
}

fn watcher_name(node: usize) -> String {
    format!("watcher{node}")
}

/// Breaks links for a while. `are_noticed`: the nodes get to know of it, and can go round.
fn play(nodes: usize, broken: &Links, are_noticed: bool) -> Served {
    let mut play = Broken::new(nodes);
    play.world.broken.clone_from(broken);
    play.world.run(NOTICED_AFTER, |_| false);
    if are_noticed {
        play.world.tell_links();
    }
    play.world.run(SETTLED_AFTER, |_| false);
    let has_majority = |node: usize| near(nodes, broken, node).len() > nodes / 2;
    let may_be_led = (0..nodes).any(has_majority);
    let leaders = play.world.leaders();
    assert_eq!(Broken::is_led(&play.world), may_be_led, "{broken:?}: {leaders:?}");
    play.watch_again();
    play.ask_all();
    let served = std::mem::take(&mut play.served);

    play.world.broken.clear();
    play.world.tell_links();
    play.world.run(SETTLED_AFTER, |_| false);
    play.ask_all();
    let all = nodes * GROUPS as usize;
    assert_eq!(
        (play.served.answered, play.served.refused),
        (all, 0),
        "{broken:?}"
    );
    served
}

#[test]
fn whoever_of_three_is_two_links_away_from_a_leader_is_served() {
    for broken in combinations(NODES) {
        let served = play(NODES, &broken, true);
        println!("{broken:?}: {served:?}");
        assert_eq!((served.refused, served.missed), (0, 0), "{broken:?}: {served:?}");
        // With one broken link all reach all; with two, a pair serves itself.
        let near = [9, 9, 2 * GROUPS as usize, 0][broken.len()];
        assert_eq!(served.answered, near, "{broken:?}");
    }
}

#[test]
fn whoever_of_five_is_two_links_away_from_a_leader_is_served() {
    let shapes = shapes(5);
    assert_eq!(shapes.len(), 34, "graphs of five nodes");
    let mut answered = BTreeMap::new();
    for broken in shapes {
        let served = play(5, &broken, true);
        println!("{broken:?}: {served:?}");
        assert_eq!((served.refused, served.missed), (0, 0), "{broken:?}: {served:?}");
        *answered.entry(served.answered).or_insert(0) += 1;
    }
    println!("shapes by the requests that were answered: {answered:?}");
    assert!(answered[&(5 * GROUPS as usize)] > 10, "{answered:?}");
}

#[test]
fn without_a_relay_a_node_without_a_link_to_the_leader_is_refused() {
    let served = play(NODES, &Links::from([(0, 1)]), false);
    println!("{served:?}");
    assert!(served.refused > 0 && served.missed > 0, "{served:?}");
}

/// Plays a run for each combination of broken links, which has that number as its seed.
fn promises_hold(nodes: u64, name: &'static str) -> ClusterSummary {
    let mut sum = ClusterSummary::default();
    for seed in Seeds::new(name, 0..BrokenLinks::combinations(nodes)) {
        let run = ClusterRun {
            seed,
            steps: STEPS,
            nodes,
            broken: BrokenLinks::new(seed),
            ..ClusterRun::default()
        };
        match run.play(now()) {
            Ok(summary) => sum = sum.plus(summary),
            Err(why) => panic!(
                "{why}\nreplay: cargo run --release -p sim -- --seed {seed} --broken {seed} --steps {STEPS} --nodes {nodes}"
            ),
        }
    }
    sum
}

#[test]
fn every_promise_holds_under_each_combination_of_broken_links_of_three() {
    let sum = promises_hold(3, "broken links of three nodes");
    assert!(sum.answered > 100, "{sum:?}");
}

#[test]
fn every_promise_holds_under_each_combination_of_broken_links_of_five() {
    let sum = promises_hold(5, "broken links of five nodes");
    assert!(sum.answered > 10_000, "{sum:?}");
}
