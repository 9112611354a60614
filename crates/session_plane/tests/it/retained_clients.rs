//! Clients that retain, clear and remove messages of topics, and what is promised of them. All nodes answer
//! alike at rest, and what was acknowledged is not lost. What a write has seen does not come back, nor what
//! is earlier than a clear.
//!
//! Each node keeps a mirror of its copy by changes alone, as a node of the product keeps its search
//! structure. Some topics have the names of clients: neither is taken for the other.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;
use session_plane::plane::{RetainedEntry, TopicWrite};
use session_plane::{ClientId, Dot, EntryKind, MadeEvent, Slot};

use super::clients::client;
use super::connections::CONNECTING;
use super::machine::{Body, TestPlane, Value};
use super::world::World;

/// First body of a retained message.
const FIRST_RETAINED: u32 = 500_000;
const TOPICS: u8 = 4;

/// What a topic retains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Retained {
    dot: Dot,
    value: Value,
}

/// Topics that have entries. None where a clear is read.
type Mirror = BTreeMap<ClientId, Option<Retained>>;

/// Entry of a copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TopicEntry {
    topic: ClientId,
    dot: Dot,
    kind: EntryKind,
    value: Value,
}

/// Write of a client.
#[derive(Debug)]
struct Write {
    topic: ClientId,
    made: TopicWrite<Value>,
    clock: Hlc,
    /// Entries that its node had.
    seen: BTreeSet<Dot>,
    is_acknowledged: bool,
}

/// All that was retained.
#[derive(Debug, Default)]
pub(super) struct RetainedClients {
    last: u32,
    writes: BTreeMap<Dot, Write>,
    /// Of nodes that run.
    mirrors: BTreeMap<u64, Mirror>,
}

impl RetainedClients {
    /// Writes whose nodes had an entry.
    fn removals(&self, dot: Dot) -> impl Iterator<Item = (Dot, &Write)> {
        let writes = self.writes.iter().map(|(dot, write)| (*dot, write));
        writes.filter(move |(_, write)| write.seen.contains(&dot))
    }

    /// Clears that are later than a write of their topic.
    fn later_clears(&self, dot: Dot, write: &Write) -> impl Iterator<Item = (Dot, &Write)> {
        let writes = self.writes.iter().map(|(dot, write)| (*dot, write));
        writes.filter(move |(by, clear)| {
            let is_later = (clear.clock, *by) > (write.clock, dot);
            matches!(clear.made, TopicWrite::Clear(_)) && clear.topic == write.topic && is_later
        })
    }

    /// A message may be gone: a write that has come into force has removed it, or a clear is later. `left`
    /// are the entries that copies have.
    fn may_be_gone(&self, dot: Dot, left: &BTreeSet<Dot>) -> bool {
        let is_in_force = |(by, write): (Dot, &Write)| {
            let is_message = matches!(write.made, TopicWrite::Retain(_));
            !is_message || left.contains(&by) || self.may_be_gone(by, left)
        };
        let is_cleared = |write| self.later_clears(dot, write).next().is_some();
        self.removals(dot).any(is_in_force) || self.writes.get(&dot).is_some_and(is_cleared)
    }

    fn check_write(&self, dot: Dot, write: &Write, left: &BTreeSet<Dot>) -> Result<(), String> {
        let is_left = left.contains(&dot);
        let mut gone_by = self.removals(dot).chain(self.later_clears(dot, write));
        let gone_by = gone_by.find(|(_, by)| by.is_acknowledged);
        if let Some((by, _)) = gone_by.filter(|_| is_left) {
            return Err(format!("{dot:?} is retained again, and was gone by {by:?}"));
        }
        let is_kept = write.is_acknowledged && matches!(write.made, TopicWrite::Retain(_));
        if is_kept && !is_left && !self.may_be_gone(dot, left) {
            return Err(format!("{dot:?} is lost: {write:?}"));
        }
        Ok(())
    }

    /// Of several messages of a topic the latest is read.
    fn check_read(&self, mirror: &Mirror, left: &BTreeSet<Dot>) -> Result<(), String> {
        let mut latest: BTreeMap<&ClientId, (Hlc, Dot)> = BTreeMap::new();
        for (dot, write) in self.writes.iter().filter(|(dot, _)| left.contains(dot)) {
            let of_topic = latest.entry(&write.topic).or_insert((write.clock, *dot));
            *of_topic = (write.clock, *dot).max(*of_topic);
        }
        let read = mirror
            .iter()
            .map(|(topic, read)| (topic, read.map(|read| read.dot)));
        if read
            .clone()
            .eq(latest.iter().map(|(topic, (_, dot))| (*topic, Some(*dot))))
        {
            Ok(())
        } else {
            Err(format!("of {latest:?} is read {:?}", read.collect::<Vec<_>>()))
        }
    }

    /// The entry is a message that was written so. A clear is garbage once all members are there.
    fn check_entry(&self, entry: &TopicEntry) -> Result<(), String> {
        let write = self.writes.get(&entry.dot);
        let is_same =
            |write: &Write| write.topic == entry.topic && write.made == TopicWrite::Retain(entry.value);
        if entry.kind == EntryKind::Retained && write.is_some_and(is_same) {
            Ok(())
        } else {
            Err(format!("{entry:?} is left, and was written as {write:?}"))
        }
    }
}

/// Entries of a topic that a write removes.
fn is_removed(write: TopicWrite<Value>, kind: EntryKind) -> bool {
    kind == EntryKind::Retained || matches!(write, TopicWrite::Clear(_))
}

/// Two topics have the names of clients.
fn topic(number: u8) -> ClientId {
    match number {
        0 => client(0),
        1 => client(CONNECTING.start),
        _ => ClientId::new(&[b't', number]).expect("short"),
    }
}

