//! Garbage: ends of sessions, and entries of sessions that have ended or are beaten (section 7 of the specification).
//!
//! Each owner drops it on its own, without an event: a copy that covers an entry and lacks it says by the merge rule that the
//! entry was removed. It does so when the garbage is causally stable, that is when every member has told that it knows what the
//! copy knew when it found the garbage. Whatever a member did before it knew an end is then in the copy, which has no hole.
//!
//! It waits for answers that have begun: one whose vector covers an end, and not yet what the end beats, would take the end alone
//! from the asker.

use super::{Node, Step};
use crate::copy::Garbage;
use crate::event::Entry;
use crate::ids::{ClientId, EventSet, Slot};
use crate::rules::Rule;

impl Node {
    /// Drops garbage that every member knows.
    pub(super) fn tick_garbage(&mut self, step: &mut Step<'_>) {
        for slot in Slot::all() {
            if !self.may_have_garbage(slot) {
                continue;
            }
            let live = self.copy_mut(slot).content.live(step.rules);
            for client in ClientId::with_group() {
                let found = self.find_garbage(slot, &live, client);
                if found.is_some_and(|known| self.is_known_to_all(step, &known)) {
                    self.drop_garbage(step, slot, client);
                }
            }
        }
    }

    /// The copy is whole, and no answer has begun.
    fn may_have_garbage(&self, slot: Slot) -> bool {
        let is_answering = self.answering.iter().any(|answering| answering.has_begun(slot));
        let copy = self.copy(slot).filter(|_| !is_answering);
        copy.is_some_and(|copy| copy.is_merged() && !copy.content.has_hole())
    }

    /// Looks for garbage in a whole copy, of which `live` counts; gives what the copy knew when it found the same garbage first.
    fn find_garbage(&mut self, slot: Slot, live: &[Entry], client: ClientId) -> Option<EventSet> {
        let copy = self.copies[slot.index()].as_mut()?;
        let entries = copy.content.garbage_beside(live, client);
        let found = copy.garbage[client.index()].take();
        let known = copy.content.covered;
        let same = found.filter(|garbage| garbage.entries == entries);
        let garbage = same.unwrap_or(Garbage { entries, known });
        let known = garbage.known;
        copy.garbage[client.index()] = Some(garbage).filter(|garbage| !garbage.entries.is_empty());
        copy.garbage[client.index()].as_ref().map(|_| known)
    }

    fn is_known_to_all(&self, step: &Step<'_>, known: &EventSet) -> bool {
        let all_present = self.membership.view.present == step.directory.members;
        let mut peers = self.membership.peers().iter();
        let has_told = |peer| self.membership.has_told(peer, known) && self.has_told_among_all(step, peer);
        let is_known = all_present && peers.all(has_told);
        is_known || !step.holds(Rule::KnownToAll)
    }

    fn drop_garbage(&mut self, step: &mut Step<'_>, slot: Slot, client: ClientId) {
        let copy = self.copy_mut(slot);
        let before = copy.content.entries.len();
        copy.drop_garbage(client);
        step.counters.dropped += (before - copy.content.entries.len()) as u64;
    }
}
