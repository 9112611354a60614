//! What a node knows of a client's session: by the owners' answers, by its own copy, and by its routes.

use std::collections::BTreeSet;

use super::{Node, Step};
use crate::copy::{self, Content};
use crate::event::{Entry, EntryKind};
use crate::ids::{ClientId, Dot, EventSet, Slot, SlotSet};
use crate::rules::Rule;

impl Node {
    /// Entries of the session as this node knows them: from the owners' answers, from its own copy, and from its routes.
    ///
    /// The routes have the session and its subscriptions too, and every node has them. So they may know of an end, or of a
    /// CONNECT, that no owner on this side has seen. Both sources are one by the merge rule.
    pub(super) fn seen(&self, step: &Step<'_>, dot: Dot) -> BTreeSet<Entry> {
        let Some(connection) = self.connection(dot) else {
            return BTreeSet::new();
        };
        let client = connection.client;
        let own = self.copy(step.directory.slot(client)).filter(|copy| copy.owned);
        let own = own.into_iter().flat_map(|copy| &copy.content.entries);
        let all = connection.session.entries.iter().chain(own);
        let is_seen = |entry: &&Entry| {
            entry.client == client && !matches!(entry.kind, EntryKind::Connection | EntryKind::Will)
        };
        let mut seen: BTreeSet<Entry> = all.filter(is_seen).copied().collect();
        let routes = self.copy(Slot::ROUTES).filter(|_| step.holds(Rule::RoutesTell));
        let Some(routes) = routes.map(|routes| &routes.content) else {
            return seen;
        };
        let is_untold = |entry: &&Entry| !self.has_seen(step, dot, client, entry.dot);
        let routed = routes.entries.iter().filter(is_seen).filter(is_untold);
        let added: Vec<Entry> = routed.copied().collect();
        seen.retain(|entry| !is_removed_in_routes(routes, entry));
        seen.extend(added);
        seen
    }

    /// The owners of the connection's session, or this node as one, have decided upon `dot`.
    pub(super) fn has_seen(&self, step: &Step<'_>, connection: Dot, client: ClientId, dot: Dot) -> bool {
        let mut told = self.told(step, connection, client);
        told.any(|content| content.covers(client, dot))
    }

    /// What the owners of the connection's session, and this node as one, have told of it.
    fn told(&self, step: &Step<'_>, connection: Dot, client: ClientId) -> impl Iterator<Item = &Content> {
        let told = self.connection(connection).map(|connection| &connection.session);
        let own = self.copy(step.directory.slot(client)).filter(|copy| copy.owned);
        told.into_iter().chain(own.map(|copy| &copy.content))
    }

    /// Events that the sources of [`Node::seen`] have decided upon or taken.
    pub(super) fn decided(&self, step: &Step<'_>, connection: Dot) -> EventSet {
        let client = self.connection(connection).map(|connection| connection.client);
        let told = client
            .into_iter()
            .flat_map(|client| self.told(step, connection, client));
        let routes = self.copy(Slot::ROUTES).map(|copy| &copy.content);
        let mut decided = EventSet::default();
        for content in told.chain(routes) {
            decided.add_all(&content.known());
        }
        decided
    }

    /// Takes an own event's change into what a connection knows of its session.
    pub(super) fn remember(&mut self, connection: Dot, dot: Dot) {
        let Some(event) = self.sender.find(dot).cloned() else {
            return;
        };
        let Some(connection) = self.connection_mut(connection) else {
            return;
        };
        let removed = event.removal().map_or(&[][..], |removal| removal.dots);
        let entries = &mut connection.session.entries;
        entries.retain(|entry| !removed.contains(&entry.dot));
        entries.extend(event.entry());
    }
}

/// The routes have such entries, and know that this one was removed.
///
/// Not so a session's entry that was written anew in the routes: the owners may have closed the number of the new one, which
/// only routes have.
fn is_removed_in_routes(routes: &Content, entry: &Entry) -> bool {
    let is_newer = |other: &Entry| {
        let is_same = other.client == entry.client && other.birth == entry.birth;
        entry.kind == EntryKind::Session && other.kind == entry.kind && is_same
    };
    let is_routed = matches!(
        entry.kind,
        EntryKind::Session | EntryKind::Subscription | EntryKind::End
    );
    let is_removed = routes.covers(entry.client, entry.dot) && !routes.entries.contains(entry);
    is_routed && is_removed && !routes.entries.iter().any(is_newer)
}

/// Slots that a change of the session goes to: its own, and the routes.
pub(super) fn slots_of(step: &Step<'_>, client: ClientId) -> SlotSet {
    SlotSet::one(step.directory.slot(client)).with(Slot::ROUTES)
}

/// Sessions among `seen` that count, but for the one that `start` has made; the latest last.
pub(super) fn sessions_of(step: &Step<'_>, seen: &BTreeSet<Entry>, start: Option<Dot>) -> Vec<Entry> {
    let live = copy::live(step.rules, seen, |_, _| false);
    let is_session = |entry: &Entry| entry.kind == EntryKind::Session && Some(entry.dot) != start;
    let mut sessions: Vec<Entry> = live.into_iter().filter(is_session).collect();
    sessions.sort_by_key(|entry| (entry.clock, entry.dot));
    sessions
}

/// Birth of the session that counts among `seen`.
pub(super) fn birth_of(step: &Step<'_>, seen: &BTreeSet<Entry>) -> Option<Dot> {
    let live = copy::live(step.rules, seen, |_, _| false);
    let sessions = live.iter().filter(|entry| entry.kind == EntryKind::Session);
    sessions
        .max_by_key(|entry| (entry.clock, entry.birth))
        .map(|entry| entry.birth)
}

/// Events that made the entries of a kind.
pub(super) fn dots_of(entries: &BTreeSet<Entry>, kind: EntryKind) -> Vec<Dot> {
    entries
        .iter()
        .filter(|entry| entry.kind == kind)
        .map(|entry| entry.dot)
        .collect()
}
