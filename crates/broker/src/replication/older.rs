//! Topics of an older data directory, which had them without a plane.
//!
//! They are served from the start, and are written into the plane once all nodes of the cluster are present: each of them may have a later
//! one. Of two that were taken over the later edition counts, and what was written since counts before both.

use std::collections::BTreeMap;

use mqtt::now::Now;
use mqtt::records;
use mqtt::records::topic_value::Told;
use mqtt::retained::Edition;
use protocol::TopicName;
use session_plane::plane::TopicWrite;
use session_plane::{ClientId, Slot};
use session_values::{TopicBytes, Value};

use super::frames::Cause;
use super::retaining::{key, topic_bytes, topic_of};
use super::{OlderSessions, Replication};
use crate::node::{Action, Node};

/// Topics that are taken over in one step.
const TAKEN_OVER_MAX: usize = 256;

/// What an older data directory has.
#[derive(Debug, Default)]
pub(crate) struct Older {
    pub(crate) topics: OlderTopics,
    pub(crate) sessions: OlderSessions,
}

/// Topics of an older data directory, with the write that each came with. Their messages are among those that are searched.
#[derive(Debug, Default)]
pub(crate) struct OlderTopics(BTreeMap<ClientId, Edition>);

impl OlderTopics {
    /// Adds a topic.
    pub(crate) fn insert(&mut self, topic: &TopicName, edition: Edition) {
        self.0.insert(key(topic), edition);
    }
}

impl Replication {
    /// Topics of an older directory can be taken over now.
    pub(super) fn can_take_over_older(&self) -> bool {
        !self.older.topics.0.is_empty() && self.is_whole() && !self.is_behind()
    }

    /// Sessions of an older directory wait to be taken over.
    pub(crate) fn has_older_sessions(&self) -> bool {
        !self.older.sessions.is_empty()
    }

    /// What is known of a topic is from before this edition, or there is nothing.
    fn lacks(&self, topic: &ClientId, edition: Edition) -> bool {
        let copy = self.plane().copy(Slot::RETAINED);
        let entries = copy.and_then(|copy| copy.entries.session(topic.as_bytes()));
        let mut values = entries.into_iter().flat_map(|entries| entries.iter());
        values.all(|(_, entry)| {
            let known = topic_bytes(&entry.value).and_then(|topic| topic.read().taken_over);
            known.is_some_and(|known| known < edition)
        })
    }
}

impl Node {
    /// Takes over some topics, if all nodes are present.
    pub(super) fn take_over_older(&mut self, now: Now, actions: &mut Vec<Action>) {
        for _ in 0..TAKEN_OVER_MAX {
            if !self.replication.can_take_over_older() {
                return;
            }
            let Some((topic, edition)) = self.replication.older.topics.0.pop_first() else {
                return;
            };
            if !self.take_over_topic(now, &topic, edition, actions) {
                self.replication.older.topics.0.insert(topic, edition);
                return;
            }
        }
    }

    /// False where it finds no room: it is tried again.
    fn take_over_topic(
        &mut self,
        now: Now,
        at: &ClientId,
        edition: Edition,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(topic) = topic_of(at) else { return true };
        if self.replication.lacks(at, edition) {
            let message = self.retained.get(topic.as_str(), now).cloned();
            let value = Value::Topic(TopicBytes::new(
                &Told::All,
                Some(edition),
                message.as_deref(),
                now,
            ));
            let write = match message {
                Some(_) => TopicWrite::Retain(value),
                None if self.replication.is_alone() => TopicWrite::Remove,
                None => TopicWrite::Clear(value),
            };
            if self.write_topic(now, at, write, actions).is_err() {
                return false;
            }
        }
        self.commits.write(records::retained::remove(&topic));
        self.take_over_topic_state(now, at, Cause::Own);
        true
    }
}
