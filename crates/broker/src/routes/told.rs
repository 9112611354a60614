//! Who has told this node of which losses, and so for which sessions that were taken over what they send is.
//!
//! What a node sends before it tells of a loss it sends to the lost node as well, and gives it to the others when it tells of the loss: once. A node may be lost several times in a
//! short time, and the others hear of each in their own order.
//!
//! A node that is away is told of no losses, and may never lose those that are lost here: it was on their side of a split. What it has for this node was addressed without the sessions that
//! this node has taken over since. They get it from the other side, and from this node what it sends when it knows of them.

use std::collections::BTreeMap;

use cluster::NodeId;
use cluster::session_plane::announcement::Word;
use mqtt::origin::Position;
use smallvec::SmallVec;

use super::losses::Lost;

/// What others have told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The latest loss of each node of which each other one has told, and the one before.
    words: BTreeMap<(NodeId, NodeId), Telling>,
    /// Who has not told yet of a loss of a node that this one has told of, and of which one first. Those that are away are not told: they are unaware until they know again what
    /// this node wants.
    unaware: BTreeMap<NodeId, BTreeMap<NodeId, Word>>,
    /// Nodes that are there again and do not know that yet.
    returned: BTreeMap<NodeId, Returned>,
    /// Up to where what each other node had sent to each lost one came here.
    redirected: BTreeMap<(NodeId, NodeId), Position>,
}

/// A node is there again.
#[derive(Debug)]
struct Returned {
    /// What it is told behind this number it did not know before.
    after: u64,
    /// Of what it was unaware.
    losses: Vec<(NodeId, Word)>,
}

/// A node tells of a loss: what it gives to others with that is for sessions that were taken over at this loss, or at one before it of which it had not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Telling {
    pub(crate) before: Option<Word>,
    pub(crate) after: Word,
}

impl Told {
    /// This node tells others of a loss, or will.
    pub(super) fn tell(&mut self, own: NodeId, lost: Lost, others: impl Iterator<Item = NodeId>) {
        self.hear(own, lost);
        let unaware = self.unaware.entry(lost.node).or_default();
        for node in others {
            unaware.entry(node).or_insert(lost.after);
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

    /// A node is there again, and is told anew what this one wants, behind this number. What it had for this node before is as it was addressed then.
    pub(super) fn begin_return(&mut self, node: NodeId, after: u64) {
        let losses = self.unknown_to(node).into_vec();
        self.returned.insert(node, Returned { after, losses });
    }

    /// A node knows what it was told up to this number.
    pub(super) fn hear_known(&mut self, from: NodeId, number: u64) {
        if self.returned.get(&from).is_none_or(|it| it.after >= number) {
            return;
        }
        let losses = self.returned.remove(&from).map(|it| it.losses);
        for (lost, first) in losses.into_iter().flatten() {
            let unaware = self.unaware.get(&lost).and_then(|unaware| unaware.get(&from));
            if unaware == Some(&first) {
                self.forget_unaware(from, lost);
            }
        }
    }

    /// A node has started anew: it has nothing any more that it had before.
    pub(super) fn forget_run(&mut self, from: NodeId, lost: &BTreeMap<NodeId, Word>) {
        for node in lost.keys() {
            self.forget_unaware(from, *node);
        }
        self.forget(from, lost);
    }

    /// A node is lost itself, or has started anew: it gives nothing to others any more that it had before. `lost`: who is.
    pub(super) fn forget(&mut self, from: NodeId, lost: &BTreeMap<NodeId, Word>) {
        for (node, after) in lost {
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

#[cfg(test)]
mod tests {
    use cluster::Incarnation;

    use super::*;

    const OWN: NodeId = NodeId(1);
    const LOST: NodeId = NodeId(2);
    const AWAY: NodeId = NodeId(3);

    fn word(number: u64) -> Word {
        Word {
            run: Incarnation(1),
            number,
        }
    }

    fn lost(number: u64) -> Lost {
        Lost {
            node: LOST,
            after: word(number),
        }
    }

    #[test]
    fn who_was_away_is_unaware_until_it_knows_what_it_was_told_after_its_return() {
        let mut told = Told::default();
        told.tell(OWN, lost(4), [AWAY].into_iter());
        let losses = BTreeMap::from([(LOST, word(4))]);
        told.forget(AWAY, &losses);
        told.begin_return(AWAY, 10);
        told.hear_known(AWAY, 10);
        assert_eq!(
            told.unknown_to(AWAY).as_slice(),
            [(LOST, word(4))],
            "that is what it knew before"
        );
        told.hear_known(AWAY, 11);
        assert!(told.unknown_to(AWAY).is_empty());
    }

    #[test]
    fn a_loss_after_its_return_it_has_to_tell_of_itself() {
        let mut told = Told::default();
        told.begin_return(AWAY, 10);
        told.tell(OWN, lost(4), [AWAY].into_iter());
        told.hear_known(AWAY, 11);
        assert_eq!(told.unknown_to(AWAY).as_slice(), [(LOST, word(4))]);
        told.hear(AWAY, lost(4));
        assert!(told.unknown_to(AWAY).is_empty());
    }

    #[test]
    fn a_new_run_has_nothing_that_was_addressed_before() {
        let mut told = Told::default();
        told.tell(OWN, lost(4), [AWAY].into_iter());
        told.forget_run(AWAY, &BTreeMap::from([(LOST, word(4))]));
        assert!(told.unknown_to(AWAY).is_empty());
    }
}
