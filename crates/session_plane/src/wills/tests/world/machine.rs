//! Node of the world: its copy, which is on the disk, and the machines, which a crash takes away.

use super::{NODES, id, index};
use crate::slot_entries::{Change, SlotEntries};
use crate::wills::tests::*;

pub(super) const WILLS: WillLimits = WillLimits { firing_max: 2 };
const PUBLISHING: PublishingLimits = PublishingLimits {
    waiting_max: 1,
    waiting_per_connection_max: 1,
    given_up_max: 1,
};

/// Event that changes a client's entries.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) dot: Dot,
    pub(super) client: ClientId,
    pub(super) removes: Vec<Dot>,
    pub(super) adds: Option<Entry<Value>>,
}

/// Copy of everything.
#[derive(Debug, Clone, Default)]
pub(super) struct Copy {
    /// Events, and numbers that were routed.
    pub(super) covered: VersionVector,
    pub(super) entries: SlotEntries<Value>,
}

/// State that the wills of a node read.
#[derive(Debug)]
pub(super) struct State {
    pub(super) node: usize,
    pub(super) copy: Copy,
    /// Present nodes, this one among them.
    pub(super) view: BTreeMap<usize, Run>,
    /// Last run of each node that was met.
    pub(super) met: BTreeMap<usize, Run>,
    /// Events that are known to exist.
    pub(super) needed: VersionVector,
    /// Holes that no present node fills.
    pub(super) nowhere: VersionVector,
    /// Nodes that have not answered.
    pub(super) unmerged: BTreeSet<usize>,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) is_up: bool,
    pub(super) run: Run,
    pub(super) state: State,
    pub(super) wills: Wills,
    pub(super) publishing: Publishing,
    events: u64,
    pub(super) connections: u64,
    pub(super) marker: u64,
    /// Round of questions for copies.
    pub(super) round: u64,
    /// Events that the run has made.
    pub(super) made: BTreeMap<Dot, Event>,
    /// Ends of connections that are not durable.
    pub(super) durables: BTreeSet<Dot>,
    confirmed: BTreeMap<Dot, BTreeSet<usize>>,
    pub(super) waits: BTreeMap<Dot, Wait>,
    /// Moment at which the run began to wait for an entry by a marker.
    pub(super) awaited: BTreeMap<(Dot, u64), u64>,
    /// Moment since which each number has waited for all nodes.
    pub(super) waited: BTreeMap<Dot, u64>,
    /// Moment at which each number was heard.
    pub(super) heard: BTreeMap<Dot, u64>,
}

/// Wait for the entry of a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) entry: Dot,
    pub(super) marker: u64,
    pub(super) since: u64,
}

impl Machine {
    pub(super) fn new(node: usize) -> Machine {
        Machine::started(node, run_of(node as u64 + 1, 1), Copy::default())
    }

    fn started(node: usize, run: Run, copy: Copy) -> Machine {
        let state = State {
            node,
            needed: copy.covered.clone(),
            copy,
            view: BTreeMap::from([(node, run)]),
            met: BTreeMap::from([(node, run)]),
            nowhere: VersionVector::default(),
            unmerged: BTreeSet::new(),
        };
        Machine {
            is_up: true,
            run,
            state,
            wills: Wills::new(run, WILLS),
            publishing: Publishing::new(run, PUBLISHING),
            events: 0,
            connections: 0,
            marker: 0,
            round: 0,
            made: BTreeMap::new(),
            durables: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            waits: BTreeMap::new(),
            awaited: BTreeMap::new(),
            waited: BTreeMap::new(),
            heard: BTreeMap::new(),
        }
    }

    pub(super) fn restart(&mut self) {
        let run = run_of(self.run.node.0, self.run.incarnation.0 + 1);
        let copy = std::mem::take(&mut self.state.copy);
        let heard = std::mem::take(&mut self.heard);
        *self = Machine {
            heard,
            ..Machine::started(self.state.node, run, copy)
        };
    }

    pub(super) fn wills_and_state(&mut self) -> (&mut Wills, &State) {
        (&mut self.wills, &self.state)
    }

    pub(super) fn next_event(&mut self) -> Dot {
        self.events += 1;
        Dot {
            run: self.run,
            number: self.events,
        }
    }

    /// Present nodes without this one.
    pub(super) fn peers(&self) -> Vec<usize> {
        let own = self.state.node;
        let nodes = self.state.view.keys().copied();
        nodes.filter(|node| *node != own).collect()
    }

    pub(super) fn confirm(&mut self, node: usize, dot: Dot) {
        self.confirmed.entry(dot).or_default().insert(node);
    }

