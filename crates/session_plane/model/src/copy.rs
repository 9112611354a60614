//! Copy of a slot: its entries, its version vector, and the merge rule (section 2 of the specification).
//!
//! An entry that a copy covers and lacks was removed there. So two copies merge without tombstones, in any order and any
//! number of times. What a copy has taken and not claimed stays outside its vector, and what it knows to exist and lacks is
//! a hole (section 4).

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{Entry, EntryKind, Event};
use crate::groups;
use crate::ids::{ClientId, Dot, EventSet, NUMBER_MAX, NodeId, NodeSet, OWNERS};
use crate::rules::{Rule, Rules};
use crate::wills;

/// A covered dot of one session, beside the vector.
pub type SingleDot = (ClientId, Dot);

/// What a copy consists of; also what a holder answers with.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// V: events that the copy has decided upon.
    pub covered: EventSet,
    /// Events that the copy has and has not claimed.
    pub taken: EventSet,
    /// Events that are known to exist; what is neither covered nor taken of them is a hole.
    pub needed: EventSet,
    /// Messages that were taken and not claimed.
    pub pending: Vec<Event>,
    pub entries: BTreeSet<Entry>,
    /// Removals of events that the vector does not cover.
    pub single: BTreeSet<SingleDot>,
}

impl Content {
    /// The copy has decided upon `dot` as far as `client` is concerned.
    pub fn covers(&self, client: ClientId, dot: Dot) -> bool {
        self.covered.has(dot) || self.single.contains(&(client, dot))
    }

    /// Known events that the copy lacks.
    pub fn holes(&self) -> EventSet {
        self.needed.minus(&self.covered).minus(&self.taken)
    }

    pub fn has_hole(&self) -> bool {
        !self.holes().is_empty()
    }

    /// Everything that the copy knows to exist.
    pub fn known(&self) -> EventSet {
        let mut known = self.covered;
        known.add_all(&self.taken);
        known
    }

    fn add(&mut self, entry: Entry) {
        if !self.covers(entry.client, entry.dot) {
            self.entries.insert(entry);
        }
    }

    fn remove(&mut self, rules: &Rules, client: ClientId, dot: Dot) {
        self.entries
            .retain(|entry| !(entry.client == client && entry.dot == dot));
        if !self.covered.has(dot) && rules.hold(Rule::SingleDots) {
            self.single.insert((client, dot));
        }
    }

    /// Applies a change to a session. A message is not applied but pending until it is claimed.
    pub fn apply(&mut self, rules: &Rules, event: &Event) {
        if let Some(removal) = event.removal() {
            for dot in removal.dots {
                self.remove(rules, removal.client, *dot);
            }
        }
        if let Some(entry) = event.entry() {
            self.add(entry);
        }
    }

    /// Entries that count: those of a session that exists, and of no session that a clean start has beaten.
    ///
    /// A rule of reading: a removal inside the merge would make the result depend on the order of merges.
    pub fn live(&self, rules: &Rules) -> Vec<Entry> {
        live(rules, &self.entries, |client, dot| self.covers(client, dot))
    }

    /// Entries of `client` that are of no use once every member knows that: ends, and what does not count.
    pub fn garbage(&self, rules: &Rules, client: ClientId) -> BTreeSet<Entry> {
        self.garbage_beside(&self.live(rules), client)
    }

    /// As [`Content::garbage`], with the entries that count at hand, in their order.
    pub fn garbage_beside(&self, live: &[Entry], client: ClientId) -> BTreeSet<Entry> {
        let is_needed = |entry: &Entry| entry.kind != EntryKind::End && live.binary_search(entry).is_ok();
        let is_garbage =
            |entry: &&Entry| entry.client == client && self.covered.has(entry.dot) && !is_needed(entry);
        self.entries.iter().filter(is_garbage).copied().collect()
    }

    /// Entries that may beat others: sessions and ends.
    pub fn beaters(&self) -> BTreeSet<Entry> {
        let is_beater = |entry: &&Entry| matches!(entry.kind, EntryKind::Session | EntryKind::End);
        self.entries.iter().filter(is_beater).copied().collect()
    }

    /// Entries that the message `event` makes here.
    pub fn matches(&self, rules: &Rules, event: &Event) -> Vec<Entry> {
        let is_matched = |entry: &&Entry| {
            entry.kind == EntryKind::Subscription
                && (!rules.hold(Rule::Since) || entry.since < event.clock)
                && !self.covers(entry.client, event.dot)
        };
        let message = |subscription: &Entry| Entry {
            client: subscription.client,
            kind: EntryKind::Message,
            dot: event.dot,
            birth: subscription.birth,
            clock: event.clock,
            since: 0,
            clean: false,
            received: None,
            delivery: None,
            will: None,
            ended: None,
            share: None,
            connected: 0,
        };
        let live = self.live(rules);
        let of_group =
            groups::message_of(rules, &live, event).filter(|entry| !self.covers(entry.client, event.dot));
        live.iter()
            .filter(is_matched)
            .map(message)
            .chain(of_group)
            .collect()
    }

