//! Who owns the sessions of this node is told of them, and gets what it lacks.
//!
//! Sessions are looked at one after the other when owners have changed or are reached again. An owner that has another clock says that it wants the session, which
//! then goes whole: at once, since it must fit what is copied before and behind it; the next one when there is room on the way.

use std::time::Duration;

use bytes::Bytes;
use cluster::NodeId;
use cluster::session_plane::Ring;
use cluster::write::Write;
use mqtt::ids::SessionNumber;
use mqtt::now::Now;
use mqtt::records;
use protocol::packet::PacketId;

use super::messages::{Change, CopyMessage, Part, encode};
use super::{Copies, Held, Owner, Stage};
use crate::cluster_records;
use crate::cluster_records::copy::Mark;
use crate::node::Node;
use crate::routes::{LinkChange, Routes, Subject};
use crate::sessions::{SessionEntry, Sessions};

/// Sessions that are looked at before others have their turn: about a millisecond.
const VISITED_MAX: usize = 1_024;

/// Sessions that are sent whole before others have their turn.
const WHOLES_MAX: usize = 64;

/// How long the others have their turn.
const PAUSE: Duration = Duration::from_millis(1);

/// Bytes of a part of a session, unless one record has more.
pub(super) const PART_BYTES: usize = 256 << 10;

impl Node {
    /// A node is reached, has started anew, or is lost.
    pub(crate) fn note_link_of_copies(&mut self, node: NodeId, change: LinkChange) {
        self.stop_giving_to(node);
        self.note_link_of_fences(node, change);
        if change == LinkChange::Lost {
            self.part_from(node);
        }
        let Some(copies) = &mut self.copies else { return };
        copies.noting.begin();
        copies.forget_stages(node);
        copies.wanted.retain(|(to, _)| *to != node);
        if change != LinkChange::Asked {
            copies.unreadable.forget(node);
        }
        copies.awaited.look_at_all();
        if change == LinkChange::Lost {
            copies.hearing.remove(&node);
            copies.asking.remove(&node);
            return self.end_awaited();
        }
        copies.hearing.insert(node, false);
        // Who was asked may have forgotten it.
        copies.handover = None;
        copies.begin_visit();
    }

    /// A node with copies is lost: from here on the sessions are others than what that node has.
    fn part_from(&mut self, node: NodeId) {
        let Some(copies) = &mut self.copies else { return };
        let owned = copies.held.iter_mut().filter(|(_, held)| held.has_owner(node));
        for (number, held) in owned {
            let entry = self
                .sessions
                .find(&held.client_id)
                .and_then(|key| self.sessions.get(key));
            let Some(session) = entry
                .map(|entry| &entry.session)
                .filter(|session| session.number == *number)
            else {
                continue;
            };
            let mark = Mark {
                node,
                number: None,
                next_sequence: session.next_sequence(),
            };
            held.part(mark, session.is_connected());
            if held.is_in_step(node) {
                held.part_with_copy(node, &copies.losses);
            }
        }
    }

    /// Goes on with what owners are to be told.
    pub(crate) fn offer_copies(&mut self, now: Now) {
        let (Some(copies), Some(peers), Some(states)) = (&mut self.copies, &mut self.peers, &self.states)
        else {
            return;
        };
        copies.go_on_at = None;
        let rings = (states.primary(), states.minority());
        copies.send_due_offers((&self.sessions, peers));
        for write in copies.visit(now, (&self.sessions, peers), rings) {
            self.commits.write(write);
        }
        self.send_wholes(now);
    }

