//! Every combination of broken links between three nodes, of which each leads a group: who is at most two links away from a leader is
//! served by it, and its watchers are notified.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::client;
use crate::world::{GROUPS, NODES, Place, World, key_of};

const SECOND: Duration = Duration::from_secs(1);

/// The edge of a node finds out so late that a connection carries nothing (server/src/peers.rs).
const NOTICED_AFTER: Duration = Duration::from_millis(1_500);

const LINKS: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

/// What became of requests of nodes that are at most two links away from the leader.
#[derive(Debug, Default, PartialEq, Eq)]
struct Served {
    answered: usize,
    refused: usize,
    /// Notifications that arrived, and those that did not.
    notified: usize,
    missed: usize,
}

/// Three nodes, a client and a watcher of one key of each group at each.
struct Broken {
    world: World,
    clients: Vec<Place>,
    watchers: Vec<Place>,
    next: u16,
    served: Served,
}

impl Broken {
    fn new() -> Self {
        let mut world = World::new(1);
        world.run(10 * SECOND, World::is_spread);
        world.tell_links();
        let clients = (0..NODES).map(|node| world.client(node, &client_name(node)));
        let clients = clients.collect();
        let watchers: Vec<_> = (0..NODES)
            .map(|node| world.client(node, &watcher_name(node)))
            .collect();
        for (node, at) in watchers.iter().enumerate() {
            for group in 0..GROUPS {
                let number = u16::try_from(group).expect("few groups") + 1;
                world.ask(*at, &watcher_name(node), number, &["KEYNOTIFY", &key_of(group)]);
            }
        }
        world.run(SECOND, |_| false);
        Self {
            world,
            clients,
            watchers,
            next: 0,
            served: Served::default(),
        }
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
        self.world.run(SECOND, |_| false);
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

    /// Nodes that are at most two links away from this one.
    fn near(&self, node: usize) -> BTreeSet<usize> {
        let beside = |one: usize| {
            let whole = LINKS.iter().filter(|link| !self.world.broken.contains(link));
            whole.filter_map(move |(low, high)| match one {
                one if one == *low => Some(*high),
                one if one == *high => Some(*low),
                _ => None,
            })
        };
        let mut near: BTreeSet<usize> = beside(node).flat_map(beside).collect();
        near.extend(beside(node).chain([node]));
        near
    }
}

fn client_name(node: usize) -> String {
    format!("client{node}")
}

fn watcher_name(node: usize) -> String {
    format!("watcher{node}")
}

/// Breaks links for a while. `are_noticed`: the nodes get to know of it, and can go round.
fn play(broken: &[(usize, usize)], are_noticed: bool) -> Served {
    let mut play = Broken::new();
    play.world.broken = broken.iter().copied().collect();
    play.world.run(NOTICED_AFTER, |_| false);
    if are_noticed {
        play.world.tell_links();
    }
    play.world.run(3 * SECOND, |_| false);
    let leaders = play.world.leaders();
    let are_led = leaders.iter().all(Option::is_some);
    assert_eq!(are_led, broken.len() < LINKS.len(), "{broken:?}: {leaders:?}");
    play.ask_all();
    let served = std::mem::take(&mut play.served);

    play.world.broken.clear();
    play.world.tell_links();
    play.world.run(3 * SECOND, |_| false);
    play.ask_all();
    let all = NODES * NODES;
    assert_eq!(
        (play.served.answered, play.served.refused),
        (all, 0),
        "{broken:?}"
    );
    served
}

#[test]
fn whoever_is_two_links_away_from_a_leader_is_served() {
    for chosen in 0..1_usize << LINKS.len() {
        let links = LINKS.iter().enumerate();
        let broken: Vec<_> = links
            .filter(|(number, _)| chosen & 1 << number != 0)
            .map(|(_, link)| *link)
            .collect();
        let served = play(&broken, true);
        println!("{broken:?}: {served:?}");
        assert_eq!((served.refused, served.missed), (0, 0), "{broken:?}: {served:?}");
        // With one broken link all reach all; with two, a pair serves itself.
        let near = [9, 9, 2 * GROUPS as usize, 0][broken.len()];
        assert_eq!(served.answered, near, "{broken:?}");
    }
}

#[test]
fn without_a_relay_a_node_without_a_link_to_the_leader_is_refused() {
    let served = play(&[(0, 1)], false);
    println!("{served:?}");
    assert!(served.refused > 0 && served.missed > 0, "{served:?}");
}
