//! Checks of a history at rest: all owners have the same, and what was promised.

use cluster::NodeId;
use session_plane::{Dot, Entry, EntryId, EntryKind, NodeState, Run, Slot, VersionVector};

use super::clients::{CLIENTS, RemovedEntry, client, slot};
use super::connections::CONNECTING;
use super::group_clients::part_slots;
use super::machine::{Body, Value};
use super::publishers::QueuedBody;
use super::world::World;

/// What a copy has of a client at rest.
#[derive(Debug)]
struct Resting<'a> {
    id: u64,
    covered: &'a VersionVector,
    entries: Vec<Listed<'a>>,
}

/// Entry of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed<'a> {
    id: EntryId,
    entry: &'a Entry<Value>,
}

impl World {
    /// Everybody runs, nothing is under way, and nobody lacks anything.
    pub(super) fn is_at_rest(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let plane = machine.plane().ok_or(format!("{id} is down"))?;
            if plane.state() != NodeState::Running || !plane.membership().is_complete() {
                return Err(format!("{id} is {:?}", plane.state()));
            }
            if plane.kept_events() > 0 {
                return Err(format!("{id} keeps {} events", plane.kept_events()));
            }
            for number in (0..CLIENTS).chain(CONNECTING) {
                self.is_slot_at_rest(*id, slot(number))?;
            }
            self.is_slot_at_rest(*id, Slot::ROUTES)?;
            self.is_slot_at_rest(*id, Slot::RETAINED)?;
            for slot in part_slots().iter() {
                self.is_slot_at_rest(*id, slot)?;
            }
        }
        self.is_group_at_rest()?;
        self.are_queues_limited()?;
        self.is_transient_at_rest()?;
        self.are_connections_at_rest()
    }

    fn is_slot_at_rest(&self, id: u64, slot: Slot) -> Result<(), String> {
        let plane = self.machines[&id].plane().ok_or("it is down")?;
        let is_owner = plane.owners(slot).any(|owner| owner == NodeId(id));
        match plane.copy(slot) {
            None if !is_owner => Ok(()),
            None => Err(format!("{id} has no copy of {slot:?}")),
            Some(_) if !is_owner => Err(format!("{id} keeps a copy of {slot:?}")),
            Some(_) if !plane.is_merged(slot) => Err(format!("{id} has not merged {slot:?}")),
            Some(copy) if !copy.holes.is_empty() || !copy.taken.is_empty() => Err(format!(
                "{id} lacks {:?} and has taken {:?} of {slot:?}",
                copy.holes, copy.taken
            )),
            Some(copy) if !self.are_ids_used() && self.remembers_runs(copy.covered) => {
                Err(format!("{id} remembers runs in {:?} of {slot:?}", copy.covered))
            }
            Some(copy) => {
                let mut clients = copy.entries.sessions().map(|(client, _)| client);
                match clients.find(|client| !plane.garbage(slot, client).is_empty()) {
                    Some(client) => {
                        let garbage = plane.garbage(slot, client);
                        let session = copy.entries.session(client.as_bytes());
                        Err(format!(
                            "{id} keeps garbage of {client:?} in {slot:?}: {garbage:?} of {session:?}"
                        ))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// A packet id stands for a message: its run is not retired. A client that has asked for a Clean Start
    /// without an answer has forgotten it.
    fn are_ids_used(&self) -> bool {
        let planes = self.machines.values().filter_map(|machine| machine.plane());
        let mut uses = planes.flat_map(|plane| {
            let clients = CONNECTING.flat_map(|number| plane.packet_uses(&client(number)));
            clients.collect::<Vec<_>>()
        });
        !self.publishers.are_done() || uses.any(|entry| entry.packet_use.message.is_some())
    }

    /// The vector has more of a run that has ended than that it is retired.
    fn remembers_runs(&self, covered: &VersionVector) -> bool {
        let runs = self.machines.values().filter_map(|machine| machine.plane());
        let runs: Vec<Run> = runs.map(|plane| plane.run()).collect();
        let mut ends = covered.intervals().iter().map(|interval| interval.last().run);
        ends.any(|run| !runs.contains(&run))
    }

    /// All owners have the same, and what was promised.
    pub(super) fn check(&self) -> Result<(), String> {
        for number in (0..CLIENTS).chain(CONNECTING) {
            let mut first: Option<Resting<'_>> = None;
            for id in 1..=self.nodes {
                let Some(resting) = self.resting(id, number) else {
                    continue;
                };
                self.check_session(number, &resting)?;
                if let Some(first) = &first {
                    self.compare(number, first, &resting)?;
                }
                first.get_or_insert(resting);
            }
        }
        self.check_queues()?;
        self.check_sizes()?;
        self.check_retained()
    }

    fn resting(&self, id: u64, number: u8) -> Option<Resting<'_>> {
        let copy = self.machines[&id].plane()?.copy(slot(number))?;
        let session = copy.entries.session(client(number).as_bytes());
        let entries = session.into_iter().flat_map(|session| session.iter());
        Some(Resting {
            id,
            covered: copy.covered,
            entries: entries.map(|(id, entry)| Listed { id, entry }).collect(),
        })
    }

    fn compare(&self, number: u8, one: &Resting<'_>, other: &Resting<'_>) -> Result<(), String> {
        let pairs = [(one, other), (other, one)];
        for (mine, theirs) in pairs {
            let only = mine
                .entries
                .iter()
                .filter(|entry| !theirs.entries.contains(entry));
            for Listed { id, .. } in only {
                let is_covered = one.covered.covers(id.dot) && other.covered.covers(id.dot);
                let clients = self.expected.get(&id.dot);
                let is_promised = clients.is_some_and(|clients| clients.contains(&number));
                // Copies may decide otherwise about a message that came beside its subscription.
                let is_race = id.kind == EntryKind::Message && is_covered && !is_promised;
                if !is_race {
                    return Err(format!(
                        "only {} and not {} has {id:?} of client {number}",
                        mine.id, theirs.id
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_session(&self, number: u8, resting: &Resting<'_>) -> Result<(), String> {
        let id = resting.id;
        let has = |dot: Dot, kind: EntryKind| {
            let wanted = EntryId { kind, dot };
            resting.entries.iter().any(|entry| entry.id == wanted)
        };
        let is_gone = |entry: &&Listed<'_>| {
            let (client, dot) = (number, entry.id.dot);
            self.gone.contains(&RemovedEntry { client, dot })
        };
        if let Some(returned) = resting.entries.iter().find(is_gone) {
            return Err(format!("{id} has {:?} of {number} again", returned.id));
        }
        let session = self.sessions.get(&number);
        if let Some(subscription) = session.and_then(|session| session.subscription.as_ref())
            && !has(subscription.dot, EntryKind::Subscription)
        {
            return Err(format!(
                "{id} lost the subscription {:?} of {number}",
                subscription.dot
            ));
        }
        let bodies = resting
            .entries
            .iter()
            .filter_map(|entry| match entry.entry.value {
                Value::Message(Body(body)) => Some(QueuedBody {
                    body,
                    dot: entry.id.dot,
                }),
                _ => None,
            });
        self.check_once(id, number, &bodies.collect::<Vec<QueuedBody>>())?;
        for (message, clients) in &self.expected {
            let (client, dot) = (number, *message);
            let removed = RemovedEntry { client, dot };
            let is_removed = self.removed.contains(&removed);
            if clients.contains(&number) && !is_removed && !has(*message, EntryKind::Message) {
                return Err(format!("{id} lost the message {message:?} for {number}"));
            }
        }
        Ok(())
    }
}
