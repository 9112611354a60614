//! When a tombstone may go, and an actor that writes no more may leave a record's clock.
//!
//! Both keep what was removed from coming back out of a copy that has not heard of it. Both may go when there is no such copy: every node that
//! may hold one has said that its copy has seen all that the record's clock names, and since so much time has passed that nothing older is on its way.
//! Then the record's home tells all of them, itself too. Each forgets its copy if it is the same tombstone still, or takes the actors out
//! of its clock ([`Record::retire`](super::Record::retire)).
//!
//! Who may hold a copy: the record's owners on both rings, former owners that did not say yet that they have deleted theirs, and every node that
//! is away and was not removed from the cluster. A node that stays away holds this back; so nothing that was deleted comes back
//! with it, however late. Removing it from the cluster lets it go on. A node on its own confirms to itself.
//!
//! An actor has ended when its node has started again, or was removed from the cluster. What came of it is on that node's disk, so that node's copy
//! speaks for it.
//!
//! It is the home's business to have one of these. A home that ends takes it along; the next one finds what it has to wait for among its records.
//! Whoever confirms too late, or is told too late, makes it be done once more: nothing depends on its being done at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::{Actor, RecordKey, VectorClock};
use crate::NodeId;

/// Records of a home that remember more than they may need.
#[derive(Debug)]
pub struct Retirement {
    grace: Duration,
    waiting: BTreeMap<RecordKey, Waiting>,
    /// By the end of their grace; what is confirmed by then goes.
    due: BTreeSet<(Instant, RecordKey)>,
}

#[derive(Debug)]
struct Waiting {
    clock: VectorClock,
    what: Retired,
    /// `None`: not everybody has confirmed yet.
    graced: Option<Instant>,
    holders: Vec<NodeId>,
    confirmed: Vec<NodeId>,
}

/// What every copy can do without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retired {
    /// The copy itself, which is a tombstone.
    Tombstone,
    /// These actors in its clock.
    Actors(Vec<Actor>),
}

/// What happens to records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A record of which this node is the home remembers something that it may not need; also when it was written to since it was last said.
    Retirable {
        /// Which.
        key: RecordKey,
        /// What its copy here has seen.
        clock: VectorClock,
        /// What it could do without.
        what: Retired,
        /// Who may hold a copy.
        holders: Vec<NodeId>,
    },
    /// Others may hold copies of it now: a ring or the cluster has changed. Who has confirmed need not do so again.
    Holders {
        /// Of which.
        key: RecordKey,
        /// Who may hold a copy.
        holders: Vec<NodeId>,
    },
    /// A node has told the clock of its copy.
    Confirmed {
        /// Of which.
        key: RecordKey,
        /// Whose copy.
        node: NodeId,
        /// What it has seen.
        clock: VectorClock,
    },
    /// The record needs all that it remembers, or another node is its home.
    Needed(RecordKey),
    /// The deadline has come.
    Timeout,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Every node retires this from its copy.
    Retire {
        /// Of which record.
        key: RecordKey,
        /// What all copies have seen.
        clock: VectorClock,
        /// What.
        what: Retired,
    },
}

impl Retirement {
    /// Nothing waits yet. `grace` is longer than anything can be on its way between two nodes.
    pub fn new(grace: Duration) -> Retirement {
        Retirement {
            grace,
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Takes note of an event.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Retirable {
                key,
                clock,
                what,
                holders,
            } => {
                self.remove(&key);
                let waiting = Waiting {
                    clock,
                    what,
                    graced: None,
                    holders,
                    confirmed: Vec::new(),
                };
                self.waiting.insert(key, waiting);
            }
            Event::Holders { key, holders } => {
                self.change(now, &key, |waiting| waiting.holders = holders);
            }
            Event::Confirmed { key, node, clock } => {
                self.change(now, &key, |waiting| {
                    if clock.covers(&waiting.clock) && !waiting.confirmed.contains(&node) {
                        waiting.confirmed.push(node);
                    }
                });
            }
            Event::Needed(key) => self.remove(&key),
            Event::Timeout => self.retire_due(now, actions),
        }
    }

    /// When the owner must next call `step` with [`Event::Timeout`].
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|(graced, _)| *graced)
    }

    /// How many records wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Who has not confirmed a record's clock yet.
    pub fn unconfirmed(&self, key: &RecordKey) -> impl Iterator<Item = NodeId> + '_ {
        let waiting = self.waiting.get(key).into_iter();
        waiting.flat_map(Waiting::unconfirmed)
    }

    /// After a change the grace begins, or begins anew, if everybody has confirmed only now; if somebody has not, it ends.
    fn change(&mut self, now: Instant, key: &RecordKey, change: impl FnOnce(&mut Waiting)) {
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        change(waiting);
        let is_confirmed = waiting.unconfirmed().next().is_none();
        match (waiting.graced, is_confirmed) {
            (None, true) => {
                let graced = now + self.grace;
                waiting.graced = Some(graced);
                self.due.insert((graced, key.clone()));
            }
            (Some(graced), false) => {
                waiting.graced = None;
                self.due.remove(&(graced, key.clone()));
            }
            _ => {}
        }
    }

    fn retire_due(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some((graced, _)) = self.due.first()
            && *graced <= now
        {
            let (_, key) = self.due.pop_first().expect("there is a first one");
            if let Some(Waiting { clock, what, .. }) = self.waiting.remove(&key) {
                actions.push(Action::Retire { key, clock, what });
            }
        }
    }

    fn remove(&mut self, key: &RecordKey) {
        let removed = self.waiting.remove(key);
        if let Some(graced) = removed.and_then(|waiting| waiting.graced) {
            self.due.remove(&(graced, key.clone()));
        }
    }
}

impl Waiting {
    fn unconfirmed(&self) -> impl Iterator<Item = NodeId> + '_ {
        let holders = self.holders.iter().copied();
        holders.filter(|node| !self.confirmed.contains(node))
    }
}
