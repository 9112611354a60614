//! The promises of section 8 of the specification, as checks.

use std::collections::BTreeSet;

use super::clients::{Connecting, Place};
use super::{Removed, World};
use crate::copy::Copy;
use crate::event::{Change, Entry, EntryKind};
use crate::ids::{ClientId, Dot, NodeId, NodeSet, Slot};
use crate::node::{Node, Phase};
use crate::rules::Rule;
use crate::view::State;

/// Entries of an owner's copy at rest.
#[derive(Clone, Debug)]
struct Resting {
    node: NodeId,
    entries: BTreeSet<Entry>,
}

impl World {
    /// The nodes of a side all have each other.
    pub(super) fn is_connected(&self, side: NodeSet) -> bool {
        let alive = self.alive();
        side.iter()
            .all(|node| alive.has(node) && self.node(node).membership.view.present == side)
    }

    /// S1: one connection for each client on a connected side.
    pub(super) fn check_one_connection(&mut self, client: ClientId, place: Place) {
        let side = self.node(place.node).membership.view.present;
        if !self.is_connected(side) {
            return;
        }
        for other in side.without(place.node).iter() {
            let connections = self.node(other).connections.iter();
            let mut live = connections
                .filter(|connection| connection.client == client && connection.phase == Phase::Live);
            let knew = |dot: Dot| {
                self.live_at
                    .get(&dot)
                    .is_some_and(|present| present.has(place.node))
            };
            if live.next().is_some_and(|connection| knew(connection.dot)) {
                let (one, two) = (other.0, place.node.0);
                self.fail(format!(
                    "S1 two connections: client {} is live at {one} and {two}",
                    client.0
                ));
                return;
            }
        }
    }

    /// S1: an acknowledged session is found, one that ended is not.
    pub(super) fn check_session(
        &mut self,
        id: ClientId,
        place: Place,
        connecting: &Connecting,
        present: bool,
    ) {
        let side = self.node(place.node).membership.view.present;
        let client = self.client(id);
        if connecting.clean || client.is_unsure || !self.keeps_disks {
            return;
        }
        // A side that resumed the session before the heal keeps it.
        let end_was_seen = client
            .ending
            .is_some_and(|ending| self.knew(place, ending) && !self.takers(ending).and(side).is_empty());
        let returned = present && client.has_ended && !client.is_forked && end_was_seen;
        let lost = self.is_quiet && !present && client.has_session && !self.went_by_clocks(id);
        if returned {
            self.fail(format!(
                "S1 returned: client {} found an ended session at {}",
                id.0, place.node.0
            ));
        } else if lost {
            self.fail(format!(
                "S1 lost: client {} has a session that node {} does not find",
                id.0, place.node.0
            ));
        }
    }

    /// Of sessions on two sides whose wall clocks differ the one with the later clock stays, or what its end leaves: with its
    /// subscriptions, and not with those that the client was told of last.
    pub(super) fn went_by_clocks(&self, id: ClientId) -> bool {
        self.client(id).is_forked && self.has_skew()
    }

    /// The node of a connection knew of `dot` when it wrote the session's entry.
    fn knew(&self, place: Place, dot: Dot) -> bool {
        let node = self.node(place.node);
        let start = node
            .connection(place.connection)
            .and_then(|connection| connection.start);
        let event = start.and_then(|start| node.sender.find(start));
        event.is_some_and(|event| event.known.has(dot))
    }

    /// Q2: once; S3: nothing of a session that has ended.
    ///
    /// A message of QoS 2 is on its way when its packet id is written: a node that comes later does not call it back.
    pub(super) fn check_delivery(&mut self, id: ClientId, place: Place, message: Dot, stage: Option<Dot>) {
        let now = self.node(place.node).membership.view.present;
        let side = stage.map_or(now, |stage| now.and(self.present_at(place.node, stage)));
        let here = side.and(self.alive());
        let client = self.client(id);
        let acknowledged = client.acknowledged.get(&message).copied();
        if let Some(by) = acknowledged.filter(|_| !client.moved.contains(&message)) {
            let holders = self.takers(by).minus(self.lost).and(here);
            if !holders.is_empty() && !self.is_of_another_side(by, side) {
                let text = format!(
                    "Q2 twice: client {} gets {message:?} again at {}; {holders:?} have its acknowledgement {by:?}",
                    id.0, place.node.0
                );
                self.fail(text);
                return;
            }
        }
        let client = self.client(id);
        let is_old = self
            .published_at
            .get(&message)
            .is_some_and(|at| *at < client.session_since);
        let start_is_here = client
            .session_start
            .is_some_and(|start| !self.takers(start).and(here).is_empty());
        if is_old && self.keeps_disks && !client.is_forked && start_is_here {
            self.fail(format!(
                "S3 old message: client {} gets {message:?} of an earlier session",
                id.0
            ));
        }
    }

