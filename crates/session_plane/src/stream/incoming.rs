//! Incoming stream of a peer's run: how far this node has it, and by which rings it was routed.
//!
//! A handshake is followed by a Welcome, a ring marker that begins the stream. Events and positions
//! follow in order. Each names the number that it comes after, so what was missed shows at once.
//! The node takes the numbers of [`Received::Taken`] for the slots of [`IncomingStream::owned_at`]
//! only: it claims an event for slots that it owned by the sender's ring at that event. It persists
//! them, and confirms [`IncomingStream::durable`].
//!
//! *Invariants*: `stable <= durable <= position`, and none goes back while the stream lasts. All
//! numbers of one [`Received::Taken`] were routed by one ring, because a marker is for every node.
//! Refused input changes nothing.

use std::sync::Arc;

use cluster::NodeId;

use crate::stream::{EventKind, NumberRange, Routing, StreamEvent, StreamPosition};
use crate::{EVENT_NUMBER_MAX, Run, Slot, SlotSet};

mod flush;
mod owned;
mod receive_error;
mod taken_flush;

pub use flush::{Flush, FlushedSlots, IncomingLimits};
pub use receive_error::ReceiveError;
pub use taken_flush::{CoveredSlots, ReceivedFlush, TakenFlush, TakenPart};

use flush::PassOn;
use owned::Owned;

/// Stream of one run to this node.
///
/// An event costs O(1). A ring marker costs one pass over the slots.
#[derive(Debug)]
pub struct IncomingStream<P> {
    /// This node.
    node: NodeId,
    /// Run whose events come.
    run: Run,
    /// Marker that began the stream; 0 before the first.
    begin: u64,
    /// The Welcome of the present stay has come.
    is_begun: bool,
    position: u64,
    durable: u64,
    /// Last stable position that the sender has sent in this stream.
    stable: u64,
    /// Highest number that came over the present connection.
    heard: u64,
    owned: Owned,
    pass_on: PassOn<P>,
}

/// Effect of an event that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The event was received before. It is to be confirmed like a new one.
    Again,
    /// A stream has begun: what came before is a hole in the slots that this node owns by it.
    Begun {
        /// Slots that this node owns by the sender's ring.
        gained: SlotSet,
    },
    /// Numbers were taken; the event is that of the last one.
    Taken {
        /// Numbers, for the slots that this node owned at the first of them.
        numbers: NumberRange,
        /// Slots that a marker makes this node an owner of. What came before, the marker's own
        /// number included, is a hole there.
        gained: SlotSet,
    },
}

impl<P> IncomingStream<P> {
    /// Stream of `run` to the node `node`, before its Welcome.
    pub fn new(node: NodeId, run: Run, limits: IncomingLimits) -> IncomingStream<P> {
        IncomingStream {
            node,
            run,
            begin: 0,
            is_begun: false,
            position: 0,
            durable: 0,
            stable: 0,
            heard: 0,
            owned: Owned::default(),
            pass_on: PassOn::new(limits),
        }
    }

    /// Begins a stay of the run: its Welcome begins the stream.
    pub fn begin_stay(&mut self) {
        self.is_begun = false;
        self.heard = 0;
    }

    /// Begins a new connection, over which the sender may repeat what it sent before.
    pub fn restart_connection(&mut self) {
        self.heard = 0;
    }

    /// Begins the stream with a Welcome. A later Welcome of the same run follows a new handshake,
    /// and begins the stream anew. That goes back where a flush has brought what the run made since: the
    /// flush may lack what is for this node alone.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] where no stream of the run begins so.
    pub fn receive_welcome(&mut self, event: StreamEvent<P>, bytes: usize) -> Result<Received, ReceiveError> {
        let (run, number) = (self.run, event.dot.number);
        self.check_run(event.dot.run)?;
        let EventKind::RingMarker(routing) = &event.kind else {
            return Err(ReceiveError::NotAMarker { run, number });
        };
        let routing = Arc::clone(routing);
        self.check_range(number)?;
        self.check_view(number, &routing)?;
        self.check_new(number)?;
        if number == self.begin {
            (self.is_begun, self.heard) = (true, number);
            return Ok(Received::Again);
        }
        let last = if self.is_begun { self.position } else { self.begin };
        if number <= last {
            return Err(self.goes_back(last, number));
        }
        let before = number - 1;
        self.is_begun = true;
        (self.begin, self.position, self.heard) = (number, number, number);
        // Other nodes may lack what came before this stream, so the stable position may be lower.
        (self.durable, self.stable) = (before, 0);
        self.pass_on.clear(before);
        self.pass_on.keep(event, bytes);
        self.owned = Owned::default();
        let gained = self.owned.change_ring(self.node, number, routing);
        Ok(Received::Begun { gained })
    }

    /// Receives the next event that the sender has for this node; `after` is the number that it
    /// comes after.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] where the event is not the next one.
    pub fn receive_event(
        &mut self,
        after: u64,
        event: StreamEvent<P>,
        bytes: usize,
    ) -> Result<Received, ReceiveError> {
        let number = event.dot.number;
        self.check_run(event.dot.run)?;
        self.check_next(StreamPosition { after, number })?;
        self.check_new(number)?;
        let marker = match &event.kind {
            EventKind::RingMarker(routing) => Some(Arc::clone(routing)),
            EventKind::Change(_) => None,
        };
        if let Some(routing) = &marker {
            self.check_view(number, routing)?;
        }
        self.heard = number;
        let Some(numbers) = self.advance(number) else {
            return Ok(Received::Again);
        };
        // The ring of these numbers stays until the next event, also if this one is dropped at
        // once.
        self.forget_rings();
        self.pass_on.keep(event, bytes);
        let gained = marker.map(|routing| self.owned.change_ring(self.node, number, routing));
        let gained = gained.unwrap_or_default();
        Ok(Received::Taken { numbers, gained })
    }

