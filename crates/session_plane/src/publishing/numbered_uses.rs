//! Numbers that packet ids stand for: what fills holes of QoS 2 numbers (rule `fill-from-received`).
//!
//! A run may end in the middle of a route: some nodes have the number then, and for the others it is
//! a hole. The entry of the packet id is at the owners of the publisher's slot, and has the number
//! and the content. So the hole is filled, if the packet id still stands for that message.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use super::number_index::{NamedBy, NumberIndex};
use super::packet_use::{NumberedMessage, PacketId, Precedence, UseEntry};
use crate::{ClientId, Dot, EntryId, EntryKind, VersionVector};

/// Entries of packet ids in the copies of this node, by the numbers that they name.
///
/// The node adds and removes entries as its copies do: those that count by themselves
/// ([`SessionEntries::live`](crate::SessionEntries::live)). A change costs O(log n), and a question
/// O(log n) for each number that it finds.
#[derive(Debug, Default)]
pub struct NumberedUses {
    clients: BTreeMap<ClientId, ClientUses>,
    numbers: NumberIndex<Dot>,
}

/// Entries of one client.
#[derive(Debug, Default)]
struct ClientUses {
    entries: BTreeMap<Dot, UseEntry>,
    /// In ascending order; the last entry of a packet id counts.
    ids: BTreeMap<PacketId, BTreeSet<Precedence>>,
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
            self.numbers.insert(message.number, client.clone(), entry.dot);
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
            self.numbers.remove(message.number, client.clone(), dot);
        }
    }

    /// Removes all entries of a client: its session has ended, or its copy is deleted.
    pub fn remove_client(&mut self, client: &ClientId) {
        let Some(uses) = self.clients.remove(client) else {
            return;
        };
        for (dot, entry) in uses.entries {
            if let Some(message) = entry.packet_use.message {
                self.numbers.remove(message.number, client.clone(), dot);
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
        let filled = self.numbers.within(&numbers).filter_map(|named_by| {
            let mut merged = named_by.iter().filter(|by| is_merged(&by.client));
            merged.find_map(|by| self.counting(by))
        });
        filled.take(messages_max).collect()
    }

    /// Numbers that entries stand for.
    pub fn numbers(&self) -> &NumberIndex<Dot> {
        &self.numbers
    }

    /// Message of an entry, if it is the one of its packet id that counts.
    fn counting(&self, by: &NamedBy<Dot>) -> Option<FilledMessage> {
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
}