    /// The merge rule.
    pub fn merge(&mut self, rules: &Rules, other: &Content) {
        self.entries = merge_entries(rules, self, other);
        self.covered.add_all(&other.covered);
        self.single.extend(&other.single);
        if rules.hold(Rule::TransferPending) {
            self.taken.add_all(&other.taken);
            for event in &other.pending {
                self.keep_pending(event);
            }
        }
        self.needed.add_all(&other.needed);
        self.tidy();
    }

    /// Keeps a message until it is claimed; false if it is decided upon or kept already.
    pub fn keep_pending(&mut self, event: &Event) -> bool {
        let is_new = !self.covered.has(event.dot) && !self.pending.iter().any(|kept| kept.dot == event.dot);
        if is_new {
            self.pending.push(event.clone());
        }
        is_new
    }

    /// Claims all that was taken: matches pending messages again and extends V.
    pub fn claim(&mut self, rules: &Rules) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_by_key(|event| (event.clock, event.dot));
        for event in &pending {
            self.match_now(rules, event);
        }
        let taken = std::mem::take(&mut self.taken);
        self.covered.add_all(&taken);
        self.tidy();
    }

    /// Takes the latest pending message out and matches it without waiting for the claim: what [`Rule::Rematch`] forbids.
    pub fn match_early(&mut self, rules: &Rules) {
        if let Some(event) = self.pending.pop() {
            self.match_now(rules, &event);
        }
    }

    /// Makes the entries of a message as the copy stands.
    fn match_now(&mut self, rules: &Rules, event: &Event) {
        for entry in self.matches(rules, event) {
            self.add(entry);
        }
    }

    /// Drops what the vector has come to cover.
    fn tidy(&mut self) {
        let covered = self.covered;
        self.taken.remove_all(&covered);
        self.pending.retain(|event| !covered.has(event.dot));
        self.single.retain(|(_, dot)| !covered.has(*dot));
    }
}

/// Entries of `one` and `other` by the merge rule.
fn merge_entries(rules: &Rules, one: &Content, other: &Content) -> BTreeSet<Entry> {
    let same = |entries: &BTreeSet<Entry>, entry: &Entry| {
        if rules.hold(Rule::SameByIdentity) {
            let identity = (entry.client, entry.kind, entry.dot);
            entries
                .iter()
                .find(|same| (same.client, same.kind, same.dot) == identity)
                .copied()
        } else {
            entries.get(entry).copied()
        }
    };
    let mine = one
        .entries
        .iter()
        .filter_map(|entry| match same(&other.entries, entry) {
            Some(theirs) => Some((*entry).max(theirs)),
            None => (!other.covers(entry.client, entry.dot)).then_some(*entry),
        });
    let is_theirs =
        |entry: &&Entry| same(&one.entries, entry).is_none() && !one.covers(entry.client, entry.dot);
    mine.chain(other.entries.iter().filter(is_theirs).copied())
        .collect()
}

/// Entries that count; `covers` says which births are decided upon.
pub fn live(rules: &Rules, entries: &BTreeSet<Entry>, covers: impl Fn(ClientId, Dot) -> bool) -> Vec<Entry> {
    let clean_starts: [Option<Entry>; OWNERS] =
        std::array::from_fn(|client| latest_clean_start(rules, entries, ClientId(client as u8)));
    let ends: Vec<&Entry> = entries.iter().filter(|entry| entry.ended.is_some()).collect();
    let is_beaten = |entry: &Entry| {
        let start = clean_starts[entry.client.index()];
        start.is_some_and(|start| entry.birth != start.birth && entry.clock < start.since)
            || rules.hold(Rule::EndCovers) && has_ended(&ends, entry)
    };
    let sessions = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::Session && !is_beaten(entry));
    let wills = wills::counting(rules, entries, &covers);
    let births: BTreeSet<(ClientId, Dot)> = sessions.map(|entry| (entry.client, entry.birth)).collect();
    let counts = |entry: &&Entry| match entry.kind {
        EntryKind::Connection | EntryKind::End => true,
        EntryKind::Member | EntryKind::Presence => true,
        EntryKind::Assignment => groups::has_message(entries, entry, &covers),
        EntryKind::Message if entry.client == ClientId::GROUP => groups::has_member(entries, entry),
        EntryKind::Session => !is_beaten(entry),
        EntryKind::Will => wills.contains(entry),
        EntryKind::Subscription | EntryKind::Message | EntryKind::Received | EntryKind::Delivery => {
            !rules.hold(Rule::Births)
                || births.contains(&(entry.client, entry.birth))
                || !covers(entry.client, entry.birth)
        }
    };
    entries.iter().filter(counts).copied().collect()
}