    /// Receives a position: no other event up to there is for this node. Gives the numbers that are
    /// taken by it.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] where something before it is missing, or the position goes back.
    pub fn receive_position(&mut self, at: StreamPosition) -> Result<Option<NumberRange>, ReceiveError> {
        self.check_next(at)?;
        self.heard = at.number;
        Ok(self.advance(at.number))
    }

    /// Receives the stable position: all nodes that are present to the sender have everything up to
    /// `number`, and nothing of it is kept for passing on.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] where this node has not confirmed that much, or the position goes back.
    pub fn receive_stable(&mut self, number: u64) -> Result<(), ReceiveError> {
        let run = self.run;
        if number < self.stable {
            return Err(self.goes_back(self.stable, number));
        }
        if number > self.durable {
            let durable = self.durable;
            return Err(ReceiveError::StableTooEarly { run, durable, number });
        }
        self.stable = number;
        self.pass_on.drop_up_to(number);
        self.forget_rings();
        Ok(())
    }

    /// Everything up to `number` is durable at this node.
    pub fn persisted(&mut self, number: u64) {
        assert!(number <= self.position, "what is persisted was received");
        self.durable = self.durable.max(number);
    }

    /// The Welcome of the present stay has come.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Position that this node confirms.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Highest number that was received, as an event or as a position.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// View and ring by which the run routes after its last event. None before the Welcome.
    pub fn routing(&self) -> Option<&Arc<Routing>> {
        self.owned.routing_at(self.position + 1)
    }

    /// View and ring by which the run routed the event `number`. None where the stream had not
    /// begun, and where nothing is kept any more.
    pub fn routing_at(&self, number: u64) -> Option<&Arc<Routing>> {
        self.owned.routing_at(number)
    }

    /// Slots that this node owned by the ring by which the event `number` was routed (rule
    /// `claim-by-ring`). None as for [`IncomingStream::routing_at`].
    pub fn owned_at(&self, number: u64) -> Option<&SlotSet> {
        self.owned.slots_at(number)
    }

    /// Marker that made this node an owner of `slot`. None if it owns the slot no more.
    pub fn owner_since(&self, slot: Slot) -> Option<u64> {
        self.owned.since(slot)
    }

    /// Events after `from` for a peer that has the stream up to there, once the run is given up.
    ///
    /// Begins later than asked where events are stable, or were dropped at the limit. What lies
    /// between is a hole to the peer, which a merge fills. Empty where the peer has as much.
    pub fn flush(&self, from: u64) -> Flush<'_, P> {
        let from = from.max(self.pass_on.from()).min(self.position);
        Flush {
            run: self.run,
            from,
            to: self.position,
            base: self.owned.routing_at(from + 1),
            events: self.pass_on.after(from),
            slots: self.owned.between(from, self.position),
        }
    }

    /// Moves the position; gives the numbers that are new.
    fn advance(&mut self, number: u64) -> Option<NumberRange> {
        let first = self.position + 1;
        if number < first {
            return None;
        }
        self.position = number;
        Some(NumberRange { first, last: number })
    }

    /// Rings are kept as far back as events are.
    fn forget_rings(&mut self) {
        self.owned.forget_before(self.pass_on.from() + 1);
    }

    fn check_run(&self, found: Run) -> Result<(), ReceiveError> {
        let expected = self.run;
        if found == expected {
            Ok(())
        } else {
            Err(ReceiveError::OtherRun { expected, found })
        }
    }

    /// A number is of an event, and has one after it.
    fn check_range(&self, number: u64) -> Result<(), ReceiveError> {
        let run = self.run;
        if number >= EVENT_NUMBER_MAX {
            return Err(ReceiveError::OutOfRange { run, number });
        }
        Ok(())
    }

    /// An event comes once over one connection.
    fn check_new(&self, number: u64) -> Result<(), ReceiveError> {
        if number <= self.heard {
            return Err(self.goes_back(self.heard, number));
        }
        Ok(())
    }

    /// Numbers of one connection are in order.
    fn check_order(&self, number: u64) -> Result<(), ReceiveError> {
        if number < self.heard {
            return Err(self.goes_back(self.heard, number));
        }
        Ok(())
    }

    fn goes_back(&self, position: u64, number: u64) -> ReceiveError {
        let run = self.run;
        ReceiveError::GoesBack {
            run,
            position,
            number,
        }
    }

    fn check_next(&self, at: StreamPosition) -> Result<(), ReceiveError> {
        let (run, expected, found) = (self.run, self.position, at.after);
        if !self.is_begun {
            return Err(ReceiveError::NotBegun { run });
        }
        self.check_range(at.number)?;
        self.check_order(at.number)?;
        if found > expected {
            return Err(ReceiveError::Skipped { run, expected, found });
        }
        Ok(())
    }

    /// A run has a view with itself, and sends its markers to nodes of the view.
    fn check_view(&self, number: u64, routing: &Routing) -> Result<(), ReceiveError> {
        let view = routing.view();
        let has_run = view
            .find(self.run.node)
            .is_some_and(|present| present.run == self.run);
        if has_run && view.find(self.node).is_some() {
            return Ok(());
        }
        let run = self.run;
        Err(ReceiveError::ForeignView { run, number })
    }
}

#[cfg(test)]
mod tests;
