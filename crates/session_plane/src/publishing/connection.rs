//! Open connection: its packet ids, and its messages without PUBREC.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use super::packet_use::{ContentId, NumberedMessage, PacketId, PacketUse, UseEntry, counting_uses};
use crate::{ClientId, Dot};

/// Connection with its session.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) client: ClientId,
    /// Clock of the session's entry that its CONNECT has written.
    clock: Hlc,
    /// At most one for each packet id that MQTT has.
    ids: BTreeMap<PacketId, UsedId>,
    /// Numbers of its messages without PUBREC.
    pub(super) waiting: BTreeSet<Dot>,
    /// Its PUBLISH packets without a number.
    pub(super) early: usize,
}

/// Packet id of a client.
#[derive(Debug, Default)]
pub(super) struct UsedId {
    /// Entries of the id that this node has seen, and not replaced: mostly one.
    entries: BTreeMap<Dot, UseEntry>,
    pub(super) stage: Stage,
}

/// What this connection has done with a packet id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing; the entries say what older connections have.
    #[default]
    Untouched,
    /// PUBLISH has come, and has no number.
    Early(ContentId),
    /// The message waits for PUBREC.
    Publishing(NumberedMessage),
    /// PUBREC was sent.
    Received(NumberedMessage),
    /// PUBREL has come; PUBCOMP waits.
    Freeing {
        /// Event that frees the id, once it is made.
        entry: Option<Dot>,
        /// A message has used the id.
        is_found: bool,
    },
}

impl OpenConnection {
    pub(super) fn new(client: ClientId, clock: Hlc, uses: Vec<UseEntry>) -> OpenConnection {
        let mut connection = OpenConnection {
            client,
            clock,
            ids: BTreeMap::new(),
            waiting: BTreeSet::new(),
            early: 0,
        };
        connection.add_uses(uses);
        connection
    }

    pub(super) fn add_uses(&mut self, uses: Vec<UseEntry>) {
        for entry in uses {
            self.add_use(entry);
        }
    }

    pub(super) fn add_use(&mut self, entry: UseEntry) {
        let id = self.id_mut(entry.packet_use.packet_id);
        id.entries.insert(entry.dot, entry);
    }

    /// Use of a packet id by this connection.
    pub(super) fn use_by(&self, packet_id: PacketId, message: NumberedMessage) -> PacketUse {
        PacketUse {
            message: Some(message),
            ..self.use_by_none(packet_id)
        }
    }

    /// Use of a packet id that this connection frees.
    pub(super) fn use_by_none(&self, packet_id: PacketId) -> PacketUse {
        PacketUse {
            packet_id,
            connection_clock: self.clock,
            message: None,
            message_clock: None,
        }
    }

    pub(super) fn id_mut(&mut self, packet_id: PacketId) -> &mut UsedId {
        self.ids.entry(packet_id).or_default()
    }

    pub(super) fn stage(&self, packet_id: PacketId) -> Stage {
        self.ids.get(&packet_id).map_or(Stage::Untouched, |id| id.stage)
    }

    /// Entry of a packet id that counts.
    pub(super) fn counting(&self, packet_id: PacketId) -> Option<UseEntry> {
        let entries = self.ids.get(&packet_id).map(|id| id.entries.values().copied());
        counting_uses(entries.into_iter().flatten()).remove(&packet_id)
    }

    /// This connection has freed the id, and no message has used it since.
    pub(super) fn has_freed(&self, packet_id: PacketId) -> bool {
        let counting = self.counting(packet_id).map(|entry| entry.packet_use);
        counting == Some(self.use_by_none(packet_id))
    }
}

impl UsedId {
    /// Events of the entries that a new one replaces.
    pub(super) fn replace(&mut self) -> Vec<Dot> {
        std::mem::take(&mut self.entries).into_keys().collect()
    }
}