/// An end that was made with knowledge of the session's entry says that it is over.
fn has_ended(ends: &[&Entry], session: &Entry) -> bool {
    let mut ends = ends.iter().filter(|entry| entry.client == session.client);
    ends.any(|entry| entry.ended.is_some_and(|ended| ended.seen.has(session.dot)))
}

/// Of each packet id of `client` the entry that counts among `live`, if a message uses the id.
pub fn received(rules: &Rules, live: &[Entry], client: ClientId) -> Vec<Entry> {
    let use_of = |entry: &Entry| {
        entry.received.map(|received| PacketUse {
            packet_id: received.packet_id,
            connection_clock: received.connection_clock,
        })
    };
    let mut counting = counting(rules, live, client, use_of);
    counting.retain(|entry| entry.received.is_some_and(|received| received.message.is_some()));
    counting
}

/// Of each packet id to `client` the entry that counts among `live`.
pub fn delivering(rules: &Rules, live: &[Entry], client: ClientId) -> Vec<Entry> {
    let use_of = |entry: &Entry| {
        entry.delivery.map(|delivery| PacketUse {
            packet_id: delivery.packet_id,
            connection_clock: delivery.connection_clock,
        })
    };
    counting(rules, live, client, use_of)
}

/// Use of a packet id by a connection.
#[derive(Clone, Copy, Debug)]
struct PacketUse {
    packet_id: u8,
    connection_clock: u32,
}

/// Of each packet id the entry that counts: that of the later connection.
fn counting(
    rules: &Rules,
    live: &[Entry],
    client: ClientId,
    use_of: impl Fn(&Entry) -> Option<PacketUse>,
) -> Vec<Entry> {
    let order = |entry: &Entry| {
        let by_connection = rules.hold(Rule::LaterConnection);
        let connection = use_of(entry).filter(|_| by_connection);
        let connection = connection.map(|packet| packet.connection_clock);
        (connection, entry.clock, entry.dot)
    };
    let mut counting: BTreeMap<u8, Entry> = BTreeMap::new();
    for entry in live.iter().filter(|entry| entry.client == client) {
        let Some(packet) = use_of(entry) else { continue };
        let known = counting.entry(packet.packet_id).or_insert(*entry);
        if order(known) < order(entry) {
            *known = *entry;
        }
    }
    counting.into_values().collect()
}

/// Session of `client` that was begun clean last, or its end.
pub fn latest_clean_start(rules: &Rules, entries: &BTreeSet<Entry>, client: ClientId) -> Option<Entry> {
    let is_start = |entry: &&Entry| {
        entry.client == client && entry.clean && matches!(entry.kind, EntryKind::Session | EntryKind::End)
    };
    // Of a session and its end, which two sides may have left, the session is the one that is still there to end.
    let order = |entry: &&Entry| (entry.since, entry.birth, entry.kind == EntryKind::Session);
    let starts = entries.iter().filter(is_start);
    starts
        .max_by_key(order)
        .copied()
        .filter(|_| rules.hold(Rule::CleanStartWins))
}

/// A copy at a node: content, and how far it is on its way to be whole and, later, to be deleted.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    pub content: Content,
    /// The node owns the slot by its own view.
    pub owned: bool,
    /// Holders that have not answered yet; a copy without one is merged.
    pub unanswered: NodeSet,
    /// Of those, the ones that were asked.
    pub asked: NodeSet,
    /// The copy has merged with all holders since the last handshake; a hole may have made it ask again.
    pub has_merged: bool,
    /// Owners that have merged an answer of this copy.
    pub served: NodeSet,
    /// No ring that this node knows names it as an owner.
    pub abandoned: bool,
    /// Since when the merged copy has had a hole.
    pub hole_since: Option<u32>,
    /// Holes that a question to everybody is under way for; what is still a hole afterwards nobody has.
    pub closing: Option<EventSet>,
    /// Holes when all holders were asked last.
    pub asked_for: EventSet,
    /// Of those, the ones that all present holders have answered about.
    pub nowhere: EventSet,
    /// Of each client what the copy will drop.
    pub garbage: [Option<Garbage>; OWNERS],
}

/// Entries that a copy drops when every member knows what the copy knew when it found them.
#[derive(Clone, Debug)]
pub struct Garbage {
    pub entries: BTreeSet<Entry>,
    pub known: EventSet,
}

impl Copy {
    /// The copy may answer for its sessions.
    pub fn is_merged(&self) -> bool {
        self.owned && self.unanswered.is_empty()
    }

    /// Drops the garbage of `client`.
    pub fn drop_garbage(&mut self, client: ClientId) {
        if let Some(garbage) = self.garbage[client.index()].take() {
            self.content
                .entries
                .retain(|entry| !garbage.entries.contains(entry));
        }
    }

