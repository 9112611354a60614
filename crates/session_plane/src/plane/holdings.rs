//! Holdings: the copies of a node, which of them it owns, and what it knows through all of them.
//!
//! *Invariants*: `known` is what the copies cover or have taken. A slot that this node owns by its
//! own ring, or by that of a present peer, has a copy.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::content::EventEffects;
use super::{ClaimedMessage, Copies, CopyRef, Effect, TakenNumbers};
use crate::interests::InterestChange;
use crate::queue_limits::QueueValue;
use crate::stream::NumberRange;
use crate::{
    ClientId, Dot, EVENT_NUMBER_MAX, GroupId, Interval, Matched, Pending, Retired, Run, SessionEntries, Slot,
    SlotCopy, SlotSet, VectorFull, VersionVector,
};

/// Sessions that a message matches; the node decides by its filters.
pub trait Matching<V, M> {
    /// Sessions of a copy that a message matches, by the subscriptions that count and that are
    /// earlier than the message (rule `since`).
    fn matches(&self, copy: &CopyRef<'_, V>, message: Dot, pending: &Pending<M>) -> Vec<Matched<V>>;

    /// Slots with sessions that a message may match, by the routes.
    fn slots(&self, routes: &CopyRef<'_, V>, message: &M) -> SlotSet;

    /// Replaces what is known of the subscriptions of a client, or of the members of a shared group: the values
    /// of all that this node's copies have, whether or not they count. One may be listed twice.
    fn subscribe(&mut self, subscriber: &ClientId, subscriptions: &[&V]);

    /// Point by which a message of a shared group is kept together with others, by its value there.
    fn point(&self, message: &V) -> Option<u64>;

    /// Nodes whose connected sessions a message may match, by the interests of each node: those to which it
    /// goes beside the slots.
    fn nodes(&self, message: &M) -> BTreeSet<NodeId>;

    /// Learns a change of what a node wants; this node, too.
    fn learn(&mut self, node: NodeId, change: InterestChange);

    /// Forgets what a node wants.
    fn forget(&mut self, node: NodeId);

    /// Filters that a node has an interest in.
    fn interests(&self, node: NodeId) -> usize;
}

/// Copies of one node.
#[derive(Debug)]
pub(super) struct Holdings<V, M, R> {
    pub(super) copies: Copies<V, M>,
    matching: R,
    /// Slots that this node owns by its own ring.
    owned: SlotSet,
    known: VersionVector,
    /// Messages that were taken since they were asked for last.
    taken: Vec<TakenMessage>,
}

/// Message that was taken for a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TakenMessage {
    pub(super) slot: Slot,
    pub(super) message: Dot,
}

/// Numbers of a run that came together, and what the events among them do.
#[derive(Debug)]
pub(super) struct Arrival<V, M> {
    pub(super) run: Run,
    pub(super) numbers: NumberRange,
    /// In ascending order of their numbers, which are in `numbers`.
    pub(super) effects: Vec<EventEffects<V, M>>,
}

impl<V: Ord + QueueValue, M, R: Matching<V, M>> Holdings<V, M, R> {
    /// Holdings with the copies that a restart reads.
    pub(super) fn new(copies: Copies<V, M>, matching: R) -> Result<Holdings<V, M, R>, VectorFull> {
        let known = copies.known()?;
        Ok(Holdings {
            copies,
            matching,
            owned: SlotSet::default(),
            known,
            taken: Vec::new(),
        })
    }

    /// Filters of the node.
    pub(super) fn matching(&self) -> &R {
        &self.matching
    }

    /// Filters of the node, for what it learns outside of its copies.
    pub(super) fn matching_mut(&mut self) -> &mut R {
        &mut self.matching
    }

    /// Tells the filters whose subscriptions have changed.
    pub(super) fn update_subscribers(&mut self) {
        for subscriber in self.copies.take_subscribers() {
            self.update_subscriber(&subscriber);
        }
    }

    /// Tells the filters of all subscriptions: a restart has read them.
    pub(super) fn found_subscribers(&mut self) {
        let of_slot = |slot| self.copies.get(slot).into_iter();
        let slots = self.copies.slots();
        let others = slots.iter().filter(|slot| *slot != Slot::RETAINED);
        let sessions = others.flat_map(of_slot).flat_map(|copy| copy.entries.sessions());
        let found: BTreeSet<ClientId> = sessions.map(|(client, _)| client.clone()).collect();
        for subscriber in &found {
            self.update_subscriber(subscriber);
        }
    }

    fn update_subscriber(&mut self, subscriber: &ClientId) {
        let own = match GroupId::of_key(subscriber) {
            Some(group) => group.slots(),
            None => SlotSet::from_iter([Slot::of_client(subscriber.as_bytes())]),
        };
        let copies = own.iter().chain([Slot::ROUTES]);
        let sessions =
            copies.filter_map(|slot| self.copies.get(slot)?.entries.session(subscriber.as_bytes()));
        let entries = sessions.flat_map(SessionEntries::iter);
        let subscriptions = entries.filter(|(id, _)| id.kind.is_of_subscriber());
        let values: Vec<&V> = subscriptions.map(|(_, entry)| &entry.value).collect();
        self.matching.subscribe(subscriber, &values);
    }

    /// Slots that this node owns by its own ring.
    pub(super) fn owned(&self) -> &SlotSet {
        &self.owned
    }

    /// Events that a copy covers or has taken.
    pub(super) fn known(&self) -> &VersionVector {
        &self.known
    }

