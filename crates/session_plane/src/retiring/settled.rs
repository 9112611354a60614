//! Settled events: what all copies of a node have decided upon, of runs that have ended.

use std::collections::BTreeMap;

use cluster::{Incarnation, NodeId};

use crate::{Interval, VersionVector};

/// Nodes of which one member tells at most. Of those with higher ids nothing is retired.
pub const SETTLED_NODES_MAX: usize = 1_024;

/// Sets of events that a copy has met.
#[derive(Debug, Clone, Copy)]
pub struct CopySets<'a> {
    /// V: events that the copy has decided upon.
    pub covered: &'a VersionVector,
    /// Events that the copy has and has not claimed.
    pub taken: &'a VersionVector,
    /// Events that are known to exist, and that the copy lacks.
    pub holes: &'a VersionVector,
}

/// What a member tells of runs that have ended: of each node the lowest runs, up to one.
///
/// A retired run is in it as a whole. Of the runs behind the named one something is not settled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    up_to: BTreeMap<NodeId, Incarnation>,
    /// Of these runs.
    events: VersionVector,
}

/// Parts are not what a member tells. Nothing was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SettledError {
    /// More nodes than [`SETTLED_NODES_MAX`].
    #[error("settled runs are of {count} nodes, at most {SETTLED_NODES_MAX}")]
    TooManyNodes {
        /// Nodes that were given.
        count: usize,
    },
    /// Events are of runs that are settled.
    #[error("settled events of node {} are of a run that is not settled", .node.0)]
    NotSettled {
        /// Node of the run.
        node: NodeId,
    },
}

impl Settled {
    /// What a peer has told.
    ///
    /// # Errors
    ///
    /// [`SettledError`] where there are too many nodes, or events beyond the named runs.
    pub fn new(up_to: BTreeMap<NodeId, Incarnation>, events: VersionVector) -> Result<Settled, SettledError> {
        let count = up_to.len();
        if count > SETTLED_NODES_MAX {
            return Err(SettledError::TooManyNodes { count });
        }
        let is_beyond = |interval: &&Interval| {
            let last = up_to.get(&interval.node());
            last.is_none_or(|last| interval.last().run.incarnation > *last)
        };
        match events.intervals().iter().find(is_beyond) {
            Some(interval) => Err(SettledError::NotSettled {
                node: interval.node(),
            }),
            None => Ok(Settled { up_to, events }),
        }
    }

    /// What is settled at a node with these copies, the routes among them. Copies that share a vector
    /// are named once. Nothing is settled without a copy.
    ///
    /// `named` are QoS 2 numbers that entries stand for: they may be routed yet. `ended` has of each
    /// node the last run that has ended: the one before the present run, and of a node that was removed
    /// the last possible one. One pass over each vector.
    pub fn of_copies<'a>(
        copies: impl IntoIterator<Item = CopySets<'a>>,
        named: &VersionVector,
        ended: &BTreeMap<NodeId, Incarnation>,
    ) -> Settled {
        let mut copies = copies.into_iter();
        let Some(first) = copies.next() else {
            return Settled::default();
        };
        let covered = first.covered;
        let mut unsettled = Unsettled::default();
        unsettled.add(first.taken);
        unsettled.add(first.holes);
        unsettled.add(&named.minus(covered));
        for copy in copies {
            if copy.covered != covered {
                unsettled.add(&copy.covered.minus(covered));
                unsettled.add(&covered.minus(copy.covered));
            }
            unsettled.add(copy.taken);
            unsettled.add(copy.holes);
        }
        unsettled.settled(covered, ended)
    }

    /// Last run of a node that is settled with all before it. None where not even the first is.
    pub fn up_to(&self, node: NodeId) -> Option<Incarnation> {
        self.up_to.get(&node).copied()
    }

    /// Settled events, of the runs up to these.
    pub fn events(&self) -> &VersionVector {
        &self.events
    }

    /// Last runs of nodes that are settled, in ascending order of nodes.
    pub fn runs(&self) -> impl Iterator<Item = (NodeId, Incarnation)> + '_ {
        self.up_to.iter().map(|(node, up_to)| (*node, *up_to))
    }

    /// Last run of a node that is retired with all before it.
    pub(super) fn floor(&self, node: NodeId) -> Option<Incarnation> {
        self.events.floor(node)
    }

    /// Floors of all nodes that have one.
    pub(super) fn floors(&self) -> BTreeMap<NodeId, Incarnation> {
        let floors = self.up_to.keys();
        floors
            .filter_map(|node| self.floor(*node).map(|floor| (*node, floor)))
            .collect()
    }
}

/// Of each node the lowest run with an event that is not settled.
#[derive(Debug, Default)]
struct Unsettled(BTreeMap<NodeId, Incarnation>);

impl Unsettled {
    fn add(&mut self, events: &VersionVector) {
        for interval in events.intervals() {
            let first = interval.first().run;
            let lowest = self.0.entry(first.node).or_insert(first.incarnation);
            *lowest = first.incarnation.min(*lowest);
        }
    }

    fn settled(&self, covered: &VersionVector, ended: &BTreeMap<NodeId, Incarnation>) -> Settled {
        let mut settled = Settled::default();
        let mut events = Vec::new();
        for (node, ended) in ended.iter().take(SETTLED_NODES_MAX) {
            let up_to = match self.0.get(node) {
                Some(unsettled) => unsettled.0.checked_sub(1).map(|up_to| ended.0.min(up_to)),
                None => Some(ended.0),
            };
            let Some(up_to) = up_to.map(Incarnation) else {
                continue;
            };
            settled.up_to.insert(*node, up_to);
            if let Some(runs) = Interval::of_runs(*node, Incarnation(0), up_to) {
                events.extend_from_slice(covered.within(&runs).intervals());
            }
        }
        settled.events = VersionVector::of_apart(events);
        settled
    }
}