    /// Sends sessions to who wants them. They are as of the batch that was closed last.
    fn send_wholes(&mut self, now: Now) {
        for _ in 0..WHOLES_MAX {
            if !self.commits.open().is_empty() {
                return;
            }
            let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) else {
                return;
            };
            let is_due = |(node, number): &(NodeId, SessionNumber)| {
                peers.has_room(*node) || copies.awaited.has(*number)
            };
            let next = copies.wanted.iter().position(is_due);
            let next = next.and_then(|next| copies.wanted.remove(next));
            let Some((node, number)) = next else { return };
            for part in self.whole_of(now, number) {
                self.tell_copies(node, &CopyMessage::Whole(Box::new(part)));
            }
            if let Some(copies) = &mut self.copies {
                copies.figures.sent_whole += 1;
                copies.set_stage(number, node, Stage::Offered);
            }
        }
        if let Some(copies) = self.copies.as_mut().filter(|copies| !copies.wanted.is_empty()) {
            copies.go_on_at = Some(now.instant + PAUSE);
        }
    }

    /// Tells a node something about copies. False if it is not reached.
    pub(super) fn tell_copies(&mut self, to: NodeId, message: &CopyMessage) -> bool {
        let (Some(copies), Some(peers)) = (&self.copies, &mut self.peers) else {
            return false;
        };
        copies.tell(peers, to, message)
    }

    /// A session of this node, in parts.
    fn whole_of(&self, now: Now, number: SessionNumber) -> Vec<Part> {
        let (Some(copies), Some(peers)) = (&self.copies, &self.peers) else {
            return Vec::new();
        };
        let Some(held) = copies.held.get(&number) else {
            return Vec::new();
        };
        let changes = self.changes_of(now, number, held);
        let mut parts = Vec::new();
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let (mut bytes, mut of_part) = (0, Vec::new());
            while let Some(change) = changes.next_if(|_| bytes < PART_BYTES) {
                bytes += change.size();
                of_part.push(change);
            }
            parts.push(Part {
                number,
                client_id: held.client_id.clone(),
                clock: held.clock.clone(),
                is_first: parts.is_empty(),
                is_last: changes.peek().is_none(),
                positions: peers.positions().collect(),
                changes: of_part,
            });
        }
        parts
    }

    /// All records of a session, as changes.
    fn changes_of(&self, now: Now, number: SessionNumber, held: &super::Held) -> Vec<Change> {
        let key = self.sessions.find(&held.client_id);
        let entry = key.and_then(|key| Some((key, self.sessions.get(key)?)));
        let Some((key, entry)) = entry.filter(|(_, entry)| entry.session.number == number) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        if let Some(Write::Put { value, .. }) = self.session_record(now, key) {
            changes.push(Change::Session(value));
        }
        changes.extend(Self::changes_of_session(
            now,
            entry,
            held.received.iter().copied(),
        ));
        changes
    }

    /// All records of a session but its own, as changes.
    pub(crate) fn changes_of_session(
        now: Now,
        entry: &SessionEntry,
        received: impl Iterator<Item = PacketId>,
    ) -> Vec<Change> {
        let number = entry.session.number;
        let mut changes = Vec::new();
        for (filter, subscription) in entry.session.filters.iter() {
            let place = entry.due.place_of(filter);
            let write = records::subscription::put(number, filter, subscription, place);
            changes.extend(suffix_and_value(write).map(|(suffix, value)| Change::Subscribed(suffix, value)));
        }
        for packet_id in received {
            let write = records::received::put(number, packet_id);
            changes.extend(suffix_and_value(write).map(|(suffix, _)| Change::Received(suffix)));
        }
        for (sequence, record) in entry.session.durable_deliveries() {
            let change = suffix_and_value(records::queue::put_record(number, sequence, &record, now));
            changes.extend(change.map(|(suffix, value)| Change::Delivery(suffix, value)));
        }
        changes
    }
}

impl Copies {
    pub(super) fn tell(&self, peers: &mut Routes, to: NodeId, message: &CopyMessage) -> bool {
        let body = encode(self.own.incarnation.0, message);
        peers.tell(to, (Subject::Copies, body), None)
    }

    /// Looks at sessions whose owners are to be told something. Returns what is to be written.
    fn visit(
        &mut self,
        now: Now,
        (sessions, peers): (&Sessions, &mut Routes),
        rings: (&Ring, &Ring),
    ) -> Vec<Write> {
        for _ in 0..VISITED_MAX {
            let Some(next) = self.visit else {
                return Vec::new();
            };
            // What they confirm lets it go on.
            if peers.reached().any(|node| !peers.has_room(node)) {
                return Vec::new();
            }
            self.begin_to_tell(peers);
            let Some(number) = self.held.range(next..).next().map(|(number, _)| *number) else {
                return self.end_visit(peers, rings);
            };
            self.look_at(number, (sessions, peers), rings);
            self.visit = Some(SessionNumber(number.0 + 1));
        }
        self.go_on_at = Some(now.instant + PAUSE);
        Vec::new()
    }

    fn begin_to_tell(&mut self, peers: &mut Routes) {
        let new = self.hearing.iter().filter(|(_, is_begun)| !**is_begun);
        let new: Vec<NodeId> = new.map(|(node, _)| *node).collect();
        for node in new {
            if self.tell(peers, node, &CopyMessage::Begin) {
                self.hearing.insert(node, true);
            }
        }
    }

    /// All sessions were looked at. A node has heard of all that it is to have if it owns anything, and if this node knows who does: else what it has would be left over.
    fn end_visit(&mut self, peers: &mut Routes, (primary, minority): (&Ring, &Ring)) -> Vec<Write> {
        self.visit = None;
        if self.is_back {
            return Vec::new();
        }
        for (node, is_begun) in std::mem::take(&mut self.hearing) {
            let is_owner = primary.nodes().contains(&node) || minority.nodes().contains(&node);
            if is_begun && is_owner {
                self.tell(peers, node, &CopyMessage::All);
            } else {
                self.hearing.insert(node, is_begun);
            }
        }
        self.forget_positions()
    }

