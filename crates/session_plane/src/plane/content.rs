//! Content of an event: what it changes in the slots that it is for. [`crate::wire`] has its
//! encoding.

use std::collections::BTreeSet;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::{Effect, SlotEffect};
use crate::misplaced::check_slots;
use crate::stream::{EventKind, StreamEvent};
use crate::transfer::{OwnEvent, TransferBytes};
use crate::wire::EventPayload;
use crate::{
    Birth, Change, ClientId, Dot, Entry, EntryKind, Fact, GroupId, MadeEvent, MisplacedEntry, Pending,
    PendingMessage, Slot, SlotSet,
};

/// Content of an event.
///
/// `V` is the value of entries, `M` the content of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventContent<V, M> {
    /// None: the event is a ring marker.
    Nothing,
    /// Change of one session, in each slot that the event is for.
    Change(SessionChange<V>),
    /// Message of a shared group that goes into the queue of a member's session. The event is for the slot
    /// of the member and for that of the part.
    Move(MessageMove<V>),
    /// Message for sessions of the slots that the event is for.
    Message {
        /// Content of the message.
        content: M,
        /// Nodes that it is for beside, because of their transient sessions.
        nodes: BTreeSet<NodeId>,
    },
}

/// Change of one session, without its dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionChange<V> {
    /// Client whose entries change.
    pub client: ClientId,
    /// Events whose entries are removed.
    pub removes: Vec<Dot>,
    /// Entry that is added.
    pub adds: Option<Entry<V>>,
}

/// Message that leaves a part of a shared group, and is in the queue of a member's session from then on
/// (rule 86).
///
/// One event does both. So no node has the message in both places, or in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageMove<V> {
    /// Client of the member.
    pub client: ClientId,
    /// Birth of the member's session.
    pub birth: Birth,
    /// Slot of the part.
    pub part: Slot,
    /// The group.
    pub group: GroupId,
    /// Event of the message in the part.
    pub message: Dot,
    /// Event of the assignment to the member's presence.
    pub assignment: Dot,
    /// Value of the message in the queue.
    pub value: V,
}

/// Change that a node wants to make: its dot and its clock are not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChange<V> {
    /// Client whose entries change.
    pub client: ClientId,
    /// Events whose entries are removed.
    pub removes: Vec<Dot>,
    /// Entry that is added.
    pub adds: Option<NewEntry<V>>,
}

/// Entry that a node wants to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntry<V> {
    /// Session that the entry belongs to.
    pub birth: NewBirth,
    /// What the entry states.
    pub fact: Fact,
    /// Meaning of the entry to the node.
    pub value: V,
}

/// Birth that an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewBirth {
    /// A session that exists.
    Of(Birth),
    /// The event that makes the entry.
    Here {
        /// The CONNECT asked for a Clean Start.
        is_clean: bool,
        /// Clock of the birth. None: that of the event.
        clock: Option<Hlc>,
    },
}

/// Effects of one event of a run.
#[derive(Debug)]
pub(super) struct EventEffects<V, M> {
    pub(super) number: u64,
    pub(super) effects: Vec<SlotEffect<V, M>>,
}

/// Event of a stream as the plane has it.
pub(super) type PlaneEvent<V, M> = StreamEvent<EventPayload<EventContent<V, M>>>;

impl<V> NewEntry<V> {
    /// The entry as an event makes it.
    pub fn made_by(self, MadeEvent { dot, clock }: MadeEvent) -> Entry<V> {
        let birth = match self.birth {
            NewBirth::Of(birth) => birth,
            NewBirth::Here {
                is_clean,
                clock: of_birth,
            } => Birth {
                dot,
                clock: of_birth.unwrap_or(clock),
                is_clean,
            },
        };
        Entry {
            birth,
            clock,
            fact: self.fact,
            value: self.value,
        }
    }
}

impl<V> NewChange<V> {
    /// The change as an event makes it.
    pub(super) fn made_by(self, made: MadeEvent) -> SessionChange<V> {
        SessionChange {
            client: self.client,
            removes: self.removes,
            adds: self.adds.map(|new| new.made_by(made)),
        }
    }
}

impl<V> MessageMove<V> {
    /// Slots of the member and of the part.
    pub fn slots(&self) -> SlotSet {
        [self.slot_of_client(), self.part].into_iter().collect()
    }

    fn slot_of_client(&self) -> Slot {
        Slot::of_client(self.client.as_bytes())
    }
}

