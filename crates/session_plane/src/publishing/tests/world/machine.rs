//! Node of the world: its publishing, which a crash takes away, and its disk, which stays.

use super::{EntryEvent, NODES, OWNERS};
use crate::publishing::tests::*;

/// What a node has durably.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    /// Entries of packet ids, by client and event.
    entries: BTreeMap<usize, BTreeMap<Dot, UseEntry>>,
    removed: BTreeSet<Dot>,
    taken: BTreeMap<Dot, ContentId>,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) node: usize,
    pub(super) is_up: bool,
    pub(super) run: Run,
    pub(super) publishing: Publishing,
    pub(super) disk: Disk,
    /// Last event of the run.
    pub(super) events: u64,
    pub(super) connections: u64,
    pub(super) view: BTreeSet<usize>,
    /// Events that the run has made.
    pub(super) made: BTreeMap<Dot, EntryEvent>,
    /// Events that free a packet id and are not durable.
    pub(super) frees: BTreeMap<Dot, PublishingEvent>,
    /// Numbers that the run has routed.
    pub(super) routed: BTreeSet<Dot>,
    /// Nodes that have confirmed each event.
    confirmed: BTreeMap<Dot, BTreeSet<usize>>,
    waits: BTreeMap<Dot, Wait>,
}

/// Wait for the entry of a number.
#[derive(Debug)]
struct Wait {
    entry: Dot,
    marker: u64,
}

impl Machine {
    pub(super) fn new(node: usize) -> Machine {
        let run = run_of(node as u64 + 1, 1);
        Machine {
            node,
            is_up: true,
            run,
            publishing: Publishing::new(run, LIMITS),
            disk: Disk::default(),
            events: 0,
            connections: 0,
            view: (0..NODES).collect(),
            made: BTreeMap::new(),
            frees: BTreeMap::new(),
            routed: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            waits: BTreeMap::new(),
        }
    }

    pub(super) fn restart(&mut self) {
        let disk = std::mem::take(&mut self.disk);
        let start = self.run.incarnation.0 + 1;
        let run = run_of(self.node as u64 + 1, start);
        *self = Machine {
            run,
            publishing: Publishing::new(run, LIMITS),
            disk,
            ..Machine::new(self.node)
        };
    }

    pub(super) fn owners(&self, client: usize) -> Vec<usize> {
        owners(client, &self.view.iter().copied().collect::<Vec<usize>>())
    }

    pub(super) fn await_stored(&mut self, number: Dot, entry: Dot, marker: u64) {
        self.waits.insert(number, Wait { entry, marker });
    }

    pub(super) fn confirm(&mut self, node: usize, entry: Dot) {
        self.confirmed.entry(entry).or_default().insert(node);
    }

    /// Waits that have ended.
    pub(super) fn completed(&mut self) -> Vec<PublishingEvent> {
        let has_all = |machine: &Machine, entry: Dot| {
            let owners = machine.owners(machine.made[&entry].client);
            let confirmed = machine.confirmed.get(&entry);
            confirmed.is_some_and(|confirmed| owners.iter().all(|owner| confirmed.contains(owner)))
        };
        let stored: Vec<Dot> = self
            .waits
            .iter()
            .filter(|(_, wait)| has_all(self, wait.entry))
            .map(|(number, _)| *number)
            .collect();
        let freed: Vec<Dot> = self
            .frees
            .keys()
            .copied()
            .filter(|entry| has_all(self, *entry))
            .collect();
        let stored = stored.into_iter().filter_map(|number| {
            let Wait { entry, marker } = self.waits.remove(&number)?;
            Some(PublishingEvent::Stored {
                number,
                entry,
                marker,
            })
        });
        let stored: Vec<PublishingEvent> = stored.collect();
        let freed = freed.into_iter().filter_map(|entry| self.frees.remove(&entry));
        stored.into_iter().chain(freed).collect()
    }
}

impl Disk {
    pub(super) fn apply(&mut self, event: &EntryEvent) {
        let EntryEvent {
            client,
            entry,
            removes,
        } = event;
        self.removed.extend(removes);
        let entries = self.entries.entry(*client).or_default();
        entries.retain(|dot, _| !removes.contains(dot));
        if !self.removed.contains(&entry.dot) {
            entries.insert(entry.dot, *entry);
        }
    }

    pub(super) fn take(&mut self, message: NumberedMessage) {
        let before = self.taken.insert(message.number, message.content);
        assert!(before.is_none_or(|before| before == message.content));
    }

    pub(super) fn has_taken(&self, number: Dot) -> bool {
        self.taken.contains_key(&number)
    }

    pub(super) fn entries(&self, client: usize) -> Vec<UseEntry> {
        let entries = self.entries.get(&client).into_iter();
        entries.flat_map(|entries| entries.values().copied()).collect()
    }

    pub(super) fn merged(mut self, other: &Disk) -> Disk {
        self.removed.extend(&other.removed);
        self.taken.extend(&other.taken);
        for (client, entries) in &other.entries {
            self.entries.entry(*client).or_default().extend(entries);
        }
        for entries in self.entries.values_mut() {
            entries.retain(|dot, _| !self.removed.contains(dot));
        }
        self
    }

    /// Takes the numbers and the removals of all.
    pub(super) fn take_all(&mut self, merged: &Disk) {
        self.removed.extend(&merged.removed);
        self.taken.extend(&merged.taken);
    }

    pub(super) fn drop_entries(&mut self) {
        self.entries.clear();
    }

    pub(super) fn take_entries(&mut self, client: usize, merged: &Disk) {
        let entries = merged.entries.get(&client).cloned().unwrap_or_default();
        self.entries.insert(client, entries);
    }
}

/// Owners of a client among the present nodes.
pub(super) fn owners(client: usize, view: &[usize]) -> Vec<usize> {
    let mut walk = view.to_vec();
    walk.sort_by_key(|node| (node * 3 + client * 2 + 1) % 5);
    walk.truncate(OWNERS);
    walk
}
