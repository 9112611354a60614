//! Taking a flush: the last events of a run that was given up, from a survivor that has more.
//!
//! A flush settles numbers for all slots. It covers numbers without an event only for slots that
//! its sender owned by the ring of the run at that number (rule `flush-by-slot`); elsewhere the
//! sender cannot know whether there was an event. What is passed on later says the same.

use std::sync::Arc;

use super::{Flush, IncomingStream, ReceiveError};
use crate::stream::{EventKind, NumberRange, Routing, StreamEvent};
use crate::{Run, SlotSet};

/// Flush as it arrives. [`Flush`] says what its parts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedFlush<P> {
    /// Run that was given up.
    pub run: Run,
    /// The flush has the numbers above this one,
    pub from: u64,
    /// and up to this one.
    pub to: u64,
    /// View and ring by which the number after `from` was routed.
    pub base: Option<Arc<Routing>>,
    /// Events that the sender of the flush received, in ascending order.
    pub events: Vec<StreamEvent<P>>,
    /// Slots that the sender of the flush owned, in ascending order of the numbers.
    pub slots: Vec<CoveredSlots>,
}

/// Slots for which a flush covers numbers without an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoveredSlots {
    /// Numbers of the run.
    pub numbers: NumberRange,
    /// Slots that the sender of the flush owned at these numbers.
    pub slots: SlotSet,
}

/// Effect of a flush, for the slots of this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenFlush {
    /// Numbers that neither node has: a hole in every copy.
    pub skipped: Option<NumberRange>,
    /// Numbers of the flush, in ascending order.
    pub parts: Vec<TakenPart>,
}

/// Numbers of a flush that were routed by one ring.
///
/// The events among them are taken in all slots of both sets. What such an event tells that its
/// sender knew is a hole, as that of any event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenPart {
    /// Numbers of the run.
    pub numbers: NumberRange,
    /// Slots of this node by that ring in which all numbers are taken.
    pub taken: SlotSet,
    /// Slots of this node by that ring in which the numbers without an event are holes.
    pub lacking: SlotSet,
}

impl<P: Clone> IncomingStream<P> {
    /// Takes what a flush has beyond the position. The run was given up at this node.
    ///
    /// `bytes` are those of an event, for the limit of what is kept for passing on.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] where no stream of the run has such numbers. Nothing is changed.
    pub fn receive_flush(
        &mut self,
        flush: &ReceivedFlush<P>,
        bytes: impl Fn(&StreamEvent<P>) -> usize,
    ) -> Result<TakenFlush, ReceiveError> {
        self.check_flush(flush)?;
        if flush.to <= self.position {
            return Ok(TakenFlush::default());
        }
        let mut taken = TakenFlush::default();
        if flush.from > self.position {
            taken.skipped = Some(NumberRange {
                first: self.position + 1,
                last: flush.from,
            });
            self.skip_to(flush.from, flush.base.as_ref());
        }
        taken.parts = self.take_parts(flush);
        let position = std::mem::replace(&mut self.position, flush.to);
        for event in flush.events.iter().filter(|event| event.dot.number > position) {
            self.pass_on.keep(event.clone(), bytes(event));
        }
        self.forget_rings();
        Ok(taken)
    }

    /// Leaves numbers out that nobody passes on; the next one was routed by `base`.
    fn skip_to(&mut self, number: u64, base: Option<&Arc<Routing>>) {
        self.position = number;
        self.pass_on.clear(number);
        self.owned = super::Owned::default();
        if let Some(routing) = base {
            let slots = routing.ring().slots_of(self.node);
            self.owned.add_ring(number + 1, Arc::clone(routing), slots);
        }
    }

