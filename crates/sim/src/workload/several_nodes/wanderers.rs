//! Clients with durable sessions that publish to each other and go from node to node, over everything that goes wrong. Only where nodes are members of a cluster.
//!
//! In the storm nothing is looked at but that clients are answered as MQTT says: two nodes that are away at once may cost messages (docs/sessions.md), and what a client knows of packet ids is of one side
//! of a split. When everything is at rest, no session is held by two nodes, all have their copies, each client gets in at another node, and what is published then reaches all of them, who have
//! subscribed again.

use std::collections::BTreeSet;

use cluster::random::Random;

use super::super::client::Client;
use super::World;
use crate::few_slots;
use crate::promises::q1;

const WANDERERS: usize = 3;

/// One of so many steps is one of a wanderer.
const STEPS: usize = 20;

/// All of them.
#[derive(Debug)]
pub(super) struct Wanderers {
    /// With the node where each is.
    clients: Vec<(usize, Client)>,
    random: Random,
    /// What each has got since nothing goes wrong any more: publishers and numbers.
    heard: Vec<BTreeSet<(String, u64)>>,
}

impl Wanderers {
    pub(super) fn new(seed: u64, has_members: bool) -> Self {
        let count = if has_members { WANDERERS } else { 0 };
        let clients = (0..count).map(|number| {
            (
                number,
                Client::wanderer(few_slots::named(&format!("wanderer{number}"))),
            )
        });
        Self {
            clients: clients.collect(),
            random: Random::new(seed ^ 0x7761_6E64_6572_6572),
            heard: vec![BTreeSet::new(); count],
        }
    }

    /// A node has lost its power.
    pub(super) fn cut(&mut self, node: usize) {
        for (_, client) in self.clients.iter_mut().filter(|(at, _)| *at == node) {
            client.cut();
        }
    }
}

impl World {
    /// Now and then one of them publishes something, or goes to another node.
    pub(super) fn wander_sometimes(&mut self) -> Result<(), String> {
        if self.wanderers.clients.is_empty() || self.wanderers.random.between(0, STEPS) > 0 {
            return Ok(());
        }
        let index = self.wanderers.random.between(0, WANDERERS);
        match self.wanderers.random.between(0, 8) {
            0 => self.set_out(index),
            1 => self.publish_as(index, false),
            2 => self.publish_as(index, true),
            _ => self.listen_to_wanderer(index).map(|_| ())?,
        }
        Ok(())
    }

    /// All of them read what they were sent. True if there was something.
    pub(super) fn listen_to_wanderers(&mut self) -> Result<bool, String> {
        let mut is_anything = false;
        for index in 0..self.wanderers.clients.len() {
            is_anything |= self.listen_to_wanderer(index)?;
        }
        Ok(is_anything)
    }

    /// Whether they wait for nothing.
    pub(super) fn are_wanderers_done(&self) -> bool {
        self.wanderers
            .clients
            .iter()
            .all(|(_, client)| client.is_settled())
    }

    /// Everything is at rest: no session is at two nodes, and copies are there; each client gets in at another node, and what is published reaches all of them.
    pub(super) fn check_wanderers(&mut self) -> Result<(), String> {
        self.check_copies()?;
        for index in 0..self.wanderers.clients.len() {
            self.set_out(index);
            self.wanderers.clients[index].1.want_again();
        }
        self.calm()?;
        let mut published = Vec::new();
        for index in 0..self.wanderers.clients.len() {
            self.wanderers.heard[index].clear();
            // A packet id of QoS 2 may be one that the client knows from the smaller side of a split.
            self.publish_as(index, false);
            let (_, client) = &self.wanderers.clients[index];
            published.push((client.name.clone(), client.latest()));
        }
        self.calm()?;
        let heard = self.wanderers.clients.iter().zip(&self.wanderers.heard);
        for ((_, client), heard) in heard {
            q1::check(&client.name, published.iter().cloned(), heard)?;
        }
        Ok(())
    }

    /// Each node has all copies that it owns, and all that they have.
    fn check_copies(&self) -> Result<(), String> {
        for (machine, node) in self.machines() {
            let figures = machine.node().gauges().replication;
            if figures.unmerged_slots != 0 {
                return Err(format!(
                    "liveness: everything is at rest, and node {node} lacks copies: {figures:?}"
                ));
            }
        }
        Ok(())
    }

    fn listen_to_wanderer(&mut self, index: usize) -> Result<bool, String> {
        if self.nodes[self.wanderers.clients[index].0].is_lost() {
            self.set_out(index);
        }
        let (node, client) = &mut self.wanderers.clients[index];
        let Some(machine) = self.nodes[*node].running() else {
            return Ok(false);
        };
        client.connect(machine);
        let heard = client.listen(machine)?;
        self.summary.wandered += heard.delivered.len() as u64;
        let delivered = heard.delivered.into_iter();
        self.wanderers.heard[index].extend(delivered.map(|message| (message.publisher, message.number)));
        Ok(heard.is_anything)
    }

    fn publish_as(&mut self, index: usize, is_exactly_once: bool) {
        let (node, client) = &mut self.wanderers.clients[index];
        if let Some(machine) = self.nodes[*node].running() {
            client.publish(machine, is_exactly_once);
        }
    }

    /// Its connection breaks, or it leaves without a word; and it connects to another node.
    fn set_out(&mut self, index: usize) {
        let from = self.wanderers.clients[index].0;
        let others = (0..self.nodes.len()).filter(|other| *other != from && !self.nodes[*other].is_lost());
        let others: Vec<usize> = others.collect();
        let to = others[self.wanderers.random.between(0, others.len())];
        let (node, client) = &mut self.wanderers.clients[index];
        match self.nodes[*node].machine_mut() {
            Some(machine) if self.wanderers.random.between(0, 2) == 0 => client.lose(machine),
            _ => client.cut(),
        }
        *node = to;
        self.trace.note(self.now, || {
            format!("{} goes from {} to {}", client.name, from + 1, to + 1)
        });
    }
}
