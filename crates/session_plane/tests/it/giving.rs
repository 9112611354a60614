//! Entries that their node gives to new owners, as it does for open connections.

use std::collections::BTreeSet;

use cluster::NodeId;
use session_plane::plane::OwnEntry;
use session_plane::stream::GivingId;
use session_plane::{Dot, EntryId, EntryKind, Run};

use super::clients::{CLIENTS, client, slot};
use super::machine::Value;
use super::world::World;

/// Entry that is being given.
#[derive(Debug)]
pub(super) struct Giving {
    client: u8,
    dot: Dot,
    /// Nodes that are to have it.
    to: BTreeSet<u64>,
}

/// Giving of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GivenBy {
    pub(super) run: Run,
    pub(super) id: GivingId,
}

impl World {
    /// Gives the subscriptions that a node has made to the owners of its new ring.
    pub(super) fn give_subscriptions(&mut self, id: u64) {
        let now = self.now;
        for number in 0..CLIENTS {
            let Some(entry) = self.own_subscription(id, number) else {
                continue;
            };
            let Some(plane) = self.machines[&id].plane.as_ref() else {
                return;
            };
            let owners: Vec<NodeId> = plane.owners(slot(number)).collect();
            let dot = entry.dot;
            let present = self.present_to(id);
            let given = owners.iter().map(|owner| owner.0);
            let to: BTreeSet<u64> = given.filter(|owner| present.contains(owner)).collect();
            let mut actions = Vec::new();
            let machine = self.machine(id);
            let at = machine.now(now);
            let Some(plane) = &mut machine.plane else { return };
            let giving = GivenBy {
                run: plane.run(),
                id: plane.give(at, entry, &owners, &mut actions),
            };
            let client = number;
            self.giving.insert(giving, Giving { client, dot, to });
            self.apply(id, actions);
        }
    }

    /// Subscription of a client that this run of the node has made, and that its copy has.
    fn own_subscription(&self, id: u64, number: u8) -> Option<OwnEntry<Value>> {
        let plane = self.machines[&id].plane.as_ref()?;
        let dot = self.sessions[&number].subscription.as_ref()?.dot;
        let kind = EntryKind::Subscription;
        let session = plane
            .copy(slot(number))?
            .entries
            .session(client(number).as_bytes())?;
        let entry = session.get(EntryId { kind, dot })?.clone();
        (dot.run == plane.run()).then_some(OwnEntry {
            slot: slot(number),
            client: client(number),
            dot,
            entry,
        })
    }

    /// A peer was given up: it need not have what it was given.
    pub(super) fn forget_given(&mut self, id: u64, peer: u64) {
        for (_, giving) in self.giving.iter_mut().filter(|(by, _)| by.run.node.0 == id) {
            giving.to.remove(&peer);
        }
    }

    /// All have the entry, or have seen it removed.
    pub(super) fn check_given(&mut self, by: GivenBy) {
        let Some(giving) = self.giving.remove(&by) else {
            self.fail(format!("{by:?} has ended twice"));
            return;
        };
        let dot = giving.dot;
        for id in giving.to {
            let plane = self.machines[&id].plane.as_ref();
            let Some(copy) = plane.and_then(|plane| plane.copy(slot(giving.client))) else {
                continue;
            };
            let client = client(giving.client);
            let kind = EntryKind::Subscription;
            let session = copy.entries.session(client.as_bytes());
            let has_entry = session.is_some_and(|session| session.get(EntryId { kind, dot }).is_some());
            if !has_entry && !copy.entries.covers(copy.covered, client.as_bytes(), dot) {
                self.fail(format!("{id} lacks {dot:?}, which was given to it"));
            }
        }
    }
}
