//! What is published while nobody on this side of a split may have a session that it is for.
//!
//! A durable session is at three nodes. Who has lost so many may have lost all that have some session, and nobody takes over then. So the filters of these nodes stay, and what they match is *owed* to all of them: they
//! get it when they are found again and have said what they want, before anything else. Each finds out which of its sessions lack it (`copies/apart.rs`), by who was on this side: where one of these had a copy, that
//! one has gone on with the session and leaves it what it got.
//!
//! What was on its way to a node when it was lost may be there. Under which number it was sent says so: what a node has missed of a sender's numbers it knows.

mod debts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cluster::NodeId;
use mqtt::now::Now;
use mqtt::origin::{Origin, Position, Slots};

pub(super) use self::debts::Owed;
pub(crate) use self::debts::RecoveredOwed;
use self::debts::{CAME_BY_MAX, Debt, OF_HEIRS};
use super::Routes;
use super::link::Link;
use super::losses::Kept;
use super::messages::{self, OwedMessage};
use super::table::Slot;
use crate::copies::OWNERS;
use crate::node::{Action, Node};

impl Routes {
    /// A node is lost. With so many others that nobody may be left who has some session, their filters stay. Who is alone and lacks copies need not have lost as many as have a session.
    ///
    /// Those that are silent count as well: this node may go on without all of them at one moment, and loses one after the other in it. And those that were found again and have not said yet what they want:
    /// what is published in this moment does not get there, and what was on its way to them has gone to others. So they are owed as those that are lost now.
    pub(super) fn begin_to_owe(&mut self, slot: Slot) {
        self.owed.give_up(slot);
        let of = |is_such: fn(&Link) -> bool| {
            let such = self.links.iter().filter(|(_, link)| is_such(link));
            such.fold(0, |all: Slots, (slot, _)| all | 1 << slot)
        };
        let silent = of(|link| !link.is_reached || !link.has_said_again());
        let is_alone = self.links.iter().all(|(_, link)| !link.is_reached);
        if silent.count_ones() as usize >= OWNERS || (is_alone && self.owed.lacks_copies) {
            let apart = of(|link| link.is_lost || !link.has_said_again());
            self.owed.add(apart, &self.table);
        }
    }

    /// Whether this node may have given sessions to others who have gone on with them, and has not been brought copies of all since.
    pub(crate) fn set_lacks_copies(&mut self, lacks_copies: bool) {
        self.owed.lacks_copies = lacks_copies;
    }

    /// Those who serve with this node, and have since others are apart from them; and whose sessions got what was published here at that time. (Not those of a node that has just been found again.)
    fn own_side(&self, at: Option<Instant>) -> Arc<[NodeId]> {
        let is_here = |slot: Slot| self.owed.apart >> slot & 1 == 0;
        let is_served = |link: &Link| {
            link.served_since
                .is_some_and(|since| at.is_none_or(|at| since <= at))
        };
        let others = self
            .links
            .iter()
            .filter(|(slot, link)| link.is_reached && is_here(*slot) && is_served(link));
        let others = others.map(|(_, link)| link.node);
        others.chain([self.node]).collect()
    }

    /// A message is for nodes that are lost, and perhaps for sessions that nobody here has.
    pub(super) fn owe(&mut self, now: Now, body: Bytes) {
        let made = (Some(now.instant), body);
        let side = (self.own_side(Some(now.instant)), Vec::new());
        self.owed.push(now, made, side, (&self.config, &mut self.figures));
    }

    /// The same of what was on its way to a node that is lost. What is the same message has the same bytes, in memory.
    pub(super) fn owe_kept(&mut self, now: Now, lost: NodeId, all: &[Kept]) {
        let place = |body: &Bytes| (body.as_ptr() as usize, body.len());
        let known = self
            .owed
            .items
            .iter()
            .filter(|debt| !debt.is_of_heirs())
            .map(|debt| (place(&debt.body), debt.number));
        let mut known: BTreeMap<(usize, usize), u64> = known.collect();
        let mut side = self.own_side(None);
        for kept in all {
            let numbers = kept.came_by.iter().filter(|(_, number)| *number != u64::MAX);
            let numbers = numbers.copied();
            if let Some(number) = known.get(&place(&kept.body)) {
                self.owed.came_by_as_well(*number, lost, numbers);
                continue;
            }
            let made = (kept.since, kept.body.clone());
            let own_side = self.own_side(kept.since);
            if own_side != side {
                side = own_side;
            }
            let ways = (Arc::clone(&side), numbers.take(CAME_BY_MAX).collect());
            self.owed.push(now, made, ways, (&self.config, &mut self.figures));
            known.insert(place(&kept.body), self.owed.latest());
        }
    }

