//! Clients that set and clear retained messages, and what is promised of them: all nodes answer alike at
//! rest, what was acknowledged is not lost, and what it has replaced does not come back.
//!
//! Each node keeps a mirror of its copy by changes alone, as a node of the product keeps its search
//! structure. Some topics have the names of clients: neither is taken for the other.

use std::collections::{BTreeMap, BTreeSet};

use session_plane::{ClientId, Dot, MadeEvent, Slot};

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

type Mirror = BTreeMap<ClientId, Retained>;

/// Entry of a copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TopicEntry {
    topic: ClientId,
    dot: Dot,
    value: Value,
}

/// Message that a client has set, or cleared.
#[derive(Debug)]
struct Write {
    topic: ClientId,
    /// None: the topic was cleared.
    value: Option<Value>,
    /// Entries that it replaces: those that its node had.
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
    /// Writes that have replaced an entry.
    fn removals(&self, dot: Dot) -> impl Iterator<Item = (Dot, &Write)> {
        let writes = self.writes.iter().map(|(dot, write)| (*dot, write));
        writes.filter(move |(_, write)| write.seen.contains(&dot))
    }

    /// An entry may be gone: a write that has come into force has replaced it. `left` are the entries that
    /// copies have.
    fn may_be_gone(&self, dot: Dot, left: &BTreeSet<Dot>) -> bool {
        let is_in_force = |(by, write): (Dot, &Write)| {
            write.value.is_none() || left.contains(&by) || self.may_be_gone(by, left)
        };
        self.removals(dot).any(is_in_force)
    }

    fn check_write(&self, dot: Dot, write: &Write, left: &BTreeSet<Dot>) -> Result<(), String> {
        let is_left = left.contains(&dot);
        let replaced_by = self.removals(dot).find(|(_, by)| by.is_acknowledged);
        if let Some((by, _)) = replaced_by.filter(|_| is_left) {
            return Err(format!("{dot:?} is retained again, which {by:?} has replaced"));
        }
        let is_kept = write.is_acknowledged && write.value.is_some();
        if is_kept && !is_left && !self.may_be_gone(dot, left) {
            return Err(format!("{dot:?} is lost: {write:?}"));
        }
        Ok(())
    }
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
    /// Sets and clears messages of topics, at random nodes.
    pub(super) fn act_as_retaining(&mut self) {
        let id = 1 + self.random.below(self.nodes);
        let number = u8::try_from(self.random.below(u64::from(TOPICS))).expect("few");
        match self.random.below(20) {
            0 | 1 => self.retain(id, number, true),
            2 => self.retain(id, number, false),
            _ => {}
        }
    }

    /// Sets a message at each node.
    pub(super) fn retain_everywhere(&mut self) {
        for (id, number) in (1..=self.nodes).zip((0..TOPICS).cycle()) {
            self.retain(id, number, true);
        }
    }

    fn retain(&mut self, id: u64, number: u8, is_set: bool) {
        if !self.machines[&id].is_up(self.now) {
            return;
        }
        self.retained_clients.last += 1;
        let topic = topic(number);
        let body = Body(FIRST_RETAINED + self.retained_clients.last);
        let value = is_set.then_some(Value::Message(body));
        let (mut made, mut seen) = (None, BTreeSet::new());
        self.with_sessions(id, |sessions, at, actions| {
            let entries = entries(sessions.plane()).into_iter();
            let of_topic = entries.filter(|entry| entry.topic == topic);
            seen = of_topic.map(|entry| entry.dot).collect();
            made = sessions.retain(at, &topic, value, actions).ok().flatten();
        });
        if let Some(MadeEvent { dot, .. }) = made {
            let write = Write {
                topic,
                value,
                seen,
                is_acknowledged: false,
            };
            self.retained_clients.writes.insert(dot, write);
        }
    }

    /// An event is durable: where it has retained a message, its client is told.
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
                match sessions.plane().retained(topic) {
                    Some(entry) => {
                        let (dot, value) = (entry.dot, *entry.value);
                        mirror.insert(topic.clone(), Retained { dot, value });
                    }
                    None => {
                        mirror.remove(topic);
                    }
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
        let mut mirrors = self.retained_clients.mirrors.values();
        let first = mirrors.next();
        if let Some(other) = mirrors.find(|mirror| Some(*mirror) != first) {
            return Err(format!("of mirrors one is {first:?}, and one is {other:?}"));
        }
        let writes = &self.retained_clients.writes;
        for entry in &all {
            let write = writes.get(&entry.dot);
            if write.is_none_or(|write| write.topic != entry.topic || write.value != Some(entry.value)) {
                return Err(format!("{entry:?} was written as {write:?}"));
            }
        }
        let left: BTreeSet<Dot> = all.iter().map(|entry| entry.dot).collect();
        let mut each = writes.iter();
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
            value: entry.value,
        })
    });
    entries.collect()
}

/// What all topics retain.
fn read_all(plane: &TestPlane) -> Mirror {
    let topics = plane.retained_after(None).map(|of| {
        let (dot, value) = (of.entry.dot, *of.entry.value);
        (of.topic.clone(), Retained { dot, value })
    });
    topics.collect()
}
