//! What is published while nobody on this side of a split may have a session that it is for.
//!
//! A durable session is at three nodes. Who has lost so many may have lost all that have some session, and nobody takes over then. So the filters of these nodes stay, and what they match is *owed* to all of them: they
//! get it when they are found again and have said what they want, before anything else. Each finds out which of its sessions lack it (`copies/apart.rs`), by who was on this side: where one of these had a copy, that
//! one has gone on with the session and leaves it what it got.
//!
//! What was on its way to a node when it was lost may be there. Under which number it was sent says so: what a node has missed of a sender's numbers it knows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cluster::NodeId;

use super::link::Link;
use super::losses::Kept;
use super::messages::{self, OwedMessage};
use super::table::{Slot, Slots};
use super::{RouteFigures, Routes, RoutesConfig};
use crate::copies::OWNERS;
use crate::node::{Action, Node};
use crate::now::Now;
use crate::origin::Origin;
use crate::records::forwarded::Position;

/// What is owed, and to whom.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// The lost nodes whose filters stay, until they have said anew what they want.
    nodes: Slots,
    /// Those that were among them since the first one was.
    apart: Slots,
    items: VecDeque<Debt>,
    bytes: u64,
    /// The number of the latest, and of the latest before the first of these nodes was lost.
    latest: u64,
    before: u64,
    /// Up to which item of its outbox each node was given all that is owed to it.
    given: BTreeMap<Slot, u64>,
    /// The latest that each other node has owed to this one.
    pub(super) taken: BTreeMap<NodeId, Position>,
}

/// A message that is owed.
#[derive(Debug)]
struct Debt {
    number: u64,
    since: Option<Instant>,
    body: Bytes,
    /// Who was on this side.
    side: Arc<[NodeId]>,
    /// Under which numbers it was on its way to nodes that were lost then.
    came_by: Vec<(NodeId, u64)>,
    /// Who has not confirmed it.
    pending: Slots,
}

/// What a message counts for besides its bytes.
const DEBT: u64 = 128;

/// Numbers under which one message was on its way; of more the first ones count.
const CAME_BY_MAX: usize = 32;

impl Owed {
    /// Whether the filters of a lost node stay.
    pub(super) fn is_to(&self, slot: Slot) -> bool {
        self.nodes >> slot & 1 == 1
    }

    /// Whether something that is for these nodes is owed to any of them.
    pub(super) fn is_for(&self, nodes: Slots) -> bool {
        self.nodes & nodes != 0
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The node is not in the cluster any more.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.nodes &= !(1 << slot);
        self.apart &= !(1 << slot);
        self.given.remove(&slot);
        self.settle(slot);
    }

    /// These nodes are lost. A session that something is owed to may have gone to any of them.
    fn add(&mut self, lost: Slots) {
        if self.nodes == 0 {
            self.before = self.latest;
        }
        self.nodes |= lost;
        self.apart |= self.nodes;
        let current = self.items.iter_mut().filter(|debt| debt.number > self.before);
        current.for_each(|debt| debt.pending |= lost);
    }

    /// What was given to a node may not have got there.
    pub(super) fn give_up(&mut self, slot: Slot) {
        self.given.remove(&slot);
    }

    fn push(&mut self, debt: Debt, (config, figures): (&RoutesConfig, &mut RouteFigures)) {
        self.latest += 1;
        self.bytes += debt.size();
        let number = self.latest;
        self.items.push_back(Debt { number, ..debt });
        while (self.items.len() > config.messages_max || self.bytes > config.bytes_max)
            && let Some(first) = self.items.pop_front()
        {
            self.bytes -= first.size();
            figures.dropped_unreachable += 1;
        }
    }

    /// A node has confirmed what is owed to it.
    fn settle(&mut self, slot: Slot) {
        for debt in &mut self.items {
            debt.pending &= !(1 << slot);
        }
        self.items.retain(|debt| debt.pending != 0);
        self.bytes = self.items.iter().map(Debt::size).sum();
    }
}

impl Debt {
    fn size(&self) -> u64 {
        DEBT + self.body.len() as u64
    }
}

impl Routes {
    /// A node is lost. With so many others that nobody may be left who has some session, their filters stay.
    ///
    /// Those that are silent count as well: this node may go on without all of them at one moment, and loses one after the other in it.
    pub(super) fn begin_to_owe(&mut self, slot: Slot) {
        self.owed.give_up(slot);
        let of = |is_such: fn(&Link) -> bool| {
            let such = self.links.iter().filter(|(_, link)| is_such(link));
            such.fold(0, |all: Slots, (slot, _)| all | 1 << slot)
        };
        let silent = of(|link| !link.is_reached);
        if silent.count_ones() as usize >= OWNERS {
            self.owed.add(of(|link| link.is_lost));
        }
    }

    /// Those who serve with this node, and have since others are apart from them.
    fn own_side(&self) -> Arc<[NodeId]> {
        let is_here = |slot: Slot| self.owed.apart >> slot & 1 == 0;
        let others = self
            .links
            .iter()
            .filter(|(slot, link)| link.is_reached && is_here(*slot));
        let others = others.map(|(_, link)| link.node);
        others.chain([self.node]).collect()
    }