    /// Forgets what was under way when the process ended.
    pub fn restart(&mut self) {
        *self = Copy {
            content: std::mem::take(&mut self.content),
            ..Copy::default()
        };
    }

    /// Begins to ask all of `holders`.
    pub fn ask_all(&mut self, holders: NodeSet) {
        self.unanswered = holders;
        self.asked = NodeSet::EMPTY;
        self.asked_for = self.content.holes();
        self.note_answers();
    }

    /// Waits no longer for an answer of `peer`.
    pub fn stop_waiting_for(&mut self, peer: NodeId) {
        self.unanswered.remove(peer);
        self.asked.remove(peer);
        self.note_answers();
    }

    /// A node has come or gone: an answer from before says nothing about holes.
    pub fn forget_answers(&mut self) {
        self.asked_for = EventSet::default();
        self.nowhere = EventSet::default();
    }

    fn note_answers(&mut self) {
        if self.unanswered.is_empty() {
            self.nowhere = self.asked_for;
        }
    }

    /// The copy has merged, and no present holder may fill a hole of it: what it says is decided.
    pub fn may_decide(&self) -> bool {
        self.is_merged() && self.content.holes().minus(&self.nowhere).is_empty()
    }

    /// The copy has all of `known`, except for what no present holder has, and what is of no concern to the client.
    pub fn has_all_for(&self, client: ClientId, known: &EventSet) -> bool {
        let missing = known.minus(&self.content.covered).minus(&self.content.taken);
        let is_present = !self.is_merged() || !missing.minus(&self.nowhere).is_empty();
        missing.is_empty() || !is_present && !self.may_concern(client, &missing)
    }

    /// Events that are `missing` may be of a connection of the client that the copy knows: they may acknowledge
    /// messages that the copy has in the queue.
    fn may_concern(&self, client: ClientId, missing: &EventSet) -> bool {
        let entries = self.content.entries.iter();
        let sessions = entries.filter(|entry| entry.client == client && entry.kind == EntryKind::Session);
        let mut later = sessions.flat_map(|entry| {
            let numbers = entry.dot.number.saturating_add(1)..=NUMBER_MAX;
            numbers.map(|number| Dot {
                run: entry.dot.run,
                number,
            })
        });
        later.any(|dot| missing.has(dot))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::event::Change;
    use crate::ids::{Numbers, Run, SlotSet};
    use crate::random::{Purpose, Random};

    const RUN: Run = Run(1);
    const CLIENT: ClientId = ClientId(0);
    const EVENTS: u8 = 12;

    /// Events that add an entry, or remove some of those before.
    fn history(random: &mut Random) -> Vec<Event> {
        let dot = |number| Dot { run: RUN, number };
        let change = |number: u8, random: &mut Random| {
            if random.chance(1, 2) {
                return Change::OpenConnection { client: CLIENT };
            }
            let removes = (1..number).filter(|_| random.chance(1, 3)).map(dot).collect();
            Change::Remove {
                client: CLIENT,
                removes,
            }
        };
        let event = |number| Event {
            dot: dot(number),
            clock: u32::from(number),
            slots: SlotSet::EMPTY,
            change: change(number, random),
            known: Rc::default(),
        };
        (1..=EVENTS).map(event).collect()
    }

    /// A copy that has decided upon the events whose bits are set.
    fn copy_of(history: &[Event], bits: u64) -> Content {
        let rules = Rules::default();
        let mut content = Content::default();
        for event in history.iter().filter(|event| bits >> event.dot.number & 1 == 1) {
            content.apply(&rules, event);
            content.covered.add(RUN, Numbers::one(event.dot.number));
        }
        content.tidy();
        content
    }

    fn merged(one: &Content, other: &Content) -> Content {
        let mut merged = one.clone();
        merged.merge(&Rules::default(), other);
        merged
    }

    #[track_caller]
    fn assert_same(one: &Content, other: &Content, seed: u64) {
        assert_eq!(one.entries, other.entries, "seed {seed}");
        assert_eq!(one.covered, other.covered, "seed {seed}");
        assert_eq!(one.single, other.single, "seed {seed}");
    }

    /// So the merge is commutative, associative and idempotent.
    #[test]
    fn merged_copies_are_the_copy_that_has_seen_what_both_have() {
        for seed in 0..5_000 {
            let mut random = Random::new(seed, Purpose::Plan);
            let history = history(&mut random);
            let (left, right) = (random.draw(), random.draw());
            let (one, other) = (copy_of(&history, left), copy_of(&history, right));
            let both = copy_of(&history, left | right);
            assert_same(&merged(&one, &other), &both, seed);
            assert_same(&merged(&other, &one), &both, seed);
            assert_same(&merged(&both, &one), &both, seed);
        }
    }
}
