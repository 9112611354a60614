//! Taking: what arrives changes the copies, and what follows from it (rules `claim-by-ring`,
//! `holes`, `causal` and `rematch`).

use super::action::RunEnd;
use super::collecting::TouchedSession;
use super::content::{EventEffects, PlaneEvent, effects};
use super::holdings::{Arrival, Holdings, TakenMessage};
use super::streams::{Receipt, ReceiptOf};
use super::{
    ChangedSession, Copies, CopyRef, Effect, EventContent, Matching, Now, Plane, PlaneAction, PlaneValue,
    RemovedEntry, SlotEffect,
};
use crate::queue_limits::QueueValue;
use crate::stream::NumberRange;
use crate::transfer::TransferBytes;
use crate::wire::{SentEvent, SentResend};
use crate::{ClientId, Dot, EntryId, EntryKind, Fact, Run, Slot, SlotSet, VectorFull};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Does what follows from a step: a ring marker, claims, questions and answers.
    pub(super) fn settle(&mut self, now: Now, actions: &mut Vec<PlaneAction<V, M>>) {
        self.report_given(actions);
        self.mark_if_changed(now, actions);
        self.holdings.update_subscribers();
        self.claim(actions);
        self.ask_and_answer(actions);
        self.holdings.update_subscribers();
    }

    /// Takes the next numbers of a run, its own or that of a peer. Numbers that a copy refuses are not
    /// confirmed.
    pub(super) fn take_next(
        &mut self,
        run: Run,
        numbers: NumberRange,
        events: &[PlaneEvent<V, M>],
        slots: &SlotSet,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        if !self.take(run, numbers, events, slots, actions)? {
            self.streams.hold_back(run, numbers);
        }
        Ok(())
    }

    /// Takes numbers of a run that came with `events`, for the slots that this node owned. False where
    /// a copy has refused some.
    pub(super) fn take(
        &mut self,
        run: Run,
        numbers: NumberRange,
        events: &[PlaneEvent<V, M>],
        slots: &SlotSet,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<bool, VectorFull> {
        let effects = events.iter().map(|event| effects(event, slots)).collect();
        let arrival = Arrival {
            run,
            numbers,
            effects,
        };
        self.take_arrival(
            arrival,
            |holdings, arrival| holdings.take(arrival, slots),
            actions,
        )
    }

    /// Takes a number of this run, for the slots that this node owns; with what its event does there.
    pub(super) fn take_own(
        &mut self,
        number: u64,
        effects: Vec<SlotEffect<V, M>>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        let (run, numbers) = (self.run, NumberRange::one(number));
        let arrival = Arrival {
            run,
            numbers,
            effects: vec![EventEffects { number, effects }],
        };
        if !self.take_arrival(arrival, Holdings::take_owned, actions)? {
            self.streams.hold_back(run, numbers);
        }
        Ok(())
    }

    /// Takes an arrival, and notes what it may leave. False where a copy has refused some.
    fn take_arrival(
        &mut self,
        arrival: Arrival<V, M>,
        take: impl FnOnce(&mut Holdings<V, M, R>, Arrival<V, M>) -> Result<bool, VectorFull>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<bool, VectorFull> {
        let touched = self.report_changes(&arrival, actions);
        let is_whole = take(&mut self.holdings, arrival)?;
        self.numbers.note(&touched);
        self.note_garbage(touched);
        Ok(is_whole)
    }

    /// Tells which sessions an arrival changes in copies of this node. Gives them, and the topics.
    fn report_changes(
        &self,
        arrival: &Arrival<V, M>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Vec<TouchedSession> {
        let (copies, run) = (&self.holdings.copies, arrival.run);
        let mut touched = Vec::new();
        for EventEffects { number, effects } in &arrival.effects {
            let number = *number;
            report_changes(copies, Dot { run, number }, effects, &mut touched, actions);
        }
        touched
    }

    /// Takes a resend: events of a present run, outside of the order of its stream. It is confirmed if
    /// no copy has refused anything of it.
    pub(super) fn take_resend(
        &mut self,
        run: Run,
        resend: SentResend<EventContent<V, M>>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), VectorFull> {
        let slots = self.within(&resend.slots);
        let nothing = Dot { run, number: 0 };
        self.gain(&slots, nothing)?;
        let events: Vec<PlaneEvent<V, M>> =
            resend.events.into_iter().map(|event| self.event(event)).collect();
        if self.take(run, resend.numbers, &events, &slots, actions)? {
            let (to, of) = (run.node, ReceiptOf::Resend(resend.id));
            self.streams.add_receipt(Receipt { to, of });
        }
        for event in &events {
            self.clock.see(event.payload.clock);
            self.holdings.need_everywhere(&event.payload.known)?;
        }
        Ok(())
    }

    /// Event of a stream, with the ring of a marker.
    pub(super) fn event(&mut self, sent: SentEvent<EventContent<V, M>>) -> PlaneEvent<V, M> {
        let rings = &mut self.rings;
        sent.into_event(|view| rings.routing(view))
    }

    /// Ends the run where a set would be too long to be exact: nothing that was not taken may be
    /// confirmed.
    pub(super) fn end_if_full(&self, taken: Result<(), VectorFull>, actions: &mut Vec<PlaneAction<V, M>>) {
        if taken.is_err() {
            actions.push(PlaneAction::EndRun(RunEnd::TooScattered));
        }
    }

    fn claim(&mut self, actions: &mut Vec<PlaneAction<V, M>>) {
        let queued = self.holdings.claim(self.transfers.asker.merged());
        actions.extend(queued.into_iter().map(PlaneAction::Queued));
        for TakenMessage { slot, message } in self.holdings.take_pending() {
            actions.push(PlaneAction::Pended { slot, message });
        }
    }
}

/// Tells which sessions an event changes in copies of this node. Topics are no sessions, and are looked at
/// for garbage only.
fn report_changes<V: Ord + QueueValue, M>(
    copies: &Copies<V, M>,
    by: Dot,
    effects: &[SlotEffect<V, M>],
    touched: &mut Vec<TouchedSession>,
    actions: &mut Vec<PlaneAction<V, M>>,
) {
    for SlotEffect { slot, effect } in effects {
        let Effect::Change(change) = effect else { continue };
        let (slot, client) = (*slot, change.client.clone());
        touched.push(TouchedSession {
            slot,
            client: client.clone(),
            birth: change.adds.as_ref().map(|entry| entry.birth),
        });
        if slot == Slot::RETAINED {
            continue;
        }
        let is_decided = |copy: CopyRef<'_, V>| copy.entries.covers(copy.covered, client.as_bytes(), by);
        let queued = change.adds.as_ref().filter(|entry| entry.fact == Fact::Message);
        let queued = queued.filter(|_| !copies.get(slot).is_some_and(is_decided));
        let queued = queued.map(|entry| entry.clock);
        let adds = change.adds.as_ref().map(|entry| &entry.fact);
        let removed = change.removes.iter();
        actions.push(PlaneAction::Changed(ChangedSession {
            removed: removed
                .map(|dot| removed_entry(copies, slot, &client, *dot))
                .collect(),
            delivered: adds.and_then(|fact| match fact {
                Fact::Delivery { message } => Some(*message),
                _ => None,
            }),
            queued,
            slot,
            client,
            by,
        }));
    }
}

/// Entry that an event removes, as the copy has it before.
fn removed_entry<V: Ord + QueueValue, M>(
    copies: &Copies<V, M>,
    slot: Slot,
    client: &ClientId,
    dot: Dot,
) -> RemovedEntry {
    let copy = copies.get(slot);
    let session = copy.and_then(|copy| copy.entries.session(client.as_bytes()));
    let kind = EntryKind::Message;
    let queued = session.and_then(|session| session.get(EntryId { kind, dot }));
    let clock = queued.map(|entry| entry.clock);
    let clock = clock.or_else(|| Some(copies.pending_message(slot, dot)?.clock));
    clock.map_or(RemovedEntry::Other(dot), |clock| RemovedEntry::Message {
        dot,
        clock,
    })
}