    /// Numbers above the position, cut where a ring changes or the sender's slots do.
    fn take_parts(&mut self, flush: &ReceivedFlush<P>) -> Vec<TakenPart> {
        let mut parts = Vec::new();
        let mut routing = self.owned.routing_at(self.position + 1).cloned();
        let mut first = self.position + 1;
        while first <= flush.to {
            let marker = flush.next_marker(first);
            let last = flush.end_of_part(first, marker.map(|(number, _)| number));
            if let Some(routing) = &routing {
                let numbers = NumberRange { first, last };
                let part = self.part(numbers, routing, flush.slots_at(first));
                self.owned
                    .add_ring(first, Arc::clone(routing), part.taken.clone());
                parts.push(part);
            }
            if let Some((_, next)) = marker.filter(|(number, _)| *number == last) {
                routing = Some(Arc::clone(next));
            }
            first = last + 1;
        }
        if let Some(routing) = routing {
            let slots = routing.ring().slots_of(self.node);
            self.owned.add_ring(first, routing, slots);
        }
        parts
    }

    fn part(&self, numbers: NumberRange, routing: &Routing, covered: Option<&SlotSet>) -> TakenPart {
        let owned = routing.ring().slots_of(self.node);
        let taken = covered.map(|covered| owned.intersection(covered));
        let taken = taken.unwrap_or_default();
        let lacking = owned.minus(&taken);
        TakenPart {
            numbers,
            taken,
            lacking,
        }
    }

    fn check_flush(&self, flush: &ReceivedFlush<P>) -> Result<(), ReceiveError> {
        let run = self.run;
        self.check_run(flush.run)?;
        self.check_range(flush.to)?;
        if flush.from > flush.to {
            return Err(self.goes_back(flush.from, flush.to));
        }
        let mut before = flush.from;
        for event in &flush.events {
            let number = event.dot.number;
            self.check_run(event.dot.run)?;
            if number <= before {
                return Err(self.goes_back(before, number));
            }
            if number > flush.to {
                return Err(ReceiveError::OutOfRange { run, number });
            }
            before = number;
        }
        let mut before = flush.from;
        for NumberRange { first, last } in flush.slots.iter().map(|covered| covered.numbers) {
            if first <= before || last < first {
                return Err(self.goes_back(before, first));
            }
            if last > flush.to {
                return Err(ReceiveError::OutOfRange { run, number: last });
            }
            before = last;
        }
        Ok(())
    }
}

impl<P> ReceivedFlush<P> {
    /// Next marker from `number` on, and its number.
    fn next_marker(&self, number: u64) -> Option<(u64, &Arc<Routing>)> {
        let start = self.events.partition_point(|event| event.dot.number < number);
        self.events
            .iter()
            .skip(start)
            .find_map(|event| match &event.kind {
                EventKind::RingMarker(routing) => Some((event.dot.number, routing)),
                EventKind::Change(_) => None,
            })
    }

    /// Slots that the sender owned at `number`.
    fn slots_at(&self, number: u64) -> Option<&SlotSet> {
        let covered = self.slots.iter().find(|covered| covered.numbers.contains(number));
        covered.map(|covered| &covered.slots)
    }

    /// Last number that is in one part with `first`.
    fn end_of_part(&self, first: u64, marker: Option<u64>) -> u64 {
        let bounds = self.slots.iter().flat_map(|covered| {
            let NumberRange { first, last } = covered.numbers;
            [first - 1, last]
        });
        let bounds = bounds.chain(marker).filter(|bound| *bound >= first);
        bounds.min().unwrap_or(self.to).min(self.to)
    }
}

impl<P: Clone> From<&Flush<'_, P>> for ReceivedFlush<P> {
    /// Flush as its receiver gets it.
    fn from(flush: &Flush<'_, P>) -> ReceivedFlush<P> {
        let slots = flush.slots.iter().map(|flushed| CoveredSlots {
            numbers: flushed.numbers,
            slots: flushed.slots.clone(),
        });
        ReceivedFlush {
            run: flush.run,
            from: flush.from,
            to: flush.to,
            base: flush.base.cloned(),
            events: flush.events.iter().copied().cloned().collect(),
            slots: slots.collect(),
        }
    }
}
