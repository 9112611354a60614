//! Use of a packet id: what the entry of a client's packet id says, and which of several counts.
//!
//! A packet id has one entry while all nodes see each other. After a split it may have several: one
//! for each side on which the client has used it.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use cluster::session_plane::Hlc;

use crate::Dot;

/// Packet id of a PUBLISH, as its sender has chosen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketId(pub NonZeroU16);

/// Identity of a message's topic, properties and payload: a hash that no two contents share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentId(pub u128);

/// Message with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NumberedMessage {
    /// QoS 2 number, under which every node routes the message.
    pub number: Dot,
    /// Content of the message.
    pub content: ContentId,
}

/// Use of a packet id: the value of an entry of [`EntryKind::Received`](crate::EntryKind::Received).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketUse {
    /// The packet id.
    pub packet_id: PacketId,
    /// Clock of the session's entry that the CONNECT of the using connection has written.
    pub connection_clock: Hlc,
    /// Message that uses the packet id. None after PUBREL: the id is free.
    pub message: Option<NumberedMessage>,
    /// Clock of the message, where an earlier entry has named its number. None: that of this entry.
    pub message_clock: Option<Hlc>,
}

/// Entry of a packet id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UseEntry {
    /// Event that made the entry.
    pub dot: Dot,
    /// Clock of that event.
    pub clock: Hlc,
    /// Value of the entry.
    pub packet_use: PacketUse,
}

/// Order of entries of one packet id; the last one counts (rule `later-connection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Precedence {
    connection_clock: Hlc,
    clock: Hlc,
    dot: Dot,
}

impl UseEntry {
    /// Clock of the message, whoever routes it and when.
    pub fn message_clock(&self) -> Hlc {
        self.packet_use.message_clock.unwrap_or(self.clock)
    }

    pub(super) fn precedence(&self) -> Precedence {
        Precedence {
            connection_clock: self.packet_use.connection_clock,
            clock: self.clock,
            dot: self.dot,
        }
    }
}

/// Of each packet id of one client the entry that counts, whether the id is in use or free.
///
/// `entries` are those of the client that count by themselves
/// ([`SessionEntries::live`](crate::SessionEntries::live)). A number that no such entry names is no
/// packet id's any more (rule `fill-from-received`).
pub fn counting_uses(entries: impl IntoIterator<Item = UseEntry>) -> BTreeMap<PacketId, UseEntry> {
    let mut counting: BTreeMap<PacketId, UseEntry> = BTreeMap::new();
    for entry in entries {
        let known = counting.entry(entry.packet_use.packet_id).or_insert(entry);
        if known.precedence() < entry.precedence() {
            *known = entry;
        }
    }
    counting
}
