//! Changes of the ring: own markers, and the slots that this node gains and loses by them.

use std::sync::Arc;

use cluster::NodeId;

use super::action::RunEnd;
use super::{EventContent, Matching, Now, Plane, PlaneAction, PlaneValue};
use crate::stream::{RingsFull, Routing};
use crate::transfer::TransferBytes;
use crate::view::NODES_MAX;
use crate::wire::SentResend;
use crate::{Dot, SlotSet, VectorFull};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Begins the run: it owns what its first view gives it, and has nobody to ask.
    pub(super) fn found(&mut self) -> Result<(), VectorFull> {
        let routing = Arc::clone(self.streams.outgoing.routing());
        let before = self.streams.outgoing.last();
        for slot in self.holdings.copies.slots().iter() {
            self.note_garbage_of(slot);
            self.numbers.note_copy(slot);
        }
        self.holdings.found_subscribers();
        self.change_owned(before, &routing, &mut Vec::new())
    }

    /// Makes a marker where the last one does not say any more who is present, and in which state.
    pub(super) fn mark_if_changed(&mut self, now: Now, actions: &mut Vec<PlaneAction<V, M>>) {
        if self.membership.is_changed() {
            self.mark(now, None, actions);
        }
    }

    /// Makes a marker with the present view; for `welcomed` it begins the stream.
    ///
    /// Where too many rings are kept, peers are given up that are behind. The run ends if none is.
    pub(super) fn mark(&mut self, now: Now, welcomed: Option<NodeId>, actions: &mut Vec<PlaneAction<V, M>>) {
        let mut full = None;
        for _ in 0..=NODES_MAX {
            match self.push_marker(now, welcomed, actions) {
                Ok(()) => return,
                Err(refused) => full = Some(refused),
            }
            let behind = full.and_then(|full| full.behind);
            let mut ended = Vec::new();
            if behind.is_none_or(|peer| self.membership.give_up(peer, &mut ended).is_err()) {
                break;
            }
            self.apply_one_by_one(ended, actions);
        }
        let rings = full.map_or(0, |full| full.rings);
        actions.push(PlaneAction::EndRun(RunEnd::NoOwners { rings }));
    }

    fn push_marker(
        &mut self,
        now: Now,
        welcomed: Option<NodeId>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), RingsFull> {
        let view = self.membership.view();
        let routing = self.rings.routing(view.clone());
        self.clock.tick(now.wall);
        let content = EventContent::Nothing;
        let bytes = content.bytes();
        let payload = self.payload(content);
        let marker = self
            .streams
            .outgoing
            .push_marker(Arc::clone(&routing), welcomed, payload, bytes)?;
        self.membership.record_marker(view);
        self.retiring.record_marker(marker);
        let changed = self.change_ring(marker, &routing, actions);
        self.end_if_full(changed, actions);
        let nodes = self.membership.peers().chain([self.run.node]).collect();
        let marker = marker.number;
        actions.push(PlaneAction::RingChanged { marker, nodes });
        Ok(())
    }

    /// Goes over to the ring of an own marker. The number of the marker belongs to the ring before.
    fn change_ring(
        &mut self,
        marker: Dot,
        routing: &Routing,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        self.take_own(marker.number, Vec::new(), actions)?;
        self.change_owned(marker, routing, actions)?;
        self.take_own_resends(actions)
    }

    /// Gains the slots that a ring gives this node: that of a marker, of a resend, or of a flush. Events
    /// of its run up to `marker` are not for them.
    pub(super) fn gain(&mut self, slots: &SlotSet, marker: Dot) -> Result<(), VectorFull> {
        if slots.is_empty() {
            return Ok(());
        }
        let gained = self.within(slots);
        self.transfers.regain(&gained);
        self.holdings.gain(&gained, marker, self.run)
    }

    /// Begins and ends the ownership of slots.
    fn change_owned(
        &mut self,
        marker: Dot,
        routing: &Routing,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        let owned = self.within(&routing.ring().slots_of(self.run.node));
        let gained = owned.minus(self.holdings.owned());
        let lost = self.holdings.owned().minus(&owned);
        self.gain(&gained, marker)?;
        self.holdings.own(owned)?;
        let peers = self.membership.peers().collect();
        for slot in gained.iter() {
            self.transfers.asker.begin(slot, &peers);
        }
        let copies = &self.holdings.copies;
        let holes = |slot| copies.holes(slot).map(|holes| (slot, holes));
        self.transfers
            .asker
            .begin_with_holes(gained.iter().filter_map(holes));
        let mut of_transfers = Vec::new();
        for slot in lost.iter() {
            self.transfers.asker.end(slot, &mut of_transfers);
            self.transfers.holes.forget(slot);
        }
        self.send_transfers(of_transfers, actions);
        self.transfers.note_change();
        Ok(())
    }

    /// Takes what this node resends to itself as a new owner.
    pub(super) fn take_own_resends(
        &mut self,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        let own = self.run.node;
        while let Some(resend) = self.streams.outgoing.send_resend(own) {
            let sent = SentResend::from(&resend);
            self.take_resend(self.run, sent, actions)?;
        }
        Ok(())
    }
}
