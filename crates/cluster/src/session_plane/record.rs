//! A record of the session plane: what a copy of it holds, how it is written to, and how two copies become one.
//!
//! A record is a set of entries, each named by the dot of the write that added it, and the clock of all writes that the copy has seen.
//! A write removes entries that it has seen, adds others, or replaces a value by a greater one. Of two copies, an entry stays that both have, or that one has and the other has not
//! seen yet. What one has removed, it has seen: it goes, and cannot come back. This is the optimized observed-remove set of Bieniusa et al. (An
//! Optimized Conflict-free Replicated Set, 2012); what travels after a write is a delta of Almeida et al. (Delta State Replicated Data Types, 2018).
//!
//! A record without entries is a tombstone: its clock remembers what was removed. A record with the empty clock is one that this node does not have.
//!
//! *Invariants*: each entry's dot is in the clock. Two copies with equal clocks are equal. Nothing is in a clock that the copy has not seen:
//! a copy takes a write only when it has seen all that the writer had seen before.

use std::collections::VecDeque;

use bytes::Bytes;

use super::retirement::Retired;
use super::vector_clock::ClockFull;
use super::{Actor, Causality, Dot, Hlc, VectorClock};

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Who is connected: [`super::session`].
    Session,
    /// Filters with options: [`super::subscriptions`].
    Subscriptions,
    /// Messages that were not acknowledged: [`super::queue`].
    Queue,
    /// QoS 2 packet ids that were received and not released: [`super::received`].
    Received,
    /// A topic's message: [`super::retained`].
    Retained,
    /// A connection's will: [`super::will`].
    Will,
}

/// The name of a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKey {
    /// What it is about.
    pub kind: Kind,
    /// The client id, or the topic.
    pub key: Bytes,
}

/// What an entry of a record can hold. Of two values that an entry has in two copies the greater one counts.
pub trait Value: Clone + Ord {
    /// The kind of the records that hold it.
    const KIND: Kind;

    /// Appends its bytes.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Takes it from the front of bytes; `None`: that is not how it is written.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
}

/// One copy of a record.
#[derive(Debug, Clone)]
pub struct Record<V> {
    clock: VectorClock,
    hlc: Hlc,
    /// Sorted by dot.
    entries: VecDeque<Entry<V>>,
    /// This node's actor has written to the copy since it got it. If not, it may have written more than the copy knows of.
    is_continued: bool,
}

/// What one write has added. Compared by dot first; two of one dot differ in their values at most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry<V> {
    /// Which write; an acknowledgement names it.
    pub dot: Dot,
    /// When. Entries of one write were added in the order of their dots.
    pub hlc: Hlc,
    /// What.
    pub value: V,
}

/// One write, for the other copies: a copy that has it, and one that became equal to the writer's by [`Record::merge`], are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<V> {
    /// What the writer had seen before. Empty: the record is new.
    pub(super) base: VectorClock,
    /// The write's last dot. It has one for each value that it adds, and one if it adds none.
    pub(super) last: Dot,
    pub(super) hlc: Hlc,
    pub(super) removed: Vec<Dot>,
    /// Not more than the last dot's counter.
    pub(super) added: Vec<V>,
    pub(super) advanced: Vec<(Dot, V)>,
}

/// What became of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The copy has it now.
    Taken,
    /// The copy had it before.
    SeenBefore,
}

/// Why a delta or a copy was not taken. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The writer had seen what this copy has not: ask for the whole record.
    #[error("this copy has not seen what came before")]
    Behind,
    /// See [`ClockFull`].
    #[error(transparent)]
    ClockFull(#[from] ClockFull),
}

/// A node as one that writes: it makes dots and moments that were never used before.
#[derive(Debug, Clone)]
pub struct Writer {
    actor: Actor,
    /// The highest number of its own in a clock that it has forgotten. What it begins to write to counts on from there, so that no dot is used twice.
    floor: u64,
    hlc: Hlc,
}

impl Writer {
    /// The node's actor, which has not written yet.
    pub fn new(actor: Actor) -> Writer {
        Writer {
            actor,
            floor: 0,
            hlc: Hlc::ZERO,
        }
    }

