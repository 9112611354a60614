//! Flush: survivors exchange the last events of a dead run (section 5 of the specification, "Passing on").
//!
//! It makes copies whole in one round trip after a failure; correctness does not depend on it. A flush settles numbers for
//! all slots, and covers them only for slots that its passer owned by the dead run's ring.

use super::{Node, Step};
use crate::event::{Change, Event};
use crate::ids::{NodeId, Numbers, Run};
use crate::message::{Flush, Message};
use crate::rules::Rule;
use crate::view::View;

impl Node {
    /// Tells all peers how far this node has the stream of the dead `peer`.
    pub(super) fn send_flush_positions(&mut self, step: &mut Step<'_>, peer: NodeId) {
        let Some(run) = self.membership.run_of(peer).filter(|_| step.holds(Rule::Flush)) else {
            return;
        };
        let position = self.receiver.taken(run);
        for other in self.membership.peers().iter() {
            step.send(other, Message::FlushPosition { run, position });
        }
    }

    /// Passes on what `from` lacks of `run`, or asks for what this node lacks.
    pub(super) fn receive_flush_position(
        &mut self,
        step: &mut Step<'_>,
        from: NodeId,
        run: Run,
        position: u8,
    ) {
        if run == self.sender.run {
            return;
        }
        let mine = self.receiver.taken(run);
        if mine > position {
            let flush = self.flush(run, position.max(self.receiver.stable(run)));
            step.counters.flushed += flush.events.len() as u64;
            step.send(from, Message::FlushEvents(Box::new(flush)));
        } else if position > mine && !self.membership.has_run(step.directory.node(run), run) {
            self.need_up_to(run, position);
            step.send(from, Message::FlushPosition { run, position: mine });
        }
    }

    fn flush(&self, run: Run, from: u8) -> Flush {
        Flush {
            run,
            from,
            to: self.receiver.taken(run),
            events: self.receiver.kept_after(run, from),
            base: self.receiver.ring_at(run, from),
            by_stream: self.receiver.by_stream(run),
        }
    }

    /// A peer has more of a dead run: a hole of the copies that this node owned by that run's ring.
    fn need_up_to(&mut self, run: Run, position: u8) {
        let Some(ring) = self.receiver.ring(run) else {
            return;
        };
        for slot in ring.slots_of(self.id) {
            if let Some(copy) = self.copies[slot.index()].as_mut() {
                copy.content.needed.add(run, Numbers::up_to(position));
            }
        }
    }

    /// Takes the last events of a dead run.
    pub(super) fn receive_flush(&mut self, step: &mut Step<'_>, flush: &Flush) {
        let run = flush.run;
        let before = self.receiver.taken(run);
        let is_alive = self.membership.has_run(step.directory.node(run), run) || run == self.sender.run;
        if is_alive || flush.to <= before {
            return;
        }
        let mut ring = self.receiver.ring(run);
        if flush.from > before {
            ring = flush.base;
            self.skip(run, before, flush.from);
        }
        for number in before.max(flush.from) + 1..=flush.to {
            let event = flush.events.iter().find(|event| event.dot.number == number);
            self.take_flushed(step, flush, number, event, ring.as_ref());
            if let Some(Event {
                dot,
                change: Change::RingMarker(view),
                ..
            }) = event
            {
                self.receiver.set_ring(run, ring);
                self.set_ring(*dot, *view);
                ring = Some(*view);
            }
        }
        self.receiver.jump(run, flush.to, ring);
        self.claim_all(step);
    }

    /// What lies between this node's position and the begin of a flush is a hole.
    fn skip(&mut self, run: Run, before: u8, from: u8) {
        for copy in self.copies.iter_mut().flatten() {
            copy.content.needed.add(run, Numbers::between(before, from));
        }
        self.receiver.set_stable_at(run, from);
    }

    /// Takes one number of a flush; `ring` is the dead run's at that number.
    fn take_flushed(
        &mut self,
        step: &mut Step<'_>,
        flush: &Flush,
        number: u8,
        event: Option<&Event>,
        ring: Option<&View>,
    ) {
        if let Some(event) = event {
            self.receiver.keep(event);
            self.see_clock(event);
            self.need_everywhere(step, &event.known);
        }
        let numbers = Numbers::one(number);
        let Some(ring) = ring else { return };
        for slot in ring.slots_of(self.id) {
            let passer_owned = flush.by_stream[slot.index()].has(number);
            if passer_owned || event.is_some() || !step.holds(Rule::FlushBySlot) {
                self.receiver.add_by_stream(slot, flush.run, numbers);
                self.take(slot, flush.run, numbers);
                if let Some(event) = event.filter(|event| event.is_for(slot)) {
                    self.apply(step, slot, event);
                }
            } else {
                self.copy_mut(slot).content.needed.add(flush.run, numbers);
            }
        }
    }
}
