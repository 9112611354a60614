//! Who has told this node of which losses, and so for which sessions that were taken over what they send is.
//!
//! What a node sends before it tells of a loss it sends to the lost node as well, and gives it to the others when it tells of the loss: once. A node may be lost several times in a
//! short time, and the others hear of each in their own order.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use cluster::session_plane::announcement::Word;
use smallvec::SmallVec;

use super::losses::Lost;
use crate::records::forwarded::Position;

/// What others have told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The latest loss of each node of which each other one has told, and the one before.
    words: BTreeMap<(NodeId, NodeId), Telling>,
    /// Who has not told yet of a loss of a node that this one has told of, and of which one first.
    unaware: BTreeMap<NodeId, BTreeMap<NodeId, Word>>,
    /// Up to where what each other node had sent to each lost one came here.
    redirected: BTreeMap<(NodeId, NodeId), Position>,
}

/// A node tells of a loss: what it gives to others with that is for sessions that were taken over at this loss, or at one before it of which it had not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) before: Option<Word>,
    pub(crate) after: Word,
}

impl Told {
    /// This node tells these of a loss.
    pub(super) fn tell(&mut self, own: NodeId, lost: Lost, others: &BTreeSet<NodeId>) {
        self.hear(own, lost);
        let unaware = self.unaware.entry(lost.node).or_default();
        for node in others {
            unaware.entry(*node).or_insert(lost.after);
        }
    }

    /// Another one tells of a loss. Nothing of what it sends from here on comes once more.
    pub(super) fn hear(&mut self, from: NodeId, lost: Lost) {
        let before = self.words.get(&(lost.node, from)).map(|telling| telling.after);
        let telling = Telling {
            before,
            after: lost.after,
        };
        self.words.insert((lost.node, from), telling);
        let unaware = self
            .unaware
            .get(&lost.node)
            .and_then(|unaware| unaware.get(&from));
        if unaware.is_some_and(|first| *first <= lost.after) {
            self.forget_unaware(from, lost.node);
        }
    }

    /// It need not tell of the loss of a node any more.
    pub(super) fn forget_unaware(&mut self, from: NodeId, lost: NodeId) {
        if let Some(unaware) = self.unaware.get_mut(&lost) {
            unaware.remove(&from);
            if unaware.is_empty() {
                self.unaware.remove(&lost);
            }
        }
    }

    /// A node is lost itself or has started anew: it gives nothing to others any more that it had before. `lost`: who is.
    pub(super) fn forget(&mut self, from: NodeId, lost: &BTreeMap<NodeId, Word>) {
        for (node, after) in lost {
            self.forget_unaware(from, *node);
            let telling = Telling {
                before: Some(*after),
                after: *after,
            };
            self.words.insert((*node, from), telling);
        }
    }

    /// The losses of which a node has not told: what it sends does not count for sessions that were taken over at these, and comes once more.
    pub(super) fn unknown_to(&self, from: NodeId) -> SmallVec<[(NodeId, Word); 1]> {
        let unknown = self.unaware.iter();
        let unknown = unknown.filter_map(|(lost, unaware)| Some((*lost, *unaware.get(&from)?)));
        unknown.collect()
    }

    /// With which loss of a node another one has given to others what it had for it.
    pub(super) fn telling(&self, from: NodeId, lost: NodeId) -> Option<Telling> {
        self.words.get(&(lost, from)).copied()
    }

    /// Something comes that was sent to a lost node. False if it has come before.
    pub(super) fn comes_first(&mut self, (lost, origin): (NodeId, NodeId), position: Position) -> bool {
        let latest = self.redirected.entry((lost, origin)).or_default();
        let is_first = *latest < position;
        *latest = position.max(*latest);
        is_first
    }
}