    /// Nodes that a node had for present when it made `dot`.
    fn present_at(&self, node: NodeId, dot: Dot) -> NodeSet {
        let events = self.node(node).sender.up_to(dot);
        let views = events.filter_map(|event| match &event.change {
            Change::RingMarker(view) => Some(view),
            _ => None,
        });
        views.last().map_or(NodeSet::one(node), |view| view.present)
    }

    /// The run that made `dot` lives on another side: the client has changed sides, which promise Q2 excepts.
    fn is_of_another_side(&self, dot: Dot, side: NodeSet) -> bool {
        let node = self.directory.node(dot.run);
        let machine = &self.machines[node.index()];
        machine.is_alive && machine.node.sender.run == dot.run && !side.has(node)
    }

    /// C1: at rest all owners' copies are whole and equal, and nobody else has one.
    pub(super) fn check_copies(&mut self, when: &str) {
        let result = self
            .find_unrest()
            .or_else(|| Slot::all().find_map(|slot| self.find_difference(slot)));
        if let Some(text) = result {
            self.fail(format!("{text} ({when})"));
        }
    }

    /// Nodes that do not all run and have each other.
    fn find_unrest(&self) -> Option<String> {
        let rests = |node: &Node| {
            node.membership.view.present == self.directory.members && node.state() == State::Running
        };
        let restless = self.alive().iter().find(|id| !rests(self.node(*id)))?;
        let node = self.node(restless);
        let present = node.membership.view.present;
        Some(format!(
            "L stuck: node {} is {:?} and has {present:?}",
            restless.0,
            node.state()
        ))
    }

    fn find_difference(&self, slot: Slot) -> Option<String> {
        let alive = self.alive();
        let owners = self.node(alive.iter().next()?).membership.view.owners(slot);
        let mut first: Option<Resting> = None;
        for id in alive.iter() {
            let copy = self.node(id).copy(slot);
            if !owners.has(id) {
                if copy.is_some() {
                    return Some(format!("C1 kept: node {} keeps slot {}", id.0, slot.0));
                }
                continue;
            }
            if let Some(text) = self.find_fault(id, slot) {
                return Some(text);
            }
            let Some(copy) = copy else { continue };
            let entries = copy
                .content
                .entries
                .iter()
                .filter(|entry| entry.kind != EntryKind::Connection);
            let resting = Resting {
                node: id,
                entries: entries.map(|entry| self.comparable(entry)).collect(),
            };
            match &first {
                None => first = Some(resting),
                Some(first) => {
                    if let Some(text) = self.compare(slot, first, &resting) {
                        return Some(text);
                    }
                }
            }
        }
        None
    }

    /// Two copies may have matched a message against a subscription and the one that replaced it.
    fn comparable(&self, entry: &Entry) -> Entry {
        let mut entry = *entry;
        if entry.kind == EntryKind::Message && self.rules.hold(Rule::SameByIdentity) {
            entry.birth = entry.dot;
        }
        entry
    }

    /// What is wrong with one copy at rest.
    fn find_fault(&self, id: NodeId, slot: Slot) -> Option<String> {
        let place = format!("node {} slot {}", id.0, slot.0);
        let Some(copy) = self.node(id).copy(slot) else {
            return Some(format!("C1 none: {place} has no copy"));
        };
        if !copy.is_merged() || copy.content.has_hole() {
            let holes = copy.content.holes();
            return Some(format!(
                "C1 hole: {place} waits for {:?}, holes {holes:?}",
                copy.unanswered
            ));
        }
        if !copy.content.pending.is_empty() {
            return Some(format!(
                "C1 pending: {place} has {} messages",
                copy.content.pending.len()
            ));
        }
        let mut entries = copy.content.entries.iter();
        if let Some(returned) = entries.find(|entry| self.was_removed(entry)) {
            return Some(format!(
                "S3 returned: {place} has {returned:?}, which was removed"
            ));
        }
        self.find_garbage(&place, copy)
    }

