//! Retaining: messages that topics keep, in a map that every node owns.
//!
//! ```text
//!   node: retain                 retained, retained_after, take_retained_changes
//!      |                                           ^
//!      v        event of Slot::RETAINED            |
//!   Plane --------------------------> copy of this node and of all others
//! ```
//!
//! The topic stands in the place of the client id. An event removes all entries of the topic that its
//! node's copy has, and adds one. So two entries of a topic are of nodes that had not seen each other's,
//! and readers take the later one by (clock, dot). Copies that are equal give equal answers, in whatever
//! order they came by their entries.
//!
//! *Invariants*: each run has one entry of a topic at most in its own copy. A topic whose entries
//! in this node's copy have changed is among the changes until they are taken.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;

use super::{Matching, NewBirth, NewChange, NewEntry, Now, Plane, PlaneAction, PlaneValue};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{ClientId, Dot, EntryKind, Fact, MadeEvent, SessionEntries, Slot, SlotSet};

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

/// Topic with the message that it retains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainedTopic<'a, V> {
    /// The topic.
    pub topic: &'a ClientId,
    /// The message.
    pub entry: RetainedEntry<'a, V>,
}

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Retains `value` for a topic at every node, in the place of what this node's copy has of the topic.
    /// Without a value the topic retains nothing. None where there is nothing to remove either: no event
    /// is made.
    ///
    /// [`PlaneAction::Durable`] reports the event once all present nodes have it on their disks. What
    /// another node retains at the same time, or on another side of a split, is not removed: the later one
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
        value: Option<V>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<Option<MadeEvent>, StreamFull> {
        let removes = self.retained_dots(topic);
        if removes.is_empty() && value.is_none() {
            return Ok(None);
        }
        let change = NewChange {
            client: topic.clone(),
            removes,
            adds: value.map(|value| NewEntry {
                birth: NewBirth::Here {
                    is_clean: false,
                    clock: None,
                },
                fact: Fact::Retained,
                value,
            }),
        };
        let slots = SlotSet::from_iter([Slot::RETAINED]);
        self.change(now, slots, change, actions).map(Some)
    }

    /// Message that a topic retains, in this node's copy. O(log n) in the topics.
    pub fn retained(&self, topic: &ClientId) -> Option<RetainedEntry<'_, V>> {
        let copy = self.copy(Slot::RETAINED)?;
        latest(copy.entries.session(topic.as_bytes())?)
    }

    /// Topics behind `after` with the messages that they retain, in ascending order; None is before all
    /// topics. A node that starts reads all of them, and then goes by [`Plane::take_retained_changes`].
    pub fn retained_after(&self, after: Option<&ClientId>) -> impl Iterator<Item = RetainedTopic<'_, V>> {
        let copy = self.copy(Slot::RETAINED).into_iter();
        let sessions = copy.flat_map(move |copy| copy.entries.sessions_between(after, None));
        sessions.filter_map(|(topic, entries)| {
            let entry = latest(entries)?;
            Some(RetainedTopic { topic, entry })
        })
    }

    /// Topics whose entries in this node's copy were added, removed or replaced since this was called last:
    /// by an event of any node, by a merge, or with the copy. What a start reads is not among them.
    ///
    /// The set grows with the topics that change until it is taken: a node takes it behind each step.
    pub fn take_retained_changes(&mut self) -> BTreeSet<ClientId> {
        self.holdings.copies.take_topics()
    }

    /// Events of the entries of a topic in this node's copy.
    fn retained_dots(&self, topic: &ClientId) -> Vec<Dot> {
        let copy = self.copy(Slot::RETAINED);
        let entries = copy.and_then(|copy| copy.entries.session(topic.as_bytes()));
        let dots = entries.into_iter().flat_map(SessionEntries::iter);
        dots.map(|(id, _)| id.dot).collect()
    }
}

/// Entry of a topic that is read: the latest by (clock, dot).
fn latest<V: Ord>(entries: &SessionEntries<V>) -> Option<RetainedEntry<'_, V>> {
    let retained = entries.of_kind(EntryKind::Retained);
    let (dot, entry) = retained.max_by_key(|(dot, entry)| (entry.clock, *dot))?;
    Some(RetainedEntry {
        dot,
        clock: entry.clock,
        value: &entry.value,
    })
}

#[cfg(test)]
mod tests;
