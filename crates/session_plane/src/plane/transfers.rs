//! Transfers of a plane: both halves, the handover of copies, and the holes that stay.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::holes::HoleWatch;
use super::{Limits, Timing};
use crate::queue_limits::QueueValue;
use crate::transfer::{Asker, Handover, Holder, TransferBytes, TransferValue};
use crate::{Slot, SlotSet};

/// State of all transfers of a node.
#[derive(Debug)]
pub(super) struct Transfers<V, M> {
    pub(super) asker: Asker<V, M>,
    pub(super) holder: Holder<V, M>,
    pub(super) handover: Handover,
    pub(super) holes: HoleWatch,
    /// Something may be asked that could not before.
    pub(super) asks_are_due: bool,
    /// Something may be answered that could not before.
    pub(super) answers_are_due: bool,
}

impl<V: TransferValue + QueueValue + Ord + Clone, M: TransferBytes> Transfers<V, M> {
    pub(super) fn new(limits: &Limits, timing: &Timing) -> Transfers<V, M> {
        Transfers {
            asker: Asker::new(limits.asker),
            holder: Holder::new(limits.holder),
            handover: Handover::default(),
            holes: HoleWatch::new(timing),
            asks_are_due: false,
            answers_are_due: false,
        }
    }

    /// Meets a peer: all owned slots are asked of it, and what it merged before does not count.
    pub(super) fn meet(&mut self, peer: NodeId) {
        self.asker.meet(peer);
        self.holes.forget_answers();
        self.handover.forget(peer);
        self.note_change();
    }

    /// Gives a peer up.
    pub(super) fn give_up(&mut self, peer: NodeId, others: &BTreeSet<NodeId>) {
        self.asker.give_up(peer, others);
        self.holes.forget_answers();
        self.holder.give_up(peer);
        self.handover.forget(peer);
        self.note_change();
    }

    /// Begins a new connection to a peer.
    pub(super) fn restart_connection(&mut self, peer: NodeId) {
        self.asker.restart_connection(peer);
        self.holder.restart_connection(peer);
        self.note_change();
    }

    /// A ring names this node as an owner of `slots`: it may take something that no answer so far has.
    pub(super) fn regain(&mut self, slots: &SlotSet) {
        self.holder.regain(slots);
        self.handover.regain(slots);
    }

    /// Something has changed on which questions and answers wait.
    pub(super) fn note_change(&mut self) {
        self.asks_are_due = true;
        self.answers_are_due = true;
    }

    /// The copy of an owned slot may claim.
    pub(super) fn is_merged(&self, slot: Slot) -> bool {
        self.asker.is_merged(slot)
    }
}
