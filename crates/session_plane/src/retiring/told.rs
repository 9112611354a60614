//! What one member has told: now, and of each run before it retired that.
//!
//! What was told of a run stays when the run is not settled any more, since a new copy lacks it: the
//! other copies may be retired by it yet. It goes when this node has retired the run.

use std::collections::BTreeMap;

use cluster::{Incarnation, NodeId};

use super::{Settled, after};
use crate::version_vector::INTERVALS_MAX;
use crate::{Interval, VersionVector};

/// What one member has told.
#[derive(Debug, Default)]
pub(super) struct Told {
    now: Settled,
    /// Of each node the runs of which it has told before it retired them.
    before: BTreeMap<NodeId, Runs>,
    /// Events of these.
    events: VersionVector,
}

/// Runs of one node, without one left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Runs {
    pub(super) from: Incarnation,
    pub(super) up_to: Incarnation,
}

impl Runs {
    /// None is left out between these runs and those from `from` on.
    fn goes_on_at(&self, from: Incarnation) -> bool {
        self.from <= from && after(Some(self.up_to)).is_none_or(|next| from <= next)
    }
}

impl Told {
    /// Records what the member tells now. When what it has told before would be longer than a vector
    /// may be, that is forgotten: its word is not taken then, and copies merge.
    pub(super) fn record(&mut self, now: Settled) {
        self.add(&now);
        if self.events.intervals().len() > INTERVALS_MAX {
            self.before = BTreeMap::new();
            self.events = VersionVector::default();
            self.add(&now);
        }
        self.now = now;
    }

    fn add(&mut self, now: &Settled) {
        let (mut told, mut outdated) = (Vec::new(), Vec::new());
        for (node, up_to) in now.runs() {
            let Some(from) = after(now.floor(node)) else {
                continue;
            };
            let Some(runs) = Interval::of_runs(node, from, up_to) else {
                continue;
            };
            told.push(runs);
            let known = self.before.get_mut(&node);
            if let Some(known) = known.filter(|known| known.goes_on_at(from)) {
                known.up_to = known.up_to.max(up_to);
            } else {
                self.before.insert(node, Runs { from, up_to });
                outdated.extend(Interval::of_runs(node, Incarnation(0), Incarnation(u32::MAX)));
            }
        }
        let told = VersionVector::of_apart(told);
        let outdated = VersionVector::of_apart(outdated).united(&told);
        let new = now.events().intersection(&told);
        self.events = self.events.minus(&outdated).united(&new);
    }

    /// Forgets runs that this node has retired in all its copies.
    pub(super) fn forget_retired(&mut self, floors: &BTreeMap<NodeId, Incarnation>) {
        let mut retired = Vec::new();
        for (node, floor) in floors {
            let Some(runs) = self.before.get_mut(node) else {
                continue;
            };
            retired.extend(Interval::of_runs(*node, Incarnation(0), *floor));
            match after(Some(*floor)).filter(|from| *from <= runs.up_to) {
                Some(from) => runs.from = runs.from.max(from),
                None => {
                    self.before.remove(node);
                }
            }
        }
        self.events = self.events.minus(&VersionVector::of_apart(retired));
    }

    pub(super) fn now(&self) -> &Settled {
        &self.now
    }

    /// Nodes of whose runs something was told that is not retired.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.before.keys().copied()
    }

    /// Runs of a node of which something was told that is not retired.
    pub(super) fn before(&self, node: NodeId) -> Option<Runs> {
        self.before.get(&node).copied()
    }

    /// Events that were told of these runs.
    pub(super) fn events(&self) -> &VersionVector {
        &self.events
    }
}
