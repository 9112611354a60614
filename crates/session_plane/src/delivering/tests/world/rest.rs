//! World at rest: nothing is under way, no message is lost, and no packet id is left.

use super::client::Client;
use super::{CLIENTS, NODES, Payload, World};
use crate::delivering::tests::*;

/// Rounds in which everything comes to rest.
const ROUNDS_MAX: usize = 2_000;

impl World {
    /// All nodes are there, and clients receive what is left.
    pub(in crate::delivering::tests) fn come_to_rest(&mut self) {
        self.sides = vec![true; NODES];
        (0..NODES).for_each(|node| self.restart(node));
        self.change_rings();
        for client in 0..CLIENTS {
            self.deliver_all();
            self.connect(client, client);
        }
        let mut rounds = 0;
        while !self.is_at_rest() && rounds < ROUNDS_MAX {
            rounds += 1;
            (0..NODES).for_each(|node| self.group_knows(node));
            for client in 0..CLIENTS {
                self.pause(client, false);
                self.feed(client);
                self.deliver_all();
                self.read(client);
                self.answer(client);
            }
        }
        self.deliver_all();
    }

    fn is_at_rest(&self) -> bool {
        let mut machines = self.machines.iter();
        let are_idle = machines.all(|machine| {
            let delivering = &machine.delivering;
            let mut copies = machine.copies.iter();
            delivering.in_flight() + delivering.waiting() == 0 && copies.all(|copy| copy.entries.is_empty())
        });
        let is_empty = self.links.values().all(VecDeque::is_empty);
        are_idle && is_empty && self.clients.iter().all(Client::is_idle)
    }

    fn deliver_all(&mut self) {
        while self.links.values().any(|link| !link.is_empty()) {
            self.deliver_each();
        }
        for node in 0..NODES {
            for _ in 0..=self.machines[node].waits.len() {
                self.hear(node, 0);
            }
        }
    }

    #[track_caller]
    pub(in crate::delivering::tests) fn assert_at_rest(&self) {
        for (node, machine) in self.machines.iter().enumerate() {
            assert_eq!(machine.delivering.in_flight(), 0, "node {node}");
            assert_eq!(machine.delivering.waiting(), 0, "node {node}");
            for copy in &machine.copies {
                assert_eq!(copy.entries, BTreeMap::new(), "node {node}");
            }
        }
        for message in self.acknowledged.difference(&self.excepted) {
            let client = &self.clients[self.published[message].client];
            client.assert_has_received(Payload::queued(*message));
        }
        self.clients.iter().for_each(Client::assert_is_at_rest);
    }
}
