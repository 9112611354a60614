//! Node of the world: its copies, which are on the disk, and the machines, which a crash takes away.

use super::{Event, NODES, SINK, SOURCE, Wait, index};
use crate::groups::tests::*;
use crate::slot_entries::{Change, SlotEntries};
use crate::{Interval, Slot, VersionVector};

/// Copies of all parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Copy {
    pub(super) covered: VersionVector,
    pub(super) slots: BTreeMap<Slot, SlotEntries<u64>>,
}

/// State that the source of a node reads.
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
    pub(super) clock: Hlc,
    pub(super) state: State,
    pub(super) source: GroupSource,
    pub(super) sink: GroupSink,
    events: u64,
    pub(super) connections: u64,
    /// Round of questions for copies.
    pub(super) round: u64,
    /// Events that the run has made.
    pub(super) made: BTreeMap<Dot, Event>,
    confirmed: BTreeMap<Dot, BTreeSet<usize>>,
    /// Waits for all present nodes, by the event.
    pub(super) waits: BTreeMap<Dot, Wait>,
    /// Last view that each present node has told.
    pub(super) views: BTreeMap<usize, BTreeMap<usize, Run>>,
    /// Confirmations that suspects are not sent.
    pub(super) held_back: BTreeMap<usize, BTreeSet<Dot>>,
    /// Parts about which this node decides, and that its source has read as its copy is.
    pub(super) ready: BTreeSet<Slot>,
}

impl Machine {
    pub(super) fn new(node: usize) -> Machine {
        Machine::started(node, run_of(node as u64 + 1, 1), Copy::default(), Hlc::ZERO)
    }

    fn started(node: usize, run: Run, copy: Copy, clock: Hlc) -> Machine {
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
            clock,
            state,
            source: GroupSource::new(run, SOURCE),
            sink: GroupSink::new(run, SINK),
            events: 0,
            connections: 0,
            round: 0,
            made: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            waits: BTreeMap::new(),
            views: BTreeMap::new(),
            held_back: BTreeMap::new(),
            ready: BTreeSet::new(),
        }
    }

    pub(super) fn restart(&mut self) {
        let run = run_of(self.run.node.0, self.run.incarnation.0 + 1);
        let copy = std::mem::take(&mut self.state.copy);
        *self = Machine::started(self.state.node, run, copy, self.clock);
    }

    pub(super) fn source_and_state(&mut self) -> (&mut GroupSource, &State) {
        (&mut self.source, &self.state)
    }

    pub(super) fn next_event(&mut self) -> Dot {
        self.events += 1;
        Dot {
            run: self.run,
            number: self.events,
        }
    }

    /// Clock of the next event. Wall clocks of nodes differ by more than a history lasts.
    pub(super) fn next_clock(&mut self, moment: u64) -> Hlc {
        let skew = [0, 5_000, 2_500, 10_000][self.state.node];
        self.clock = self.clock.next().max(Hlc::at(moment + skew));
        self.clock
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

    pub(super) fn has_confirmed(&self, node: usize, dot: Dot) -> bool {
        let confirmed = self.confirmed.get(&dot);
        confirmed.is_some_and(|confirmed| confirmed.contains(&node))
    }

    /// Takes out a wait that has ended.
    pub(super) fn take_completed(&mut self) -> Option<(Dot, Wait)> {
        let mut waits = self.waits.keys().copied();
        let dot = waits.find(|dot| self.state.view.keys().all(|node| self.has_confirmed(*node, *dot)))?;
        self.waits.remove_entry(&dot)
    }

    /// A present peer has given up `node`, which this node has for present. Of two that have given each
    /// other up the lower one stays.
    pub(super) fn suspects(&self, node: usize) -> bool {
        let lacks = |witness: &usize, other: &usize| {
            let view = self.views.get(witness);
            view.is_some_and(|view| view.get(other) != self.state.view.get(other))
        };
        let peers = self.peers();
        let mut witnesses = peers.iter().filter(|witness| lacks(witness, &node));
        witnesses.any(|witness| *witness != node && !(lacks(&node, witness) && node < *witness))
    }
}