    /// Places one session anew, and offers it to owners that have not heard of it.
    pub(super) fn look_at(
        &mut self,
        number: SessionNumber,
        (sessions, peers): (&Sessions, &mut Routes),
        rings: (&Ring, &Ring),
    ) {
        let (own, version) = (self.own.node, self.rings);
        let is_settled = |held: &Held| {
            let is_settled = |owner: &Owner| !owner.is_former && owner.stage != Stage::Unknown;
            held.rings == version && held.owners.iter().all(is_settled)
        };
        if self.held.get(&number).is_some_and(is_settled) {
            return;
        }
        let placed = self.with_held(number, |held| {
            let mut under_way = Vec::new();
            if held.rings != version {
                held.rings = version;
                under_way = held.place(own, rings);
            }
            let unknown = held.owners.iter().filter(|owner| owner.stage == Stage::Unknown);
            let unknown: Vec<NodeId> = unknown.map(|owner| owner.node).collect();
            (unknown, under_way)
        });
        let (unknown, under_way) = placed.unwrap_or_default();
        // First, so that what was named before counts for nothing.
        self.begin_to_tell(peers);
        for node in under_way {
            self.wanted.retain(|wanted| *wanted != (node, number));
            self.tell(peers, node, &CopyMessage::Drop(number));
        }
        for node in unknown {
            let Some(offer) = self.offer_of(number, sessions) else {
                return;
            };
            if self.tell(peers, node, &offer) {
                self.set_stage(number, node, Stage::Offered);
            }
        }
        self.drop_former(number, peers);
    }

    /// A session as its owners are told of it. `None`: it is not held.
    pub(super) fn offer_of(&self, number: SessionNumber, sessions: &Sessions) -> Option<CopyMessage> {
        let held = self.held.get(&number)?;
        let key = sessions.find(&held.client_id);
        let entry = key.and_then(|key| sessions.get(key));
        Some(CopyMessage::Offer {
            number,
            client_id: held.client_id.clone(),
            clock: held.clock.clone(),
            is_connected: entry.is_some_and(|entry| entry.session.is_connected()),
            origins: held.origins(),
        })
    }

    /// Nodes that are to have a copy no more delete it when all that are to have one have it.
    pub(super) fn drop_former(&mut self, number: SessionNumber, peers: &mut Routes) {
        let former = self.with_held(number, |held| {
            if held.owners.iter().any(Owner::is_lacking) {
                return Vec::new();
            }
            let former = held.owners.iter().filter(|owner| owner.is_former);
            let former = former.map(|owner| owner.node).collect();
            held.owners.retain(|owner| !owner.is_former);
            former
        });
        for node in former.into_iter().flatten() {
            self.tell(peers, node, &CopyMessage::Drop(number));
        }
    }

    /// Nothing is known any more of what a node has, nor of what others keep for its sake.
    fn forget_stages(&mut self, node: NodeId) {
        let numbers: Vec<SessionNumber> = self.held.keys().copied().collect();
        for number in numbers {
            self.with_held(number, |held| held.forget_stages(Some(node)));
        }
    }

    /// A node is to hear of a session of this node, whether or not it is to have a copy: two that hold one settle which of them stays.
    pub(super) fn offer_soon(&mut self, number: SessionNumber, to: NodeId) {
        self.due_offers.insert((number, to));
    }

    fn send_due_offers(&mut self, (sessions, peers): (&Sessions, &mut Routes)) {
        if self.due_offers.is_empty() {
            return;
        }
        self.begin_to_tell(peers);
        for (number, to) in std::mem::take(&mut self.due_offers) {
            let offer = self.offer_of(number, sessions);
            if offer.is_some_and(|offer| self.tell(peers, to, &offer)) {
                self.set_stage(number, to, Stage::Offered);
            }
        }
    }

    /// Forgets what holders had taken that nobody here refers to any more.
    fn forget_positions(&mut self) -> Vec<Write> {
        let holders = self.standing_by.values().map(|copy| copy.holder.node);
        let taken_from = self.held.values().filter_map(|held| Some(held.taken_from?.node));
        let known: std::collections::BTreeSet<_> = holders.chain(taken_from).collect();
        let gone = self.positions.keys().filter(|holder| !known.contains(holder));
        let gone: Vec<_> = gone.copied().collect();
        gone.iter().for_each(|holder| drop(self.positions.remove(holder)));
        gone.into_iter()
            .map(cluster_records::copy::remove_positions)
            .collect()
    }
}

impl Change {
    fn size(&self) -> usize {
        match self {
            Change::Session(value) => value.len(),
            Change::Subscribed(key, value) | Change::Delivery(key, value) => key.len() + value.len(),
            Change::Unsubscribed(key)
            | Change::Delivered(key)
            | Change::Received(key)
            | Change::Released(key) => key.len(),
        }
    }
}

/// A write of a session's record, without the session's number.
pub(crate) fn suffix_and_value(write: Write) -> Option<(Bytes, Bytes)> {
    match write {
        Write::Put { key, value, .. } => Some((key.slice(8..), value)),
        _ => None,
    }
}
