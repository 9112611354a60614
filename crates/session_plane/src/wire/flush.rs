//! Flushes: how far a node has the stream of a dead run, and what another survivor lacks of it.
//!
//! ```text
//! position | run, number
//! flush    | run, from, to, view at the number after from, events, slots
//! slots    | numbers, slots that the sender owned at these numbers
//! ```
//!
//! As with markers, a view is sent and the receiver makes its ring. Both lists are in ascending
//! order and among the numbers of the flush, so a receiver never sorts.

use std::ops::Bound;
use std::sync::Arc;

use super::field::Field;
use super::reader::Reader;
use super::stream::are_ordered;
use super::writer::Writer;
use super::{EventPayload, Fault, SentEvent, WireError, WireValue};
use crate::stream::{CoveredSlots, Flush, NumberRange, ReceivedFlush, Routing};
use crate::{Run, View};

/// Flush as it is sent. [`Flush`] says what its parts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFlush<C> {
    /// Run that was given up.
    pub run: Run,
    /// The flush has the numbers above this one,
    pub from: u64,
    /// and up to this one.
    pub to: u64,
    /// View by which the number after `from` was routed.
    pub base: Option<View>,
    /// Events that the sender of the flush received, in ascending order.
    pub events: Vec<SentEvent<C>>,
    /// Slots that the sender of the flush owned, in ascending order of the numbers.
    pub slots: Vec<CoveredSlots>,
}

impl<C> SentFlush<C> {
    /// Flush for [`IncomingStream::receive_flush`](crate::stream::IncomingStream::receive_flush).
    /// `routing` gives the routing of a view.
    pub fn into_flush(self, mut routing: impl FnMut(View) -> Arc<Routing>) -> ReceivedFlush<EventPayload<C>> {
        let base = self.base.map(&mut routing);
        let events = self.events.into_iter();
        ReceivedFlush {
            run: self.run,
            from: self.from,
            to: self.to,
            base,
            events: events.map(|event| event.into_event(&mut routing)).collect(),
            slots: self.slots,
        }
    }

    /// Events are of the run, and both lists are among the numbers and in ascending order.
    fn has_order(&self) -> bool {
        let numbers = (Bound::Excluded(self.from), Bound::Included(self.to));
        let is_apart = |one: &CoveredSlots, other: &CoveredSlots| one.numbers.last < other.numbers.first;
        let is_within = |range: NumberRange| self.from < range.first && range.last <= self.to;
        self.from <= self.to
            && self.events.first().is_none_or(|event| event.dot.run == self.run)
            && are_ordered(&self.events, numbers)
            && self.slots.is_sorted_by(is_apart)
            && self.slots.iter().all(|covered| is_within(covered.numbers))
    }
}

impl<C: Clone> From<&Flush<'_, EventPayload<C>>> for SentFlush<C> {
    /// Flush as its receiver gets it.
    fn from(flush: &Flush<'_, EventPayload<C>>) -> SentFlush<C> {
        let events = flush.events.iter().map(|event| SentEvent::from(*event));
        let slots = flush.slots.iter().map(|flushed| CoveredSlots {
            numbers: flushed.numbers,
            slots: flushed.slots.clone(),
        });
        SentFlush {
            run: flush.run,
            from: flush.from,
            to: flush.to,
            base: flush.base.map(|routing| routing.view().clone()),
            events: events.collect(),
            slots: slots.collect(),
        }
    }
}

impl<C: WireValue> Field for SentFlush<C> {
    const BYTES_MIN: usize = 6;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.run);
        writer.put(&self.from);
        writer.put(&self.to);
        writer.put(&self.base);
        writer.put(&self.events);
        writer.put(&self.slots);
    }

    fn take(reader: &mut Reader) -> Result<SentFlush<C>, WireError> {
        let flush = SentFlush {
            run: reader.take("run of a flush")?,
            from: reader.take("number before a flush")?,
            to: reader.take("last number of a flush")?,
            base: reader.take("view of a flush")?,
            events: reader.take("events of a flush")?,
            slots: reader.take("slots of a flush")?,
        };
        if flush.has_order() {
            Ok(flush)
        } else {
            Err(reader.error(Fault::NotAscending))
        }
    }
}

impl Field for CoveredSlots {
    const BYTES_MIN: usize = NumberRange::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.numbers);
        writer.put(&self.slots);
    }

    fn take(reader: &mut Reader) -> Result<CoveredSlots, WireError> {
        Ok(CoveredSlots {
            numbers: reader.take("numbers of a flush")?,
            slots: reader.take("slots at some numbers")?,
        })
    }
}