    /// A message is for nodes that are lost, and perhaps for sessions that nobody here has.
    pub(super) fn owe(&mut self, now: Now, body: Bytes) {
        let debt = Debt {
            number: 0,
            since: Some(now.instant),
            body,
            side: self.own_side(),
            came_by: Vec::new(),
            pending: self.owed.nodes,
        };
        self.owed.push(debt, (&self.config, &mut self.figures));
    }

    /// The same of what was on its way to a node that is lost. What is the same message has the same bytes, in memory.
    pub(super) fn owe_kept(&mut self, lost: NodeId, all: &[Kept]) {
        let place = |body: &Bytes| (body.as_ptr() as usize, body.len());
        let known = self
            .owed
            .items
            .iter()
            .map(|debt| (place(&debt.body), debt.number));
        let mut known: BTreeMap<(usize, usize), u64> = known.collect();
        let side = self.own_side();
        for kept in all {
            let numbers = kept.came_by.iter().filter(|(_, number)| *number != u64::MAX);
            let owed = known.get(&place(&kept.body)).copied();
            let owed = owed.and_then(|number| {
                self.owed
                    .items
                    .binary_search_by_key(&number, |debt| debt.number)
                    .ok()
            });
            if let Some(at) = owed {
                let debt = &mut self.owed.items[at];
                // It has not got there.
                debt.side = debt.side.iter().copied().filter(|node| *node != lost).collect();
                let room = CAME_BY_MAX.saturating_sub(debt.came_by.len());
                debt.came_by.extend(numbers.take(room));
                debt.pending |= self.owed.nodes;
                continue;
            }
            let debt = Debt {
                number: 0,
                since: kept.since,
                body: kept.body.clone(),
                side: Arc::clone(&side),
                came_by: numbers.take(CAME_BY_MAX).copied().collect(),
                pending: self.owed.nodes,
            };
            self.owed.push(debt, (&self.config, &mut self.figures));
            known.insert(place(&kept.body), self.owed.latest);
        }
    }

    /// A node has said what it wants: it gets what is owed to it.
    pub(super) fn give_owed(&mut self, slot: Slot) {
        self.owed.nodes &= !(1 << slot);
        if self.owed.nodes == 0 {
            self.owed.apart = 0;
        }
        let is_due = |debt: &&Debt| debt.pending >> slot & 1 == 1;
        if self.owed.given.contains_key(&slot) || !self.owed.items.iter().any(|debt| is_due(&debt)) {
            return;
        }
        let outbox = &mut self.links[slot].outbox;
        for debt in self.owed.items.iter().filter(is_due) {
            let head = messages::owed(debt.number, &debt.side, &debt.came_by);
            outbox.push_owed(debt.since, head, debt.body.clone());
        }
        self.owed.given.insert(slot, outbox.latest());
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
    /// Another node gives what it has owed to this one.
    pub(super) fn take_owed(&mut self, now: Now, slot: Slot, owed: OwedMessage, actions: &mut Vec<Action>) {
        let Some(peers) = &mut self.peers else { return };
        let (own, link) = (peers.node, &peers.links[slot]);
        let from = link.node;
        let position = Position {
            number: owed.number,
            ..link.inbox.taken
        };
        let latest = peers.owed.taken.entry(from).or_default();
        let is_new = *latest < position;
        *latest = position.max(*latest);
        let mut to_this = owed.came_by.iter().filter(|(node, _)| *node == own);
        // Who was on that side has got it there.
        if !is_new || owed.side.contains(&own) || to_this.any(|(_, number)| link.inbox.has_taken(*number)) {
            return;
        }
        peers.figures.received += 1;
        let mut message = owed.message.counted(&self.memory.messages);
        // Who else has got it nobody can tell by its number.
        message.origin = Origin::Unknown;
        let lacks = |node: &Self, key| node.lacks_owed(key, from, &owed.side);
        self.deliver_to_lacking(now, Arc::new(message), lacks, actions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debt(bytes: &'static [u8], pending: Slots) -> Debt {
        Debt {
            number: 0,
            since: None,
            body: Bytes::from_static(bytes),
            side: Arc::from([]),
            came_by: Vec::new(),
            pending,
        }
    }

    #[test]
    fn of_more_than_the_limit_the_oldest_are_dropped_and_counted_and_what_is_confirmed_by_all_is_gone() {
        let config = RoutesConfig {
            messages_max: 2,
            bytes_max: 3 * DEBT,
            ..RoutesConfig::default()
        };
        let (mut owed, mut figures) = (Owed::default(), RouteFigures::default());
        for bytes in [&b"one"[..], b"two", b"three"] {
            owed.push(debt(bytes, 0b11), (&config, &mut figures));
        }
        let numbers = |owed: &Owed| owed.items.iter().map(|debt| debt.number).collect::<Vec<_>>();
        assert_eq!((numbers(&owed), figures.dropped_unreachable), (vec![2, 3], 1));
        owed.settle(0);
        assert_eq!(numbers(&owed), [2, 3], "another node has not confirmed it");
        owed.forget(1);
        assert_eq!((owed.items.len(), owed.bytes()), (0, 0));
        owed.push(debt(&[0; 3 * DEBT as usize], 1), (&config, &mut figures));
        assert_eq!(
            (owed.items.len(), figures.dropped_unreachable),
            (0, 2),
            "more bytes than there may be"
        );
    }
}
