//! Links between nodes: ordered, and fast, slow or cut in each direction.

use std::collections::VecDeque;

use crate::ids::{NODES, NodeId};
use crate::message::{Message, Outgoing};
use crate::random::Random;

/// How fast a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Speed {
    #[default]
    Fast,
    Slow,
    Cut,
}

/// One direction between two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
}

/// Messages under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    channels: [[VecDeque<Message>; NODES]; NODES],
    speeds: [[Speed; NODES]; NODES],
}

impl Network {
    /// Links of the first `count` nodes, in random order.
    pub(super) fn links(count: usize, random: &mut Random) -> Vec<Link> {
        let nodes = || (0..count as u8).map(NodeId);
        let pairs = nodes().flat_map(|from| nodes().map(move |to| Link { from, to }));
        let mut links: Vec<Link> = pairs.filter(|link| link.from != link.to).collect();
        for index in (1..links.len()).rev() {
            links.swap(index, random.below(index + 1));
        }
        links
    }

    pub(super) fn set(&mut self, from: NodeId, to: NodeId, speed: Speed) {
        self.speeds[from.index()][to.index()] = speed;
    }

    pub(super) fn heal(&mut self) {
        self.speeds = Default::default();
    }

    /// A new node finds its links as they are.
    pub(super) fn reaches_both_ways(&self, one: NodeId, other: NodeId) -> bool {
        let reaches = |from: NodeId, to: NodeId| self.speeds[from.index()][to.index()] != Speed::Cut;
        reaches(one, other) && reaches(other, one)
    }

    /// Sends a message; a later heartbeat replaces one that has not left.
    pub(super) fn send(&mut self, from: NodeId, outgoing: Outgoing) {
        let channel = &mut self.channels[from.index()][outgoing.to.index()];
        let is_heartbeat = |message: &Message| matches!(message, Message::Heartbeat(_));
        if is_heartbeat(&outgoing.message) && channel.back().is_some_and(is_heartbeat) {
            channel.pop_back();
        }
        channel.push_back(outgoing.message);
    }

    /// Messages that the link delivers in one tick.
    pub(super) fn capacity(&self, link: Link, random: &mut Random) -> usize {
        match self.speeds[link.from.index()][link.to.index()] {
            Speed::Fast => 1 + random.below(8),
            Speed::Slow => usize::from(random.below(6) == 0) * 2,
            Speed::Cut => 0,
        }
    }

    pub(super) fn receive(&mut self, link: Link) -> Option<Message> {
        self.channels[link.from.index()][link.to.index()].pop_front()
    }

    /// `id` has declared `peer` dead: of what it has sent a part may arrive, and it reads nothing more.
    pub(super) fn part(&mut self, id: NodeId, peer: NodeId, random: &mut Random) {
        let sent = &mut self.channels[id.index()][peer.index()];
        sent.truncate(random.below(sent.len() + 1));
        self.channels[peer.index()][id.index()].clear();
    }

    /// `id` has ended: of what it has sent a part may arrive.
    pub(super) fn cut_off(&mut self, id: NodeId, random: &mut Random) {
        for peer in (0..NODES as u8).map(NodeId) {
            self.part(id, peer, random);
        }
    }

    pub(super) fn clear(&mut self, one: NodeId, other: NodeId) {
        self.channels[one.index()][other.index()].clear();
        self.channels[other.index()][one.index()].clear();
    }
}
