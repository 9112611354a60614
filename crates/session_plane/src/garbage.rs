//! Garbage: entries that a node drops from its copies when every member knows them (rule
//! `known-to-all`).
//!
//! Garbage is dropped by causal stability. The node notes its vector when it has found garbage, and
//! waits until every member has told that it knows as much. Whatever a member did before it knew an
//! end, or a clear of a topic, is then in the node's whole copies. What a member does later has a later
//! clock than the garbage: a member counts when its own clock is not before that of the node.
//! What a member told counts if it had exactly the members for
//! present (rule `told-among-all`): a node that is lost may have given it more since.
//!
//! One vector serves all garbage that was found at one time, and what is found later waits for the
//! next. *Invariants*: only garbage that is the same as when it was found is dropped, and all of a
//! client's at once. An end never goes before what it beats.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use crate::{ClientId, EntryId, Slot, VersionVector};

/// Client whose entries are in a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GarbagePlace {
    /// Slot of the client.
    pub slot: Slot,
    /// The client.
    pub client: ClientId,
}

/// Entries of one client that are to be dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GarbageOf {
    /// Where they are.
    pub place: GarbagePlace,
    /// All garbage of the client.
    pub entries: BTreeSet<EntryId>,
}

/// Garbage of one node that waits for the members.
///
/// It takes memory for clients that have garbage, and one vector.
#[derive(Debug, Default)]
pub struct Garbage {
    /// What was found when the node had the vector `known`, and its clock was `moment`.
    waiting: BTreeMap<GarbagePlace, BTreeSet<EntryId>>,
    known: VersionVector,
    moment: Hlc,
    /// Clients that are looked at next.
    noted: BTreeSet<GarbagePlace>,
}

impl Garbage {
    /// Notes a client that may have garbage: a session has ended, or was beaten, or a will or its
    /// connection was removed, or a packet id has several entries.
    pub fn note(&mut self, place: GarbagePlace) {
        self.noted.insert(place);
    }

    /// No garbage waits for the members, and no client is to be looked at.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.noted.is_empty()
    }

    /// Vector that every member has to know before anything is dropped, and the clock that it has to
    /// have. None where nothing waits.
    pub fn awaited(&self) -> Option<(&VersionVector, Hlc)> {
        (!self.waiting.is_empty()).then_some((&self.known, self.moment))
    }

    /// Looks for garbage of the clients that were noted, unless some is waiting already.
    ///
    /// `covered` is the vector of the node's whole copies, and `clock` is that of the node: no garbage is
    /// later. `find` gives the garbage of a client, and
    /// None while its copy has a hole, is not merged, or gives an answer: it is noted again.
    pub fn look(
        &mut self,
        covered: &VersionVector,
        clock: Hlc,
        find: impl Fn(&GarbagePlace) -> Option<BTreeSet<EntryId>>,
    ) {
        if !self.waiting.is_empty() {
            return;
        }
        self.known = covered.clone();
        self.moment = clock;
        for place in std::mem::take(&mut self.noted) {
            match find(&place) {
                Some(found) if found.is_empty() => {}
                Some(found) => {
                    self.waiting.insert(place, found);
                }
                None => {
                    self.noted.insert(place);
                }
            }
        }
    }

    /// Every member has told, among exactly the members, that it knows what is awaited: gives what is
    /// dropped now. What has changed since it was
    /// found is noted again. `find` is that of [`Garbage::look`].
    pub fn take_known_to_all(
        &mut self,
        find: impl Fn(&GarbagePlace) -> Option<BTreeSet<EntryId>>,
    ) -> Vec<GarbageOf> {
        let mut dropped = Vec::new();
        for (place, entries) in std::mem::take(&mut self.waiting) {
            match find(&place) {
                Some(found) if found == entries => dropped.push(GarbageOf { place, entries }),
                Some(found) if found.is_empty() => {}
                Some(_) | None => {
                    self.noted.insert(place);
                }
            }
        }
        dropped
    }

    /// A member was met or given up, so that what it has told does not count: all garbage is looked
    /// for again.
    pub fn begin_anew(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.noted.extend(waiting.into_keys());
    }

    /// The node has no copy of a slot any more.
    pub fn forget(&mut self, slot: Slot) {
        self.waiting.retain(|place, _| place.slot != slot);
        self.noted.retain(|place| place.slot != slot);
    }
}

#[cfg(test)]
mod tests;
