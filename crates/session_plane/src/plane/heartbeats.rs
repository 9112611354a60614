//! Heartbeats and confirmations: what this node tells without being asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::NodeId;

use super::streams::{Receipt, ReceiptOf};
use super::{Matching, Now, PersistPoint, Plane, PlaneAction, PlaneMessage, PlaneValue};
use crate::stream::ConfirmError;
use crate::transfer::{AnswerId, QuestionId, SlotsMerged, TransferBytes, TransferMessage};
use crate::wire::{Confirm, Heartbeat};
use crate::{Interval, RecordBatch, RecordValue, SlotSet, VersionVector};

/// Answer whose merge is on the disk.
#[derive(Debug, Clone, Copy)]
struct MergedSlot {
    to: NodeId,
    id: AnswerId,
}

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Point for the disk. Appends what differs from the disk to `batch`. The node writes the batch,
    /// behind those of earlier points, and hands the point back when it is durable. Points are
    /// handed back in the order in which they were taken.
    pub fn persist_point(&mut self, batch: &mut RecordBatch) -> PersistPoint
    where
        V: RecordValue,
        M: RecordValue,
    {
        if let Some(clock) = self.clock.take_unwritten() {
            batch.put_clock(clock);
        }
        self.holdings.copies.write_records(batch);
        let holdings = &self.holdings;
        let knowledge = self.knowledge.point(holdings.known(), self.clock.latest());
        let lacks = |events: &Interval| holdings.copies.lack(holdings.owned(), events);
        self.streams.persist_point(knowledge, lacks)
    }

    /// The last point lacks something: the node takes another one.
    ///
    /// That is a record that differs from the disk, what is to be confirmed, or what this node knows. Peers are
    /// told what it knows once that is on the disk, and drop nothing before.
    pub fn has_unwritten(&self) -> bool {
        let (known, clock) = (self.holdings.known(), self.clock.latest());
        self.streams.has_unpointed()
            || self.holdings.copies.has_unwritten()
            || !self.knowledge.is_pointed(known, clock)
    }

    /// Everything up to `point` is on the disk: it is confirmed, and own changes may be durable.
    ///
    /// # Errors
    ///
    /// [`ConfirmError`] where points come in another order.
    pub fn persisted(
        &mut self,
        point: PersistPoint,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), ConfirmError> {
        let knowledge = Arc::clone(&point.knowledge);
        let persisted = self.streams.persisted(point)?;
        self.knowledge.persisted(knowledge);
        actions.extend(persisted.durable.into_iter().map(PlaneAction::Durable));
        self.report_given(actions);
        let answered: Vec<NodeId> = self.membership.answered_peers().collect();
        for to in persisted.streams {
            if let Some(number) = self.streams.durable(to).filter(|_| answered.contains(&to)) {
                let known = self.known_for(to);
                let message = PlaneMessage::Confirm(Confirm { number, known });
                actions.push(PlaneAction::Send { to, message });
            }
        }
        let mut merged = Vec::new();
        for Receipt { to, of } in persisted.receipts {
            let message = match of {
                ReceiptOf::Route { number, marker } => {
                    actions.push(PlaneAction::RouteTaken { to, number, marker });
                    continue;
                }
                ReceiptOf::Resend(id) => PlaneMessage::ConfirmResent(id),
                ReceiptOf::Answer(id) => {
                    merged.push(MergedSlot { to, id });
                    continue;
                }
            };
            actions.push(PlaneAction::Send { to, message });
        }
        self.report_merged(merged, actions);
        self.ask_and_answer(actions);
        Ok(())
    }

    /// Tells holders which of their answers are merged, by question.
    fn report_merged(&mut self, merged: Vec<MergedSlot>, actions: &mut Vec<PlaneAction<V, M>>) {
        let mut questions: BTreeMap<(NodeId, QuestionId), SlotSet> = BTreeMap::new();
        for MergedSlot { to, id } in merged {
            self.transfers.asker.reported(to, id);
            self.transfers.asks_are_due = true;
            questions.entry((to, id.question)).or_default().insert(id.slot);
        }
        for ((to, question), slots) in questions {
            let merged = TransferMessage::SlotsMerged(SlotsMerged { question, slots });
            let message = PlaneMessage::Transfer(merged);
            actions.push(PlaneAction::Send { to, message });
        }
    }

    /// What a confirmation tells a peer that routes by another view, or may not know by which this node
    /// routes: of two nodes that take themselves for primary, each is to hear of the other's events before
    /// it goes by a confirmation of its own (rules `one-number` and `give-first`). Nothing to other peers,
    /// which get those events themselves.
    fn known_for(&self, peer: NodeId) -> VersionVector {
        let has_marker = self.streams.outgoing.has_confirmed(peer, self.marker());
        if has_marker && self.membership.has_view_of(peer) {
            return VersionVector::default();
        }
        self.holdings.known().clone()
    }

    /// Sends each peer that is not suspected what it waits for, and what the disk knows.
    pub(super) fn send_heartbeats(&mut self, now: Now, actions: &mut Vec<PlaneAction<V, M>>) {
        let answered: Vec<NodeId> = self.membership.answered_peers().collect();
        let settled = self.settle_runs();
        let stable = self.streams.outgoing.stable();
        let knowledge = self.knowledge.durable();
        for to in answered {
            let heartbeat = Heartbeat {
                position: self.streams.outgoing.send_position(to),
                confirmed: self.streams.durable(to),
                stable,
                clock: knowledge.clock,
                known: knowledge.known.clone(),
                settled: settled.clone(),
            };
            // The peer is present, as it is answered.
            let _ = self.membership.record_answered(now.monotonic, to);
            let message = PlaneMessage::Heartbeat(heartbeat);
            actions.push(PlaneAction::Send { to, message });
        }
    }
}
