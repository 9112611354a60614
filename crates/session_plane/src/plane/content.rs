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
    Birth, Change, ClientId, Dot, Entry, EntryKind, Fact, MadeEvent, MisplacedEntry, Pending, PendingMessage,
    SlotSet,
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
            EventContent::Message { .. } => Some(EntryKind::Message),
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
    let effects = own.filter_map(|slot| {
        let effect = match own_event(dot, payload)? {
            OwnEvent::Change(change) => Effect::Change(change),
            OwnEvent::Message(message) => Effect::Message(message.pending),
        };
        Some(SlotEffect { slot, effect })
    });
    effects.collect()
}

/// Event as an answer about one of its slots has it. None of a ring marker.
pub(super) fn own_event<V: Clone, M: Clone>(
    dot: Dot,
    payload: &EventPayload<EventContent<V, M>>,
) -> Option<OwnEvent<V, M>> {
    match &payload.content {
        EventContent::Nothing => None,
        EventContent::Change(change) => Some(OwnEvent::Change(Change {
            dot,
            client: change.client.clone(),
            removes: change.removes.clone(),
            adds: change.adds.clone(),
        })),
        EventContent::Message { content, .. } => {
            let clock = payload.clock;
            let message = content.clone();
            let pending = Pending { clock, message };
            Some(OwnEvent::Message(PendingMessage { dot, pending }))
        }
    }
}