    /// Whose dots it makes.
    pub fn actor(&self) -> Actor {
        self.actor
    }

    /// A copy with this clock leaves the node.
    pub(super) fn forget(&mut self, clock: &VectorClock) {
        self.floor = self.floor.max(clock.counter(self.actor));
    }

    /// Makes the dot of a record's next event.
    pub(super) fn next_dot(&self, clock: &mut VectorClock, is_continued: bool) -> Result<Dot, ClockFull> {
        let floor = if is_continued { 0 } else { self.floor };
        clock.increment(self.actor, floor)
    }

    /// A moment that follows all that this writer gave out, and what the record has seen.
    pub(super) fn stamp(&mut self, wall: u64, seen: Hlc) -> Hlc {
        self.hlc = Hlc::at(wall).max(self.hlc.next()).max(seen.next());
        self.hlc
    }
}

impl<V: Value> Record<V> {
    /// A record that this node does not have.
    pub fn absent() -> Record<V> {
        Record {
            clock: VectorClock::new(),
            hlc: Hlc::ZERO,
            entries: VecDeque::new(),
            is_continued: false,
        }
    }

    /// Puts a copy together from its parts: `None` if the clock does not cover the entries, or one dot names two.
    pub(super) fn from_parts(clock: VectorClock, hlc: Hlc, entries: Vec<Entry<V>>) -> Option<Record<V>> {
        let is_sorted = entries.is_sorted_by(|one, next| one.dot < next.dot);
        let is_covered = entries
            .iter()
            .all(|entry| entry.dot.counter > 0 && clock.contains(entry.dot) && entry.hlc <= hlc);
        (is_sorted && is_covered).then(|| Record {
            clock,
            hlc,
            entries: entries.into(),
            is_continued: false,
        })
    }

    /// Writes: removes entries, those of the dots that are there, and adds values. What comes back is for the other copies.
    ///
    /// Only a record's home writes to it, one write at a time, and only to a copy that is as new as any it has heard of.
    pub fn write(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        removed: Vec<Dot>,
        added: Vec<V>,
    ) -> Result<Delta<V>, ClockFull> {
        let base = self.clock.clone();
        let mut clock = base.clone();
        let mut last = writer.next_dot(&mut clock, self.is_continued)?;
        for _ in 1..added.len() {
            last = writer.next_dot(&mut clock, true)?;
        }
        let delta = Delta {
            base,
            last,
            hlc: writer.stamp(wall, self.hlc),
            removed,
            added,
            advanced: Vec::new(),
        };
        self.take(&delta, clock);
        self.is_continued = true;
        Ok(delta)
    }

    /// Writes: an entry that is there gets a greater value.
    pub fn advance(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        dot: Dot,
        value: V,
    ) -> Result<Delta<V>, ClockFull> {
        let base = self.clock.clone();
        let mut clock = base.clone();
        let last = writer.next_dot(&mut clock, self.is_continued)?;
        let delta = Delta {
            base,
            last,
            hlc: writer.stamp(wall, self.hlc),
            removed: Vec::new(),
            added: Vec::new(),
            advanced: vec![(dot, value)],
        };
        self.take(&delta, clock);
        self.is_continued = true;
        Ok(delta)
    }

    /// Writes: adds again what was there before a merge, and was removed by a side that took its front for dead; `None`: nothing was removed.
    pub fn write_again(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        before: &Record<V>,
    ) -> Result<Option<Delta<V>>, ClockFull> {
        let is_lost = |entry: &&Entry<V>| self.entry(entry.dot).is_none();
        let mut lost: Vec<&Entry<V>> = before.entries.iter().filter(is_lost).collect();
        if lost.is_empty() {
            return Ok(None);
        }
        lost.sort_by_key(|entry| (entry.hlc, entry.dot));
        let values = lost.into_iter().map(|entry| entry.value.clone()).collect();
        self.write(writer, wall, Vec::new(), values).map(Some)
    }

