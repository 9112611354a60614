//! Transferring: questions and answers of this node, and what it does with its own copies then.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::content::own_events;
use super::holes::HoleStep;
use super::routes::add_filled;
use super::streams::{Receipt, ReceiptOf, Streams};
use super::{Copies, EventContent, Matching, Now, Plane, PlaneAction, PlaneError, PlaneMessage, PlaneValue};
use crate::membership::TransferProgress;
use crate::stream::Routing;
use crate::transfer::{
    AnswerId, Asker, ClosingLimits, CopyPlace, CopyUse, Held, Offers, PartError, PartReceived, RunPosition,
    SlotDigest, SlotDigests, SlotsMerged, TransferAction, TransferBytes, TransferMessage, digest_of,
    entries_len,
};
use crate::{Interval, NodeState, Slot, SlotCopy, SlotEntries, SlotSet, VersionVector};

/// Entries that one step digests for answers at most. Answers about other slots begin without a digest.
const DIGESTED_ENTRIES_MAX: u64 = 16_384;

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    pub(super) fn receive_transfer(
        &mut self,
        from: NodeId,
        message: TransferMessage<V, M>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let mut answers = Vec::new();
        let transfers = &mut self.transfers;
        match message {
            TransferMessage::AskSlots(ask) => {
                transfers.answers_are_due = true;
                for ask in ask.each() {
                    transfers.holder.receive_question(from, ask)?;
                }
            }
            TransferMessage::AskPart(ask) => {
                let copy = self.holdings.copies.get(ask.id.slot);
                let entries = copy.map(|copy| copy.entries);
                transfers
                    .holder
                    .receive_ask_part(from, &ask, entries, &mut answers)?;
            }
            TransferMessage::SlotPart(part) => {
                let slot = part.id.slot;
                return self.receive_answer(slot, actions, |asker, copy, answers| {
                    asker.receive_part(from, part, copy, answers)
                });
            }
            TransferMessage::SlotDigests(digests) => return self.receive_digests(from, &digests, actions),
            TransferMessage::SlotsMerged(merged) => self.receive_merged(from, &merged)?,
            TransferMessage::DropQuestion(id) => {
                transfers.holder.receive_drop(from, id);
                transfers.answers_are_due = true;
            }
            TransferMessage::Offer { slots } => self.receive_offer(from, &slots),
        }
        self.send_transfers(answers, actions);
        Ok(())
    }

    fn receive_merged(&mut self, from: NodeId, merged: &SlotsMerged) -> Result<(), PlaneError> {
        let transfers = &mut self.transfers;
        transfers.answers_are_due = true;
        for id in merged.answers() {
            if let Some(served) = transfers.holder.receive_merged(from, id)? {
                transfers.handover.receive_served(&served);
            }
        }
        Ok(())
    }

    fn receive_offer(&mut self, from: NodeId, slots: &SlotSet) {
        let owned = slots.intersection(self.holdings.owned());
        for slot in owned.iter() {
            self.transfers.asker.receive_offer(from, slot);
        }
        self.transfers.asks_are_due |= !owned.is_empty();
    }

    /// Receives begins of answers that have nothing but entries.
    fn receive_digests(
        &mut self,
        from: NodeId,
        digests: &SlotDigests,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        for digest in &digests.slots {
            let (slot, question) = (digest.slot, digests.question);
            let begin = (&digests.begin, digest);
            self.receive_answer(slot, actions, |asker, copy, answers| {
                asker.receive_digest(from, AnswerId { slot, question }, begin, copy, answers)
            })?;
        }
        Ok(())
    }

    /// Receives a part of an answer about a slot, if this node has a copy of it.
    fn receive_answer(
        &mut self,
        slot: Slot,
        actions: &mut Vec<PlaneAction<V, M>>,
        receive: impl FnOnce(
            &mut Asker<V, M>,
            &mut SlotCopy<V, M>,
            &mut Vec<TransferAction<V, M>>,
        ) -> Result<PartReceived<V>, PartError>,
    ) -> Result<(), PlaneError> {
        let (asker, mut answers) = (&mut self.transfers.asker, Vec::new());
        let received = self.holdings.change(slot, |copy| {
            receive(asker, copy, &mut answers).map_err(PlaneError::from)
        });
        // Another slot may be compared now.
        self.transfers.asks_are_due = true;
        self.send_transfers(answers, actions);
        if let Some(PartReceived::Merged { removed }) = received.transpose()? {
            self.transfers.holder.keep(slot, &removed);
            self.transfers.note_change();
            self.note_garbage_of(slot);
            self.numbers.note_copy(slot);
            actions.push(PlaneAction::Merged { slot });
        }
        Ok(())
    }

    /// Asks and answers what may be asked and answered now.
    pub(super) fn ask_and_answer(&mut self, actions: &mut Vec<PlaneAction<V, M>>) {
        let mut messages = Vec::new();
        let (streams, copies) = (&self.streams, &self.holdings.copies);
        if std::mem::take(&mut self.transfers.asks_are_due) {
            self.transfers.asker.ask(
                |slot| streams.owner_since(slot),
                |slot| copies.get(slot).map(|copy| copy.covered),
                &mut messages,
            );
        }
        let may_answer = std::mem::take(&mut self.transfers.answers_are_due);
        if may_answer && self.transfers.holder.has_unbegun() {
            self.answer(&mut messages);
        }
        self.send_transfers(messages, actions);
    }

    /// Begins the answers that may begin.
    fn answer(&mut self, messages: &mut Vec<TransferAction<V, M>>) {
        let by_peers = self.streams.owned_by_peers();
        let (streams, holdings, numbers) = (&self.streams, &self.holdings, &mut self.numbers);
        let (copies, asker) = (&holdings.copies, &self.transfers.asker);
        let has_merged_all = asker.has_merged_all();
        let mut budget = DIGESTED_ENTRIES_MAX;
        self.transfers.holder.begin_ready(
            |run| streams.position(run),
            |ask| {
                let slot = ask.id.slot;
                let mut held = copies.held(slot);
                add_own(&mut held, streams, slot);
                let filled = numbers.fill(copies, &ask.lacking, |slot| asker.is_merged(slot));
                add_filled(&mut held, slot, copies, &filled);
                held.begin.reserved = numbers.reserved.clone();
                held.begin.has_merged_all = has_merged_all;
                let is_owned = holdings.owned().contains(slot);
                let is_named = by_peers.as_ref().is_none_or(|named| named.contains(slot));
                held.is_abandoned = !is_owned && !is_named && copies.get(slot).is_some();
                held.digest = digest_within(&held, copies, slot, &mut budget);
                held
            },
            messages,
        );
    }

    /// Sends messages of transfers. A holder learns that its answer is merged once that is durable: it
    /// may delete its copy then.
    pub(super) fn send_transfers(
        &mut self,
        messages: Vec<TransferAction<V, M>>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) {
        for TransferAction { to, message } in messages {
            if let TransferMessage::SlotsMerged(merged) = message {
                for id in merged.answers() {
                    let of = ReceiptOf::Answer(id);
                    self.streams.add_receipt(Receipt { to, of });
                }
            } else {
                let message = PlaneMessage::Transfer(message);
                actions.push(PlaneAction::Send { to, message });
            }
        }
    }

    /// Deals with holes that stay.
    pub(super) fn watch_holes(&mut self, now: Now, actions: &mut Vec<PlaneAction<V, M>>) {
        let with_holes = self.holdings.copies.slots_with_holes();
        let merged = with_holes.intersection(self.transfers.asker.merged());
        self.transfers.holes.retain(&with_holes);
        if !self.transfers.holes.stay(now.monotonic, !merged.is_empty()) {
            return;
        }
        let peers: BTreeSet<NodeId> = self.membership.peers().collect();
        let is_complete = self.membership.is_complete();
        for slot in merged.iter() {
            match self.transfers.holes.look(now.monotonic, slot, is_complete) {
                HoleStep::Wait => {}
                HoleStep::AskAgain => {
                    self.fill_holes(slot, actions);
                    let holes = self.holes(slot);
                    self.transfers.asker.ask_again(slot, &holes, &peers);
                    self.transfers.asks_are_due = true;
                }
                HoleStep::Close => {
                    self.fill_holes(slot, actions);
                    self.close(slot, &peers, actions);
                }
            }
        }
    }

    /// Holes of a copy.
    pub(super) fn holes(&self, slot: Slot) -> VersionVector {
        let copy = self.copy(slot);
        copy.map_or_else(VersionVector::default, |copy| copy.holes.clone())
    }

    /// Closes the holes of which every peer has said that it lacks them, or asks them for that.
    fn close(&mut self, slot: Slot, peers: &BTreeSet<NodeId>, actions: &mut Vec<PlaneAction<V, M>>) {
        let Some(mut present) = self.streams.owner_since(slot) else {
            return;
        };
        // Own events that are kept are not nobody's, also where a copy of this node has refused them.
        let kept = self.streams.outgoing.kept().next();
        let last = self.streams.outgoing.last().number;
        present.push(RunPosition {
            run: self.run,
            number: kept.map_or(last, |event| event.dot.number - 1),
        });
        let limits = ClosingLimits {
            present,
            reserved: self.numbers.reserved.clone(),
        };
        let asker = &mut self.transfers.asker;
        let closed = self
            .holdings
            .change(slot, |copy| asker.close(slot, &limits, copy));
        match closed {
            Some(Ok(true)) => self.transfers.holes.forget(slot),
            Some(Ok(false)) => {
                let holes = self.holes(slot);
                self.transfers.asker.begin_closing(slot, &holes, peers);
                self.transfers.asks_are_due = true;
            }
            Some(Err(full)) => self.end_if_full(Err(full), actions),
            None => {}
        }
    }

    /// Deletes copies that nobody needs, and offers those that owners have not merged.
    ///
    /// A marker follows where QoS 2 numbers went with a copy that this node does not know any more: what an
    /// owner told before it merged them does not count behind it ([`Retiring`](crate::Retiring)). Of runs that
    /// are present this node tells nothing before its next marker.
    pub(super) fn review_copies(&mut self, now: Now, actions: &mut Vec<PlaneAction<V, M>>) {
        let mut offers = Offers::default();
        let abandoned = self.abandoned();
        let held = self.holdings.copies.slots().minus(self.holdings.owned());
        let mut had_orphans = false;
        let is_offering = now.monotonic >= self.offer_at;
        if is_offering {
            self.offer_at = now.monotonic + self.timing.offer_every;
        }
        for slot in held.iter() {
            let place = self.place(slot, &abandoned);
            match self.transfers.handover.review(&place, &mut offers) {
                CopyUse::Needed if is_offering && place.is_abandoned => {
                    self.transfers.handover.offer(&place, &mut offers);
                }
                CopyUse::Needed => {}
                CopyUse::Unneeded => {
                    self.garbage.forget(slot);
                    let present = self.membership.present_runs();
                    had_orphans |= self.numbers.has_orphans(&self.holdings.copies, slot, &present);
                    let deleted = self.holdings.delete(slot);
                    self.numbers.note_copy(slot);
                    self.end_if_full(deleted, actions);
                }
            }
        }
        if had_orphans {
            self.mark(now, None, actions);
        }
        if is_offering && self.is_giving() {
            for slot in self.holdings.copies.slots().iter() {
                let place = self.place(slot, &abandoned);
                self.transfers.handover.offer(&place, &mut offers);
            }
        }
        self.send_transfers(offers.into_actions().collect(), actions);
    }

    /// Tells the membership how far transfers are. True where the state of this node changes.
    pub(super) fn report_progress(&mut self, now: Now, actions: &mut Vec<PlaneAction<V, M>>) -> bool {
        if self.state() == NodeState::Running {
            return false;
        }
        let progress = TransferProgress {
            has_given: !self.is_giving() || self.has_given(),
            has_received: self.transfers.asker.has_merged_all(),
            has_met_all: self.has_met_all(),
        };
        let mut of_membership = Vec::new();
        self.membership
            .record_progress(now.monotonic, progress, &mut of_membership);
        let has_changed = !of_membership.is_empty();
        self.apply(now, of_membership, actions);
        has_changed
    }

    /// Each node that is in the ring of a present peer is present here.
    fn has_met_all(&self) -> bool {
        let mut peers = self.membership.peers();
        let is_met = |routing: &Routing| {
            let mut nodes = routing.view().nodes().iter();
            nodes.all(|node| self.present_run(node.run.node).is_some())
        };
        peers.all(|peer| self.streams.peer_routing(peer).is_some_and(is_met))
    }

    /// The node is in a state that ends when the owners have merged its copies.
    fn is_giving(&self) -> bool {
        matches!(self.state(), NodeState::Joining | NodeState::MergeMinority)
    }

    fn has_given(&self) -> bool {
        let nothing = SlotSet::default();
        let slots = self.holdings.copies.slots();
        let mut places = slots.iter().map(|slot| self.place(slot, &nothing));
        places.all(|place| self.transfers.handover.has_given(&place))
    }

    /// Slots with copies of which no ring of a present node names this node an owner.
    fn abandoned(&self) -> SlotSet {
        let by_peers = self.streams.owned_by_peers();
        by_peers.map_or_else(SlotSet::default, |by_peers| {
            self.holdings
                .copies
                .slots()
                .minus(self.holdings.owned())
                .minus(&by_peers)
        })
    }

    /// Slot of a copy, for the handover.
    fn place(&self, slot: Slot, abandoned: &SlotSet) -> CopyPlace {
        let view = self.streams.outgoing.routing();
        let nodes = view.view().nodes().len();
        CopyPlace {
            slot,
            owners: self
                .owners(slot)
                .filter(|owner| *owner != self.run.node)
                .collect(),
            owners_min: nodes.min(crate::ring::OWNERS),
            is_abandoned: abandoned.contains(slot),
            is_asked: self.transfers.holder.is_asked(slot),
        }
    }
}

