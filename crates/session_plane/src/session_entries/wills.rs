//! Wills among the entries of a client: which of them count, and what stands beside them.
//!
//! A will is left to be published when its connection ends. That end is an entry, and so is the
//! number under which the will is published. Both stand beside the will and count only while it
//! does. So whoever removes the will removes it for everybody (section "Wills" of
//! `docs/internals/session-plane.md`).
//!
//! The end names the connection, not the will: a will that is armed again has a new event, and the
//! end of its connection holds for that one, too.

use std::collections::BTreeSet;

use super::SessionEntries;
use crate::{Dot, Entry, EntryId, EntryKind, Fact, WillTerms};

/// Wills of a client that count.
#[derive(Debug, Default)]
pub(super) struct CountingWills {
    /// Events that made them.
    pub(super) dots: BTreeSet<Dot>,
    /// Their connections.
    pub(super) connections: BTreeSet<Dot>,
}

/// Will, whether or not it counts.
#[derive(Debug, Clone, Copy)]
struct Text<'a> {
    dot: Dot,
    /// Session of the will's connection.
    birth: Dot,
    terms: &'a WillTerms,
}

impl<'a> Text<'a> {
    /// Will of an entry. None where it is of another kind.
    fn of<V>(dot: Dot, entry: &'a Entry<V>) -> Option<Text<'a>> {
        let Fact::Will(terms) = &entry.fact else {
            return None;
        };
        let birth = entry.birth.dot;
        Some(Text { dot, birth, terms })
    }
}

impl<V: Ord> SessionEntries<V> {
    /// Events that made the wills of a connection, with their numbers and the connection's end.
    ///
    /// A node that settles or drops the will of a connection removes all of them, in one event.
    pub fn will_of_connection(&self, connection: Dot) -> BTreeSet<Dot> {
        let of_connection = self.texts().filter(|text| text.terms.connection == connection);
        let wills: BTreeSet<Dot> = of_connection.map(|text| text.dot).collect();
        let ends = self.of_kind(EntryKind::ConnectionEnd);
        let ends = ends.filter(|(_, entry)| entry.fact.named() == Some(connection));
        let numbers = self.of_kind(EntryKind::WillNumber);
        let numbers =
            numbers.filter(|(_, entry)| entry.fact.named().is_some_and(|will| wills.contains(&will)));
        let beside = ends.chain(numbers).map(|(dot, _)| dot);
        beside.chain(wills.iter().copied()).collect()
    }

    /// Wills that count; `covers` is that of [`SessionEntries::live`].
    pub(super) fn wills(&self, covers: impl Fn(Dot) -> bool) -> CountingWills {
        let (ended, numbered) = (
            self.named(EntryKind::ConnectionEnd),
            self.named(EntryKind::WillNumber),
        );
        let is_left = |connection: Dot| {
            let (kind, dot) = (EntryKind::Connection, connection);
            self.entries.get(&EntryId { kind, dot }).is_some()
                || ended.contains(&connection)
                || !covers(connection)
        };
        let counts = |text: &Text<'_>| {
            is_left(text.terms.connection) && (numbered.contains(&text.dot) || !self.is_resumed(text))
        };
        let mut counting = CountingWills::default();
        for text in self.texts().filter(counts) {
            counting.dots.insert(text.dot);
            counting.connections.insert(text.terms.connection);
        }
        counting
    }

    /// The will has a delay, and a CONNECT after its own has resumed the session, or begun another
    /// one without Clean Start. An end may be all that is left of that CONNECT.
    fn is_resumed(&self, text: &Text<'_>) -> bool {
        let Some(since) = text.terms.delayed_since else {
            return false;
        };
        let mut sessions = self.of_kind(EntryKind::Session);
        let has_resumed = sessions.any(|(_, session)| {
            let goes_on = session.birth.dot == text.birth || !session.birth.is_clean;
            goes_on && session.clock > since
        });
        has_resumed || self.ends().any(|ended| ended.resumed() > Some(since))
    }

    /// A will is there that may not count: it is void, or its connection has no entry. A will that was armed
    /// again may have met DISCONNECT 0.
    pub(super) fn has_abandoned_will(&self) -> bool {
        let is_abandoned = |text: Text<'_>| {
            let (kind, dot) = (EntryKind::Connection, text.terms.connection);
            self.entries.get(&EntryId { kind, dot }).is_none() || self.is_resumed(&text)
        };
        self.texts().any(is_abandoned)
    }

    /// The will has a number.
    pub(super) fn is_numbered(&self, will: Dot) -> bool {
        self.named(EntryKind::WillNumber).contains(&will)
    }

    /// As [`SessionEntries::is_resumed`], for the entry of a will.
    pub(super) fn is_void(&self, dot: Dot, entry: &Entry<V>) -> bool {
        Text::of(dot, entry).is_some_and(|text| self.is_resumed(&text))
    }

    fn texts(&self) -> impl Iterator<Item = Text<'_>> {
        self.of_kind(EntryKind::Will)
            .filter_map(|(dot, entry)| Text::of(dot, entry))
    }

    /// Events that the entries of a kind name, whether or not they count.
    fn named(&self, kind: EntryKind) -> BTreeSet<Dot> {
        let entries = self.of_kind(kind);
        entries.filter_map(|(_, entry)| entry.fact.named()).collect()
    }
}
