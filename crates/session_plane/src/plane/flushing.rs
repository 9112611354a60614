//! Flushes: survivors exchange the last events of a run that was given up (rules `flush` and
//! `flush-by-slot`).
//!
//! A flush makes copies whole in one round trip after a failure. Correctness does not depend on it.

use cluster::NodeId;

use super::content::PlaneEvent;
use super::{EventContent, Matching, Plane, PlaneAction, PlaneError, PlaneMessage, PlaneValue};
use crate::stream::{NumberRange, TakenFlush, TakenPart};
use crate::transfer::{RunPosition, TransferBytes};
use crate::wire::SentFlush;
use crate::{Dot, Interval, Run, SlotSet, VectorFull, VersionVector};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Passes on what a peer lacks of a run that it has given up, or asks for what this node lacks.
    pub(super) fn receive_flush_position(
        &mut self,
        from: NodeId,
        position: RunPosition,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        let RunPosition { run, number } = position;
        let Some(stream) = self.streams.of_run(run) else {
            return Ok(());
        };
        let mine = stream.position();
        if mine > number {
            let message = PlaneMessage::FlushEvents(SentFlush::from(&stream.flush(number)));
            actions.push(PlaneAction::Send { to: from, message });
        } else if number > mine && !self.is_present(run) {
            let owned = self.owned_at(run, mine + 1);
            let lacking = NumberRange {
                first: mine + 1,
                last: number,
            };
            self.need(run, lacking, &owned)?;
            let number = mine;
            let message = PlaneMessage::FlushPosition(RunPosition { run, number });
            actions.push(PlaneAction::Send { to: from, message });
        }
        Ok(())
    }

    /// Takes the last events of a run that this node has given up, too.
    pub(super) fn receive_flush(
        &mut self,
        flush: SentFlush<EventContent<V, M>>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let run = flush.run;
        if self.is_present(run) {
            return Ok(());
        }
        let rings = &mut self.rings;
        let flush = flush.into_flush(|view| rings.routing(view));
        let Some(stream) = self.streams.of_ended_mut(run) else {
            return Ok(());
        };
        let bytes = |event: &PlaneEvent<V, M>| event.payload.content.bytes();
        let taken = stream.receive_flush(&flush, bytes)?;
        self.take_flush(run, &taken, &flush.events, actions)?;
        Ok(())
    }

    fn take_flush(
        &mut self,
        run: Run,
        taken: &TakenFlush,
        events: &[PlaneEvent<V, M>],
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        if let Some(skipped) = taken.skipped {
            let all = self.holdings.copies.slots();
            self.need(run, skipped, &all)?;
        }
        for part in &taken.parts {
            let start = events.partition_point(|event| event.dot.number < part.numbers.first);
            let end = events.partition_point(|event| event.dot.number <= part.numbers.last);
            let events = events.get(start..end).unwrap_or_default();
            self.take_flushed(run, part, events, actions)?;
            for event in events {
                self.clock.see(event.payload.clock);
                self.holdings.need_everywhere(&event.payload.known)?;
            }
        }
        Ok(())
    }

    /// Takes the numbers of one ring.
    fn take_flushed(
        &mut self,
        run: Run,
        part: &TakenPart,
        events: &[PlaneEvent<V, M>],
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        let taken = self.within(&part.taken);
        let lacking = self.within(&part.lacking);
        let both = taken.union(&lacking);
        // A marker in the flush may have made this node an owner: what came before is a hole.
        let before = part.numbers.first - 1;
        self.gain(&both, Dot { run, number: before })?;
        self.take(run, part.numbers, events, &taken, actions)?;
        for event in events {
            let one = NumberRange::one(event.dot.number);
            self.take(run, one, std::slice::from_ref(event), &lacking, actions)?;
        }
        self.need(run, part.numbers, &lacking)
    }

    fn need(&mut self, run: Run, numbers: NumberRange, slots: &SlotSet) -> Result<(), VectorFull> {
        match Interval::new(run, numbers.first, numbers.last) {
            Some(numbers) => self
                .holdings
                .copies
                .need(slots, &VersionVector::of_apart([numbers])),
            None => Ok(()),
        }
    }

    /// The run is present, or is this one.
    fn is_present(&self, run: Run) -> bool {
        let present = self.membership.find(run.node);
        present.is_some_and(|present| present.run == run)
    }
}
