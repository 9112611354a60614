//! Memberships: which sessions are members of which shared groups, by this node's routes.
//!
//! The routes have the entries by group. A connection, and the end of a session, ask by client.
//!
//! *Invariant*: the index has what the routes have, once the reports of a step are applied.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;

use crate::feed::QueueKey;
use crate::groups::KnownMember;
use crate::plane::CopyRef;
use crate::{Birth, ClientId, Dot, Entry, EntryId, EntryKind, Fact, GroupId};

/// Members of shared groups, by client.
#[derive(Debug, Default)]
pub(super) struct Memberships {
    clients: BTreeMap<ClientId, BTreeMap<GroupId, BTreeMap<Dot, Membership>>>,
    /// Births of each client's sessions, with the number of their memberships.
    births: BTreeMap<ClientId, BTreeMap<Dot, usize>>,
    entries: BTreeMap<GroupId, MemberEntries>,
}

/// Member entries of one group.
#[derive(Debug, Default)]
struct MemberEntries {
    /// Client of each.
    clients: BTreeMap<Dot, ClientId>,
    /// Their begins, in ascending order.
    begins: BTreeSet<QueueKey>,
}

#[derive(Debug, Clone, Copy)]
struct Membership {
    birth: Birth,
    since: Hlc,
}

/// Sessions of a client that have ended, as far as the routes know: they know the birth, and no session
/// that has it counts.
struct EndedSessions<'a, V> {
    routes: &'a CopyRef<'a, V>,
    client: &'a ClientId,
    /// Births of the sessions that count.
    counting: Vec<Dot>,
}

impl<'a, V: Ord> EndedSessions<'a, V> {
    fn new(routes: &'a CopyRef<'a, V>, client: &'a ClientId) -> EndedSessions<'a, V> {
        let sessions = routes
            .entries
            .live(routes.covered, client.as_bytes(), EntryKind::Session);
        EndedSessions {
            routes,
            client,
            counting: sessions.map(|(_, entry)| entry.birth.dot).collect(),
        }
    }

    /// The session with the birth has ended. One that is not known yet may come.
    fn contains(&self, birth: Dot) -> bool {
        let CopyRef {
            entries,
            covered,
            taken,
            ..
        } = *self.routes;
        let is_known = taken.covers(birth) || entries.covers(covered, self.client.as_bytes(), birth);
        is_known && !self.counting.contains(&birth)
    }
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
        let Some(client) = of_group.clients.remove(&dot) else {
            return;
        };
        let Some(groups) = self.clients.get_mut(&client) else {
            return;
        };
        let mut removed = None;
        if let Some(members) = groups.get_mut(group) {
            removed = members.remove(&dot);
            if members.is_empty() {
                groups.remove(group);
            }
        }
        if groups.is_empty() {
            self.clients.remove(&client);
        }
        if let Some(Membership { since: clock, .. }) = removed {
            of_group.begins.remove(&QueueKey { clock, dot });
        }
        if of_group.clients.is_empty() {
            self.entries.remove(group);
        }
        if let Some(membership) = removed {
            self.remove_birth(&client, membership.birth.dot);
        }
    }

