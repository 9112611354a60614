//! Dropping: what queues have beyond their limits, as their primary owner removes it.
//!
//! *Invariant*: what is dropped is found when its event is made. So it is in the queue by then, and is told
//! once.

use std::collections::{BTreeMap, BTreeSet};

use super::acting::Queue;
use super::entries::{EntryWrite, OwnWrite};
use super::{Sessions, SessionsValue};
use crate::feed::QueueKey;
use crate::plane::{Matching, NewChange, Now};
use crate::queue_limits::{DropReason, Excess, QueueEvent, QueueLimits, QueuePlace, QueuedWeight, Victim};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{Dot, EntryId, EntryKind, SlotSet};

/// Messages of one queue that a tick drops at most: those of 8 events, found by one walk. Further ones follow with
/// the next tick.
const MESSAGES_OF_A_TICK: usize = 8 * QueueLimits::MESSAGES_OF_A_CHANGE;

/// Messages that an event of this node has dropped for one reason.
///
/// Across a split, two nodes may each drop the messages that they have. Both tell of a message then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedMessages<V> {
    /// Queue: of a client, or of a shared group in one slot.
    pub place: QueuePlace,
    /// Reason.
    pub reason: DropReason,
    /// The messages.
    pub messages: Vec<DroppedMessage<V>>,
    /// Bytes for which the messages have counted.
    pub bytes: u64,
    /// Event that has removed them.
    pub by: Dot,
}

/// Message that was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedMessage<V> {
    /// Event of the message.
    pub message: Dot,
    /// Value of its entry.
    pub value: V,
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Drops messages of these queues behind what waits for room in the stream.
    pub(super) fn drop_later(&mut self, places: Vec<QueuePlace>) {
        self.stalled.extend(places.into_iter().map(|place| EntryWrite {
            connection: None,
            client: place.client.clone(),
            write: OwnWrite::Drop(place),
        }));
    }

    /// Makes the events that bring a queue within its limits, or as many of them as a tick may.
    pub(super) fn drop_messages(
        &mut self,
        now: Now,
        place: &QueuePlace,
        queue: &mut Queue<V, M>,
    ) -> Result<(), StreamFull> {
        for victims in self.victims(now, place).chunks(QueueLimits::MESSAGES_OF_A_CHANGE) {
            let change = NewChange {
                client: place.client.clone(),
                removes: victims.iter().map(|victim| victim.message).collect(),
                adds: None,
            };
            let slots = SlotSet::from_iter([place.slot]);
            let values: Vec<Option<V>> = victims
                .iter()
                .map(|of| self.value_of(place, of.message))
                .collect();
            let made = self.plane.change(now, slots, change, &mut queue.plane)?;
            let victims = victims.iter().zip(values);
            let victims = victims.filter_map(|(victim, value)| Some((victim, value?)));
            queue.dropped.extend(dropped(place, made.dot, victims));
        }
        self.step_limiting(now, QueueEvent::Made(place.clone()));
        if !self.plane.decides(place.slot) {
            // It is looked at again when this node decides about the slot.
            self.step_limiting(now, QueueEvent::Changed(place.clone()));
        }
        Ok(())
    }

    /// Messages that the next events drop. None while this node does not decide about the slot.
    fn victims(&self, now: Now, place: &QueuePlace) -> Vec<Victim> {
        let copy = self.plane.copy(place.slot);
        let Some(copy) = copy.filter(|_| self.plane.decides(place.slot)) else {
            return Vec::new();
        };
        let live = |kind| copy.entries.live(copy.covered, place.client.as_bytes(), kind);
        let named = [EntryKind::Delivery, EntryKind::Assignment].map(live);
        let named = named.into_iter().flatten();
        let mut leaving: BTreeSet<Dot> = named.filter_map(|(_, entry)| entry.fact.named()).collect();
        leaving.extend(self.passed_on(place));
        let mut excess = Excess::new(self.limiting.limits(), now.wall, MESSAGES_OF_A_TICK);
        for (dot, entry) in live(EntryKind::Message).filter(|(dot, _)| !leaving.contains(dot)) {
            let clock = entry.clock;
            excess.add(QueuedWeight {
                key: QueueKey { clock, dot },
                bytes: entry.value.queue_bytes(),
                expires_at: entry.value.expires_at(),
            });
        }
        excess.victims()
    }

    fn value_of(&self, place: &QueuePlace, dot: Dot) -> Option<V> {
        let session = self
            .plane
            .copy(place.slot)?
            .entries
            .session(place.client.as_bytes())?;
        let kind = EntryKind::Message;
        let entry = session.get(EntryId { kind, dot })?;
        Some(entry.value.clone())
    }

    /// Messages of a client that this node has passed on, to a peer or to a connection of its own. Their
    /// packet ids may be on their way to this node.
    fn passed_on(&self, place: &QueuePlace) -> BTreeSet<Dot> {
        let fed = self.feeds.held_of(&place.client);
        let connection = self.fed.get(&place.client).copied();
        let held = connection.into_iter().flat_map(|of| self.delivering.held_of(of));
        fed.chain(held).collect()
    }
}

/// What an event has dropped, by its reasons.
fn dropped<'a, V>(
    place: &QueuePlace,
    by: Dot,
    victims: impl Iterator<Item = (&'a Victim, V)>,
) -> impl Iterator<Item = DroppedMessages<V>> {
    let mut of_reasons: BTreeMap<DropReason, DroppedMessages<V>> = BTreeMap::new();
    for (victim, value) in victims {
        let reason = victim.reason;
        let of_reason = of_reasons.entry(reason).or_insert_with(|| DroppedMessages {
            place: place.clone(),
            reason,
            messages: Vec::new(),
            bytes: 0,
            by,
        });
        let message = victim.message;
        of_reason.messages.push(DroppedMessage { message, value });
        of_reason.bytes += victim.bytes;
    }
    of_reasons.into_values()
}
