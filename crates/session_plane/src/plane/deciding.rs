//! Deciding: what a primary owner may do alone, and what it knows of runs (rule `fire-merged`).

use cluster::NodeId;

use super::{CopyRef, Matching, Plane, PlaneValue};
use crate::queue_limits::QueueValue;
use crate::transfer::TransferBytes;
use crate::{ClientId, EVENT_NUMBER_MAX, EntryKind, Interval, NodeState, Run, Slot, SlotSet, VersionVector};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// This node is the primary owner of a slot, its copy has merged with all present holders, and all of
    /// them have answered about the holes that it has. The node is RUNNING, and no other one is about to
    /// meet it again.
    pub fn decides(&self, slot: Slot) -> bool {
        // The first is a look at a bit, and mostly false while copies merge.
        self.transfers.is_merged(slot)
            && self
                .holdings
                .copies
                .holes(slot)
                .is_some_and(|holes| holes.is_empty() || self.transfers.asker.has_answers_about(slot, holes))
            && self.is_primary(slot)
            && self.is_settled()
    }

    /// The copy of an owned slot has merged with all present holders, and has all events of `known`, except for
    /// what no present holder has, and what is of no concern to the client: the node answers for its session
    /// (rules `serve-merged` and `ask-with-known`).
    pub fn has_all_for(&self, client: &ClientId, known: &VersionVector) -> bool {
        let slot = Slot::of_client(client.as_bytes());
        let is_served = self.is_merged(slot) && self.membership.may_serve();
        let copy = self.copy(slot).filter(|_| is_served);
        copy.is_some_and(|copy| {
            let missing = known.minus(copy.covered).minus(copy.taken);
            missing.is_empty()
                || self.transfers.asker.has_answers_about(slot, &missing)
                    && !may_concern(&missing, &copy, client)
        })
    }

    /// Slots among `slots` that [`Plane::decides`] is true of. Costs a step for each that has merged.
    pub fn decided_of(&self, slots: &SlotSet) -> SlotSet {
        if !self.is_settled() {
            return SlotSet::default();
        }
        let merged = slots.intersection(self.transfers.asker.merged());
        let merged = merged.intersection(&self.holdings.copies.slots());
        let with_holes = self.holdings.copies.slots_with_holes();
        let whole = merged.minus(&with_holes);
        let asked = merged.intersection(&with_holes);
        let asked = asked.intersection(self.transfers.asker.asked_about_holes());
        let decided = whole.iter().filter(|slot| self.is_primary(*slot));
        decided
            .chain(asked.iter().filter(|slot| self.decides(*slot)))
            .collect()
    }

    /// This node is RUNNING, and no node is about to meet it again: that it is alone would not say that the
    /// others are lost.
    fn is_settled(&self) -> bool {
        self.membership.own().state == NodeState::Running && !self.membership.is_expected()
    }

    /// This node is the first owner of a slot by its own ring.
    pub fn is_primary(&self, slot: Slot) -> bool {
        self.owners(slot).next() == Some(self.run.node)
    }

    /// Slots that this node owns by its own ring.
    pub fn owned(&self) -> &SlotSet {
        self.holdings.owned()
    }

    /// Run of a present node, this one among them.
    pub fn present_run(&self, node: NodeId) -> Option<Run> {
        if node == self.run.node {
            return Some(self.run);
        }
        self.membership.find(node).map(|present| present.run)
    }

    /// A later run of the node is known, or the node is no member any more. A node that was given up may
    /// live.
    pub fn has_ended(&self, run: Run) -> bool {
        let is_later = |present: Run| present.incarnation > run.incarnation;
        self.present_run(run.node).is_some_and(is_later)
            || self.holdings.known().has_later_run(run)
            || !self.membership.members().contains(&run.node)
    }
}

/// Events that are `missing` may be of a connection of the client that the copy knows: they may acknowledge
/// messages that the copy has in the queue.
///
/// A CONNECT writes the session's entry, and its connection's events come behind that.
fn may_concern<V: Ord + QueueValue + Clone>(
    missing: &VersionVector,
    copy: &CopyRef<'_, V>,
    client: &ClientId,
) -> bool {
    let sessions = copy
        .entries
        .live(copy.covered, client.as_bytes(), EntryKind::Session);
    let mut later = sessions.filter_map(|(dot, _)| Interval::new(dot.run, dot.number + 1, EVENT_NUMBER_MAX));
    later.any(|later| {
        let of_run = missing.intersection(&VersionVector::of_apart([later]));
        !of_run.is_empty()
    })
}