/// Digest of a copy that has nothing to tell but entries, while the budget lasts.
fn digest_within<V: PlaneValue<M>, M>(
    held: &Held<V, M>,
    copies: &Copies<V, M>,
    slot: Slot,
    budget: &mut u64,
) -> Option<SlotDigest> {
    let nothing = SlotEntries::default();
    let copy = copies.get(slot);
    let entries = copy.as_ref().map_or(&nothing, |copy| copy.entries);
    if !held.is_plain() || entries.clients_len() as u64 > *budget {
        return None;
    }
    *budget = budget.checked_sub(entries_len(entries))?;
    Some(digest_of(slot, entries))
}

/// Adds own events that too few owners have, or that are being given to new ones. The copy may have none
/// of them (rule `own-unconfirmed`).
fn add_own<V: Clone, M: Clone>(held: &mut Held<V, M>, streams: &Streams<EventContent<V, M>>, slot: Slot) {
    let run = streams.outgoing.last().run;
    let mut events = Vec::new();
    for own in [
        streams.outgoing.unconfirmed(slot),
        streams.outgoing.given_late(slot),
    ] {
        let numbers = own.numbers.iter();
        let dots = numbers.filter_map(|range| Interval::new(run, range.first, range.last));
        held.begin.own = held.begin.own.united(&VersionVector::of_apart(dots));
        events.extend(own.events);
    }
    events.sort_unstable_by_key(|event| event.dot);
    events.dedup_by_key(|event| event.dot);
    let lacking = events
        .into_iter()
        .filter(|event| !held.begin.covered.covers(event.dot));
    held.own = lacking
        .flat_map(|event| own_events(event.dot, &event.payload, slot))
        .collect();
}
