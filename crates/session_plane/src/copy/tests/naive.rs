//! Naive copy: sets of events one by one, entries in a list, everything searched. It follows the
//! copy of the model (`session-plane-model`), so that both crates have the same rules.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::Value;
use super::history::Event;
use crate::session_entries::tests::{Identified, naive_live};
use crate::{Change, ClientId, Dot, Entry, EntryId, EntryKind};

/// Covered dot of one client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SingleDot {
    pub(crate) client: ClientId,
    pub(crate) dot: Dot,
}

/// Entry with its whole identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NaiveEntry {
    pub(crate) client: ClientId,
    pub(crate) kind: EntryKind,
    pub(crate) dot: Dot,
    pub(crate) entry: Entry<Value>,
}

impl NaiveEntry {
    fn is_same(&self, other: &NaiveEntry) -> bool {
        (&self.client, self.kind, self.dot) == (&other.client, other.kind, other.dot)
    }
}

/// Pending message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NaiveMessage {
    pub(crate) clock: Hlc,
    pub(crate) dot: Dot,
}

/// What a copy consists of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    pub(crate) covered: BTreeSet<Dot>,
    pub(crate) taken: BTreeSet<Dot>,
    pub(crate) needed: BTreeSet<Dot>,
    pub(crate) pending: BTreeSet<NaiveMessage>,
    pub(crate) entries: Vec<NaiveEntry>,
    pub(crate) single: BTreeSet<SingleDot>,
}

impl Naive {
    pub(crate) fn covers(&self, client: &ClientId, dot: Dot) -> bool {
        let single = SingleDot {
            client: client.clone(),
            dot,
        };
        self.covered.contains(&dot) || self.single.contains(&single)
    }

    pub(crate) fn holes(&self) -> BTreeSet<Dot> {
        &(&self.needed - &self.covered) - &self.taken
    }

    pub(crate) fn take(&mut self, dot: Dot) {
        if !self.covered.contains(&dot) {
            self.taken.insert(dot);
        }
    }

    pub(crate) fn take_event(&mut self, event: &Event) {
        self.take(event.dot);
        match &event.change {
            Some(change) => self.apply(change),
            None if self.covered.contains(&event.dot) => {}
            None => {
                let (clock, dot) = (event.clock, event.dot);
                self.pending.insert(NaiveMessage { clock, dot });
            }
        }
    }

    fn apply(&mut self, change: &Change<Value>) {
        for dot in &change.removes {
            self.entries
                .retain(|entry| !(entry.client == change.client && entry.dot == *dot));
            if !self.covered.contains(dot) {
                self.single.insert(SingleDot {
                    client: change.client.clone(),
                    dot: *dot,
                });
            }
        }
        if let Some(entry) = &change.adds {
            self.add(NaiveEntry {
                client: change.client.clone(),
                kind: entry.fact.kind(),
                dot: change.dot,
                entry: entry.clone(),
            });
        }
    }

    fn add(&mut self, new: NaiveEntry) {
        if self.covers(&new.client, new.dot) {
            return;
        }
        match self.entries.iter_mut().find(|entry| entry.is_same(&new)) {
            Some(same) => *same = same.clone().max(new),
            None => self.entries.push(new),
        }
    }

    /// Claims, if the copy is whole.
    pub(crate) fn claim(&mut self) -> bool {
        if !self.holes().is_empty() {
            return false;
        }
        for message in std::mem::take(&mut self.pending) {
            for subscription in self.live() {
                if super::matches(subscription.kind, subscription.entry.clock, message.clock) {
                    self.add(NaiveEntry {
                        client: subscription.client,
                        kind: EntryKind::Message,
                        dot: message.dot,
                        entry: super::message_entry(subscription.entry.birth, message.clock, message.dot),
                    });
                }
            }
        }
        self.covered.extend(std::mem::take(&mut self.taken));
        self.tidy();
        true
    }

    pub(crate) fn close(&mut self, numbers: &BTreeSet<Dot>) {
        let closed = &self.holes() & numbers;
        self.covered.extend(closed);
        self.tidy();
    }

    pub(crate) fn merge(&mut self, other: &Naive) {
        let find =
            |copy: &Naive, entry: &NaiveEntry| copy.entries.iter().find(|each| each.is_same(entry)).cloned();
        let mut entries = Vec::new();
        for entry in &self.entries {
            match find(other, entry) {
                Some(theirs) => entries.push(entry.clone().max(theirs)),
                None if other.covers(&entry.client, entry.dot) => {}
                None => entries.push(entry.clone()),
            }
        }
        for entry in &other.entries {
            if find(self, entry).is_none() && !self.covers(&entry.client, entry.dot) {
                entries.push(entry.clone());
            }
        }
        self.entries = entries;
        self.covered.extend(&other.covered);
        self.single.extend(other.single.iter().cloned());
        self.taken.extend(&other.taken);
        self.needed.extend(&other.needed);
        self.pending.extend(other.pending.iter().cloned());
        self.tidy();
    }

    fn tidy(&mut self) {
        let covered = &self.covered;
        self.taken.retain(|dot| !covered.contains(dot));
        self.pending.retain(|message| !covered.contains(&message.dot));
        self.single.retain(|single| !covered.contains(&single.dot));
    }

    /// Entries that count, in ascending order.
    pub(crate) fn live(&self) -> BTreeSet<NaiveEntry> {
        let clients: BTreeSet<&ClientId> = self.entries.iter().map(|entry| &entry.client).collect();
        clients
            .into_iter()
            .flat_map(|client| self.live_of(client))
            .collect()
    }

    fn live_of(&self, client: &ClientId) -> Vec<NaiveEntry> {
        let of_client = self.entries.iter().filter(|entry| entry.client == *client);
        let identified: Vec<Identified<Value>> = of_client
            .map(|entry| {
                let (kind, dot) = (entry.kind, entry.dot);
                (EntryId { kind, dot }, entry.entry.clone())
            })
            .collect();
        let live = naive_live(&identified, |dot| self.covers(client, dot)).into_iter();
        live.map(|(id, entry)| NaiveEntry {
            client: client.clone(),
            kind: id.kind,
            dot: id.dot,
            entry,
        })
        .collect()
    }
}
