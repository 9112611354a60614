//! QoS 2 numbers that entries of this node's copies name: for holes of such numbers, and for runs that
//! end (rules `fill-from-received` and `retire-agreed`).
//!
//! Entries are read when they are asked for: when a number stays a hole, and with each heartbeat.
//! Until then the node notes the sessions that have changed.
//!
//! *Invariant*: an entry that is not in the index is of a session that is noted.

use std::collections::{BTreeMap, BTreeSet};

use super::collecting::TouchedSession;
use super::{Copies, NumberedValue};
use crate::publishing::{FilledMessage, NumberedUses, UseEntry};
use crate::{ClientId, EntryKind, Slot, SlotSet, VectorFull, VersionVector};

/// Messages that fill holes at once at most. Further ones follow with the next question.
const FILLED_MAX: usize = 1_024;

/// Numbers of packet ids in the copies of a node.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    uses: NumberedUses,
    /// Clients that have uses.
    clients: BTreeMap<Slot, BTreeSet<ClientId>>,
    /// Sessions that have changed.
    changed: BTreeMap<Slot, BTreeSet<ClientId>>,
    /// Copies that have changed as a whole.
    changed_copies: SlotSet,
    /// Numbers that no node closes: they wait to be routed here, or a node may lack them.
    pub(super) reserved: VersionVector,
}

impl Numbers {
    /// Notes sessions that an event has changed.
    pub(super) fn note(&mut self, touched: &[TouchedSession]) {
        for TouchedSession { slot, client, .. } in touched {
            if *slot != Slot::ROUTES && !self.changed_copies.contains(*slot) {
                self.changed.entry(*slot).or_default().insert(client.clone());
            }
        }
    }

    /// Notes a copy that has come, has merged, or is gone.
    pub(super) fn note_copy(&mut self, slot: Slot) {
        if slot != Slot::ROUTES {
            self.changed.remove(&slot);
            self.changed_copies.insert(slot);
        }
    }

    /// Numbers that entries name and that `covered` lacks.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where they are too scattered to name.
    pub(super) fn named_beyond<V: NumberedValue<M> + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        covered: &VersionVector,
    ) -> Result<VersionVector, VectorFull> {
        self.read_changed(copies);
        self.read_again(copies, self.uses.clients_beyond(covered));
        self.uses.named_beyond(covered)
    }

    /// Messages under those numbers of `lacking` that an entry names which counts. `is_merged` says
    /// that this node owns a slot and that its copy has merged (rule `fill-from-merged`).
    pub(super) fn fill<V: NumberedValue<M> + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        lacking: &VersionVector,
        is_merged: impl Fn(Slot) -> bool,
    ) -> Vec<FilledMessage> {
        if lacking.is_empty() {
            return Vec::new();
        }
        self.read_changed(copies);
        self.read_again(copies, self.uses.clients_within(lacking));
        let is_merged = |client: &ClientId| is_merged(Slot::of_client(client.as_bytes()));
        self.uses.fill(lacking, is_merged, FILLED_MAX)
    }

    fn read_changed<V: NumberedValue<M> + Ord, M>(&mut self, copies: &Copies<V, M>) {
        for slot in std::mem::take(&mut self.changed_copies).iter() {
            for client in self.clients.remove(&slot).unwrap_or_default() {
                self.uses.remove_client(&client);
            }
            let sessions = copies.get(slot).map(|copy| copy.entries.sessions());
            for (client, _) in sessions.into_iter().flatten() {
                self.read(copies, slot, client);
            }
        }
        for (slot, clients) in std::mem::take(&mut self.changed) {
            for client in clients {
                self.read(copies, slot, &client);
            }
        }
    }

    /// Reads what may count otherwise without an event: the copy has decided upon more.
    fn read_again<V: NumberedValue<M> + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        clients: BTreeSet<ClientId>,
    ) {
        for client in clients {
            self.read(copies, Slot::of_client(client.as_bytes()), &client);
        }
    }

    /// Reads the packet ids of a client.
    fn read<V: NumberedValue<M> + Ord, M>(&mut self, copies: &Copies<V, M>, slot: Slot, client: &ClientId) {
        self.uses.remove_client(client);
        let mut has_uses = false;
        if let Some(copy) = copies.get(slot) {
            let live = copy
                .entries
                .live(copy.covered, client.as_bytes(), EntryKind::Received);
            for (dot, entry) in live {
                let Some(packet_use) = entry.value.packet_use() else {
                    continue;
                };
                let clock = entry.clock;
                let entry = UseEntry {
                    dot,
                    clock,
                    packet_use,
                };
                self.uses.insert(client, entry);
                has_uses = true;
            }
        }
        if has_uses {
            self.clients.entry(slot).or_default().insert(client.clone());
        } else if let Some(clients) = self.clients.get_mut(&slot) {
            clients.remove(client);
            if clients.is_empty() {
                self.clients.remove(&slot);
            }
        }
    }
}
