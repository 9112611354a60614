//! Retained messages: the last one of each topic that had the RETAIN flag.
//!
//! Kept in the order of their topics' levels, so that the messages under a level are neighbours: a filter is answered
//! by looking up, again and again, the first topic that can still match, and what lies between is not touched.

mod edition;
mod key;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Instant;

use protocol::{TopicFilter, TopicName};

pub use self::edition::Edition;
use self::key::Key;
use crate::limits::Limits;
use crate::memory::footprint::{block, tree_entry};
use crate::message::Message;
use crate::now::Now;

/// All retained messages of a node, bounded in messages and bytes.
#[derive(Debug)]
pub struct Retained {
    messages: BTreeMap<Key, Kept>,
    /// What the next one gets.
    next_number: u64,
    /// Those that will expire.
    expiring: BTreeSet<(Instant, Key)>,
    bytes: u64,
    /// Bytes of the topics of messages that came with an edition.
    topic_bytes: u64,
    /// Of these, what the server says of itself. No limit counts it.
    own: Own,
    /// What the messages count for in the account of memory.
    held: u64,
    /// Memory of their places in the order of topics and of expiry.
    places: u64,
    messages_max: u64,
    bytes_max: u64,
}

/// How much the server has to say of itself.
#[derive(Debug, Default)]
struct Own {
    messages: usize,
    bytes: u64,
}

/// A retained message.
#[derive(Debug, Clone)]
struct Kept {
    message: Arc<Message>,
    /// They rise with each message that is set.
    number: u64,
    /// Which write it came with, where nodes of a cluster tell each other.
    edition: Option<Edition>,
    /// The server says it of itself.
    is_own: bool,
}

/// A search for the messages of a filter that were retained when it began.
#[derive(Debug)]
pub struct Search {
    filter: TopicFilter,
    /// Everything before it was found. Empty: at the beginning.
    place: Vec<u8>,
    /// Messages from this number on came later.
    before: u64,
}

/// A message is not retained, because a limit is reached. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RetainedFull {
    /// [`Limits::retained_messages_max`].
    #[error("there are {limit} retained messages, the most allowed")]
    Messages {
        /// The most allowed.
        limit: u64,
    },
    /// [`Limits::retained_bytes_max`].
    #[error("retained messages have {limit} bytes, the most allowed")]
    Bytes {
        /// The most allowed.
        limit: u64,
    },
}

impl Retained {
    /// No message.
    pub fn new(limits: &Limits) -> Self {
        Self {
            messages: BTreeMap::new(),
            next_number: 0,
            expiring: BTreeSet::new(),
            bytes: 0,
            topic_bytes: 0,
            own: Own::default(),
            held: 0,
            places: 0,
            messages_max: limits.retained_messages_max,
            bytes_max: limits.retained_bytes_max,
        }
    }

    /// Makes `message` the retained message of its topic, and returns the one it replaces. [MQTT-3.3.1-5]
    ///
    /// A message without payload means that there shall be none: [`Retained::remove`]. [MQTT-3.3.1-6] The message should be
    /// [detached](Message::detached), since it is kept for long.
    pub fn set(&mut self, message: Arc<Message>) -> Result<Option<Arc<Message>>, RetainedFull> {
        self.check_room(message.topic.as_str(), message.size())?;
        Ok(self.keep(message, None))
    }

    /// The same, whatever the limits say: of what is on the disk already, limits that were lowered since delete nothing, and what another node
    /// has acknowledged is kept here, too.
    pub fn keep(&mut self, message: Arc<Message>, edition: Option<Edition>) -> Option<Arc<Message>> {
        self.insert(message, edition, false)
    }

    /// The same of what the server says of itself, which no limit counts: clients have as much room as the limits say.
    pub fn keep_own(&mut self, message: Arc<Message>) -> Option<Arc<Message>> {
        self.insert(message, None, true)
    }

