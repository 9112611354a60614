//! QoS 2 numbers that entries of this node's copies name: for holes of such numbers, and for runs that
//! end (rules `fill-from-received` and `retire-agreed`).
//!
//! Entries are read when they are asked for: when a number stays a hole, and with each heartbeat.
//! Until then the node notes the sessions that have changed.
//!
//! *Invariant*: an entry that is not in the index is of a session that is noted.

use std::collections::{BTreeMap, BTreeSet};

use super::collecting::TouchedSession;
use super::{Copies, CopyRef, NumberedValue};
use crate::publishing::{FilledMessage, NumberedUses, UseEntry, WillEntry, WillNumbers, counting_uses};
use crate::queue_limits::QueueValue;
use crate::wills::known_wills;
use crate::{
    ClientId, Dot, Entry, EntryId, EntryKind, GarbagePlace, Run, Slot, SlotSet, VectorFull, VersionVector,
};

/// Messages that fill holes at once at most. Further ones follow with the next question.
const FILLED_MAX: usize = 1_024;

/// Numbers of packet ids in the copies of a node.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    uses: NumberedUses,
    wills: WillNumbers,
    /// Clients that have uses, or numbers of wills.
    clients: BTreeMap<Slot, BTreeSet<ClientId>>,
    /// Sessions that have changed.
    changed: BTreeMap<Slot, BTreeSet<ClientId>>,
    /// Copies that have changed as a whole.
    changed_copies: SlotSet,
    /// Clients with several entries of one packet id, found since they were taken last.
    with_beaten: BTreeSet<GarbagePlace>,
    /// Numbers that no node closes: they wait to be routed here, or a node may lack them.
    pub(super) reserved: VersionVector,
}

impl Numbers {
    /// Notes sessions that an event has changed.
    pub(super) fn note(&mut self, touched: &[TouchedSession]) {
        for TouchedSession { slot, client, .. } in touched {
            if !slot.is_of_every_node() && !self.changed_copies.contains(*slot) {
                self.changed.entry(*slot).or_default().insert(client.clone());
            }
        }
    }

    /// Notes a copy that has come, has merged, or is gone.
    pub(super) fn note_copy(&mut self, slot: Slot) {
        if !slot.is_of_every_node() {
            self.changed.remove(&slot);
            self.changed_copies.insert(slot);
        }
    }

