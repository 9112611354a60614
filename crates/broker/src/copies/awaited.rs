//! Who waits until owners that are responsible have a session at all.
//!
//! An owner that has an older copy would go on with that one if the holder were lost now. So nobody is told "done" about a change on the strength of others' copies alone. One that is not
//! responsible yet goes on with nothing before it has everything, and is not waited for.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use cluster::session_plane::lifecycle::NodeState;
use mqtt::ids::SessionNumber;

use super::{Copies, Stage};
use crate::node::Node;
use crate::routes::WaitId;
use crate::waiting::Waiter;

/// By session.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    waits: BTreeMap<SessionNumber, Vec<WaitId>>,
    /// Those of which something may have changed.
    changed: BTreeSet<SessionNumber>,
    /// What was changed while this node did not know yet who is responsible.
    unplaced: Vec<(WaitId, Vec<SessionNumber>)>,
}

impl Awaited {
    /// Something of a session has changed.
    pub(super) fn look_at(&mut self, number: SessionNumber) {
        if self.waits.contains_key(&number) {
            self.changed.insert(number);
        }
    }

    /// Other nodes are reached, or responsible.
    pub(super) fn look_at_all(&mut self) {
        self.changed.extend(self.waits.keys());
    }

    pub(super) fn has(&self, number: SessionNumber) -> bool {
        self.waits.contains_key(&number)
    }
}

impl Node {
    /// Lets somebody wait for the owners of sessions that were changed.
    pub(super) fn await_all_owners(&mut self, numbers: Vec<SessionNumber>, wait: WaitId) {
        let knows_owners = self.knows_owners();
        let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) else {
            return;
        };
        if !knows_owners {
            peers.add_to_wait(wait);
            return copies.awaited.unplaced.push((wait, numbers));
        }
        for number in numbers {
            self.await_owners(number, wait);
        }
    }

    /// What a restart has found may be at no other node yet: those who have sent it are told that it is durable when it is there.
    pub(super) fn await_recovered(&mut self, held: Vec<SessionNumber>) {
        let Some(peers) = &mut self.peers else { return };
        let wait = peers.open_wait();
        self.await_all_owners(held, wait);
        let Some(peers) = &mut self.peers else { return };
        match peers.keep_open(wait) {
            Some(wait) => drop(peers.park(wait, Box::new(Waiter::Recovered))),
            None => self.note_recovered_durable(),
        }
    }

    /// It is there.
    pub(crate) fn note_recovered_durable(&mut self) {
        if let Some(peers) = &mut self.peers {
            peers.note_recovered_durable();
        }
    }

    /// From the moment on when this node knows who is responsible, those who have waited for that wait for them.
    pub(crate) fn await_unplaced(&mut self) {
        if !self.knows_owners() {
            return;
        }
        let copies = self.copies.as_mut();
        let unplaced = copies.map(|copies| std::mem::take(&mut copies.awaited.unplaced));
        for (wait, numbers) in unplaced.into_iter().flatten() {
            for number in numbers {
                self.place_now(number);
                self.await_owners(number, wait);
            }
            if let Some(peers) = &mut self.peers {
                peers.end_wait(wait);
            }
        }
    }

    /// A node that has started does not know who is responsible before all of them count on it.
    fn knows_owners(&self) -> bool {
        let (Some(copies), Some(states)) = (&self.copies, &self.states) else {
            return true;
        };
        !copies.is_back || states.handover().is_some() || states.own_state() == NodeState::Running
    }

    fn place_now(&mut self, number: SessionNumber) {
        if let (Some(copies), Some(peers), Some(states)) = (&mut self.copies, &mut self.peers, &self.states) {
            let rings = (states.primary(), states.minority());
            copies.look_at(number, (&self.sessions, peers), rings);
        }
    }

    /// Lets somebody wait for the owners of a session that was changed, as far as they do not have it yet.
    fn await_owners(&mut self, number: SessionNumber, wait: WaitId) {
        if !self.is_awaited(number) {
            return;
        }
        let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) else {
            return;
        };
        peers.add_to_wait(wait);
        let waits = copies.awaited.waits.entry(number).or_default();
        waits.push(wait);
        if waits.len() == 1 {
            copies.hurry(number);
        }
    }

    /// The rings have changed: whoever waits for owners of a session waits for those that it has now. They are found here, and not only when the session is visited. A node
    /// that is no owner any more says nothing, so nobody would look again.
    pub(super) fn await_owners_of_now(&mut self) {
        let Some(copies) = &mut self.copies else { return };
        copies.awaited.look_at_all();
        let awaited: Vec<SessionNumber> = copies.awaited.waits.keys().copied().collect();
        awaited.into_iter().for_each(|number| self.place_now(number));
        self.end_awaited();
    }

    /// Ends the waits for those that have it now, or are gone.
    pub(super) fn end_awaited(&mut self) {
        let copies = self.copies.as_mut();
        let changed = copies.map(|copies| std::mem::take(&mut copies.awaited.changed));
        for number in changed.into_iter().flatten() {
            if self.is_awaited(number) {
                continue;
            }
            let copies = self.copies.as_mut();
            let waits = copies.and_then(|copies| copies.awaited.waits.remove(&number));
            if let Some(peers) = &mut self.peers {
                waits.into_iter().flatten().for_each(|wait| peers.end_wait(wait));
            }
        }
    }

    /// Whether an owner that is responsible and reached lacks a session.
    fn is_awaited(&self, number: SessionNumber) -> bool {
        let (Some(copies), Some(peers), Some(states)) = (&self.copies, &self.peers, &self.states) else {
            return false;
        };
        let is_responsible =
            |node: NodeId| peers.is_reached(node) && states.state_of(node) == NodeState::Running;
        let owners = copies.held.get(&number).map(|held| held.owners.as_slice());
        let mut owners = owners.unwrap_or_default().iter();
        owners.any(|owner| owner.is_lacking() && is_responsible(owner.node))
    }
}

impl Copies {
    /// Those that want a session get it before others get theirs.
    fn hurry(&mut self, number: SessionNumber) {
        let owners = self.held.get(&number).map(|held| held.owners.as_slice());
        let mut owners = owners.unwrap_or_default().iter();
        if owners.any(|owner| owner.stage == Stage::Wanted) {
            self.wanted
                .make_contiguous()
                .sort_by_key(|(_, wanted)| *wanted != number);
        }
    }
}