    /// Takes over a write of another copy.
    pub fn apply(&mut self, delta: &Delta<V>) -> Result<Applied, NotTaken> {
        if self.clock.contains(delta.last) {
            return Ok(Applied::SeenBefore);
        }
        if !self.clock.covers(&delta.base) {
            return Err(NotTaken::Behind);
        }
        let mut clock = self.clock.clone();
        clock.see(delta.last, delta.dots())?;
        self.take(delta, clock);
        Ok(Applied::Taken)
    }

    /// Has seen what both copies have seen. Says how this one stood to the other; if it was [`Causality::Concurrent`], both were written to
    /// without knowing of each other.
    ///
    /// Commutative, associative and idempotent; it counts nothing up.
    pub fn merge(&mut self, other: &Record<V>) -> Result<Causality, ClockFull> {
        let causality = self.clock.compare(&other.clock);
        match causality {
            Causality::Equal | Causality::After => {}
            Causality::Before => {
                let is_continued = self.is_continued;
                self.clone_from(other);
                self.is_continued = is_continued;
            }
            Causality::Concurrent => {
                // By what each has seen without the other.
                let entries = self.joined_entries(other);
                self.clock.merge(&other.clock)?;
                self.entries = entries;
                self.hlc = self.hlc.max(other.hlc);
            }
        }
        Ok(causality)
    }

    /// Actors that have ended, by `is_ended`, and that the clock names without need.
    ///
    /// When every copy there is covers this copy's clock, all of them may [`Record::retire`] these actors.
    pub fn retirable(&self, is_ended: impl Fn(Actor) -> bool) -> Vec<Actor> {
        let mut last = None;
        let mut retirable = Vec::new();
        for actor in self.clock.actors() {
            last = Some(actor);
            if is_ended(actor) && !self.is_needed(actor) && retirable.last() != Some(&actor) {
                retirable.push(actor);
            }
        }
        // The clock must not become empty: somebody stays until somebody else has written.
        let is_all = self.clock.actors().all(|actor| retirable.contains(&actor));
        retirable.retain(|actor| !is_all || Some(*actor) != last);
        retirable
    }

    /// Does without what every copy can do without that has seen `clock`, as all have.
    pub fn retire(&mut self, writer: &mut Writer, clock: &VectorClock, what: &Retired) {
        match what {
            Retired::Tombstone if self.is_tombstone() && self.clock == *clock => self.forget(writer),
            Retired::Tombstone => {}
            Retired::Actors(actors) if self.clock.covers(clock) => {
                let mut retired = std::mem::take(&mut self.clock);
                retired.forget(|actor| actors.contains(&actor) && !self.is_needed(actor));
                self.clock = retired;
            }
            Retired::Actors(_) => {}
        }
    }

    /// This node does not have the record any more: it is retired, or others have confirmed that they have it.
    pub fn forget(&mut self, writer: &mut Writer) {
        writer.forget(&self.clock);
        *self = Record::absent();
    }

    /// This copy was written to this node's disk since the node started, and was read again: it knows all that this node's actor has written.
    ///
    /// A copy from anywhere else may not, so that the actor's next number leaves a gap.
    #[must_use]
    pub fn continued(mut self) -> Record<V> {
        self.is_continued = true;
        self
    }

    /// Gives back memory that it has taken for more than it holds: for a session that nobody is connected to.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// What this copy has seen.
    pub fn clock(&self) -> &VectorClock {
        &self.clock
    }

    /// When the last write that it has seen was made.
    pub fn hlc(&self) -> Hlc {
        self.hlc
    }

