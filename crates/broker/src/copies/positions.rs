//! Up to where holders had taken what others sent, as of the copies of their sessions: what of it a copy lacks is behind that.

use std::sync::Arc;

use cluster::NodeId;
use mqtt::origin::Position;

use super::messages::Positions;
use super::{Copies, StandingBy};
use crate::cluster_records;
use crate::node::Node;

/// Times that a node has begun to say what it holds, and has not ended, of which more than the number is known.
const EARLIER_MAX: usize = 16;

impl Node {
    /// Up to where a holder had taken what another node sent it, as far as the copies of its sessions here know.
    pub(crate) fn taken_by(&self, holder: NodeId, origin: NodeId) -> Option<Position> {
        let positions = self.copies.as_ref()?.positions.get(&holder)?;
        positions.get(&origin).copied()
    }

    /// A holder says up to where it has.
    pub(super) fn take_positions(&mut self, from: NodeId, positions: Positions) {
        let Some(copies) = &mut self.copies else { return };
        if copies
            .positions
            .get(&from)
            .is_none_or(|known| **known != positions)
        {
            self.commits
                .write(cluster_records::copy::put_positions(from, &positions));
            copies.positions.insert(from, Arc::new(positions));
        }
    }
}

impl Copies {
    /// A node says anew what it holds. What it has taken from here on is not in the copies that it has not named yet.
    pub(super) fn note_begin(&mut self, node: NodeId) {
        self.forget_origins_without_copy(node);
        let begun = self.begun.entry(node).or_default();
        *begun += 1;
        let earlier = self.earlier.entry(node).or_default();
        if earlier.len() < EARLIER_MAX {
            let positions = self.positions.get(&node).cloned().unwrap_or_default();
            earlier.insert(*begun, positions);
        }
    }

    /// Up to where its holder had taken what others sent, as of a copy.
    pub(super) fn positions_of(&self, copy: &StandingBy) -> Arc<Positions> {
        let node = copy.holder.node;
        let earlier = self
            .earlier
            .get(&node)
            .filter(|_| copy.named < self.begun_by(node));
        let earlier = earlier.and_then(|earlier| earlier.range(..=copy.named + 1).next_back());
        match earlier {
            Some((_, positions)) => Arc::clone(positions),
            None => self.positions.get(&node).cloned().unwrap_or_default(),
        }
    }
}
