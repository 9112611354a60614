//! Numbers of wills in the copies of a node: what fills their holes, as packet ids fill those of messages
//! (rule `fill-from-received`).

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use super::number_index::{NamedBy, NumberIndex};
use super::numbered_uses::FilledMessage;
use super::packet_use::{ContentId, NumberedMessage};
use crate::{ClientId, Dot, EntryId, EntryKind, VersionVector};

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
    numbers: NumberIndex<WillEntry>,
}

impl WillNumbers {
    /// Sets the entries of a client that count.
    pub fn set(&mut self, client: &ClientId, entries: BTreeSet<WillEntry>) {
        for entry in self.clients.remove(client).unwrap_or_default() {
            self.numbers.remove(entry.number, client.clone(), entry);
        }
        for entry in entries.iter().copied() {
            self.numbers.insert(entry.number, client.clone(), entry);
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
        let filled = self.numbers.within(lacking).filter_map(|named_by| {
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

    /// Numbers that entries name.
    pub fn numbers(&self) -> &NumberIndex<WillEntry> {
        &self.numbers
    }
}
