//! Handover: which owners have merged this node's copies, and when a copy that nobody needs is
//! deleted.
//!
//! A copy is *abandoned* while no ring of a present node names this node as an owner. It is deleted
//! when enough owners have merged an answer that began after that (rule `late-answers`): an earlier
//! answer may lack an event that this node took as an owner. A ring that names this node ends that at
//! once, also where a later one that does not comes before the copy is looked at.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;

use super::holder::Served;
use super::message::{TransferAction, TransferMessage};
use crate::{Slot, SlotSet};

/// Copies of this node, and the owners that have merged them.
#[derive(Debug, Default)]
pub struct Handover {
    copies: BTreeMap<Slot, ServedCopy>,
}

#[derive(Debug, Default)]
struct ServedCopy {
    is_abandoned: bool,
    owners: BTreeSet<NodeId>,
}

/// Offers of copies that are being made: one message for each owner.
#[derive(Debug, Default)]
pub struct Offers(BTreeMap<NodeId, SlotSet>);

impl Offers {
    /// Messages to the owners.
    pub fn into_actions<V, M>(self) -> impl Iterator<Item = TransferAction<V, M>> {
        self.0.into_iter().map(|(to, slots)| TransferAction {
            to,
            message: TransferMessage::Offer { slots },
        })
    }
}

/// Use of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyUse {
    /// A ring names this node as an owner, or owners have not merged the copy.
    Needed,
    /// The copy is to be deleted.
    Unneeded,
}

/// Slot of a copy, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyPlace {
    /// Slot of the copy.
    pub slot: Slot,
    /// Owners by this node's own view, other than this node.
    pub owners: BTreeSet<NodeId>,
    /// Owners that a slot has by this view: three, or as many as nodes are present.
    pub owners_min: usize,
    /// No ring of a present node names this node as an owner. Never so of a map of every node, which
    /// this node owns by its own view.
    pub is_abandoned: bool,
    /// An answer about the slot is asked for ([`Holder::is_asked`](super::Holder::is_asked)).
    pub is_asked: bool,
}

impl Handover {
    /// Looks at a copy. A copy that has become abandoned is offered to its owners.
    ///
    /// The record of a copy that is to be deleted ends with this call.
    pub fn review(&mut self, place: &CopyPlace, offers: &mut Offers) -> CopyUse {
        let copy = self.copies.entry(place.slot).or_default();
        if !place.is_abandoned {
            copy.is_abandoned = false;
            return CopyUse::Needed;
        }
        if !copy.is_abandoned {
            copy.is_abandoned = true;
            copy.owners.clear();
            self.offer(place, offers);
            return CopyUse::Needed;
        }
        let is_served = place.owners.is_subset(&copy.owners) && place.owners.len() >= place.owners_min;
        if !is_served || place.is_asked {
            return CopyUse::Needed;
        }
        self.copies.remove(&place.slot);
        CopyUse::Unneeded
    }

    /// A ring names this node as an owner of `slots`: what owners have merged does not count any more.
    pub fn regain(&mut self, slots: &SlotSet) {
        let regained = self.copies.iter_mut().filter(|(slot, _)| slots.contains(**slot));
        regained.for_each(|(_, copy)| copy.is_abandoned = false);
    }

    /// Offers a copy to the owners that have not merged it. The node repeats offers from time to
    /// time: one may be lost with a connection, or meet a node that is no owner yet.
    pub fn offer(&self, place: &CopyPlace, offers: &mut Offers) {
        for owner in self.unserved(place) {
            offers.0.entry(owner).or_default().insert(place.slot);
        }
    }

    /// Takes note that an owner has merged an answer.
    ///
    /// Of an abandoned copy only an answer counts that began when the copy was abandoned.
    pub fn receive_served(&mut self, served: &Served) {
        let copy = self.copies.entry(served.slot).or_default();
        if served.is_late || !copy.is_abandoned {
            copy.owners.insert(served.owner);
        }
    }

    /// A peer is met anew, or given up: what it has merged does not count any more.
    pub fn forget(&mut self, peer: NodeId) {
        for copy in self.copies.values_mut() {
            copy.owners.remove(&peer);
        }
    }

    /// All owners have merged the copy: a node that joins or leaves has given it.
    pub fn has_given(&self, place: &CopyPlace) -> bool {
        self.unserved(place).next().is_none()
    }

    fn unserved(&self, place: &CopyPlace) -> impl Iterator<Item = NodeId> {
        let served = self.copies.get(&place.slot).map(|copy| &copy.owners);
        let is_unserved = move |owner: &&NodeId| served.is_none_or(|served| !served.contains(owner));
        place.owners.iter().filter(is_unserved).copied()
    }
}