    /// Takes numbers for `slots`, with the effects of the events among them (rule `claim-by-ring`).
    /// False where a copy has refused an event or numbers: they are a hole there, and are asked for
    /// as any other.
    pub(super) fn take(&mut self, arrival: Arrival<V, M>, slots: &SlotSet) -> Result<bool, VectorFull> {
        let (run, numbers) = (arrival.run, arrival.numbers);
        let (mut first, mut is_whole) = (numbers.first, true);
        if slots.is_empty() {
            return Ok(is_whole);
        }
        let after = EventEffects {
            number: numbers.last,
            effects: Vec::new(),
        };
        for EventEffects {
            number: last,
            effects,
        } in arrival.effects.into_iter().chain([after])
        {
            let messages = effects
                .iter()
                .filter(|of_slot| matches!(of_slot.effect, Effect::Message(_)));
            self.taken.extend(messages.map(|of_slot| TakenMessage {
                slot: of_slot.slot,
                message: Dot { run, number: last },
            }));
            if let Some(numbers) = Interval::new(run, first, last) {
                let refused = self.copies.take(TakenNumbers {
                    numbers,
                    slots,
                    effects,
                })?;
                is_whole &= refused.is_empty();
                self.known.insert(numbers)?;
                first = last + 1;
            }
        }
        Ok(is_whole)
    }

    /// Messages that were taken since this was asked last, and that are pending still.
    pub(super) fn take_pending(&mut self) -> Vec<TakenMessage> {
        let mut taken = std::mem::take(&mut self.taken);
        let copies = &self.copies;
        taken.retain(|taken| copies.pending_message(taken.slot, taken.message).is_some());
        taken
    }

    /// As [`Holdings::take`], for the slots that this node owns by its own ring.
    pub(super) fn take_owned(&mut self, arrival: Arrival<V, M>) -> Result<bool, VectorFull> {
        let owned = std::mem::take(&mut self.owned);
        let taken = self.take(arrival, &owned);
        self.owned = owned;
        taken
    }

    /// Makes holes of what the copies lack of `known`, which the sender of an event knew (rule
    /// `causal`).
    pub(super) fn need_everywhere(&mut self, known: &VersionVector) -> Result<(), VectorFull> {
        self.copies.need_everywhere(known)
    }

    /// As [`Holdings::need_everywhere`], for what is told outside of events: a copy that is only
    /// held gets no more of those.
    pub(super) fn need_where_owned(&mut self, known: &VersionVector) -> Result<(), VectorFull> {
        self.copies.need(&self.owned, known)
    }

    /// Makes holes of the numbers up to `number` in slots that a marker has just given this node.
    /// Slots without a copy get one, which lacks all that this node knows but its own events.
    pub(super) fn gain(&mut self, slots: &SlotSet, marker: Dot, own: Run) -> Result<(), VectorFull> {
        let without_copy = slots.minus(&self.copies.slots());
        if !without_copy.is_empty() {
            let mut lacking = self.known_or_needed()?;
            if marker.run != own {
                let of_own = Interval::up_to(own, EVENT_NUMBER_MAX);
                lacking = lacking.minus(&VersionVector::of_apart(of_own));
            }
            self.copies.make(&without_copy, lacking);
        }
        match Interval::up_to(marker.run, marker.number) {
            Some(before) => self.copies.need(slots, &VersionVector::of_apart([before])),
            None => Ok(()),
        }
    }

    /// Sets the slots that this node owns by its own ring, behind [`Holdings::gain`].
    pub(super) fn own(&mut self, owned: SlotSet) -> Result<(), VectorFull> {
        let gained = owned.minus(&self.owned);
        self.owned = owned;
        let known = self.known.clone();
        self.copies.need(&gained, &known)
    }

    /// Claims what the copies have taken, where no hole is: those that have merged, and those that this node
    /// does not own.
    pub(super) fn claim(&mut self, merged: &SlotSet) -> Vec<ClaimedMessage> {
        let unmerged = self.owned.minus(merged);
        let slots = self.copies.slots().minus(&unmerged);
        let matching = &self.matching;
        self.copies
            .claim(&slots, |copy, dot, pending| matching.matches(copy, dot, pending))
    }

    /// Changes one copy: it merges, or closes holes.
    pub(super) fn change<T, E: From<VectorFull>>(
        &mut self,
        slot: Slot,
        change: impl FnOnce(&mut SlotCopy<V, M>) -> Result<T, E>,
    ) -> Option<Result<T, E>> {
        let changed = self.copies.change(slot, change)?;
        let copy = self.copies.get(slot)?;
        let (covered, taken) = (copy.covered, copy.taken);
        let united = self.known.unite(covered).and_then(|()| self.known.unite(taken));
        Some(changed.and_then(|changed| united.map(|()| changed).map_err(E::from)))
    }

    /// Covers runs that have ended as a whole, where they are agreed.
    pub(super) fn retire(&mut self, retired: &Retired) {
        self.copies.retire(retired);
        if let Ok(known) = self.copies.known() {
            self.known = known;
        }
    }

    /// Deletes a copy. What it knew is a hole of the routes, unless they know it: this node has told
    /// that it knows it (rule `told-among-all`).
    pub(super) fn delete(&mut self, slot: Slot) -> Result<(), VectorFull> {
        if let Some(copy) = self.copies.get(slot) {
            let mut known = copy.covered.clone();
            known.unite(copy.taken)?;
            let routes = [Slot::ROUTES].into_iter().collect();
            self.copies.need(&routes, &known)?;
        }
        self.copies.remove(slot);
        self.known = self.copies.known()?;
        Ok(())
    }

    /// Events that are known to exist: those that copies have, and those that they lack.
    fn known_or_needed(&self) -> Result<VersionVector, VectorFull> {
        let mut events = self.known.clone();
        for sets in self.copies.all_sets() {
            events.unite(sets.holes)?;
        }
        Ok(events)
    }
}
