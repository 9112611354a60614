//! Memberships: which sessions are members of which shared groups, by this node's routes.
//!
//! The routes have the entries by group. A connection, and the end of a session, ask by client.
//!
//! *Invariant*: the index has what the routes have, once the reports of a step are applied.

use std::collections::BTreeMap;

use cluster::session_plane::Hlc;

use crate::groups::KnownMember;
use crate::plane::CopyRef;
use crate::{Birth, ClientId, Dot, Entry, EntryId, EntryKind, Fact, GroupId};

/// Members of shared groups, by client.
#[derive(Debug, Default)]
pub(super) struct Memberships {
    clients: BTreeMap<ClientId, BTreeMap<GroupId, BTreeMap<Dot, Membership>>>,
    /// Client of each entry.
    entries: BTreeMap<GroupId, BTreeMap<Dot, ClientId>>,
}

#[derive(Debug, Clone, Copy)]
struct Membership {
    birth: Birth,
    since: Hlc,
}

/// Membership whose session does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OrphanedMember {
    pub(super) group: GroupId,
    pub(super) dot: Dot,
}

impl Memberships {
    /// Memberships that the routes have.
    pub(super) fn of_routes<V: Ord>(routes: &CopyRef<'_, V>) -> Memberships {
        let mut memberships = Memberships::default();
        for (group, entries) in routes.entries.groups() {
            for (dot, entry) in entries.of_kind(EntryKind::Member) {
                memberships.add(&group, dot, entry);
            }
        }
        memberships
    }

    /// Adds the membership that an event has made, if the routes have it. Gives its client.
    pub(super) fn note_added<V: Ord>(
        &mut self,
        routes: &CopyRef<'_, V>,
        group: &GroupId,
        dot: Dot,
    ) -> Option<ClientId> {
        let entries = routes.entries.session(group.key().as_bytes())?;
        let kind = EntryKind::Member;
        self.add(group, dot, entries.get(EntryId { kind, dot })?)
    }

    /// Removes the membership that an event had made.
    pub(super) fn remove(&mut self, group: &GroupId, dot: Dot) {
        let Some(of_group) = self.entries.get_mut(group) else {
            return;
        };
        let client = of_group.remove(&dot);
        if of_group.is_empty() {
            self.entries.remove(group);
        }
        let Some(client) = client else {
            return;
        };
        let Some(groups) = self.clients.get_mut(&client) else {
            return;
        };
        if let Some(members) = groups.get_mut(group) {
            members.remove(&dot);
            if members.is_empty() {
                groups.remove(group);
            }
        }
        if groups.is_empty() {
            self.clients.remove(&client);
        }
    }

    /// Groups whose member the session is.
    pub(super) fn groups(&self, client: &ClientId, birth: Birth) -> Vec<GroupId> {
        let groups = self.clients.get(client).into_iter().flatten();
        let is_of =
            |members: &BTreeMap<Dot, Membership>| members.values().any(|of| of.birth.dot == birth.dot);
        let of_session = groups.filter(|(_, members)| is_of(members));
        of_session.map(|(group, _)| group.clone()).collect()
    }

    /// Entries that make the session a member of a group.
    pub(super) fn known(&self, client: &ClientId, birth: Birth, group: &GroupId) -> Vec<KnownMember> {
        let members = self.clients.get(client).and_then(|groups| groups.get(group));
        let of_session = members.into_iter().flatten();
        let of_session = of_session.filter(|(_, of)| of.birth.dot == birth.dot);
        let known = of_session.map(|(dot, of)| KnownMember {
            dot: *dot,
            since: of.since,
        });
        known.collect()
    }

    /// Clients that have memberships.
    pub(super) fn clients(&self) -> impl Iterator<Item = &ClientId> {
        self.clients.keys()
    }

    /// Memberships of a client whose session does not count in the routes.
    pub(super) fn orphans<V: Ord>(&self, routes: &CopyRef<'_, V>, client: &ClientId) -> Vec<OrphanedMember> {
        let Some(groups) = self.clients.get(client) else {
            return Vec::new();
        };
        let sessions = routes
            .entries
            .live(routes.covered, client.as_bytes(), EntryKind::Session);
        let births: Vec<Dot> = sessions.map(|(_, entry)| entry.birth.dot).collect();
        let members = groups.iter().flat_map(|(group, members)| {
            let orphaned = members.iter().filter(|(_, of)| !births.contains(&of.birth.dot));
            orphaned.map(|(dot, _)| OrphanedMember {
                group: group.clone(),
                dot: *dot,
            })
        });
        members.collect()
    }

    /// Adds the membership that an entry states. Gives its client.
    fn add<V>(&mut self, group: &GroupId, dot: Dot, entry: &Entry<V>) -> Option<ClientId> {
        let Fact::Member(terms) = &entry.fact else {
            return None;
        };
        let (client, birth, since) = (&terms.client, entry.birth, entry.member_since()?);
        let membership = Membership { birth, since };
        let groups = self.clients.entry(client.clone()).or_default();
        groups.entry(group.clone()).or_default().insert(dot, membership);
        let entries = self.entries.entry(group.clone()).or_default();
        entries.insert(dot, client.clone());
        Some(client.clone())
    }
}