    /// Takes out a wait that has ended.
    pub(super) fn take_completed(&mut self) -> Option<(Dot, Wait)> {
        let mut waits = self.waits.iter();
        let (number, _) = waits.find(|(_, wait)| self.has_reached_all(wait.entry))?;
        self.waits.remove_entry(&number.clone())
    }

    /// All present nodes have the event.
    pub(super) fn has_reached_all(&self, dot: Dot) -> bool {
        let confirmed = self.confirmed.get(&dot);
        let mut nodes = self.state.view.keys();
        confirmed.is_some_and(|confirmed| nodes.all(|node| confirmed.contains(node)))
    }
}

impl Copy {
    /// Applies an event. False if it was known.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        if self.covered.covers(event.dot) {
            return false;
        }
        let change = Change {
            dot: event.dot,
            client: event.client.clone(),
            removes: event.removes.clone(),
            adds: event.adds.clone(),
        };
        self.entries
            .apply(&self.covered, change)
            .expect("few single dots");
        self.cover(event.dot);
        true
    }

    pub(super) fn cover(&mut self, dot: Dot) {
        let one = Interval::one(dot).expect("an event has a number");
        self.covered.insert(one).expect("few intervals");
    }

    pub(super) fn merge(&mut self, other: Copy) {
        let both = self.covered.clone().united(&other.covered);
        self.entries
            .merge(&self.covered, other.entries, &other.covered, &both);
        self.covered = both;
    }

    pub(super) fn has_written(&self, client: &ClientId, dot: Dot) -> bool {
        self.entries.covers(&self.covered, client.as_bytes(), dot)
    }
}

impl State {
    pub(super) fn entry(&self, client: &ClientId, kind: EntryKind, dot: Dot) -> Option<Entry<Value>> {
        let session = self.copy.entries.session(client.as_bytes())?;
        session.get(crate::EntryId { kind, dot }).cloned()
    }

    /// Entries of a kind of a client, whether or not they count.
    pub(super) fn entries(&self, client: &ClientId, kind: EntryKind) -> Vec<(Dot, Entry<Value>)> {
        let session = self.copy.entries.session(client.as_bytes()).into_iter();
        let entries = session.flat_map(|session| session.of_kind(kind));
        entries.map(|(dot, entry)| (dot, entry.clone())).collect()
    }

    /// Birth of the latest session of a client that counts.
    pub(super) fn latest_session(&self, client: &ClientId) -> Option<Birth> {
        let session = self.copy.entries.session(client.as_bytes())?;
        let latest = session.live(EntryKind::Session, |_| true);
        let latest = latest.max_by_key(|(dot, entry)| (entry.clock, *dot));
        latest.map(|(_, entry)| entry.birth)
    }

    pub(super) fn holes(&self) -> VersionVector {
        self.needed.minus(&self.copy.covered).minus(&self.nowhere)
    }
}

impl DecidingNode for State {
    fn decides(&self, slot: Slot) -> bool {
        let walk = (0..NODES).map(|step| (usize::from(slot.number()) + step) % NODES);
        let mut present = walk.filter(|node| self.view.contains_key(node));
        present.next() == Some(self.node) && self.unmerged.is_empty() && self.holes().is_empty()
    }
}

impl WillState for State {
    fn clients(&self) -> Vec<ClientId> {
        let clients = self.copy.entries.sessions().map(|(client, _)| client.clone());
        clients
            .filter(|client| self.decides(Slot::of_client(client.as_bytes())))
            .collect()
    }

    fn clients_of(&self, slot: Slot) -> Vec<ClientId> {
        let clients = self.copy.entries.sessions().map(|(client, _)| client.clone());
        clients
            .filter(|client| Slot::of_client(client.as_bytes()) == slot)
            .collect()
    }

    fn wills(&self, client: &ClientId) -> Vec<KnownWill> {
        let session = self.copy.entries.session(client.as_bytes());
        session.map_or(Vec::new(), |session| {
            known_wills(session, |dot| self.copy.has_written(client, dot))
        })
    }

    fn present_run(&self, node: NodeId) -> Option<Run> {
        self.view.get(&index(node)).copied()
    }

    fn has_ended(&self, run: Run) -> bool {
        self.met.get(&index(run.node)).is_some_and(|met| *met > run)
    }

    fn has_heard(&self, _slot: Slot, number: Dot) -> bool {
        self.needed.covers(number) || self.copy.covered.covers(number)
    }
}

impl State {
    /// View of the run as Publishing has it.
    pub(super) fn nodes(&self) -> BTreeSet<NodeId> {
        self.view.keys().map(|node| id(*node)).collect()
    }
}