    /// Entries of a copy name numbers that are not routed, of runs that are not `present`. Nobody may know
    /// these numbers but by such entries.
    pub(super) fn has_orphans<V: NumberedValue<M> + QueueValue + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        slot: Slot,
        present: &BTreeSet<Run>,
    ) -> bool {
        self.read_changed(copies);
        let Some(copy) = copies.get(slot) else {
            return false;
        };
        let is_orphan = |number: Dot| !copy.covered.covers(number) && !present.contains(&number.run);
        let mut clients = self.clients.get(&slot).into_iter().flatten();
        clients.any(|client| {
            let uses = use_entries(&copy, client).into_iter();
            let uses = uses.filter_map(|entry| Some(entry.packet_use.message?.number));
            let wills = will_entries(&copy, client).into_iter().map(|entry| entry.number);
            uses.chain(wills).any(is_orphan)
        })
    }

    /// Numbers that entries name and that `covered` lacks.
    ///
    /// # Errors
    ///
    /// [`VectorFull`] where they are too scattered to name.
    pub(super) fn named_beyond<V: NumberedValue<M> + QueueValue + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        covered: &VersionVector,
    ) -> Result<VersionVector, VectorFull> {
        self.read_changed(copies);
        self.read_again(copies, self.uses.numbers().clients_beyond(covered));
        self.read_again(copies, self.wills.numbers().clients_beyond(covered));
        let mut named = VersionVector::default();
        self.uses.numbers().add_beyond(covered, &mut named)?;
        self.wills.numbers().add_beyond(covered, &mut named)?;
        Ok(named)
    }

    /// Messages under those numbers of `lacking` that an entry names which counts. `is_merged` says
    /// that this node owns a slot and that its copy has merged (rule `fill-from-merged`).
    pub(super) fn fill<V: NumberedValue<M> + QueueValue + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        lacking: &VersionVector,
        is_merged: impl Fn(Slot) -> bool,
    ) -> Vec<FilledMessage> {
        if lacking.is_empty() {
            return Vec::new();
        }
        self.read_changed(copies);
        self.read_again(copies, self.uses.numbers().clients_within(lacking));
        self.read_again(copies, self.wills.numbers().clients_within(lacking));
        let is_merged = |client: &ClientId| is_merged(Slot::of_client(client.as_bytes()));
        let mut filled = self.uses.fill(lacking, is_merged, FILLED_MAX);
        filled.extend(self.wills.fill(lacking, is_merged, FILLED_MAX));
        filled
    }

    /// Clients of whose entries of one packet id some may not count: they are garbage.
    pub(super) fn take_with_beaten(&mut self) -> BTreeSet<GarbagePlace> {
        std::mem::take(&mut self.with_beaten)
    }

    fn read_changed<V: NumberedValue<M> + QueueValue + Ord, M>(&mut self, copies: &Copies<V, M>) {
        for slot in std::mem::take(&mut self.changed_copies).iter() {
            for client in self.clients.remove(&slot).unwrap_or_default() {
                self.uses.remove_client(&client);
                self.wills.set(&client, BTreeSet::new());
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
    fn read_again<V: NumberedValue<M> + QueueValue + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        clients: BTreeSet<ClientId>,
    ) {
        for client in clients {
            self.read(copies, Slot::of_client(client.as_bytes()), &client);
        }
    }

    /// Reads the packet ids of a client, and the numbers of its wills.
    fn read<V: NumberedValue<M> + QueueValue + Ord, M>(
        &mut self,
        copies: &Copies<V, M>,
        slot: Slot,
        client: &ClientId,
    ) {
        self.uses.remove_client(client);
        let copy = copies.get(slot);
        let entries = copy
            .as_ref()
            .map(|copy| use_entries(copy, client))
            .unwrap_or_default();
        let mut ids = BTreeSet::new();
        for entry in &entries {
            self.uses.insert(client, *entry);
            if !ids.insert(entry.packet_use.packet_id) {
                let client = client.clone();
                self.with_beaten.insert(GarbagePlace { slot, client });
            }
        }
        let wills = copy.map(|copy| will_entries(&copy, client)).unwrap_or_default();
        let has_numbers = !entries.is_empty() || !wills.is_empty();
        self.wills.set(client, wills);
        if has_numbers {
            self.clients.entry(slot).or_default().insert(client.clone());
        } else if let Some(clients) = self.clients.get_mut(&slot) {
            clients.remove(client);
            if clients.is_empty() {
                self.clients.remove(&slot);
            }
        }
    }
}

/// Entries of a client's packet ids that count by themselves.
pub(super) fn use_entries<V: NumberedValue<M> + QueueValue + Ord, M>(
    copy: &CopyRef<'_, V>,
    client: &ClientId,
) -> Vec<UseEntry> {
    let live = copy
        .entries
        .live(copy.covered, client.as_bytes(), EntryKind::Received);
    live.filter_map(|(dot, entry)| use_entry(dot, entry)).collect()
}

/// Use of a packet id that an entry states.
pub(crate) fn use_entry<V: NumberedValue<M>, M>(dot: Dot, entry: &Entry<V>) -> Option<UseEntry> {
    Some(UseEntry {
        dot,
        clock: entry.clock,
        packet_use: entry.value.packet_use()?,
    })
}

/// Entries of packet ids that a later connection's entry of the same id beats (rule `later-connection`).
///
/// None of them counts again: what removes the later entry puts a still later one into its place.
pub(super) fn beaten_uses<V: NumberedValue<M> + QueueValue + Ord, M>(
    copy: &CopyRef<'_, V>,
    client: &ClientId,
) -> BTreeSet<EntryId> {
    let entries = use_entries(copy, client);
    let counting = counting_uses(entries.iter().copied());
    let is_beaten = |entry: &&UseEntry| {
        let of_id = counting.get(&entry.packet_use.packet_id);
        of_id.is_some_and(|counts| counts.dot != entry.dot)
    };
    let kind = EntryKind::Received;
    let beaten = entries.iter().filter(is_beaten);
    beaten.map(|entry| EntryId { kind, dot: entry.dot }).collect()
}

/// Numbers of the wills of a client that count.
fn will_entries<V: NumberedValue<M> + QueueValue + Ord, M>(
    copy: &CopyRef<'_, V>,
    client: &ClientId,
) -> BTreeSet<WillEntry> {
    let Some(session) = copy.entries.session(client.as_bytes()) else {
        return BTreeSet::new();
    };
    let covers = |dot| copy.entries.covers(copy.covered, client.as_bytes(), dot);
    let wills = known_wills(session, covers);
    let numbers = wills.iter().flat_map(|will| {
        will.numbers.iter().map(|entry| WillEntry {
            number: entry.number.number,
            will: will.will,
            clock: entry.number.message_clock.unwrap_or(entry.clock),
            content: will.content,
        })
    });
    numbers.collect()
}

#[cfg(test)]
mod tests;