    /// What it holds, by dot.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry<V>> + ExactSizeIterator {
        self.entries.iter()
    }

    /// What a write has added, if it is still there.
    pub fn entry(&self, dot: Dot) -> Option<&Entry<V>> {
        self.find(dot).ok().map(|at| &self.entries[at])
    }

    /// Whether this node does not have the record.
    pub fn is_absent(&self) -> bool {
        self.clock.is_empty()
    }

    /// Whether everything was removed, and only that is known.
    pub fn is_tombstone(&self) -> bool {
        self.entries.is_empty() && !self.is_absent()
    }

    /// The dots of all entries: what a write removes that replaces everything.
    pub(super) fn all_dots(&self) -> Vec<Dot> {
        self.entries.iter().map(|entry| entry.dot).collect()
    }

    /// The bytes that this copy takes in memory, without what its values refer to.
    pub fn memory(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<Entry<V>>();
        size_of::<Self>() + self.clock.memory_beside() + entries
    }

    /// Whether an entry is an actor's.
    fn is_needed(&self, actor: Actor) -> bool {
        let found = self.entries.binary_search_by_key(&actor, |entry| entry.dot.actor);
        found.is_ok()
    }

    fn take(&mut self, delta: &Delta<V>, clock: VectorClock) {
        for dot in &delta.removed {
            if let Ok(at) = self.find(*dot) {
                self.entries.remove(at);
            }
        }
        for (dot, value) in &delta.advanced {
            if let Ok(at) = self.find(*dot)
                && self.entries[at].value < *value
            {
                self.entries[at].value = value.clone();
            }
        }
        for entry in delta.entries().filter(|entry| !self.clock.contains(entry.dot)) {
            if let Err(at) = self.find(entry.dot) {
                if self.entries.len() < ENTRIES_FEW {
                    self.entries.reserve_exact(1);
                }
                self.entries.insert(at, entry);
            }
        }
        self.clock = clock;
        self.hlc = self.hlc.max(delta.hlc);
        if self.entries.capacity() > CAPACITY_KEPT && self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to_fit();
        }
    }

    fn find(&self, dot: Dot) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&dot, |entry| entry.dot)
    }

    /// The entries of both copies: those that both have, and those that the other has not seen yet.
    fn joined_entries(&self, other: &Record<V>) -> VecDeque<Entry<V>> {
        let mut joined = VecDeque::with_capacity(self.entries.len());
        let (mut ours, mut theirs) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        loop {
            let (our, their) = match (ours.peek(), theirs.peek()) {
                (None, None) => return joined,
                (Some(our), Some(their)) if our.dot == their.dot => (ours.next(), theirs.next()),
                (Some(our), Some(their)) if their.dot < our.dot => (None, theirs.next()),
                (None, Some(_)) => (None, theirs.next()),
                (Some(_), _) => (ours.next(), None),
            };
            let staying = match (our, their) {
                (Some(our), Some(their)) => Some(our.max(their)),
                (Some(our), None) => Some(our).filter(|entry| !other.clock.contains(entry.dot)),
                (None, Some(their)) => Some(their).filter(|entry| !self.clock.contains(entry.dot)),
                (None, None) => None,
            };
            joined.extend(staying.cloned());
        }
    }
}

impl<V: Eq> PartialEq for Record<V> {
    /// Whether both hold the same and have seen the same.
    fn eq(&self, other: &Record<V>) -> bool {
        self.clock == other.clock && self.hlc == other.hlc && self.entries == other.entries
    }
}

impl<V: Eq> Eq for Record<V> {}

impl<V: Value> Delta<V> {
    /// How many dots it has.
    pub(super) fn dots(&self) -> u64 {
        self.added.len().max(1) as u64
    }

    /// The write's last dot; who has seen it has the write.
    pub fn last(&self) -> Dot {
        self.last
    }

    /// The entries that it adds.
    pub fn entries(&self) -> impl Iterator<Item = Entry<V>> + '_ {
        let after = self.added.len() as u64;
        self.added
            .iter()
            .zip(1..)
            .map(move |(value, nth): (&V, u64)| Entry {
                dot: Dot {
                    actor: self.last.actor,
                    counter: self.last.counter - (after - nth),
                },
                hlc: self.hlc,
                value: value.clone(),
            })
    }
}

/// Up to so many entries a record has room for those that it has and no more: most sessions have one subscription or two.
const ENTRIES_FEW: usize = 4;

/// How much room a record keeps that has had more entries: enough for a client whose queue fills and empties all the time.
const CAPACITY_KEPT: usize = 64;
