//! Numbers that packet ids stand for: what fills holes of QoS 2 numbers (rule `fill-from-received`).
//!
//! A run may end in the middle of a route: some nodes have the number then, and for the others it is
//! a hole. The entry of the packet id is at the owners of the publisher's slot, and has the number
//! and the content. So the hole is filled, if the packet id still stands for that message.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use cluster::session_plane::Hlc;

use super::packet_use::{NumberedMessage, PacketId, Precedence, UseEntry};
use crate::{ClientId, Dot, EntryId, EntryKind, Interval, VectorFull, VersionVector};

/// Entries of packet ids in the copies of this node, by the numbers that they name.
///
/// The node adds and removes entries as its copies do: those that count by themselves
/// ([`SessionEntries::live`](crate::SessionEntries::live)). A change costs O(log n), and a question
/// O(log n) for each number that it finds.
#[derive(Debug, Default)]
pub struct NumberedUses {
    clients: BTreeMap<ClientId, ClientUses>,
    /// Entries that name each number: one, while no peer is wrong.
    numbers: BTreeMap<Dot, BTreeSet<NamedBy>>,
}

/// Entries of one client.
#[derive(Debug, Default)]
struct ClientUses {
    entries: BTreeMap<Dot, UseEntry>,
    /// In ascending order; the last entry of a packet id counts.
    ids: BTreeMap<PacketId, BTreeSet<Precedence>>,
}

/// Entry that names a number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamedBy {
    client: ClientId,
    entry: Dot,
}

/// Message under a number that a copy lacks, and the entry that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledMessage {
    /// Message with its number.
    pub message: NumberedMessage,
    /// Clock of the message.
    pub clock: Hlc,
    /// Client of the entry.
    pub client: ClientId,
    /// Entry that has the content.
    pub entry: EntryId,
}

impl NumberedUses {
    /// Adds the entry of a packet id.
    pub fn insert(&mut self, client: &ClientId, entry: UseEntry) {
        self.remove(client, entry.dot);
        let uses = self.clients.entry(client.clone()).or_default();
        uses.entries.insert(entry.dot, entry);
        let id = uses.ids.entry(entry.packet_use.packet_id).or_default();
        id.insert(entry.precedence());
        if let Some(message) = entry.packet_use.message {
            let named_by = NamedBy {
                client: client.clone(),
                entry: entry.dot,
            };
            self.numbers.entry(message.number).or_default().insert(named_by);
        }
    }

    /// Removes the entry that an event has made, if it is here.
    pub fn remove(&mut self, client: &ClientId, dot: Dot) {
        let Some(uses) = self.clients.get_mut(client) else {
            return;
        };
        let Some(entry) = uses.entries.remove(&dot) else {
            return;
        };
        let packet_id = entry.packet_use.packet_id;
        if let Some(id) = uses.ids.get_mut(&packet_id) {
            id.remove(&entry.precedence());
            if id.is_empty() {
                uses.ids.remove(&packet_id);
            }
        }
        if uses.entries.is_empty() {
            self.clients.remove(client);
        }
        if let Some(message) = entry.packet_use.message {
            self.forget(message.number, client, dot);
        }
    }

    /// Removes all entries of a client: its session has ended, or its copy is deleted.
    pub fn remove_client(&mut self, client: &ClientId) {
        let Some(uses) = self.clients.remove(client) else {
            return;
        };
        for (dot, entry) in uses.entries {
            if let Some(message) = entry.packet_use.message {
                self.forget(message.number, client, dot);
            }
        }
    }

    /// Messages under numbers that a copy lacks, in ascending order and at most `messages_max`.
    ///
    /// Only an entry that counts fills a hole (rule `later-connection`). `is_merged` says that this
    /// node owns the client's slot and that its copy has merged with all present holders (rule
    /// `fill-from-merged`): another copy may lack the entry that counts.
    pub fn fill(
        &self,
        lacking: &VersionVector,
        is_merged: impl Fn(&ClientId) -> bool,
        messages_max: usize,
    ) -> Vec<FilledMessage> {
        let numbers = lacking.qos2_numbers();
        let named = numbers
            .intervals()
            .iter()
            .flat_map(|lacking| self.numbers.range(lacking.first()..=lacking.last()));
        let filled = named.filter_map(|(_, named_by)| {
            let mut merged = named_by.iter().filter(|by| is_merged(&by.client));
            merged.find_map(|by| self.counting(by))
        });
        filled.take(messages_max).collect()
    }

    /// Numbers that entries stand for and that `covered` lacks: a run of which one is not routed is not
    /// settled ([`Settled::of_copies`](crate::Settled::of_copies)).
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where they are too scattered. Nothing is settled then.
    pub fn named_beyond(&self, covered: &VersionVector) -> Result<VersionVector, VectorFull> {
        let mut named = VersionVector::default();
        for (number, _) in numbers_beyond(&self.numbers, covered) {
            if let Some(number) = Interval::one(number) {
                named.insert(number)?;
            }
        }
        Ok(named)
    }

    /// Clients whose entries stand for numbers that `covered` lacks.
    pub fn clients_beyond(&self, covered: &VersionVector) -> BTreeSet<ClientId> {
        let named_by = numbers_beyond(&self.numbers, covered).flat_map(|(_, named_by)| named_by);
        named_by.map(|by| by.client.clone()).collect()
    }

    /// Clients whose entries stand for numbers of `events`.
    pub fn clients_within(&self, events: &VersionVector) -> BTreeSet<ClientId> {
        let intervals = events.intervals().iter();
        let numbers = intervals.flat_map(|events| self.numbers.range(events.first()..=events.last()));
        let named_by = numbers.flat_map(|(_, named_by)| named_by);
        named_by.map(|by| by.client.clone()).collect()
    }

    /// Message of an entry, if it is the one of its packet id that counts.
    fn counting(&self, by: &NamedBy) -> Option<FilledMessage> {
        let uses = self.clients.get(&by.client)?;
        let entry = uses.entries.get(&by.entry)?;
        let last = uses.ids.get(&entry.packet_use.packet_id)?.last()?;
        let message = entry.packet_use.message?;
        (*last == entry.precedence()).then_some(FilledMessage {
            message,
            clock: entry.message_clock(),
            client: by.client.clone(),
            entry: EntryId {
                kind: EntryKind::Received,
                dot: by.entry,
            },
        })
    }

    fn forget(&mut self, number: Dot, client: &ClientId, entry: Dot) {
        let client = client.clone();
        if let Some(named_by) = self.numbers.get_mut(&number) {
            named_by.remove(&NamedBy { client, entry });
            if named_by.is_empty() {
                self.numbers.remove(&number);
            }
        }
    }
}

/// Numbers that `covered` lacks. Costs O(log n) for each of them, and for each interval between.
pub(super) fn numbers_beyond<'a, T>(
    numbers: &'a BTreeMap<Dot, T>,
    covered: &'a VersionVector,
) -> impl Iterator<Item = (Dot, &'a T)> {
    let mut after = Bound::Unbounded;
    std::iter::from_fn(move || {
        loop {
            let (number, named_by) = numbers.range((after, Bound::Unbounded)).next()?;
            let interval = covered.interval_of(*number);
            after = Bound::Excluded(interval.map_or(*number, Interval::last));
            if interval.is_none() {
                return Some((*number, named_by));
            }
        }
    })
}
