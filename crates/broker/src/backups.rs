//! What a backup has of a node, and how it comes back.
//!
//! Sessions and retained messages are looked at in pieces, as everything that is shown of a node (`inspection.rs`): each session and each
//! message is as of one moment, and those of different pieces are of different moments. Keys come as an image of each group. All of it is in
//! the forms in which it lies on disk, which have versions.
//!
//! What comes back takes the ways of everything new: keys through the log, retained messages as a publication, sessions as sessions that have
//! just begun. Nothing takes the place of what is there already and as new; so it does no harm to put the same back twice.

mod carried;
mod restoring;
mod sessions;

use bytes::Bytes;
use cluster::replica::record::LogPoint;
use cluster::write::Write;
use mqtt::now::Now;
use mqtt::records;
use protocol::Text;
use state_service::StateStoreService;
use store::{KeyRecord, Version};

pub use self::carried::{CarriedDelivery, CarriedSession, CarriedSubscription};
pub(crate) use self::restoring::Restorations;
use crate::inspection::{LOOKED_AT_MAX, Piece};
use crate::node::Node;

/// Bytes of a piece, unless one session or message has more.
pub const PIECE_BYTES: usize = 256 << 10;

/// Something of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// Keys that a group makes from here on are to get versions greater than this.
    Floor(Version),
    /// A key.
    Key(KeyRecord),
    /// A retained message.
    Retained(RetainedItem),
    /// A session.
    Session(SessionItem),
}

/// A retained message as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedItem {
    /// Its topic.
    pub topic: Bytes,
    /// The record.
    pub value: Bytes,
}

/// A session as it is on disk, without its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionItem {
    /// Whose.
    pub client_id: Text,
    /// Its record.
    pub record: Bytes,
    /// The records that go with it.
    pub parts: Vec<SessionPart>,
}

/// A record that goes with a session: the end of its key, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionPart {
    /// A subscription.
    Subscription(Bytes, Bytes),
    /// The packet identifier of a QoS 2 message that was received and is not released.
    Received(Bytes),
    /// A message that waits, or was sent and is not acknowledged.
    Delivery(Bytes, Bytes),
}

/// What became of items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// They are back.
    pub restored: u64,
    /// There is something as new in their place, and stays.
    pub there: u64,
    /// Their time is over.
    pub over: u64,
    /// There is no room for them.
    pub refused: u64,
    /// They cannot be read: a newer version of this program has written them, or nobody has.
    pub unreadable: u64,
    /// Nobody could decide in time; they are to be put back again.
    pub in_doubt: u64,
}

/// How much there is at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Groups of the state store.
    pub groups: u32,
    /// Keys in all of them, as far as this node knows.
    pub keys: u64,
    /// Retained messages, without those of the server itself.
    pub retained: u64,
    /// Durable sessions.
    pub sessions: u64,
    /// End of this node's log of each group; `None`: the node has no copy of the group's store.
    pub log_ends: Vec<Option<LogPoint>>,
}

impl SessionItem {
    /// How many bytes its records have.
    pub fn size(&self) -> usize {
        let parts = self.parts.iter().map(SessionPart::size).sum::<usize>();
        self.client_id.len() + self.record.len() + parts
    }
}

impl SessionPart {
    fn size(&self) -> usize {
        match self {
            Self::Subscription(key, value) | Self::Delivery(key, value) => key.len() + value.len(),
            Self::Received(key) => key.len(),
        }
    }
}

impl Node {
    /// How much there is here. Looks at everything: it is for nobody who asks often.
    pub fn contents(&self) -> Contents {
        let retained = self.retained.after(&[]);
        let retained = retained.filter(|(_, message)| !is_own(message.topic.as_str()));
        Contents {
            groups: self.groups.count(),
            keys: self.groups.usage().keys,
            retained: retained.count() as u64,
            sessions: self.replication.sessions_len() as u64,
            log_ends: self.groups.iter().map(StateStoreService::own_copy_end).collect(),
        }
    }

    /// A piece of the sessions of which this node is the primary owner, behind this client id.
    pub fn sessions_for_backup(&self, now: Now, after: &str) -> Piece<SessionItem, String> {
        let (mut found, mut bytes, mut next) = (Vec::new(), 0, None);
        let total = self.replication.sessions_len();
        let clients = self.clients_after(after, LOOKED_AT_MAX + 1);
        for (looked_at, client) in clients.iter().enumerate() {
            if looked_at >= LOOKED_AT_MAX || bytes >= PIECE_BYTES {
                return Piece { found, next, total };
            }
            if let Some(item) = self.session_for_backup(now, client) {
                bytes += item.size();
                found.push(item);
            }
            next = Some(client.to_string());
        }
        Piece {
            found,
            next: None,
            total,
        }
    }

    /// A piece of the retained messages, behind this place.
    pub fn retained_for_backup(&self, now: Now, after: &[u8]) -> Piece<RetainedItem, Vec<u8>> {
        let (mut found, mut bytes, mut next) = (Vec::new(), 0, None);
        for (looked_at, (place, message)) in self.retained.after(after).enumerate() {
            if bytes < PIECE_BYTES && looked_at < LOOKED_AT_MAX {
                next = Some(place);
            } else {
                return Piece {
                    found,
                    next: next.map(<[u8]>::to_vec),
                    total: self.retained.len(),
                };
            }
            if message.is_expired(now) || is_own(message.topic.as_str()) {
                continue;
            }
            if let Write::Put { key, value, .. } = records::retained::put(message, now) {
                bytes += key.len() + value.len();
                let topic = key;
                found.push(RetainedItem { topic, value });
            }
        }
        Piece {
            found,
            next: None,
            total: self.retained.len(),
        }
    }
}

/// What the server says of itself comes back by itself.
fn is_own(topic: &str) -> bool {
    mqtt::policies::is_below_sys(topic)
}
