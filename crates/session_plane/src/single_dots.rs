//! Single covered dots: removals of events that a copy's vector does not cover yet.
//!
//! A removal can arrive before the event that it removes. The copy keeps the event's dot then, for
//! this client alone, and covers it as its vector does. A dot goes as soon as the vector covers it.
//! So a copy has single dots only while it lacks events, or has not claimed them.

use std::collections::{BTreeMap, BTreeSet};

use crate::dirty::DirtySet;
use crate::join::join;
use crate::{ClientDot, ClientId, Dot, VersionVector};

/// Covered dots of clients, beside a vector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SingleDots {
    /// No set is empty.
    clients: BTreeMap<ClientId, BTreeSet<Dot>>,
    count: usize,
}

impl SingleDots {
    /// The dot is covered for the client.
    pub fn contains(&self, client: &[u8], dot: Dot) -> bool {
        self.of_client(client).is_some_and(|dots| dots.contains(&dot))
    }

    /// Covered dots of one client.
    pub(crate) fn of_client(&self, client: &[u8]) -> Option<&BTreeSet<Dot>> {
        self.clients.get(client)
    }

    /// Number of dots, of all clients.
    pub fn len(&self) -> usize {
        self.count
    }

    /// There is no dot.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Dots of each client, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (&ClientId, &BTreeSet<Dot>)> {
        self.clients.iter()
    }

    /// Adds a dot of a client, and marks it in `dirty`.
    pub(crate) fn insert(&mut self, client: &ClientId, dot: Dot, dirty: &mut DirtySet<ClientDot>) {
        let is_new = match self.clients.get_mut(client) {
            Some(dots) => dots.insert(dot),
            None => {
                self.clients.insert(client.clone(), BTreeSet::from([dot]));
                true
            }
        };
        if is_new {
            self.count += 1;
            let client = client.clone();
            dirty.mark(ClientDot { client, dot }, false);
        }
    }

    /// Dots of both that `covered` does not cover. Marks in `dirty` what comes and goes.
    pub(crate) fn merge(
        self,
        theirs: SingleDots,
        covered: &VersionVector,
        dirty: &mut DirtySet<ClientDot>,
    ) -> SingleDots {
        let joined = join(self.clients, theirs.clients).map(|at| {
            let mut dots = at.mine.unwrap_or_default();
            for dot in at.theirs.unwrap_or_default() {
                if dots.insert(dot) {
                    let client = at.key.clone();
                    dirty.mark(ClientDot { client, dot }, false);
                }
            }
            (at.key, dots)
        });
        let mut merged = SingleDots {
            clients: joined.collect(),
            count: 0,
        };
        merged.drop_covered(covered, dirty);
        merged
    }

    /// Drops what `covered` covers, and marks it in `dirty`.
    pub(crate) fn drop_covered(&mut self, covered: &VersionVector, dirty: &mut DirtySet<ClientDot>) {
        self.clients.retain(|client, dots| {
            dots.retain(|dot| {
                let stays = !covered.covers(*dot);
                if !stays {
                    let (client, dot) = (client.clone(), *dot);
                    dirty.mark(ClientDot { client, dot }, true);
                }
                stays
            });
            !dots.is_empty()
        });
        self.count = self.clients.values().map(BTreeSet::len).sum();
    }
}
