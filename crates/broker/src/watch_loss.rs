//! Connections that miss a change of a key that they watch, and end for it.
//!
//! Each change is sent once, or the client knows that it has missed one. A notification that cannot be kept therefore ends
//! the connection, and with it what it watches: the client registers again and reads its keys, as after a lost connection.
//! The same goes for a connection that watches keys of a group that nobody leads.
//!
//! A connection ends when the step ends: notifications come in the midst of others' deliveries.

use cluster::GroupId;
use mqtt::connection::Connection;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::limits::NOTIFICATIONS_MAX;
use mqtt::now::Now;
use mqtt::outbox::DropCause;
use protocol::ReasonCode;

use crate::node::{Action, Node};

const _: () = assert!(
    NOTIFICATIONS_MAX == store::WATCHES_PER_WATCHER_MAX,
    "a session's queue has room for one notification of each key that its connection may watch"
);

/// Why a connection misses changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchLoss {
    /// As many notifications wait as may.
    Messages,
    /// The notifications that wait have as many bytes as they may.
    Bytes,
    /// A notification is larger than the client's Maximum Packet Size.
    PacketSize,
    /// Nobody has led the group of a key for longer than an election takes.
    Leaderless,
}

impl WatchLoss {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [Self::Messages, Self::Bytes, Self::PacketSize, Self::Leaderless];

    /// Name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Bytes => "bytes",
            Self::PacketSize => "packet_size",
            Self::Leaderless => "no_leader",
        }
    }

    fn of(cause: DropCause) -> Self {
        match cause {
            DropCause::QueueBytes => Self::Bytes,
            DropCause::QueueMessages
            | DropCause::Expired
            | DropCause::Offline
            | DropCause::NotAuthorized
            | DropCause::WatchEnded => Self::Messages,
        }
    }

    /// DISCONNECT that tells the client. Server busy stands for a missing leader: Server unavailable is of CONNACK alone.
    fn refusal(self) -> (ReasonCode, &'static str) {
        match self {
            Self::Messages => (
                ReasonCode::QuotaExceeded,
                "a change of a watched key was missed: too many notifications wait for the client",
            ),
            Self::Bytes => (
                ReasonCode::QuotaExceeded,
                "a change of a watched key was missed: the notifications that wait are too large together",
            ),
            Self::PacketSize => (
                ReasonCode::PacketTooLarge,
                "a change of a watched key was missed: it is larger than the client's Maximum Packet Size",
            ),
            Self::Leaderless => (
                ReasonCode::ServerBusy,
                "changes of watched keys may be missed: no node leads them",
            ),
        }
    }
}

impl Node {
    /// Remembers that a session was not given a notification.
    pub(crate) fn miss_notification(&mut self, key: SessionKey, cause: DropCause) {
        self.miss_change(key, WatchLoss::of(cause));
    }

    /// Remembers that the connection of a session misses a change, if it watches any key.
    pub(crate) fn miss_change(&mut self, key: SessionKey, loss: WatchLoss) {
        let id = self.sessions.get(key).map(|entry| entry.connection);
        let connection = id.and_then(|id| self.connections.get(id));
        if let Some(connection) = connection.filter(|connection| connection.has_watches) {
            self.missed.entry(connection.id).or_insert(loss);
        }
    }

    /// Remembers the connections that watch keys of a group which nobody leads.
    pub(crate) fn miss_leader(&mut self, group: GroupId) {
        for id in self.groups.watching(group) {
            self.missed
                .entry(ConnectionId(id))
                .or_insert(WatchLoss::Leaderless);
        }
    }

    /// Ends the connections that have missed a change. What waits for them of other changes goes with their registrations.
    pub(crate) fn end_watchers(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let Some((id, loss)) = self.missed.pop_first() {
            let Some(key) = self.connections.get(id).and_then(Connection::session) else {
                continue;
            };
            let mut dropped = Vec::new();
            if let Some(entry) = self.sessions.get_mut(key) {
                entry.outbox.drop_notifications(&mut dropped);
                self.count_dropped(&dropped);
            }
            self.counters.watchers_ended[loss as usize] += 1;
            let (reason, why) = loss.refusal();
            self.disconnect(now, id, reason, why, actions);
        }
    }
}
