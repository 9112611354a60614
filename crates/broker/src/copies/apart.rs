//! Which sessions lack what was published on a side of a split where nobody had them.

use std::collections::BTreeMap;

use cluster::NodeId;
use mqtt::ids::{SessionKey, SessionNumber};

use super::{Copies, Held, Stage};
use crate::node::Node;

/// The latest loss of each node.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<NodeId, Loss>);

#[derive(Debug, Clone, Copy)]
struct Loss {
    /// Counts those of the node.
    count: u64,
    /// What has begun here since has a greater number.
    after: SessionNumber,
}

impl Losses {
    /// A node is lost.
    pub(super) fn note(&mut self, node: NodeId, latest: SessionNumber) {
        let count = self.count(node) + 1;
        self.0.insert(node, Loss { count, after: latest });
    }

    fn count(&self, node: NodeId) -> u64 {
        self.0.get(&node).map_or(0, |loss| loss.count)
    }
}

impl Held {
    /// A node that is lost has a copy of the session, or has held it.
    pub(super) fn part_with_copy(&mut self, node: NodeId, losses: &Losses) {
        self.apart.retain(|(other, _)| *other != node);
        self.apart.push((node, losses.count(node)));
    }

    pub(super) fn is_in_step(&self, node: NodeId) -> bool {
        let mut owners = self.owners.iter();
        owners.any(|owner| owner.node == node && owner.stage == Stage::InStep)
    }
}

impl Copies {
    /// Whether a session of a node's side may have gone on at one of these, and leaves to that of this node what it got there.
    fn may_be_at(&self, held: &Held, side: &[NodeId]) -> bool {
        let was_apart = |node: &NodeId| held.apart.contains(&(*node, self.losses.count(*node)));
        // A restart finds only where it has parted.
        let marks = held.marks.as_ref().filter(|_| held.recovered_below > 0);
        let has_parted = |node: &NodeId| marks.is_some_and(|marks| marks.has(*node));
        side.iter().any(|node| was_apart(node) || has_parted(node))
    }
}

impl Node {
    /// Whether a session lacks what another node has owed to this one: nobody on that side had it then. One that has begun since is not meant.
    pub(crate) fn lacks_owed(&self, key: SessionKey, from: NodeId, side: &[NodeId]) -> bool {
        let (Some(copies), Some(entry)) = (&self.copies, self.sessions.get(key)) else {
            return false;
        };
        let number = entry.session.number;
        let Some(held) = copies.held.get(&number) else {
            return false;
        };
        let loss = copies.losses.0.get(&from);
        let is_new = held.taken_from.is_none() && loss.is_some_and(|loss| number > loss.after);
        !is_new && !copies.may_be_at(held, side)
    }
}
