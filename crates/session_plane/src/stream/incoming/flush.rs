//! Passing on: the events that a node keeps for the case that their run is given up.
//!
//! It makes copies whole in one round trip after a failure. Correctness does not depend on it, so
//! the limit drops the oldest events: survivors merge what a flush does not bring.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::stream::{NumberRange, Routing, StreamEvent};
use crate::{Run, SlotSet};

/// Limits of what is kept of one incoming stream. Beyond them the oldest events are dropped, and a
/// flush begins later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncomingLimits {
    /// Events kept at most.
    pub events_max: usize,
    /// Bytes of kept events at most.
    pub bytes_max: usize,
}

/// Last events of a run that was given up, for one survivor.
#[derive(Debug)]
pub struct Flush<'a, P> {
    /// Run that was given up.
    pub run: Run,
    /// The flush has the numbers above this one,
    pub from: u64,
    /// and up to this one.
    pub to: u64,
    /// View and ring by which the number after `from` was routed.
    pub base: Option<&'a Arc<Routing>>,
    /// Events that this node received, in ascending order.
    pub events: Vec<&'a StreamEvent<P>>,
    /// Slots for which the flush covers numbers without an event, too (rule `flush-by-slot`). In
    /// other slots this node cannot know which numbers had an event.
    pub slots: Vec<FlushedSlots<'a>>,
}

/// Slots that the sender of a flush owned at some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushedSlots<'a> {
    /// Numbers that were routed by one ring.
    pub numbers: NumberRange,
    /// Slots that the sender of the flush owned by that ring.
    pub slots: &'a SlotSet,
}

/// Events that are kept for passing on.
#[derive(Debug)]
pub(super) struct PassOn<P> {
    limits: IncomingLimits,
    /// Everything for this node that is above this number is kept.
    from: u64,
    /// In ascending order.
    events: VecDeque<Kept<P>>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept<P> {
    event: StreamEvent<P>,
    bytes: usize,
}

impl<P> PassOn<P> {
    pub(super) fn new(limits: IncomingLimits) -> PassOn<P> {
        PassOn {
            limits,
            from: 0,
            events: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Forgets everything: the stream begins after `from`.
    pub(super) fn clear(&mut self, from: u64) {
        self.events.clear();
        self.bytes = 0;
        self.from = from;
    }

    /// Keeps the next event, and drops the oldest ones beyond the limits.
    pub(super) fn keep(&mut self, event: StreamEvent<P>, bytes: usize) {
        self.events.push_back(Kept { event, bytes });
        self.bytes += bytes;
        while self.events.len() > self.limits.events_max || self.bytes > self.limits.bytes_max {
            let Some(oldest) = self.events.front().map(|kept| kept.event.dot.number) else {
                break;
            };
            self.drop_up_to(oldest);
        }
    }

    /// Drops events up to `number`.
    pub(super) fn drop_up_to(&mut self, number: u64) {
        self.from = self.from.max(number);
        while let Some(kept) = self.events.pop_front_if(|kept| kept.event.dot.number <= number) {
            self.bytes -= kept.bytes;
        }
    }

    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// Kept events above `number`.
    pub(super) fn after(&self, number: u64) -> Vec<&StreamEvent<P>> {
        let start = self
            .events
            .partition_point(|kept| kept.event.dot.number <= number);
        self.events.range(start..).map(|kept| &kept.event).collect()
    }
}