    fn insert(
        &mut self,
        message: Arc<Message>,
        edition: Option<Edition>,
        is_own: bool,
    ) -> Option<Arc<Message>> {
        let key = Key::of(message.topic.as_str());
        let number = self.next_number;
        self.next_number += 1;
        let kept = Kept {
            message,
            number,
            edition,
            is_own,
        };
        let Some(place) = self.messages.get_mut(&key) else {
            self.count_in(&key, &kept);
            self.messages.insert(key, kept);
            return None;
        };
        let replaced = std::mem::replace(place, kept.clone());
        self.count_out(&key, &replaced);
        self.count_in(&key, &kept);
        Some(replaced.message)
    }

    /// Whether [`Retained::set`] would find room for a message of this [size](Message::size).
    pub fn check_room(&self, topic: &str, size: usize) -> Result<(), RetainedFull> {
        let replaced = self.messages.get(&Key::of(topic)).filter(|kept| !kept.is_own);
        if replaced.is_none() && self.counted_messages() >= self.messages_max {
            return Err(RetainedFull::Messages {
                limit: self.messages_max,
            });
        }
        let counted = self.counted_bytes();
        let bytes_after = counted - replaced.map_or(0, |replaced| bytes(&replaced.message)) + size as u64;
        if bytes_after > self.bytes_max && bytes_after > counted {
            return Err(RetainedFull::Bytes {
                limit: self.bytes_max,
            });
        }
        Ok(())
    }

    /// Whether there would be room for a message of this size, even if there were so many topics more. No topic is looked for.
    pub fn has_room_beside(&self, more: u64, size: usize) -> bool {
        let bytes = self.counted_bytes() + size as u64;
        self.counted_messages() + more < self.messages_max && bytes <= self.bytes_max
    }

    /// Messages that the limit counts: those of clients.
    fn counted_messages(&self) -> u64 {
        (self.messages.len() - self.own.messages) as u64
    }

    fn counted_bytes(&self) -> u64 {
        self.bytes - self.own.bytes
    }

    /// Whether there is a message of a topic, expired or not.
    pub fn contains(&self, topic: &str) -> bool {
        self.messages.contains_key(&Key::of(topic))
    }

    /// Whether keeping `message` would need more bytes than what there is for its topic.
    pub fn would_grow(&self, message: &Message) -> bool {
        if !message.retain || message.payload.is_empty() {
            return false;
        }
        let replaced = self.messages.get(&Key::of(message.topic.as_str()));
        replaced.is_none_or(|replaced| replaced.message.size() < message.size())
    }

    /// Removes the retained message of a topic. [MQTT-3.3.1-6]
    pub fn remove(&mut self, topic: &TopicName) -> Option<Arc<Message>> {
        self.take(&Key::of(topic.as_str())).map(|kept| kept.message)
    }

    /// Begins a search for the messages that match a filter. What is set after this moment is not among them.
    pub fn search(&self, filter: &TopicFilter) -> Search {
        self.search_from(filter, Vec::new())
    }

    /// Goes on with a search of which only the [place](Search::place) is known.
    pub fn search_from(&self, filter: &TopicFilter, place: Vec<u8>) -> Search {
        Search {
            filter: filter.clone(),
            place,
            before: self.next_number,
        }
    }

    /// Visits the next messages that have not expired, in the order of their topics, until the visitor breaks off, which leaves that
    /// message for the next time, or so many topics were looked at. True if there can be no more; with how many topics were looked at.
    pub fn go_on(
        &self,
        now: Now,
        search: &mut Search,
        lookups_max: usize,
        visit: &mut impl FnMut(&Arc<Message>) -> ControlFlow<()>,
    ) -> (bool, u64) {
        let Search {
            filter,
            place,
            before,
        } = search;
        search::matching(&self.messages, filter, place, lookups_max, &mut |kept| {
            if kept.number >= *before || kept.message.is_expired(now) {
                return ControlFlow::Continue(());
            }
            visit(&kept.message)
        })
    }

