//! Ring epoch: the numbers between two ring markers, and which nodes have copies of them.
//!
//! A marker's own number belongs to the ring before it. Within an epoch the owners of a slot do not
//! change. So the copies of all numbers of a slot follow from one position for each owner, and from
//! the resends that were confirmed: there is no set for each slot. *Invariant*: copies of a number
//! only grow. A peer that is given up keeps what it has confirmed.

use std::sync::Arc;

use cluster::NodeId;

use crate::stream::{NumberRange, Routing};
use crate::{Slot, SlotSet};

/// Numbers that a run routed by one ring.
#[derive(Debug)]
pub(crate) struct RingEpoch {
    routing: Arc<Routing>,
    /// Number after the marker.
    first: u64,
    /// Number of the next marker. None while the ring is in force.
    last: Option<u64>,
    /// Streams that ended during or after the epoch.
    ended: Vec<EndedStream>,
    resent: Vec<ResentCopy>,
    /// Numbers of the epoch had too few copies, and none was added since.
    pub(crate) is_short: bool,
}

/// Numbers of a slot that one node has, or is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) node: NodeId,
    pub(crate) numbers: NumberRange,
}

/// Stream to a peer that was given up.
#[derive(Debug)]
struct EndedStream {
    node: NodeId,
    confirmed: u64,
}

/// Resend that its receiver has confirmed.
#[derive(Debug)]
pub(crate) struct ResentCopy {
    pub(crate) node: NodeId,
    pub(crate) slots: SlotSet,
    pub(crate) numbers: NumberRange,
}

impl RingEpoch {
    pub(crate) fn new(routing: Arc<Routing>, first: u64) -> RingEpoch {
        RingEpoch {
            routing,
            first,
            last: None,
            ended: Vec::new(),
            resent: Vec::new(),
            is_short: false,
        }
    }

    pub(crate) fn routing(&self) -> &Arc<Routing> {
        &self.routing
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn close(&mut self, last: u64) {
        self.last = Some(last);
    }

    /// Numbers of the epoch, once it is closed.
    pub(crate) fn numbers(&self) -> Option<NumberRange> {
        let (first, last) = (self.first, self.last?);
        Some(NumberRange { first, last })
    }

    /// Remembers what a peer has confirmed whose stream ends.
    pub(crate) fn end_stream(&mut self, node: NodeId, begin: u64, confirmed: u64) {
        if begin < self.first && self.first <= confirmed {
            self.ended.push(EndedStream { node, confirmed });
        }
    }

    pub(crate) fn add_copy(&mut self, copy: ResentCopy) {
        self.resent.push(copy);
        self.is_short = false;
    }

    /// Number of owners of `slot` that have everything up to `last`: enough to know for most slots.
    pub(crate) fn count_whole(
        &self,
        slot: Slot,
        last: u64,
        live: impl Fn(NodeId) -> Option<LivePosition>,
    ) -> usize {
        let owners = self.routing.ring().owners(slot);
        owners
            .filter(|owner| self.position(*owner, live(*owner)) >= last)
            .count()
    }

    /// Confirmed copies of `slot`; `live` gives the position of a present peer's stream.
    pub(crate) fn held(&self, slot: Slot, live: impl Fn(NodeId) -> Option<LivePosition>) -> Vec<Held> {
        let mut held: Vec<Held> = Vec::new();
        for node in self.routing.ring().owners(slot) {
            let (first, last) = (self.first, self.position(node, live(node)));
            if first <= last {
                let numbers = NumberRange { first, last };
                held.push(Held { node, numbers });
            }
        }
        let resent = self.resent.iter().filter(|copy| copy.slots.contains(slot));
        held.extend(resent.map(|copy| Held {
            node: copy.node,
            numbers: copy.numbers,
        }));
        held
    }

    /// Position of an owner in the epoch.
    fn position(&self, node: NodeId, live: Option<LivePosition>) -> u64 {
        // A peer that came back has a stream of later numbers only.
        let present = live.filter(|live| live.begin < self.first);
        let ended = self.ended.iter().find(|ended| ended.node == node);
        let position = present.map_or(0, |live| live.position);
        position.max(ended.map_or(0, |ended| ended.confirmed))
    }
}

/// Position of a stream as it counts for copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LivePosition {
    /// Marker that began the stream.
    pub(crate) begin: u64,
    /// Numbers up to this one count as held.
    pub(crate) position: u64,
}

/// Distinct nodes that hold `number`.
pub(crate) fn count(held: &[Held], number: u64) -> usize {
    let is_first = |(index, copy): &(usize, &Held)| {
        copy.numbers.contains(number)
            && !held
                .iter()
                .take(*index)
                .any(|before| before.node == copy.node && before.numbers.contains(number))
    };
    held.iter().enumerate().filter(is_first).count()
}

/// `node` holds `number`.
pub(crate) fn is_held_by(held: &[Held], node: NodeId, number: u64) -> bool {
    held.iter()
        .any(|copy| copy.node == node && copy.numbers.contains(number))
}

/// Parts of `numbers` that fewer than `copies_min` nodes hold, each held by the same nodes
/// throughout.
pub(crate) fn short_parts(held: &[Held], numbers: NumberRange, copies_min: usize) -> Vec<NumberRange> {
    let mut starts = vec![numbers.first];
    for copy in held {
        starts.push(copy.numbers.first);
        starts.extend(copy.numbers.last.checked_add(1));
    }
    starts.retain(|start| numbers.contains(*start));
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([numbers.last]);
    let parts = starts.iter().zip(ends);
    parts
        .filter(|(first, _)| count(held, **first) < copies_min)
        .map(|(first, last)| NumberRange { first: *first, last })
        .collect()
}
