//! Numbers of wills in the copies of a node: what fills their holes, as packet ids fill those of messages
//! (rule `fill-from-received`).

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use super::numbered_uses::{FilledMessage, numbers_beyond};
use super::packet_use::{ContentId, NumberedMessage};
use crate::{ClientId, Dot, EntryId, EntryKind, Interval, VectorFull, VersionVector};

/// Number of a will, as an entry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WillEntry {
    /// The number.
    pub number: Dot,
    /// Event of the will.
    pub will: Dot,
    /// Clock of the message.
    pub clock: Hlc,
    /// Content of the message.
    pub content: ContentId,
}

/// Entries that name numbers of wills, by number.
#[derive(Debug, Default)]
pub struct WillNumbers {
    clients: BTreeMap<ClientId, BTreeSet<WillEntry>>,
    numbers: BTreeMap<Dot, BTreeSet<NamedBy>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamedBy {
    client: ClientId,
    entry: WillEntry,
}

impl WillNumbers {
    /// Sets the entries of a client that count.
    pub fn set(&mut self, client: &ClientId, entries: BTreeSet<WillEntry>) {
        for entry in self.clients.remove(client).unwrap_or_default() {
            if let Some(named_by) = self.numbers.get_mut(&entry.number) {
                let client = client.clone();
                named_by.remove(&NamedBy { client, entry });
                if named_by.is_empty() {
                    self.numbers.remove(&entry.number);
                }
            }
        }
        for entry in entries.iter().copied() {
            let client = client.clone();
            let named_by = self.numbers.entry(entry.number).or_default();
            named_by.insert(NamedBy { client, entry });
        }
        if !entries.is_empty() {
            self.clients.insert(client.clone(), entries);
        }
    }

    /// Messages under numbers of `lacking`, at most `messages_max`. `is_merged` says that this node owns
    /// the client's slot and that its copy has merged.
    pub fn fill(
        &self,
        lacking: &VersionVector,
        is_merged: impl Fn(&ClientId) -> bool,
        messages_max: usize,
    ) -> Vec<FilledMessage> {
        let intervals = lacking.intervals().iter();
        let named = intervals.flat_map(|lacking| self.numbers.range(lacking.first()..=lacking.last()));
        let filled = named.filter_map(|(_, named_by)| {
            let NamedBy { client, entry } = named_by.iter().find(|by| is_merged(&by.client))?;
            let WillEntry { number, content, .. } = *entry;
            Some(FilledMessage {
                message: NumberedMessage { number, content },
                clock: entry.clock,
                client: client.clone(),
                entry: EntryId {
                    kind: EntryKind::Will,
                    dot: entry.will,
                },
            })
        });
        filled.take(messages_max).collect()
    }

    /// Adds the numbers that `covered` lacks to `named`.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where they are too scattered.
    pub fn add_beyond(&self, covered: &VersionVector, named: &mut VersionVector) -> Result<(), VectorFull> {
        numbers_beyond(&self.numbers, covered)
            .filter_map(|(number, _)| Interval::one(number))
            .try_for_each(|number| named.insert(number))
    }

    /// Clients whose entries name numbers that `covered` lacks.
    pub fn clients_beyond(&self, covered: &VersionVector) -> BTreeSet<ClientId> {
        let named_by = numbers_beyond(&self.numbers, covered).flat_map(|(_, named_by)| named_by);
        named_by.map(|by| by.client.clone()).collect()
    }
}
