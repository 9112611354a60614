//! Event of a stream: one change of a run, and which nodes need it.

use std::sync::Arc;

use crate::stream::Routing;
use crate::{Dot, Slot, SlotSet};

/// One change made by a run.
///
/// `P` is what the node sends with it: the change itself, its clock, and what the run knew. Nothing
/// here reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent<P> {
    /// Identity of the event.
    pub dot: Dot,
    /// Meaning of the event to streams.
    pub kind: EventKind,
    /// Meaning of the event to the node.
    pub payload: P,
}

/// Meaning of an event to streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// Change of entries, with the slots that it is for: their owners need it. One of routes is for
    /// [`Slot::ROUTES`], and so for every node.
    Change(SlotSet),
    /// Ring marker: after this event the run routes by another view. For every node.
    RingMarker(Arc<Routing>),
}

impl EventKind {
    /// The change is for `slot`.
    pub fn is_for(&self, slot: Slot) -> bool {
        self.slots().is_some_and(|own| own.contains(slot))
    }

    /// The change is for at least one of `slots`.
    pub fn is_for_any(&self, slots: &SlotSet) -> bool {
        let own = self.slots();
        own.is_some_and(|own| own.iter().any(|slot| slots.contains(slot)))
    }

    /// Slots that a change is for. None of a ring marker.
    fn slots(&self) -> Option<&SlotSet> {
        match self {
            EventKind::Change(slots) => Some(slots),
            EventKind::RingMarker(_) => None,
        }
    }
}

/// Numbers of one run without a gap; an interval whose run is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberRange {
    /// Lowest number; at least 1.
    pub first: u64,
    /// Highest number; not below `first`.
    pub last: u64,
}

impl NumberRange {
    /// The range of one number.
    pub(crate) fn one(number: u64) -> NumberRange {
        let (first, last) = (number, number);
        NumberRange { first, last }
    }

    pub(crate) fn contains(self, number: u64) -> bool {
        self.first <= number && number <= self.last
    }
}
