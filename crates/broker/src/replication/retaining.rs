//! Retaining: writes of topics go to the plane, and what topics retain then is what filters are searched in.
//!
//! A message that expires is removed by the primary owner of the map, for all nodes. Until then nobody gets it any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::session_plane::Hlc;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::records::topic_value::Told;
use mqtt::retained::Edition;
use protocol::{ReasonCode, Text, TopicName};
use session_plane::plane::{RetainedEntry, TopicWrite};
use session_plane::{ClientId, Dot, Run, Slot};
use session_values::{TopicBytes, Value};

use super::frames::Cause;
use super::{ReplicatedEvent, Replication};
use crate::node::{Action, Node};

/// Expired messages that are removed in one step.
const REMOVED_MAX: usize = 256;

/// What a write of a topic has come to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetainOutcome {
    /// Reason for the publisher.
    pub(crate) reason: ReasonCode,
    /// Event that is to be durable first.
    pub(crate) event: Option<ReplicatedEvent>,
}

/// Too much is not durable, or the run has ended. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom;

/// What is known of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSeen {
    /// Write that counts.
    pub edition: Edition,
    /// What the topic retains. None where it is cleared.
    pub message: Option<Arc<Message>>,
}

/// What a topic retains, as the copy has it.
struct TopicState {
    dot: Dot,
    edition: Edition,
    /// None where the value is no topic's.
    value: Option<TopicBytes>,
}

impl TopicState {
    fn of(entry: &RetainedEntry<'_, Value>) -> TopicState {
        TopicState {
            dot: entry.dot,
            edition: edition_of(entry.dot, entry.clock),
            value: topic_bytes(entry.value).cloned(),
        }
    }
}

impl RetainOutcome {
    /// Done, with nothing to wait for.
    pub(crate) const DONE: Self = Self {
        reason: ReasonCode::Success,
        event: None,
    };
}

impl Replication {
    /// Topics with a message that has expired can be taken out now.
    pub(super) fn can_remove_expired(&self) -> bool {
        !self.expired.is_empty() && self.is_remover() && !self.is_behind() && !self.is_ended
    }

    /// Looks at a topic that has changed. Gives what it retains.
    fn look_at(&mut self, topic: &ClientId) -> Option<TopicState> {
        self.expired.remove(topic);
        let known = self.plane().retained_topic(topic);
        let is_cleared = known.as_ref().is_some_and(|known| known.entry.is_none());
        let state = known
            .and_then(|known| known.entry)
            .map(|entry| TopicState::of(&entry));
        if is_cleared {
            if self.cleared.insert(topic.clone()) {
                self.cleared_bytes += topic.as_bytes().len() as u64;
            }
        } else if self.cleared.remove(topic) {
            self.cleared_bytes -= topic.as_bytes().len() as u64;
        }
        state
    }
}

impl Node {
    /// Topics for which this node knows something, with the write that counts, and the message unless the topic is cleared; for a simulator
    /// to look at.
    pub fn retained_editions(&self) -> BTreeMap<TopicName, TopicSeen> {
        let plane = self.replication.plane();
        let copy = plane.copy(Slot::RETAINED).into_iter();
        let topics = copy.flat_map(|copy| copy.entries.sessions());
        let messages = self.retained.after(&[]).map(|(_, message)| message);
        let messages: BTreeMap<&str, &Arc<Message>> = messages
            .map(|message| (message.topic.as_str(), message))
            .collect();
        let seen = topics.filter_map(|(topic, entries)| {
            let name = topic_of(topic)?;
            let (id, entry) = entries.iter().max_by_key(|(id, entry)| (entry.clock, id.dot))?;
            let message = messages.get(name.as_str()).copied().cloned();
            let edition = edition_of(id.dot, entry.clock);
            Some((name, TopicSeen { edition, message }))
        });
        seen.collect()
    }

    /// Takes over all topics of the disk, at the start.
    pub(crate) fn begin_retained(&mut self, now: Now) {
        let topics: Vec<ClientId> = {
            let all = self.replication.plane().retained_after(None);
            all.map(|retained| retained.topic.clone()).collect()
        };
        for topic in topics {
            self.take_over_topic_state(now, &topic, Cause::Own);
        }
    }

    /// Whether a topic may get a message of this [size](Message::size): topics that are cleared count until all nodes know that.
    pub(crate) fn has_room_for_topic(&self, topic: &TopicName, size: usize) -> bool {
        let replication = &self.replication;
        if self
            .retained
            .has_room_beside(replication.cleared.len() as u64, size)
        {
            return true;
        }
        let is_new = !self.retained.contains(topic.as_str()) && !replication.cleared.contains(&key(topic));
        let topics = self.retained.len() - self.retained.own_messages() + replication.cleared.len();
        let has_place = !is_new || (topics as u64) < self.config.limits.retained_messages_max;
        has_place && self.retained.check_room(topic.as_str(), size).is_ok()
    }