impl Copy {
    /// Applies an event. False if it was known.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        if self.covered.covers(event.dot) {
            return false;
        }
        for slot in &event.slots {
            let change = Change {
                dot: event.dot,
                client: group().key().clone(),
                removes: event.removes.clone(),
                adds: event.adds.clone(),
            };
            let entries = self.slots.entry(*slot).or_default();
            entries.apply(&self.covered, change).expect("few single dots");
        }
        let one = Interval::one(event.dot).expect("an event has a number");
        self.covered.insert(one).expect("few intervals");
        true
    }

    pub(super) fn merge(&mut self, other: Copy) {
        let both = self.covered.clone().united(&other.covered);
        let Copy { covered, mut slots } = other;
        for slot in super::places().map(|place| place.slot) {
            let theirs = slots.remove(&slot).unwrap_or_default();
            let mine = self.slots.entry(slot).or_default();
            mine.merge(&self.covered, theirs, &covered, &both);
        }
        self.covered = both;
    }

    /// Entries of a part, whether or not they count.
    pub(super) fn entries(&self, slot: Slot) -> Vec<ReadEntry> {
        let key = group();
        let entries = self.slots.get(&slot);
        let session = entries.and_then(|entries| entries.session(key.key().as_bytes()));
        let entries = session.into_iter().flat_map(|session| session.iter());
        let read = entries.filter_map(|(id, entry)| {
            let (dot, entry) = (id.dot, GroupEntry::of(entry)?);
            Some(ReadEntry { dot, entry })
        });
        read.collect()
    }

    pub(super) fn entry(&self, slot: Slot, dot: Dot) -> Option<GroupEntry> {
        let entries = self.entries(slot).into_iter();
        entries
            .filter(|read| read.dot == dot)
            .map(|read| read.entry)
            .next()
    }

    /// Members, each with the birth of its session.
    pub(super) fn members(&self) -> BTreeMap<Dot, KnownMember> {
        let slot = super::place(0).slot;
        let members = self
            .entries(slot)
            .into_iter()
            .filter_map(|read| match read.entry {
                GroupEntry::Member { birth, since } => Some((birth, KnownMember { dot: read.dot, since })),
                _ => None,
            });
        members.collect()
    }

    /// Members of a session.
    pub(super) fn members_of(&self, of: Dot) -> Vec<KnownMember> {
        let entries = self.entries(super::place(0).slot).into_iter();
        let members = entries.filter_map(|read| match read.entry {
            GroupEntry::Member { birth, since } if birth == of => Some(KnownMember { dot: read.dot, since }),
            _ => None,
        });
        members.collect()
    }
}

impl State {
    pub(super) fn holes(&self) -> VersionVector {
        self.needed.minus(&self.copy.covered).minus(&self.nowhere)
    }

    /// This node decides about the part in the slot (rule `give-merged`).
    pub(super) fn decides(&self, slot: Slot) -> bool {
        let walk = (0..NODES).map(|step| (usize::from(slot.number()) + step) % NODES);
        let mut present = walk.filter(|node| self.view.contains_key(node));
        present.next() == Some(self.node) && self.unmerged.is_empty() && self.holes().is_empty()
    }

    pub(super) fn runs(&self) -> BTreeSet<Run> {
        self.view.values().copied().collect()
    }
}

impl GroupCopies<u64> for State {
    fn read(&self, place: &GroupPlace) -> Option<Vec<ReadEntry>> {
        self.decides(place.slot).then(|| self.copy.entries(place.slot))
    }

    fn value(&self, place: &GroupPlace, message: Dot) -> Option<u64> {
        let entry = self.copy.entry(place.slot, message)?;
        matches!(entry, GroupEntry::Message { .. }).then_some(message.number)
    }

    fn point(&self, _: &GroupPlace, _: Dot) -> Option<u64> {
        None
    }

    fn covers(&self, place: &GroupPlace, dot: Dot) -> bool {
        let (covered, key) = (&self.copy.covered, place.group.key().as_bytes());
        let entries = self.copy.slots.get(&place.slot);
        entries.map_or_else(
            || covered.covers(dot),
            |entries| entries.covers(covered, key, dot),
        )
    }

    fn has_ended(&self, run: Run) -> bool {
        self.met.get(&index(run.node)).is_some_and(|met| *met > run)
    }
}
