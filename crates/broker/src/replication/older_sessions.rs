//! Sessions of a data directory whose sessions were not upon the session plane.
//!
//! They become sessions of the plane before the first client is let in. A message that was published meanwhile would miss
//! them. Their old records go in the batch of what takes their place.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::write::Keyspace;
use mqtt::ids::SessionNumber;
use mqtt::now::Now;
use mqtt::records::{self, RecordError};
use protocol::Text;

use crate::backups::{SessionItem, SessionPart};
use crate::carried_sessions::Carried;
use crate::node::{Action, Node};

/// Sessions of an older data directory.
#[derive(Debug, Default)]
pub(crate) struct OlderSessions {
    sessions: BTreeMap<SessionNumber, SessionItem>,
}

/// Bytes of the number with which the key of a session's record begins.
const NUMBER_BYTES: usize = 8;

impl OlderSessions {
    /// Takes a record. Those of a session come before what goes with it.
    pub(crate) fn record(&mut self, keyspace: Keyspace, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        if keyspace == Keyspace::Sessions {
            let (client_id, record) = records::session::decode(key, value.clone())?;
            let item = SessionItem {
                client_id,
                record: value,
                parts: Vec::new(),
            };
            self.sessions.insert(record.number, item);
            return Ok(());
        }
        let Some((number, suffix)) = key.split_first_chunk::<NUMBER_BYTES>() else {
            return Ok(());
        };
        let (number, suffix) = (u64::from_be_bytes(*number), Bytes::copy_from_slice(suffix));
        if let Some(item) = self.sessions.get_mut(&SessionNumber(number)) {
            item.parts.push(match keyspace {
                Keyspace::Subscriptions => SessionPart::Subscription(suffix, value),
                Keyspace::Queue => SessionPart::Delivery(suffix, value),
                _ => SessionPart::Received(suffix),
            });
        }
        Ok(())
    }

    /// Sessions wait to be taken over: no client is let in.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Client of the first session.
    pub(crate) fn first(&self) -> Option<&Text> {
        self.sessions.values().next().map(|item| &item.client_id)
    }
}

impl Node {
    /// Takes over sessions, as long as what is written finds room.
    pub(crate) fn take_over_older_sessions(&mut self, now: Now, actions: &mut Vec<Action>) {
        while !self.replication.is_behind()
            && let Some((number, item)) = self.replication.older.sessions.sessions.pop_first()
        {
            let kept = item.clone();
            match self.carry_session(now, item, actions) {
                Ok(Carried::HasNoRoom) => {
                    self.replication.older.sessions.sessions.insert(number, kept);
                    return;
                }
                Ok(Carried::PutIn(_) | Carried::IsThere | Carried::IsOver) => {
                    self.commits.write(records::session::remove(&kept.client_id));
                    for write in records::remove_all(number) {
                        self.commits.write(write);
                    }
                }
                // It was read when the directory was, and its parts are not: what is damaged stays on the disk.
                Err(_) => {}
            }
        }
    }
}
