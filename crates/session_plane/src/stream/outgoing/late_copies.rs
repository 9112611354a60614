//! Late copies: events that were durable when nodes became owners of their slots.
//!
//! A new owner gets most of what it lacks when it merges. The entry of an open connection, and the
//! packet id of a message that waits, must not wait for that (rules `connection-to-new-owners` and
//! `received-to-new-owners`). The node has them, and sends them under their old dots.
//!
//! *Invariant*: a giving waits for as many receivers as have a late copy of it outstanding.

use cluster::NodeId;

use super::OutgoingStream;
use crate::SlotSet;
use crate::stream::{NumberRange, Resend, StreamEvent};

/// Number of a giving among those of a run; from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GivingId(pub u64);

impl<P: Clone> OutgoingStream<P> {
    /// Sends an event of the run again, for `slots`, to those of `to` that are present. The giving
    /// is among [`OutgoingStream::take_given`] once all of them have the event, or were given up.
    ///
    /// The caller bounds the events: it has one for each connection or message that waits.
    pub fn give(&mut self, event: &StreamEvent<P>, slots: &SlotSet, to: &[NodeId]) -> GivingId {
        assert!(event.dot.run == self.run, "a run sends its own events");
        self.last_giving += 1;
        let giving = GivingId(self.last_giving);
        let present = to.iter().filter(|node| self.streams.contains_key(node));
        let mut missing = 0;
        for node in present {
            missing += 1;
            self.resends.add_late(*node, giving, slots.clone(), event.clone());
        }
        if missing == 0 {
            self.given.push(giving);
        } else {
            self.givings.insert(giving, missing);
        }
        giving
    }
}

impl<P> OutgoingStream<P> {
    /// Takes the givings that have ended since this was called last.
    pub fn take_given(&mut self) -> Vec<GivingId> {
        std::mem::take(&mut self.given)
    }

    /// Givings that have not ended; a gauge.
    pub fn givings(&self) -> usize {
        self.givings.len()
    }

    /// Next late copy for `peer` over its present connection.
    pub(super) fn next_late(&mut self, peer: NodeId) -> Option<Resend<'_, P>> {
        let (id, late) = self.resends.send_late(peer)?;
        Some(Resend {
            id,
            slots: &late.slots,
            numbers: NumberRange::one(late.event.dot.number),
            events: vec![&late.event],
        })
    }

    /// One receiver of a giving fewer is waited for.
    pub(super) fn settle_late(&mut self, giving: GivingId) {
        let Some(missing) = self.givings.get_mut(&giving) else {
            return;
        };
        *missing -= 1;
        if *missing == 0 {
            self.givings.remove(&giving);
            self.given.push(giving);
        }
    }
}
