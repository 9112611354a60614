//! Collecting: garbage in the copies, and runs that all members have settled (rules `known-to-all`
//! and `retire-agreed`).
//!
//! Both keep state small, and change nothing that counts. A copy drops what every member knows to
//! be of no use. A vector forgets the numbers of runs that have ended.

use std::collections::BTreeSet;

use cluster::Incarnation;

use super::holdings::Holdings;
use super::numbers::beaten_uses;
use super::transfers::Transfers;
use super::{CopyRef, Matching, NumberedValue, Plane, PlaneAction, PlaneValue};
use crate::queue_limits::QueueValue;
use crate::transfer::TransferBytes;
use crate::{Birth, ClientId, EntryId, GarbageOf, GarbagePlace, Run, Settled, Slot, VectorFull};

/// Session or topic in a copy of this node that an event has changed.
#[derive(Debug)]
pub(super) struct TouchedSession {
    pub(super) slot: Slot,
    pub(super) client: ClientId,
    /// Birth that the entry names which was added.
    pub(super) birth: Option<Birth>,
}

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Entries of a client in this node's copy that are dropped once every member knows them (rule
    /// `known-to-all`).
    pub fn garbage(&self, slot: Slot, client: &ClientId) -> BTreeSet<EntryId> {
        let copy = self.holdings.copies.get(slot);
        copy.map(|copy| garbage_in(&copy, client)).unwrap_or_default()
    }

    /// There may be garbage, which [`Plane::tick`] looks for and drops.
    pub fn may_have_garbage(&self) -> bool {
        !self.garbage.is_empty()
    }

    /// Notes the clients of a slot that may have garbage: behind a merge, or at the start.
    pub(super) fn note_garbage_of(&mut self, slot: Slot) {
        if slot == Slot::RETAINED {
            self.note_cleared_topics();
            return;
        }
        let Some(copy) = self.holdings.copies.get(slot) else {
            return;
        };
        for (client, session) in copy.entries.sessions() {
            let only = session.only_birth();
            let is_of_one = |only: Birth| session.iter().all(|(_, entry)| entry.birth == only);
            if !only.is_some_and(is_of_one) {
                let client = client.clone();
                self.garbage.note(GarbagePlace { slot, client });
            }
        }
    }

    /// Notes the topics with a clear, in one pass over all of them.
    ///
    /// The clocks of clears that came with a merge are seen. What this node writes is later, and members are
    /// to have a later clock before a clear is dropped.
    fn note_cleared_topics(&mut self) {
        let slot = Slot::RETAINED;
        let topics = self.holdings.copies.get(slot);
        let topics = topics.into_iter().flat_map(|copy| copy.entries.sessions());
        for (topic, entries) in topics {
            if let Some((_, clear)) = entries.last_clear() {
                self.clock.see(clear.clock);
                let client = topic.clone();
                self.garbage.note(GarbagePlace { slot, client });
            }
        }
    }

    /// Notes the sessions and topics that may have garbage by changes that were taken.
    pub(super) fn note_garbage(&mut self, touched: Vec<TouchedSession>) {
        for TouchedSession { slot, client, birth } in touched {
            let copy = self.holdings.copies.get(slot);
            let session = copy.and_then(|copy| copy.entries.session(client.as_bytes()));
            if slot == Slot::RETAINED {
                if session.is_some_and(|topic| topic.last_clear().is_some()) {
                    self.garbage.note(GarbagePlace { slot, client });
                }
                continue;
            }
            let only = session.map(|session| session.only_birth());
            let is_clean = |only: Birth| birth.is_none_or(|birth| birth == only);
            if only.is_some_and(|only| !only.is_some_and(is_clean)) {
                self.garbage.note(GarbagePlace { slot, client });
            }
        }
    }

    /// Drops garbage that every member knows, and looks for more.
    pub(super) fn collect_garbage(&mut self, actions: &mut Vec<PlaneAction<V, M>>) {
        let (holdings, transfers) = (&self.holdings, &self.transfers);
        let find = |place: &GarbagePlace| find_garbage(holdings, transfers, place);
        let awaited = self.garbage.awaited();
        let is_known = |(known, moment)| self.membership.is_known_to_all(known, moment);
        if !awaited.is_none_or(is_known) {
            return;
        }
        let dropped = self.garbage.take_known_to_all(find);
        self.garbage.look(holdings.known(), self.clock.latest(), find);
        for garbage in dropped {
            let GarbageOf { place, entries } = garbage;
            let copies = &mut self.holdings.copies;
            copies.drop_garbage(place.slot, &place.client, &entries);
            actions.push(PlaneAction::Dropped { place, entries });
        }
    }

    /// What is settled at this node now, for the next heartbeat. Runs that all members have settled
    /// are retired before.
    pub(super) fn settle_runs(&mut self) -> Settled {
        let settled = self.settled();
        let present = self.membership.present_runs();
        let members = self.membership.members();
        let agreed = self
            .retiring
            .agreed(&settled, &present, &members, |peer, marker| {
                self.membership.has_told_of(peer, marker)
            });
        let settled = if agreed.is_empty() {
            settled
        } else {
            for retired in &agreed {
                self.holdings.retire(retired);
            }
            self.settled()
        };
        self.retiring.tell(settled.clone());
        settled
    }

    fn settled(&mut self) -> Settled {
        let ended = self.membership.view();
        let ended = ended.nodes().iter().filter_map(|present| {
            let Run { node, incarnation } = present.run;
            let before = incarnation.0.checked_sub(1)?;
            Some((node, Incarnation(before)))
        });
        let ended = ended.collect();
        let copies = &self.holdings.copies;
        let Some(first) = copies.all_sets().next() else {
            return Settled::default();
        };
        let named = self.numbers.named_beyond(copies, first.covered);
        for place in self.numbers.take_with_beaten() {
            self.garbage.note(place);
        }
        named.map_or_else(
            |VectorFull| Settled::default(),
            |named| Settled::of_copies(copies.all_sets(), &named, &ended),
        )
    }
}

/// Garbage of a client. None while its copy may not drop any.
fn find_garbage<V, M, R>(
    holdings: &Holdings<V, M, R>,
    transfers: &Transfers<V, M>,
    place: &GarbagePlace,
) -> Option<BTreeSet<EntryId>>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    let slot = place.slot;
    let Some(copy) = holdings.copies.get(slot) else {
        return Some(BTreeSet::new());
    };
    let has_claimed_all = copy.holes.is_empty() && copy.taken.is_empty();
    if !transfers.is_merged(slot) || !has_claimed_all || transfers.holder.is_answering(slot) {
        return None;
    }
    Some(garbage_in(&copy, &place.client))
}

/// Entries of a client, or of a topic, that are of no use once every member knows them.
fn garbage_in<V: NumberedValue<M> + QueueValue + Ord, M>(
    copy: &CopyRef<'_, V>,
    client: &ClientId,
) -> BTreeSet<EntryId> {
    let mut garbage = copy.entries.garbage(copy.covered, client.as_bytes());
    let beaten = beaten_uses(copy, client);
    garbage.extend(beaten.into_iter().filter(|id| copy.covered.covers(id.dot)));
    garbage
}
