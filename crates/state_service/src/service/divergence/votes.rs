//! Which of several copies is right: the one that a majority of the voters has.
//!
//! Each copy says what its digest is behind an entry that the leader has named. What is said of another entry does not count.

use std::collections::BTreeMap;

use cluster::replica::Members;
use cluster::{Index, NodeId};

/// What the copies say of themselves.
#[derive(Debug, Default)]
pub(super) struct Votes {
    /// The entry behind which they are compared.
    place: Index,
    /// The entry that each of them spoke of last, and its digest behind that.
    said: BTreeMap<NodeId, (Index, u64)>,
}

impl Votes {
    /// The leader has named an entry. False if that is an old one.
    pub(super) fn begin(&mut self, place: Index, members: &Members) -> bool {
        let is_old = place < self.place;
        self.place = self.place.max(place);
        self.said.retain(|node, _| members.contains(*node));
        !is_old
    }

    pub(super) fn place(&self) -> Index {
        self.place
    }

    pub(super) fn note(&mut self, node: NodeId, index: Index, digest: u64) {
        self.said.insert(node, (index, digest));
    }

    /// A copy is another one from here on.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.said.remove(&node);
    }

    /// What a copy has said of the place.
    pub(super) fn digest_of(&self, node: NodeId) -> Option<u64> {
        let (index, digest) = self.said.get(&node)?;
        (*index == self.place).then_some(*digest)
    }

    /// What a majority of the voters has, if there is one.
    pub(super) fn majority(&self, members: &Members) -> Option<u64> {
        let digests = self.said.keys().filter_map(|node| self.digest_of(*node));
        let mut digests: Vec<u64> = digests.collect();
        digests.dedup();
        let has_majority = |digest: &u64| members.has_majority(|node| self.digest_of(node) == Some(*digest));
        digests.into_iter().find(has_majority)
    }

    /// Whether two of them differ.
    pub(super) fn is_split(&self) -> bool {
        let mut digests = self.said.keys().filter_map(|node| self.digest_of(*node));
        let first = digests.next();
        digests.any(|digest| Some(digest) != first)
    }

    /// Whether all copies are there, and equal.
    pub(super) fn is_unanimous(&self, members: &Members) -> bool {
        let is_there = |node: &NodeId| self.digest_of(*node).is_some();
        members.all().iter().all(is_there) && !self.is_split()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Index = Index(7);

    /// What nodes 1, 2 and so on say of the place.
    fn votes(digests: &[u64]) -> Votes {
        let mut votes = Votes::default();
        assert!(votes.begin(PLACE, &founders(9)));
        for (digest, node) in digests.iter().zip(1..) {
            votes.note(NodeId(node), PLACE, *digest);
        }
        votes
    }

    fn founders(count: u64) -> Members {
        Members::founders((1..=count).map(NodeId))
    }

    #[test]
    fn what_a_majority_of_the_voters_has_is_right() {
        for (digests, majority) in [
            (&[1, 1, 1][..], Some(1)),
            (&[2, 1, 1], Some(1)),
            (&[1, 2, 1], Some(1)),
            (&[1, 1], Some(1)),
            (&[1, 2], None),
            (&[1, 2, 3], None),
            (&[1], None),
            (&[], None),
        ] {
            assert_eq!(votes(digests).majority(&founders(3)), majority, "{digests:?}");
        }
        assert_eq!(votes(&[1, 2]).majority(&founders(2)), None);
        assert_eq!(votes(&[1, 1, 2, 2]).majority(&founders(4)), None);
    }

    #[test]
    fn learners_do_not_decide() {
        let mut members = founders(1);
        members.learners = [NodeId(2), NodeId(3)].into();
        assert_eq!(votes(&[1, 2, 2]).majority(&members), Some(1));
        assert!(!votes(&[1, 1]).is_unanimous(&members), "one is missing");
        assert!(votes(&[1, 1, 1]).is_unanimous(&members));
    }

    #[test]
    fn only_what_is_said_of_the_place_counts() {
        let mut votes = votes(&[1, 1, 2]);
        assert!(votes.is_split());
        assert!(!votes.begin(Index(6), &founders(9)), "that is over");
        assert!(votes.begin(Index(8), &founders(9)));
        assert!(!votes.is_split());
        assert_eq!(votes.majority(&founders(3)), None);
        votes.note(NodeId(3), Index(8), 5);
        votes.note(NodeId(1), Index(8), 5);
        assert_eq!(votes.majority(&founders(3)), Some(5));
        votes.forget(NodeId(1));
        assert_eq!(votes.digest_of(NodeId(1)), None);
    }
}
