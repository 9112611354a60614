//! Crashes, splits and rings of the world: what nodes see of each other.

use super::copy::Copy;
use super::{CLIENTS, NODES, World, machine};
use crate::delivering::tests::*;

impl World {
    /// Nodes that are up and on the side of a node.
    pub(super) fn side(&self, node: usize) -> BTreeSet<usize> {
        let is_there = |other: &usize| self.sides[*other] == self.sides[node] && self.machines[*other].is_up;
        (0..NODES).filter(is_there).collect()
    }

    /// One crash at a time: with both owners its entries would be gone, which promise Q2 excepts.
    pub(super) fn crash(&mut self, node: usize) {
        let side = self.side(node);
        let is_settled = side.iter().all(|other| self.machines[*other].view == side);
        if !side.contains(&node) || side.len() < 2 || !is_settled {
            return;
        }
        self.machines[node].is_up = false;
        self.links.retain(|(from, to), _| *from != node && *to != node);
        for client in 0..CLIENTS {
            if self.clients[client].node() == Some(node) {
                self.clients[client].lose_connection();
            }
        }
    }

    pub(super) fn detect(&mut self) {
        let unsettled = (0..NODES).filter(|node| self.machines[*node].is_up);
        if unsettled
            .into_iter()
            .any(|node| self.machines[node].view != self.side(node))
        {
            self.change_rings();
        }
    }

    pub(super) fn restart(&mut self, node: usize) {
        if !self.machines[node].is_up {
            self.machines[node].restart();
            self.change_rings();
        }
    }

    /// All nodes of a side see each other, and its copies have merged.
    pub(super) fn change_rings(&mut self) {
        let sides: BTreeSet<BTreeSet<usize>> = (0..NODES).map(|node| self.side(node)).collect();
        self.links
            .retain(|(from, to), _| sides.iter().any(|side| side.contains(from) && side.contains(to)));
        for side in sides {
            self.merge(&side);
        }
        for client in 0..CLIENTS {
            self.clients[client].lose_feed();
        }
    }

    fn merge(&mut self, side: &BTreeSet<usize>) {
        for client in 0..CLIENTS {
            let copies = side
                .iter()
                .map(|node| self.machines[*node].copies[client].clone());
            let merged = copies.fold(Copy::default(), Copy::merged);
            let owners = machine::owners(client, side);
            for node in side {
                let is_owner = owners.contains(node);
                let copy = if is_owner { merged.clone() } else { Copy::default() };
                self.machines[*node].copies[client] = copy;
                self.machines[*node].known[client].extend(&merged.covered);
            }
        }
        for node in side {
            self.machines[*node].view = side.clone();
            self.machines[*node].confirmed.clear();
            for event in self.machines[*node].undurable.clone().into_values() {
                self.give(*node, &event);
            }
        }
    }
}
