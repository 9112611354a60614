//! Retaining: messages that topics keep, in a map that every node owns.
//!
//! ```text
//!   node: retain                 retained, retained_after, take_retained_changes
//!      |                                           ^
//!      v        event of Slot::RETAINED            |
//!   Plane --------------------------> copy of this node and of all others
//! ```
//!
//! The topic stands in the place of the client id. A write is one event. It removes messages of the topic
//! that its node's copy has, and adds a message, a clear or nothing. Only a clear removes clears. Of all
//! entries of a topic the latest by (clock, dot) is read, and a clear is read as nothing. So copies that are
//! equal give equal answers, in whatever order they came by their entries.
//!
//! A node may lack a message that a client has retained at another one. The clear that the client makes
//! there removes nothing, and is later: what comes with the heal is not read. Once all members know the
//! clear it is garbage, and so is each earlier entry of the topic (rule `known-to-all`).
//!
//! *Invariants*: a message is later than the clears that its node's copy has of the topic. A topic whose entries
//! in this node's copy have changed is among the changes until they are taken.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::{Matching, NewBirth, NewChange, NewEntry, Now, Plane, PlaneAction, PlaneValue};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, EntryKind, Fact, MadeEvent, SessionEntries, Slot, SlotSet};

/// Write of what a topic retains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicWrite<V> {
    /// Retains a message. It removes the messages that this node's copy has.
    Retain(V),
    /// Clears the topic: no earlier message is read, whether or not this node's copy has it. It removes
    /// all that this node's copy has. Nobody reads the value.
    Clear(V),
    /// Removes the messages that this node's copy has, and adds nothing: for what has expired. What this
    /// node's copy lacks stays, be it earlier or later.
    Remove,
}

/// Message that a topic retains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedEntry<'a, V> {
    /// Event that made the entry.
    pub dot: Dot,
    /// Clock of that event.
    pub clock: Hlc,
    /// Meaning of the entry to the node.
    pub value: &'a V,
}

/// Topic that has entries, with the message that it retains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedTopic<'a, V> {
    /// The topic.
    pub topic: &'a ClientId,
    /// The message. None where the topic is cleared, and not every member knows that yet.
    pub entry: Option<RetainedEntry<'a, V>>,
}

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Writes what a topic retains at every node. [`TopicWrite::Remove`] makes no event where the topic
    /// retains nothing: None. Any other write makes one.
    ///
    /// [`PlaneAction::Durable`] reports the event once all present nodes have it on their disks. What
    /// another node writes at the same time, or on another side of a split, is not removed: the latest
    /// by (clock, dot) is read.
    ///
    /// Nothing expires here, and topics have no limit here: the node knows what a value says of that, and
    /// refuses what is too much before. The primary owner ([`Plane::is_primary`] of [`Slot::RETAINED`])
    /// removes what has expired, for all nodes.
    ///
    /// # Errors
    ///
    /// [`StreamFull`] where too much is not durable: the publisher waits.
    pub fn retain(
        &mut self,
        now: Now,
        topic: &ClientId,
        write: TopicWrite<V>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<Option<MadeEvent>, StreamFull> {
        if matches!(write, TopicWrite::Remove) && self.retained(topic).is_none() {
            return Ok(None);
        }
        let removes = self.topic_dots(topic, |kind| {
            kind == EntryKind::Retained || matches!(write, TopicWrite::Clear(_))
        });
        let adds = match write {
            TopicWrite::Retain(value) => Some(entry_of_topic(Fact::Retained, value)),
            TopicWrite::Clear(value) => Some(entry_of_topic(Fact::Cleared, value)),
            TopicWrite::Remove => None,
        };
        let change = NewChange {
            client: topic.clone(),
            removes,
            adds,
        };
        let slots = SlotSet::from_iter([Slot::RETAINED]);
        self.change(now, slots, change, actions).map(Some)
    }

    /// Message that a topic retains, in this node's copy. None where the topic has no entries, or where
    /// the latest one is a clear. O(log n) in the topics.
    pub fn retained(&self, topic: &ClientId) -> Option<RetainedEntry<'_, V>> {
        retained_in(self.topic(topic)?)
    }

    /// What this node's copy has of a topic. None where the topic has no entries.
    pub fn retained_topic<'a>(&'a self, topic: &'a ClientId) -> Option<RetainedTopic<'a, V>> {
        let entry = retained_in(self.topic(topic)?);
        Some(RetainedTopic { topic, entry })
    }

    /// The latest entry of a topic in this node's copy is a clear. False once every member knows that, and
    /// the clear is dropped.
    pub fn is_cleared(&self, topic: &ClientId) -> bool {
        self.retained_topic(topic)
            .is_some_and(|known| known.entry.is_none())
    }

    /// Topics behind `after` that have entries, in ascending order; None is before all topics. A node that
    /// starts reads all of them, and then goes by [`Plane::take_retained_changes`].
    pub fn retained_after(&self, after: Option<&ClientId>) -> impl Iterator<Item = RetainedTopic<'_, V>> {
        let copy = self.copy(Slot::RETAINED).into_iter();
        let sessions = copy.flat_map(move |copy| copy.entries.sessions_between(after, None));
        sessions.map(|(topic, entries)| RetainedTopic {
            topic,
            entry: retained_in(entries),
        })
    }

    /// Topics whose entries in this node's copy were added, removed or replaced since this was called last:
    /// by an event of any node, by a merge, or with the copy. What a start reads is not among them.
    ///
    /// The set grows with the topics that change until it is taken: a node takes it behind each step.
    pub fn take_retained_changes(&mut self) -> BTreeSet<ClientId> {
        self.holdings.copies.take_topics()
    }

    /// Entries of a topic in this node's copy.
    fn topic(&self, topic: &ClientId) -> Option<&SessionEntries<V>> {
        self.copy(Slot::RETAINED)?.entries.session(topic.as_bytes())
    }

    /// Events of the entries of some kinds that this node's copy has of a topic.
    fn topic_dots(&self, topic: &ClientId, is_of: impl Fn(EntryKind) -> bool) -> Vec<Dot> {
        let entries = self.topic(topic).into_iter().flat_map(SessionEntries::iter);
        let entries = entries.filter(|(id, _)| is_of(id.kind));
        entries.map(|(id, _)| id.dot).collect()
    }
}

/// Message that is read of a topic.
fn retained_in<V: Ord>(entries: &SessionEntries<V>) -> Option<RetainedEntry<'_, V>> {
    let (id, entry) = entries.latest_of_topic()?;
    (id.kind == EntryKind::Retained).then_some(RetainedEntry {
        dot: id.dot,
        clock: entry.clock,
        value: &entry.value,
    })
}

/// Entry of a topic that is born with its own event.
fn entry_of_topic<V>(fact: Fact, value: V) -> NewEntry<V> {
    let birth = NewBirth::Here {
        is_clean: false,
        clock: None,
    };
    NewEntry { birth, fact, value }
}

#[cfg(test)]
mod tests;