    fn remove_birth(&mut self, client: &ClientId, birth: Dot) {
        let Some(births) = self.births.get_mut(client) else {
            return;
        };
        if let Some(memberships) = births.get_mut(&birth) {
            *memberships -= 1;
            if *memberships == 0 {
                births.remove(&birth);
            }
        }
        if births.is_empty() {
            self.births.remove(client);
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

    /// Number of groups that have members.
    pub(super) fn groups_len(&self) -> usize {
        self.entries.len()
    }

    /// Begin of the earliest membership of a group: later messages are for its members.
    pub(super) fn earliest(&self, group: &GroupId) -> Option<Hlc> {
        let first = self.entries.get(group)?.begins.first();
        first.map(|begin| begin.clock)
    }

    /// Clients that have memberships.
    pub(super) fn clients(&self) -> impl Iterator<Item = &ClientId> {
        self.clients.keys()
    }

    /// Client has a membership whose session has ended, as far as the routes know. Costs what the client
    /// has sessions, not what it has groups.
    pub(super) fn has_orphans<V: Ord>(&self, routes: &CopyRef<'_, V>, client: &ClientId) -> bool {
        let Some(births) = self.births.get(client) else {
            return false;
        };
        let ended = EndedSessions::new(routes, client);
        births.keys().any(|birth| ended.contains(*birth))
    }

    /// Memberships of a client whose session has ended, as far as the routes know.
    pub(super) fn orphans<V: Ord>(&self, routes: &CopyRef<'_, V>, client: &ClientId) -> Vec<OrphanedMember> {
        let ended = EndedSessions::new(routes, client);
        let groups = self.clients.get(client).into_iter().flatten();
        let members = groups.flat_map(|(group, members)| members.iter().map(move |member| (group, member)));
        let orphans = members.filter(|(_, (_, of))| ended.contains(of.birth.dot));
        let orphans = orphans.map(|(group, (dot, _))| OrphanedMember {
            group: group.clone(),
            dot: *dot,
        });
        orphans.collect()
    }

    /// Adds the membership that an entry states. Gives its client.
    fn add<V>(&mut self, group: &GroupId, dot: Dot, entry: &Entry<V>) -> Option<ClientId> {
        let Fact::Member(terms) = &entry.fact else {
            return None;
        };
        let (client, birth, since) = (&terms.client, entry.birth, entry.member_since()?);
        let membership = Membership { birth, since };
        let groups = self.clients.entry(client.clone()).or_default();
        let before = groups.entry(group.clone()).or_default().insert(dot, membership);
        if before.is_none() {
            let births = self.births.entry(client.clone()).or_default();
            *births.entry(birth.dot).or_default() += 1;
        }
        let entries = self.entries.entry(group.clone()).or_default();
        entries.clients.insert(dot, client.clone());
        entries.begins.insert(QueueKey { clock: since, dot });
        Some(client.clone())
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Incarnation, NodeId};

    use super::*;
    use crate::{Change, Interval, MemberTerms, Run, Slot, SlotEntries, VersionVector};

    /// Routes of a node, with what it knows of two runs.
    struct Routes {
        entries: SlotEntries<u8>,
        covered: VersionVector,
        taken: VersionVector,
    }

    fn dot(node: u64, number: u64) -> Dot {
        let (node, incarnation) = (NodeId(node), Incarnation(1));
        let run = Run { node, incarnation };
        Dot { run, number }
    }

    fn client() -> ClientId {
        ClientId::new(b"press").expect("a short id")
    }

    fn group() -> GroupId {
        GroupId::new(b"presses/jobs").expect("a short name")
    }

    impl Routes {
        /// Routes with the session of 1:1, and a member that 2:1 has made of the session with `birth`.
        fn with_member_of(birth: Dot) -> Routes {
            let mut routes = Routes {
                entries: SlotEntries::default(),
                covered: VersionVector::default(),
                taken: VersionVector::default(),
            };
            let terms = MemberTerms {
                client: client(),
                since: None,
            };
            routes.add(client(), dot(1, 1), dot(1, 1), Fact::Session { connected: None });
            let member = Fact::Member(Box::new(terms));
            routes.add(group().key().clone(), dot(2, 1), birth, member);
            routes
        }

        fn add(&mut self, client: ClientId, of: Dot, birth: Dot, fact: Fact) {
            let (clock, is_clean, value) = (Hlc::ZERO, false, 0);
            let birth = Birth {
                dot: birth,
                clock,
                is_clean,
            };
            let adds = Some(Entry {
                birth,
                clock,
                fact,
                value,
            });
            let change = Change {
                dot: of,
                client,
                removes: Vec::new(),
                adds,
            };
            self.entries.apply(&self.covered, change).expect("room");
        }

        fn copy<'a>(&'a self, holes: &'a VersionVector) -> CopyRef<'a, u8> {
            CopyRef {
                slot: Slot::ROUTES,
                entries: &self.entries,
                covered: &self.covered,
                taken: &self.taken,
                holes,
            }
        }

        fn orphans(&self) -> Vec<OrphanedMember> {
            let holes = VersionVector::default();
            let routes = self.copy(&holes);
            let memberships = Memberships::of_routes(&routes);
            let orphans = memberships.orphans(&routes, &client());
            assert_eq!(memberships.has_orphans(&routes, &client()), !orphans.is_empty());
            orphans
        }
    }

    fn up_to(dot: Dot) -> VersionVector {
        VersionVector::of_apart(Interval::up_to(dot.run, dot.number))
    }

    #[test]
    fn a_member_is_orphaned_once_the_routes_know_its_session_and_lack_it() {
        let orphan = OrphanedMember {
            group: group(),
            dot: dot(2, 1),
        };
        let mut routes = Routes::with_member_of(dot(1, 1));
        assert_eq!(routes.orphans(), []);
        routes.covered = up_to(dot(1, 2));
        assert_eq!(routes.orphans(), [], "its session is there");

        let mut routes = Routes::with_member_of(dot(1, 2));
        routes.covered = up_to(dot(1, 1));
        assert_eq!(routes.orphans(), [], "its session may come");
        routes.taken = up_to(dot(1, 2));
        assert_eq!(routes.orphans(), std::slice::from_ref(&orphan));
        routes.taken = VersionVector::default();
        routes.covered = up_to(dot(1, 2));
        assert_eq!(routes.orphans(), [orphan]);
    }

    #[test]
    fn memberships_that_are_removed_leave_nothing() {
        let routes = Routes::with_member_of(dot(1, 1));
        let holes = VersionVector::default();
        let routes = routes.copy(&holes);
        let mut memberships = Memberships::of_routes(&routes);
        memberships.note_added(&routes, &group(), dot(2, 1));
        memberships.remove(&group(), dot(2, 1));
        let Memberships {
            clients,
            births,
            entries,
        } = memberships;
        assert!(clients.is_empty() && births.is_empty() && entries.is_empty());
    }
}
