//! What the nodes of a run know of their links: which other nodes each can send to, as its edge tells it.
//!
//! A real node finds out by a connection that breaks, or by pings that are not answered; here a change is known after a while that is drawn
//! for each. A link that is cut in one direction is broken in that direction only.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::random::Random;

use super::World;
use super::network::Link;

/// What each node was told, and what it will be.
#[derive(Debug)]
pub(super) struct Links {
    random: Random,
    /// As the edges know them.
    whole: BTreeSet<Link>,
    /// Links that have changed, and when that is noticed.
    noticed_at: BTreeMap<Link, Instant>,
    /// Nodes that have not been told the newest.
    untold: BTreeSet<usize>,
    next: Instant,
}

/// A change is noticed after so many milliseconds at most. (server/src/peers.rs)
const NOTICED_AFTER_MAX: usize = 1_500;

/// How often links are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Links {
    pub(super) fn new(seed: u64, origin: Instant) -> Self {
        Self {
            random: Random::new(seed ^ 0x6C69_6E6B_7300_0000),
            whole: BTreeSet::new(),
            noticed_at: BTreeMap::new(),
            untold: BTreeSet::new(),
            next: origin,
        }
    }

    /// Looks at a link; one that is not as it was is noticed after a while.
    fn look(&mut self, now: Instant, link: Link, is_whole: bool) {
        if self.whole.contains(&link) == is_whole {
            self.noticed_at.remove(&link);
            return;
        }
        let random = &mut self.random;
        let mut millis = || random.between(0, NOTICED_AFTER_MAX + 1) as u64;
        let at = self
            .noticed_at
            .entry(link)
            .or_insert_with(|| now + Duration::from_millis(millis()));
        if *at > now {
            return;
        }
        self.noticed_at.remove(&link);
        if !self.whole.remove(&link) {
            self.whole.insert(link);
        }
        self.untold.insert(link.0);
    }

    fn reached(&self, node: usize) -> BTreeSet<NodeId> {
        let links = self.whole.iter().filter(|(from, _)| *from == node);
        links.map(|(_, to)| NodeId(*to as u64 + 1)).collect()
    }
}

impl World {
    /// Time has passed: nodes are told of links that have changed.
    pub(super) fn notice_links(&mut self) {
        if self.now < self.links.next {
            return;
        }
        self.links.next = self.now + LOOK_EVERY;
        for from in 0..self.nodes.len() {
            if self.nodes[from].machine().is_none() {
                // It begins anew, with no connection.
                self.links.whole.retain(|(node, _)| *node != from);
                continue;
            }
            for to in (0..self.nodes.len()).filter(|to| *to != from) {
                let link = (from, to);
                let is_there = self.nodes[to].machine().is_some() && !self.is_hung_up(link);
                let is_whole = is_there && self.network.carries(link);
                self.links.look(self.now, link, is_whole);
            }
        }
        for node in std::mem::take(&mut self.links.untold) {
            let reached = self.links.reached(node);
            match self.nodes[node].running() {
                Some(machine) => machine.set_links(reached),
                None => {
                    self.links.untold.insert(node);
                }
            }
        }
    }
}