    /// G: ends, and what does not count, at rest.
    fn find_garbage(&self, place: &str, copy: &Copy) -> Option<String> {
        let garbage = |client: ClientId| copy.content.garbage(&self.rules, client);
        let left = ClientId::with_group()
            .map(garbage)
            .find(|left| !left.is_empty())?;
        Some(format!("G garbage: {place} still has {left:?}"))
    }

    /// S3: the removal of `entry` is on a disk that was not lost.
    fn was_removed(&self, entry: &Entry) -> bool {
        let removed = Removed {
            client: entry.client,
            dot: entry.dot,
        };
        let Some(by) = self.removed.get(&removed) else {
            return false;
        };
        let takers = self.takers(*by);
        let is_held = !takers.minus(self.lost).is_empty();
        is_held && (self.keeps_disks || takers.and(self.lost).is_empty() && self.lost.len() < 2)
    }

    fn compare(&self, slot: Slot, one: &Resting, other: &Resting) -> Option<String> {
        let differing: Vec<Entry> = one
            .entries
            .symmetric_difference(&other.entries)
            .copied()
            .collect();
        let is_race = |entry: &Entry| self.is_race(slot, one, other, entry);
        let goes_with_race = |entry: &Entry| {
            let assigned = entry.assigned();
            let mut messages = differing.iter().filter(|message| is_race(message));
            messages.any(|message| message.client == entry.client && Some(message.dot) == assigned)
        };
        if differing
            .iter()
            .all(|entry| is_race(entry) || goes_with_race(entry))
        {
            return None;
        }
        let (one, other) = (one.node.0, other.node.0);
        Some(format!(
            "C1 unequal: slot {} at nodes {one} and {other}: {differing:?}",
            slot.0
        ))
    }

    /// Both copies have decided upon a message that nobody was promised, in another order than a change of the subscription.
    fn is_race(&self, slot: Slot, one: &Resting, other: &Resting, entry: &Entry) -> bool {
        let covers = |id: NodeId| {
            let copy = self.node(id).copy(slot);
            copy.is_some_and(|copy| copy.content.covered.has(entry.dot))
        };
        let is_promised = self.is_expected(entry);
        entry.kind == EntryKind::Message && covers(one.node) && covers(other.node) && !is_promised
    }

    fn is_expected(&self, entry: &Entry) -> bool {
        if entry.client == ClientId::GROUP {
            return self.group.expects(entry.dot);
        }
        let expected = self.client(entry.client).promised.expected();
        expected.contains_key(&entry.dot)
    }

    /// Q1: nothing that was promised is missing; S1: every client can connect.
    pub(super) fn check_clients(&mut self) {
        for id in ClientId::all() {
            let client = self.client(id);
            if client.at.is_none() && (client.has_session || client.has_ended) {
                self.fail(format!("S1 stuck: client {} cannot connect", id.0));
                return;
            }
            let missed = client
                .promised
                .expected()
                .iter()
                .find(|(message, by)| self.is_missed(id, **message, **by));
            if let Some((message, by)) = missed {
                let takers = self.takers(*message);
                let text = format!(
                    "Q1 missed: client {} never got {message:?} by {by:?}; at {takers:?}",
                    id.0
                );
                self.fail(text);
                return;
            }
            self.check_exchanges(id);
        }
        if self.goes_on() {
            self.check_wills();
        }
        if self.goes_on() {
            self.check_group();
        }
    }

    /// Message and subscription are on disks that are there.
    fn is_missed(&self, id: ClientId, message: Dot, subscription: Dot) -> bool {
        if self.went_by_clocks(id) {
            return false;
        }
        if self.has_lost_few() {
            return true;
        }
        let is_lost = |dot: Dot| self.takers(dot).minus(self.lost).is_empty();
        let session_is_lost = self.client(id).birth.is_some_and(is_lost);
        if is_lost(message) || is_lost(subscription) || session_is_lost {
            return false;
        }
        let touches_lost = |dot: Dot| !self.takers(dot).and(self.lost).is_empty();
        self.lost.len() < 2 && !touches_lost(message) && !touches_lost(subscription)
    }
}
