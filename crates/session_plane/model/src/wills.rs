//! Wills in a copy: the entry of a will, and what stands beside it and goes with it.
//!
//! The end of the connection and the number under which the will is routed are entries of their own. So whoever removes the will,
//! because it was published or is not to be, removes it for everybody: no end and no number that a copy still brings revives it.

use std::collections::{BTreeMap, BTreeSet};

use crate::copy::Content;
use crate::event::{Entry, EntryKind, Will, WillPart};
use crate::ids::{ClientId, Dot};
use crate::rules::{Rule, Rules};

/// Will of a connection as a copy has it.
#[derive(Clone, Copy, Debug)]
pub struct KnownWill {
    pub entry: Entry,
    pub will: Will,
    pub is_ended: bool,
    /// Entry that has the number that counts.
    pub numbered: Option<Entry>,
}

impl Content {
    /// Wills of `client`: of each connection the latest, with what stands beside it.
    pub fn wills(&self, rules: &Rules, client: ClientId) -> Vec<KnownWill> {
        let mut live = self.live(rules);
        live.retain(|entry| entry.client == client && entry.kind == EntryKind::Will);
        let mut latest: BTreeMap<Dot, KnownWill> = BTreeMap::new();
        for entry in &live {
            let Some(will) = entry.will.filter(|will| will.part == WillPart::Text) else {
                continue;
            };
            let known = KnownWill {
                entry: *entry,
                will,
                is_ended: live.iter().any(|other| is_end_of(other, &will)),
                numbered: self.number_of(&live, entry.dot),
            };
            let before = latest.entry(will.connection).or_insert(known);
            if (before.entry.clock, before.entry.dot) < (entry.clock, entry.dot) {
                *before = known;
            }
        }
        latest.into_values().collect()
    }

    /// Of the numbers of the will `of` one that is known to be routed, or else the latest.
    fn number_of(&self, live: &[Entry], of: Dot) -> Option<Entry> {
        let is_number = |entry: &&Entry| entry.will.is_some_and(|will| will.number_of() == Some(of));
        let order = |entry: &&Entry| {
            let number = entry.will.and_then(|will| will.number());
            (
                number.is_some_and(|number| self.has_heard(number)),
                entry.clock,
                entry.dot,
            )
        };
        live.iter().filter(is_number).max_by_key(order).copied()
    }

    /// The event `dot` is known to exist.
    fn has_heard(&self, dot: Dot) -> bool {
        self.covered.has(dot) || self.taken.has(dot) || self.needed.has(dot)
    }
}

/// Entries of wills that count: a will whose connection is known or has left it, and what stands beside it.
pub fn counting(
    rules: &Rules,
    entries: &BTreeSet<Entry>,
    covers: impl Fn(ClientId, Dot) -> bool,
) -> BTreeSet<Entry> {
    let is_left = |text: &Entry, will: &Will| {
        let is_connection = |entry: &Entry| {
            entry.client == text.client && entry.kind == EntryKind::Connection && entry.dot == will.connection
        };
        let mut others = entries.iter();
        others.any(|entry| is_connection(entry) || entry.client == text.client && is_end_of(entry, will))
            || !covers(text.client, will.connection)
    };
    let is_cancelled = |text: &Entry, will: &Will| {
        let mut of_client = entries.iter().filter(|entry| entry.client == text.client);
        let is_resumed = of_client.any(|entry| {
            let goes_on = entry.birth == will.birth || !entry.clean;
            let is_later = goes_on && entry.clock > will.session_clock;
            let was_later = entry
                .ended
                .is_some_and(|ended| ended.resumed > will.session_clock);
            entry.kind == EntryKind::Session && is_later || was_later
        });
        let number_of = |entry: &Entry| entry.will.and_then(|will| will.number_of());
        let is_numbered = entries.iter().any(|entry| number_of(entry) == Some(text.dot));
        will.is_delayed && is_resumed && !is_numbered && rules.hold(Rule::WillCancelled)
    };
    let counts = |text: &&Entry| {
        let will = text.will.filter(|will| will.part == WillPart::Text);
        will.is_some_and(|will| is_left(text, &will) && !is_cancelled(text, &will))
    };
    let texts: BTreeSet<Entry> = entries.iter().filter(counts).copied().collect();
    let is_beside = |entry: &&Entry| {
        let mut own = texts.iter().filter(|text| text.client == entry.client);
        own.any(|text| {
            let is_number = entry.will.is_some_and(|will| will.number_of() == Some(text.dot));
            is_number || text.will.is_some_and(|will| is_end_of(entry, &will))
        })
    };
    let beside = entries.iter().filter(is_beside);
    texts.iter().chain(beside).copied().collect()
}

/// `entry` says that the connection of `will` has ended.
fn is_end_of(entry: &Entry, will: &Will) -> bool {
    entry
        .will
        .is_some_and(|end| end.part == WillPart::End && end.connection == will.connection)
}