impl World {
    /// Writes topics, at random nodes.
    pub(super) fn act_as_retaining(&mut self) {
        let id = 1 + self.random.below(self.nodes);
        let number = u8::try_from(self.random.below(u64::from(TOPICS))).expect("few");
        match self.random.below(20) {
            0 | 1 => self.retain(id, number, TopicWrite::Retain),
            2 => self.retain(id, number, TopicWrite::Clear),
            3 => self.retain(id, number, |_| TopicWrite::Remove),
            _ => {}
        }
    }

    /// Retains a message at each node.
    pub(super) fn retain_everywhere(&mut self) {
        for (id, number) in (1..=self.nodes).zip((0..TOPICS).cycle()) {
            self.retain(id, number, TopicWrite::Retain);
        }
    }

    fn retain(&mut self, id: u64, number: u8, write: impl Fn(Value) -> TopicWrite<Value>) {
        if !self.machines[&id].is_up(self.now) {
            return;
        }
        self.retained_clients.last += 1;
        let topic = topic(number);
        let body = Body(FIRST_RETAINED + self.retained_clients.last);
        let write = write(Value::Message(body));
        let (mut made, mut seen) = (None, BTreeSet::new());
        self.with_sessions(id, |sessions, at, actions| {
            let entries = entries(sessions.plane()).into_iter();
            let of_topic = entries.filter(|entry| entry.topic == topic && is_removed(write, entry.kind));
            seen = of_topic.map(|entry| entry.dot).collect();
            made = sessions.retain(at, &topic, write, actions).ok().flatten();
        });
        if let Some(MadeEvent { dot, clock }) = made {
            let write = Write {
                topic,
                made: write,
                clock,
                seen,
                is_acknowledged: false,
            };
            self.retained_clients.writes.insert(dot, write);
        }
    }

    /// An event is durable: where it has written a topic, its client is told.
    pub(super) fn retained_durably(&mut self, dot: Dot) {
        if let Some(write) = self.retained_clients.writes.get_mut(&dot) {
            write.is_acknowledged = true;
        }
    }

    /// A process has started: its mirror is what it reads from its disk.
    pub(super) fn begin_mirror(&mut self, id: u64) {
        let plane = self.machines[&id].plane().expect("it runs");
        let mirror = read_all(plane);
        self.retained_clients.mirrors.insert(id, mirror);
    }

    /// Brings mirrors up to date by what has changed, which is all that differs.
    pub(super) fn follow_retained(&mut self) {
        for id in 1..=self.nodes {
            let machine = self.machines.get_mut(&id).expect("a machine");
            let Some(sessions) = &mut machine.sessions else {
                continue;
            };
            let mirror = self.retained_clients.mirrors.entry(id).or_default();
            let changed = sessions.take_retained_changes();
            for topic in &changed {
                let retained = sessions.plane().retained(topic).map(retained);
                if retained.is_some() || sessions.plane().is_cleared(topic) {
                    mirror.insert(topic.clone(), retained);
                } else {
                    mirror.remove(topic);
                }
            }
            let all = read_all(sessions.plane());
            if *mirror != all {
                let told = format!("{id} was told of {changed:?}, has {mirror:?}, and retains {all:?}");
                return self.fail(told);
            }
        }
    }

    /// All nodes answer alike, and what was acknowledged is in force.
    pub(super) fn check_retained(&self) -> Result<(), String> {
        let mut planes = self.machines.values().filter_map(|machine| machine.plane());
        let all = planes.next().map(entries).unwrap_or_default();
        if let Some(other) = planes.find(|plane| entries(plane) != all) {
            return Err(format!(
                "{:?} retains {:?}, not {all:?}",
                other.run(),
                entries(other)
            ));
        }
        let mut each = all.iter();
        each.try_for_each(|entry| self.retained_clients.check_entry(entry))?;
        let left: BTreeSet<Dot> = all.iter().map(|entry| entry.dot).collect();
        let mut mirrors = self.retained_clients.mirrors.values();
        mirrors.try_for_each(|mirror| self.retained_clients.check_read(mirror, &left))?;
        let mut each = self.retained_clients.writes.iter();
        each.try_for_each(|(dot, write)| self.retained_clients.check_write(*dot, write, &left))
    }

    /// A history in which nothing is retained shows nothing.
    pub(super) fn check_retained_everywhere(&self) -> Result<(), String> {
        let writes = self.retained_clients.writes.values();
        let acknowledged = writes.filter(|write| write.is_acknowledged).count();
        let nodes = usize::try_from(self.nodes).expect("few");
        if acknowledged < nodes {
            return Err(format!("{acknowledged} retained messages are acknowledged"));
        }
        Ok(())
    }
}

/// Entries of all topics, in ascending order.
fn entries(plane: &TestPlane) -> BTreeSet<TopicEntry> {
    let copy = plane.copy(Slot::RETAINED).into_iter();
    let topics = copy.flat_map(|copy| copy.entries.sessions());
    let entries = topics.flat_map(|(topic, entries)| {
        entries.iter().map(|(id, entry)| TopicEntry {
            topic: topic.clone(),
            dot: id.dot,
            kind: id.kind,
            value: entry.value,
        })
    });
    entries.collect()
}

/// What all topics retain.
fn read_all(plane: &TestPlane) -> Mirror {
    let topics = plane.retained_after(None);
    topics
        .map(|of| (of.topic.clone(), of.entry.map(retained)))
        .collect()
}

fn retained(entry: RetainedEntry<'_, Value>) -> Retained {
    let (dot, value) = (entry.dot, *entry.value);
    Retained { dot, value }
}
