//! Memory for packets that have not arrived whole, of all connections together.
//!
//! A packet that arrives in one read costs nothing here. One that does not is held until its rest comes, and the budget
//! bounds the sum. Clients that have not been let in have a small part of their own.
//!
//! ```text
//! half of the budget is held      a client's packet reads on with a turn: what all turns lack fits into three eighths.
//!                                 The others wait in the order in which they asked, and are not read from.
//! a turn took TURN_MAX,           its connection ends.
//! and others wait
//! all of the budget is held       the connection without a turn that holds most ends, the newest of equals.
//! ```
//!
//! Invariant: `held` is the sum over the connections in `holders`, for either kind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mqtt::ids::ConnectionId;

/// The budget and who has what of it.
#[derive(Debug)]
pub(crate) struct ReadBudget {
    clients: Part,
    strangers: Part,
    /// Packets that are read to their end.
    turns: BTreeMap<ConnectionId, Turn>,
    /// The sum of what is missing to them.
    promised: usize,
    /// Connections that asked for a turn, in that order, each with what is missing to its packet.
    waiting: BTreeMap<u64, (ConnectionId, usize)>,
    /// Where each of them is in that order.
    places: BTreeMap<ConnectionId, u64>,
    next_place: u64,
}

/// What connections of one kind hold.
#[derive(Debug)]
struct Part {
    max: usize,
    held: usize,
    /// Those that hold something, the largest last.
    holders: BTreeSet<(usize, ConnectionId)>,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    bytes: usize,
    until: Instant,
}

/// What a connection holds, for the budget's eyes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) bytes: usize,
    /// It has not been let in.
    pub(crate) is_stranger: bool,
}

/// How long a packet may take to its end while others wait: a second for a megabyte at 8 Mbit/s, and one more.
const TURN_MAX: Duration = Duration::from_secs(2);

/// Packets that are read to their end at once: looking through their turns is cheap.
const TURNS_MAX: usize = 64;

/// The part of `limits.memory_max` that packets may take which are not complete.
const PART_OF_MEMORY: u64 = 8;

/// The part of the budget that clients may take which have not been let in.
const PART_OF_STRANGERS: usize = 8;

impl ReadBudget {
    /// At least one packet of the largest size has room, whatever `memory_max` is.
    pub(crate) fn new(memory_max: u64, packet_size_max: u32, connect_packet_size_max: u32) -> Self {
        let part = usize::try_from(memory_max / PART_OF_MEMORY).unwrap_or(usize::MAX);
        let all = part.max(packet_size_max as usize);
        let strangers = (all / PART_OF_STRANGERS).max(connect_packet_size_max as usize);
        Self {
            clients: Part::new(all),
            strangers: Part::new(strangers),
            turns: BTreeMap::new(),
            promised: 0,
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            next_place: 0,
        }
    }

    /// Takes note of what a connection holds now, and held before.
    pub(crate) fn hold(&mut self, id: ConnectionId, before: Holding, now: Holding) {
        self.part_mut(before.is_stranger).remove(id, before.bytes);
        self.part_mut(now.is_stranger).insert(id, now.bytes);
    }

    /// Whether a client's connection may read on, whose packet lacks `missing` bytes. If not, it waits for its turn.
    pub(crate) fn may_go_on(&mut self, now: Instant, id: ConnectionId, missing: usize) -> bool {
        if self.turns.contains_key(&id) || !self.is_tight() {
            return true;
        }
        if self.waiting.is_empty() && self.has_room_for(missing) {
            self.give_turn(now, id, missing);
            return true;
        }
        if !self.places.contains_key(&id) {
            self.places.insert(id, self.next_place);
            self.waiting.insert(self.next_place, (id, missing));
            self.next_place += 1;
        }
        false
    }

    /// A packet is complete, or its connection gone: who reads on now.
    pub(crate) fn end_turn(&mut self, now: Instant, id: ConnectionId) -> Vec<ConnectionId> {
        if let Some(turn) = self.turns.remove(&id) {
            self.promised -= turn.bytes;
        }
        if let Some(place) = self.places.remove(&id) {
            self.waiting.remove(&place);
        }
        let mut next = Vec::new();
        while let Some((id, missing)) = self.waiting.values().next().copied() {
            if !self.has_room_for(missing) {
                break;
            }
            self.waiting.pop_first();
            self.places.remove(&id);
            self.give_turn(now, id, missing);
            next.push(id);
        }
        next
    }

    /// Whose connection has to end, because too much is held or others have waited for long enough.
    pub(crate) fn overrun(&self, now: Instant) -> Option<ConnectionId> {
        if let Some(stranger) = self.strangers.overrun(|_| true) {
            return Some(stranger);
        }
        let without_turn = |id: ConnectionId| !self.turns.contains_key(&id);
        let largest = self.clients.overrun(without_turn);
        // If all have a turn, one of them holds more than it said.
        let largest = largest.or_else(|| self.clients.overrun(|_| true));
        largest.or_else(|| {
            let is_late = |turn: &Turn| turn.until <= now && !self.waiting.is_empty();
            let late = self.turns.iter().find(|(_, turn)| is_late(turn));
            late.map(|(id, _)| *id)
        })
    }

    /// When a turn has taken too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.waiting.is_empty() {
            return None;
        }
        self.turns.values().map(|turn| turn.until).min()
    }

    /// Half of the budget is held.
    pub(crate) fn is_tight(&self) -> bool {
        self.clients.held + self.strangers.held > self.clients.max / 2
    }

    /// What all connections hold.
    pub(crate) fn held(&self) -> usize {
        self.clients.held + self.strangers.held
    }

    fn has_room_for(&self, missing: usize) -> bool {
        // What is left is for the first bytes of those who wait.
        let has_room = self.promised + missing <= self.clients.max / 8 * 3;
        self.turns.is_empty() || has_room && self.turns.len() < TURNS_MAX
    }

    fn give_turn(&mut self, now: Instant, id: ConnectionId, bytes: usize) {
        let until = now + TURN_MAX;
        let before = self.turns.insert(id, Turn { bytes, until });
        assert!(before.is_none(), "a connection has one turn at a time");
        self.promised += bytes;
    }

    fn part_mut(&mut self, is_stranger: bool) -> &mut Part {
        if is_stranger {
            &mut self.strangers
        } else {
            &mut self.clients
        }
    }
}

impl Part {
    fn new(max: usize) -> Self {
        Self {
            max,
            held: 0,
            holders: BTreeSet::new(),
        }
    }

    fn insert(&mut self, id: ConnectionId, bytes: usize) {
        if bytes > 0 {
            self.holders.insert((bytes, id));
            self.held += bytes;
        }
    }

    fn remove(&mut self, id: ConnectionId, bytes: usize) {
        if bytes > 0 {
            let was_there = self.holders.remove(&(bytes, id));
            assert!(was_there, "a connection holds what it said last");
            self.held -= bytes;
        }
    }

    /// Who of those concerned holds most, if all together hold too much.
    fn overrun(&self, is_concerned: impl Fn(ConnectionId) -> bool) -> Option<ConnectionId> {
        if self.held <= self.max {
            return None;
        }
        let largest = self.holders.iter().rev().find(|(_, id)| is_concerned(*id));
        largest.map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests;