    /// A node has said what it wants: it gets what is owed to it.
    pub(super) fn give_owed(&mut self, slot: Slot) {
        self.owed.end_owing(slot);
        if !self.owed.given.contains_key(&slot) {
            self.give_debts(slot, 0);
        }
    }

    /// A node gets what is owed to it from behind a number on.
    fn give_debts(&mut self, slot: Slot, before: u64) {
        let outbox = &mut self.links[slot].outbox;
        let is_due = |debt: &&Debt| debt.number > before && debt.pending >> slot & 1 == 1;
        for debt in self.owed.items.iter().filter(is_due) {
            let head = messages::owed(debt.number, &debt.side, &debt.came_by);
            outbox.push_owed(debt.since, head, debt.body.clone());
            self.owed.given.insert(slot, outbox.latest());
        }
    }

    /// A node is lost that has not got all that is owed to it: those who go on with its sessions are to have it for these.
    pub(super) fn pass_on_owed(&mut self, now: Now, slot: Slot, heirs: &[NodeId]) {
        let lost = self.links[slot].node;
        let heirs = heirs.iter().filter_map(|heir| self.slots.get(heir));
        let heirs: Vec<Slot> = heirs.copied().collect();
        let all = heirs.iter().fold(0, |all: Slots, heir| all | 1 << heir);
        let limits = (&self.config, &mut self.figures);
        let before = self.owed.pass_on(now, (slot, lost), all, limits);
        for heir in heirs {
            // Who has not said yet what it wants gets it behind that, with all else.
            if self.links[heir].has_said_again() {
                self.give_debts(heir, before);
            }
        }
    }

    /// A node has confirmed something.
    pub(super) fn settle_owed(&mut self, slot: Slot) {
        let link = &self.links[slot];
        let is_there = |up_to: &mut u64| link.is_reached && *up_to <= link.outbox.settled();
        let given = self.owed.given.get_mut(&slot).is_some_and(is_there);
        if given {
            self.owed.given.remove(&slot);
            self.owed.settle(slot);
        }
    }
}

impl Node {
    /// Who is owed what is on disk before anybody hears of success.
    pub(crate) fn write_owed(&mut self) {
        let writes = self.peers.as_mut().map(|peers| peers.owed.take_writes());
        for write in writes.into_iter().flatten() {
            self.commits.write(write);
        }
    }

    /// Another node gives what it has owed to this one.
    pub(super) fn take_owed(&mut self, now: Now, slot: Slot, owed: OwedMessage, actions: &mut Vec<Action>) {
        let Some(peers) = &mut self.peers else { return };
        let (own, link) = (peers.node, &peers.links[slot]);
        let from = link.node;
        // The run in which it was owed; of a build that keeps nothing on disk that is the sender's.
        let run = match u32::try_from(owed.number >> 32) {
            Ok(run @ 1..) => run,
            _ => link.inbox.taken.incarnation,
        };
        let position = Position {
            incarnation: run,
            number: owed.number,
        };
        let is_new = peers.owed.take(from, position);
        let mut to_this = owed.came_by.iter().filter(|(node, _)| *node == own);
        if !is_new {
            return self.commits.rely_on_earlier();
        }
        let of_heirs = owed.came_by.iter().filter(|(_, number)| *number == OF_HEIRS);
        let of_heirs: Vec<NodeId> = of_heirs.map(|(lost, _)| *lost).collect();
        // Who was on that side has got it there; but not for the sessions that it has taken over since.
        let has_got = owed.side.contains(&own) || to_this.any(|(_, number)| link.inbox.has_taken(*number));
        if has_got && of_heirs.is_empty() {
            return;
        }
        peers.figures.received += 1;
        let mut message = owed.message.counted(&self.memory.messages);
        // Who else has got it nobody can tell by its number.
        message.origin = Origin::Unknown;
        let is_meant = |node: &Self, key| of_heirs.is_empty() || node.has_taken_over(key, &of_heirs);
        let lacks = |node: &Self, key| is_meant(node, key) && node.lacks_owed(key, from, &owed.side);
        self.deliver_to_lacking(now, Arc::new(message), lacks, actions);
    }
}