    /// The retained message of a topic.
    pub fn get(&self, topic: &str, now: Now) -> Option<&Arc<Message>> {
        self.messages
            .get(&Key::of(topic))
            .map(|kept| &kept.message)
            .filter(|message| !message.is_expired(now))
    }

    /// Which write the message of a topic came with, also if it has expired.
    pub fn edition(&self, topic: &str) -> Option<Edition> {
        self.messages.get(&Key::of(topic))?.edition
    }

    /// All behind a place in the order of topics, expired ones included; with the place of each.
    pub fn after(&self, place: &[u8]) -> impl Iterator<Item = (&[u8], &Arc<Message>)> {
        let range = (Bound::Excluded(place), Bound::Unbounded);
        let all = self.messages.range::<[u8], _>(range);
        all.map(|(key, kept)| (key.as_bytes(), &kept.message))
    }

    /// Takes out a message that has expired. Called until there is none. (section 3.3.2.3.3)
    pub fn pop_expired(&mut self, now: Now) -> Option<(Arc<Message>, Option<Edition>)> {
        let (at, key) = self.expiring.first()?;
        if *at > now.instant {
            return None;
        }
        let key = key.clone();
        self.take(&key).map(|kept| (kept.message, kept.edition))
    }

    /// When the next message expires.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.expiring.first().map(|(at, _)| *at)
    }

    /// How many messages there are, expired ones that were not taken out included.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// How many bytes they count for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the topics of messages that came with an edition.
    pub fn topic_bytes(&self) -> u64 {
        self.topic_bytes
    }

    /// Number of messages that the server says of itself.
    pub fn own_messages(&self) -> usize {
        self.own.messages
    }

    /// Bytes of these, in payloads and topics.
    pub fn own_bytes(&self) -> u64 {
        self.own.bytes
    }

    /// What the messages count for in the account of memory.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The memory of their places.
    pub fn places(&self) -> u64 {
        self.places
    }

    fn take(&mut self, key: &Key) -> Option<Kept> {
        let kept = self.messages.remove(key)?;
        self.count_out(key, &kept);
        Some(kept)
    }

    /// Counts a message that comes.
    fn count_in(&mut self, key: &Key, kept: &Kept) {
        self.bytes += bytes(&kept.message);
        if kept.is_own {
            self.own.messages += 1;
            self.own.bytes += bytes(&kept.message);
        }
        self.held += kept.message.held.bytes();
        self.places += place_bytes(key.as_bytes().len(), &kept.message);
        if kept.edition.is_some() {
            self.topic_bytes += kept.message.topic.as_str().len() as u64;
        }
        if let Some(at) = kept.message.expires_at {
            self.expiring.insert((at, key.clone()));
        }
    }

    /// Counts a message that goes.
    fn count_out(&mut self, key: &Key, kept: &Kept) {
        self.bytes -= bytes(&kept.message);
        if kept.is_own {
            self.own.messages -= 1;
            self.own.bytes -= bytes(&kept.message);
        }
        self.held -= kept.message.held.bytes();
        self.places -= place_bytes(key.as_bytes().len(), &kept.message);
        if kept.edition.is_some() {
            self.topic_bytes -= kept.message.topic.as_str().len() as u64;
        }
        if let Some(at) = kept.message.expires_at {
            self.expiring.remove(&(at, key.clone()));
        }
    }
}

impl Search {
    /// Where it is: what it found lies before.
    pub fn place(&self) -> &[u8] {
        &self.place
    }
}

/// The memory of a message's place in the order of topics, and in that of expiry if it expires.
fn place_bytes(key: usize, message: &Message) -> u64 {
    let place = block(key) + tree_entry::<Key, Kept>();
    let expiring = block(key) + tree_entry::<(Instant, Key), ()>();
    place + message.expires_at.map_or(0, |_| expiring)
}

fn bytes(message: &Message) -> u64 {
    message.size() as u64
}

#[cfg(test)]
mod tests;
