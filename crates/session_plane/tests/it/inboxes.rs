//! Inboxes: what is on its way over the connections of clients, in both directions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use session_plane::Dot;
use session_plane::delivering::{DeliveryAnswer, Published};
use session_plane::publishing::PacketId;

use super::machine::Value;

/// Something that the nodes of a side know.
#[derive(Debug, Clone)]
pub(super) struct Finished {
    pub(super) side: BTreeSet<u64>,
    pub(super) at: u64,
}

/// Packet on its way to a client.
#[derive(Debug)]
pub(super) enum Packet {
    Publish(Published<Value>, Finished),
    Pubrel(PacketId, Finished),
    /// PUBLISH with QoS 1 of a message that is not stored.
    Unstored(PacketId),
}

/// Answer on its way to a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) packet_id: PacketId,
    pub(super) answer: DeliveryAnswer,
}

/// PUBLISH that was not acknowledged to its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unanswered {
    pub(super) message: Dot,
    pub(super) value: Value,
}

/// Connection that brings packets.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) receive_maximum: usize,
    pub(super) packets: VecDeque<Packet>,
    pub(super) answers: VecDeque<Answer>,
    pub(super) unanswered: BTreeMap<PacketId, Unanswered>,
    /// Packet ids of messages that are not stored.
    pub(super) unstored: BTreeSet<PacketId>,
    /// Messages of the queue that were sent.
    pub(super) sent: BTreeSet<Dot>,
}

impl Inbox {
    /// As many PUBLISH packets are not acknowledged as may.
    pub(super) fn is_full(&self) -> bool {
        self.unanswered.len() + self.unstored.len() >= self.receive_maximum
    }

    /// Inbox of a connection that begins.
    pub(super) fn new(receive_maximum: u16) -> Inbox {
        Inbox {
            receive_maximum: receive_maximum.into(),
            packets: VecDeque::new(),
            answers: VecDeque::new(),
            unanswered: BTreeMap::new(),
            unstored: BTreeSet::new(),
            sent: BTreeSet::new(),
        }
    }
}