    /// Retains a message at all nodes; one without payload clears its topic.
    pub(crate) fn retain_everywhere(
        &mut self,
        now: Now,
        message: &Message,
        actions: &mut Vec<Action>,
    ) -> RetainOutcome {
        let topic = key(&message.topic);
        let is_clear = message.payload.is_empty();
        let fits = match is_clear {
            true => self.has_room_to_clear(&topic),
            false => self.has_room_for_topic(&message.topic, message.size()),
        };
        if !fits {
            return self.refuse_to_retain();
        }
        let kept = (!is_clear).then_some(message);
        let value = Value::Topic(TopicBytes::new(&Told::All, None, kept, now));
        let write = match (is_clear, self.replication.is_alone()) {
            (false, _) => TopicWrite::Retain(value),
            (true, true) => TopicWrite::Remove,
            (true, false) if self.is_clear_everywhere(&topic) => TopicWrite::Remove,
            (true, false) => TopicWrite::Clear(value),
        };
        match self.write_topic(now, &topic, write, actions) {
            Ok(event) => RetainOutcome {
                reason: ReasonCode::Success,
                // It may have been cleared a moment ago by somebody who is not answered yet.
                event: event.or_else(|| self.replication.latest_open()),
            },
            Err(NoRoom) => self.refuse_to_retain(),
        }
    }

    fn refuse_to_retain(&mut self) -> RetainOutcome {
        self.counters.dropped.retained_full += 1;
        RetainOutcome {
            reason: ReasonCode::QuotaExceeded,
            event: None,
        }
    }

    /// Nobody has a message of the topic, and nobody is away who could.
    fn is_clear_everywhere(&self, topic: &ClientId) -> bool {
        let replication = &self.replication;
        replication.plane().retained_topic(topic).is_none() && replication.is_whole()
    }

    fn has_room_to_clear(&self, topic: &ClientId) -> bool {
        let replication = &self.replication;
        replication.plane().retained(topic).is_some()
            || replication.cleared.contains(topic)
            || (replication.cleared.len() as u64) < self.config.limits.retained_messages_max
    }

    /// Writes a topic. None where nothing had to be written.
    pub(super) fn write_topic(
        &mut self,
        now: Now,
        topic: &ClientId,
        write: TopicWrite<Value>,
        actions: &mut Vec<Action>,
    ) -> Result<Option<ReplicatedEvent>, NoRoom> {
        if self.replication.is_ended {
            return Err(NoRoom);
        }
        let made = self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.retain(at, topic, write, made)
        });
        let made = made.map_err(|_| NoRoom)?;
        let event = made.map(|made| made.dot.number);
        if let Some(number) = event {
            self.replication.waits.open(number);
        }
        Ok(event.map(ReplicatedEvent))
    }

    /// Takes over what has changed in the copy.
    pub(super) fn take_over_topics(&mut self, now: Now, cause: Cause) {
        for topic in self.replication.sessions.take_retained_changes() {
            self.take_over_topic_state(now, &topic, cause);
        }
    }

    /// Takes over what a topic retains in the copy.
    pub(super) fn take_over_topic_state(&mut self, now: Now, topic: &ClientId, cause: Cause) {
        let Some(state) = self.replication.look_at(topic) else {
            return self.remove_retained_of(topic);
        };
        let value = state.value.map(|value| value.read());
        let message = value
            .as_ref()
            .and_then(|value| value.message(topic.as_bytes(), now));
        let Some(message) = message else {
            self.replication.figures.unread += 1;
            return self.remove_retained_of(topic);
        };
        if message.is_expired(now) {
            self.replication.expired.insert(topic.clone());
            return self.remove_retained_of(topic);
        }
        let message = Arc::new(message.counted(&self.memory.messages));
        let own = self.replication.run;
        if state.dot.run != own && cause == Cause::Event {
            let room = self.retained.check_room(message.topic.as_str(), message.size());
            self.replication.figures.taken += 1;
            self.replication.figures.over_limit += u64::from(room.is_err());
        }
        self.retained.keep(message, Some(state.edition));
    }

    fn remove_retained_of(&mut self, topic: &ClientId) {
        if let Some(topic) = topic_of(topic) {
            self.retained.remove(&topic);
        }
    }

    /// A message has expired here, and is not searched any more.
    pub(crate) fn note_expired(&mut self, topic: &TopicName) {
        self.replication.expired.insert(key(topic));
    }

    /// Removes what has expired, where this node does that.
    pub(super) fn remove_expired(&mut self, now: Now, actions: &mut Vec<Action>) {
        for _ in 0..REMOVED_MAX {
            if !self.replication.can_remove_expired() {
                return;
            }
            let Some(topic) = self.replication.expired.pop_first() else {
                return;
            };
            let entry = self.replication.plane().retained(&topic);
            let message =
                entry.and_then(|entry| topic_bytes(entry.value)?.read().message(topic.as_bytes(), now));
            // The copy may have a later one, which is not over.
            if !message.is_some_and(|message| message.is_expired(now)) {
                continue;
            }
            if self
                .write_topic(now, &topic, TopicWrite::Remove, actions)
                .is_err()
            {
                self.replication.expired.insert(topic);
                return;
            }
        }
    }
}

/// Value of a topic. None where another node has given it another kind of value.
pub(super) fn topic_bytes(value: &Value) -> Option<&TopicBytes> {
    match value {
        Value::Topic(topic) => Some(topic),
        _ => None,
    }
}

/// Write of an event.
fn edition_of(dot: Dot, clock: Hlc) -> Edition {
    let Run { node, incarnation } = dot.run;
    Edition {
        at: clock,
        node,
        incarnation,
    }
}

/// Topic with this key. None where no topic has it.
pub(super) fn topic_of(key: &ClientId) -> Option<TopicName> {
    let text = Text::new(std::str::from_utf8(key.as_bytes()).ok()?).ok()?;
    TopicName::parse(text).ok()
}

/// Key of a topic in the plane.
pub(super) fn key(topic: &TopicName) -> ClientId {
    ClientId::new(topic.as_str().as_bytes()).expect("a topic has at most 65,535 bytes")
}
