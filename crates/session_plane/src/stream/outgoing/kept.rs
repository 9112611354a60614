//! Kept events: each from its number until it is durable and no resend has it.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::OutgoingStream;
use crate::stream::{EventKind, StreamEvent};
use crate::{Dot, EVENT_NUMBER_MAX, Recipients};

/// Event that is not durable, or that is being resent.
#[derive(Debug)]
pub(super) struct Kept<P> {
    pub(super) event: StreamEvent<P>,
    pub(super) bytes: usize,
    /// Receivers that are present and have not confirmed.
    pub(super) missing: usize,
    /// Too few owners, or a receiver was given up: the copies of each slot must be counted.
    pub(super) is_counted: bool,
    /// Resends with the event that are not confirmed.
    pub(super) resends: usize,
    /// Was reported; is kept for its resends.
    pub(super) is_durable: bool,
}

/// Nodes that an event is queued for.
#[derive(Debug)]
pub(super) struct Receivers {
    pub(super) nodes: BTreeSet<NodeId>,
    /// A slot has fewer present owners than an event needs copies.
    pub(super) is_short: bool,
}

impl<P> OutgoingStream<P> {
    /// Present nodes that need a change; a pass over its slots.
    pub(super) fn receivers_of(&self, to: &Recipients) -> Receivers {
        let ring = self.routing().ring();
        let present = to.nodes.iter().copied();
        let mut nodes: BTreeSet<NodeId> = present.filter(|node| self.streams.contains_key(node)).collect();
        let mut is_short = false;
        for slot in to.slots.iter() {
            let present = ring.owners(slot).filter(|owner| self.streams.contains_key(owner));
            let mut owners = 0;
            for owner in present {
                owners += 1;
                nodes.insert(owner);
            }
            is_short |= owners < self.limits.copies_min;
        }
        Receivers { nodes, is_short }
    }

    /// Gives an event the next number and queues it.
    pub(super) fn keep(&mut self, kind: EventKind, payload: P, bytes: usize, receivers: &Receivers) -> Dot {
        self.number += 1;
        assert!(self.number < EVENT_NUMBER_MAX, "a run does not live that long");
        let dot = self.last();
        for node in &receivers.nodes {
            if let Some(stream) = self.streams.get_mut(node) {
                stream.push(dot.number);
            }
        }
        if let Some(own) = self.streams.get_mut(&self.run.node) {
            own.skip_sending(dot.number);
        }
        let kept = Kept {
            event: StreamEvent { dot, kind, payload },
            bytes,
            missing: receivers.nodes.len(),
            is_counted: receivers.is_short,
            resends: 0,
            is_durable: false,
        };
        self.kept.insert(dot.number, kept);
        self.kept_bytes += bytes;
        dot
    }

    /// One receiver fewer is waited for.
    pub(super) fn settle(&mut self, number: u64, durable: &mut Vec<Dot>) {
        if let Some(kept) = self.kept.get_mut(&number) {
            kept.missing -= 1;
            self.complete_if_settled(number, durable);
        }
    }

    /// Reports a change once it is durable.
    pub(super) fn complete_if_settled(&mut self, number: u64, durable: &mut Vec<Dot>) {
        let is_settled = |kept: &&Kept<P>| kept.missing == 0 && !kept.is_durable;
        let Some(kept) = self.kept.get(&number).filter(is_settled) else {
            return;
        };
        if kept.is_counted && !self.has_enough_copies(&kept.event) {
            self.short.insert(number);
            return;
        }
        self.short.remove(&number);
        if let Some(kept) = self.kept.get_mut(&number) {
            kept.is_durable = true;
            if matches!(kept.event.kind, EventKind::Change(_)) {
                durable.push(kept.event.dot);
            }
        }
        self.forget_if_done(number);
    }

    /// Forgets an event that is durable and that no resend has.
    pub(super) fn forget_if_done(&mut self, number: u64) {
        let is_done = |kept: &&Kept<P>| kept.is_durable && kept.resends == 0;
        if let Some(kept) = self.kept.get(&number).filter(is_done) {
            self.kept_bytes -= kept.bytes;
            self.kept.remove(&number);
        }
    }
}
