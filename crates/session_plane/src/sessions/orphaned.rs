//! Orphaned memberships: members of shared groups whose session has ended.
//!
//! A session may end at one node while another one, which does not know that yet, makes it a member. A
//! split may end it on one side only. So no single node that writes can remove all memberships of a
//! session. The primary owner of the routes does, whenever its copy comes to know both.
//!
//! *Invariant*: while this node is the primary owner of the routes, each client that has an orphaned
//! membership there is a suspect, or its removal is on its way to the stream.

use std::collections::BTreeSet;

use super::entries::EntryWrite;
use super::group_changes::{GroupChange, with_routes};
use super::memberships::OrphanedMember;
use super::{Sessions, SessionsValue};
use crate::plane::{CopyRef, Matching};
use crate::transfer::TransferBytes;
use crate::{ClientId, Slot};

/// Clients at which the primary owner of the routes looks for orphaned memberships.
#[derive(Debug, Default)]
pub(super) enum Suspects {
    /// All that are members: after a start, after a merge, and with another primary owner.
    #[default]
    All,
    /// These.
    Some(BTreeSet<ClientId>),
}

impl Suspects {
    /// Suspects everyone.
    pub(super) fn add_all(&mut self) {
        *self = Suspects::All;
    }

    fn add(&mut self, client: &ClientId) {
        if let Suspects::Some(clients) = self {
            clients.insert(client.clone());
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Suspects::Some(clients) if clients.is_empty())
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// An event has changed a client in the routes: its sessions, or its memberships.
    ///
    /// Only the primary owner takes note of that. Another node looks at all when it becomes the primary
    /// owner.
    pub(super) fn suspect_if_orphaned(&mut self, client: &ClientId) {
        if !self.plane.is_primary(Slot::ROUTES) {
            return;
        }
        let routes = self.plane.copy(Slot::ROUTES);
        if routes.is_some_and(|routes| self.members.memberships.has_orphans(&routes, client)) {
            self.members.suspects.add(client);
        }
    }

    /// Removes orphaned memberships of the suspects at the primary owner of the routes, once they lack
    /// nothing. Routes with a hole may lack a session.
    pub(super) fn remove_orphans(&mut self) {
        if self.members.suspects.is_empty() || !self.plane.decides(Slot::ROUTES) {
            return;
        }
        let Some(routes) = self.whole_routes() else {
            return;
        };
        let memberships = &self.members.memberships;
        let orphans: Vec<OrphanedMember> = match &self.members.suspects {
            Suspects::All => memberships
                .clients()
                .flat_map(|client| memberships.orphans(&routes, client))
                .collect(),
            Suspects::Some(clients) => clients
                .iter()
                .flat_map(|client| memberships.orphans(&routes, client))
                .collect(),
        };
        self.members.suspects = Suspects::Some(BTreeSet::new());
        for OrphanedMember { group, dot } in orphans {
            let change = GroupChange::removing(with_routes(&group), vec![dot]);
            self.stalled.push_back(EntryWrite::of_group(&group, None, change));
        }
    }

    /// Routes of this node, where they lack nothing.
    pub(super) fn whole_routes(&self) -> Option<CopyRef<'_, V>> {
        let routes = self.plane.copy(Slot::ROUTES);
        routes.filter(|routes| routes.holes.is_empty())
    }
}