impl<V: Clone> MessageMove<V> {
    /// What the move changes in a slot: it adds the message to the queue, and removes it from the part with its
    /// assignment.
    fn changes_in(&self, slot: Slot, made: MadeEvent) -> impl Iterator<Item = Change<V>> {
        let dot = made.dot;
        let added = (slot == self.slot_of_client()).then(|| Change {
            dot,
            client: self.client.clone(),
            removes: Vec::new(),
            adds: Some(Entry {
                birth: self.birth,
                clock: made.clock,
                fact: Fact::Message,
                value: self.value.clone(),
            }),
        });
        let removed = (slot == self.part).then(|| Change {
            dot,
            client: self.group.key().clone(),
            removes: vec![self.message, self.assignment],
            adds: None,
        });
        added.into_iter().chain(removed)
    }
}

impl<V, M> EventContent<V, M> {
    /// Checks that each of `slots` has such entries.
    ///
    /// # Errors
    ///
    /// [`MisplacedEntry`] with the first slot that has none.
    pub(super) fn check_slots(&self, slots: &SlotSet) -> Result<(), MisplacedEntry> {
        let kind = match self {
            EventContent::Nothing => None,
            EventContent::Change(change) => change.adds.as_ref().map(|entry| entry.fact.kind()),
            EventContent::Move(_) | EventContent::Message { .. } => Some(EntryKind::Message),
        };
        kind.map_or(Ok(()), |kind| check_slots(slots, kind))
    }
}

impl<V: TransferBytes, M: TransferBytes> EventContent<V, M> {
    /// Bytes of the content, for the limits of what is kept.
    pub(super) fn bytes(&self) -> usize {
        /// Bytes of an event beside its values: dot, clock, knowledge of a few runs.
        const FIXED: usize = 160;
        FIXED
            + match self {
                EventContent::Nothing => 0,
                EventContent::Message { content, nodes } => {
                    content.bytes() + nodes.len() * size_of::<NodeId>()
                }
                EventContent::Change(change) => {
                    let adds = change.adds.as_ref().map_or(0, |entry| entry.value.bytes());
                    change.client.as_bytes().len() + change.removes.len() * size_of::<Dot>() + adds
                }
                EventContent::Move(of) => {
                    let names = of.client.as_bytes().len() + of.group.key().as_bytes().len();
                    names + 3 * size_of::<Dot>() + of.value.bytes()
                }
            }
    }
}

/// Effects of an event in those of `slots` that it is for.
pub(super) fn effects<V: Clone, M: Clone>(event: &PlaneEvent<V, M>, slots: &SlotSet) -> EventEffects<V, M> {
    let number = event.dot.number;
    match &event.kind {
        EventKind::Change(of_event) => EventEffects {
            number,
            effects: effects_of(event.dot, &event.payload, of_event, slots),
        },
        EventKind::RingMarker(_) => EventEffects {
            number,
            effects: Vec::new(),
        },
    }
}

/// Effects of a change for the slots `of_event` in those that are among `slots`.
pub(super) fn effects_of<V: Clone, M: Clone>(
    dot: Dot,
    payload: &EventPayload<EventContent<V, M>>,
    of_event: &SlotSet,
    slots: &SlotSet,
) -> Vec<SlotEffect<V, M>> {
    let own = of_event.iter().filter(|slot| slots.contains(*slot));
    let effects = own.flat_map(|slot| {
        let of_slot = own_events(dot, payload, slot).into_iter();
        of_slot.map(move |own| {
            let effect = match own {
                OwnEvent::Change(change) => Effect::Change(change),
                OwnEvent::Message(message) => Effect::Message(message.pending),
            };
            SlotEffect { slot, effect }
        })
    });
    effects.collect()
}

/// Event as an answer about one of its slots has it: one change or message mostly. A ring marker has none, and
/// a move has two where member and part have one slot.
pub(super) fn own_events<V: Clone, M: Clone>(
    dot: Dot,
    payload: &EventPayload<EventContent<V, M>>,
    slot: Slot,
) -> Vec<OwnEvent<V, M>> {
    match &payload.content {
        EventContent::Nothing => Vec::new(),
        EventContent::Change(change) => vec![OwnEvent::Change(Change {
            dot,
            client: change.client.clone(),
            removes: change.removes.clone(),
            adds: change.adds.clone(),
        })],
        EventContent::Move(of) => {
            let clock = payload.clock;
            let changes = of.changes_in(slot, MadeEvent { dot, clock });
            changes.map(OwnEvent::Change).collect()
        }
        EventContent::Message { content, .. } => {
            let clock = payload.clock;
            let message = content.clone();
            let pending = Pending { clock, message };
            vec![OwnEvent::Message(PendingMessage { dot, pending })]
        }
    }
}

#[cfg(test)]
mod tests;
