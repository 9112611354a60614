//! Nodes on a network, each with a set of facts that stands for all records: every fact is to be everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::super::actor;
use super::super::origin;
use crate::NodeId;
use crate::random::Random;
use crate::session_plane::announcement::Word;
use crate::session_plane::detection::DetectionConfig;
use crate::session_plane::lifecycle::NodeState;
use crate::session_plane::nodes::{Handover, Nodes, NodesOutput, StateChange};

pub(super) const DEAD_AFTER: Duration = Duration::from_secs(2);

/// How long it takes at most until everybody runs when all is well again.
const CALM_MAX: Duration = Duration::from_secs(120);

const TICK: Duration = Duration::from_millis(20);

/// What was not confirmed is sent again after so many ticks.
const AGAIN_EVERY: u64 = 10;

type Facts = BTreeSet<u64>;

#[derive(Debug, Clone)]
enum Message {
    Nodes(Bytes),
    Fact(u64),
    HasFact(u64),
    /// Somebody's facts, to be answered with one's own.
    Give(u64, Facts),
    Given(u64, Facts),
}

/// A process, and its disk.
struct Host {
    run: u32,
    /// `None`: it has no power.
    nodes: Option<Nodes>,
    facts: Facts,
    /// Written here, and not known to be everywhere.
    writing: BTreeMap<u64, BTreeSet<u64>>,
    /// What is being handed over: under which number, and who has answered.
    handing: Option<(Handover, u64, BTreeSet<u64>)>,
    still_until: Instant,
    changes: Vec<StateChange>,
}

pub(super) struct Net {
    now: Instant,
    random: Random,
    hosts: Vec<Host>,
    on_its_way: BTreeMap<(Instant, u64), (u64, u64, Message)>,
    cut: BTreeSet<(u64, u64)>,
    /// One of so many messages is lost; 0: none.
    lossy: usize,
    numbers: u64,
    ticks: u64,
    acknowledged: Facts,
}

impl Net {
    pub(super) fn new(seed: u64, count: u64) -> Self {
        let now = origin();
        let mut net = Self {
            now,
            random: Random::new(seed),
            hosts: Vec::new(),
            on_its_way: BTreeMap::new(),
            cut: BTreeSet::new(),
            lossy: 0,
            numbers: 0,
            ticks: 0,
            acknowledged: Facts::new(),
        };
        for _ in 0..count {
            net.hosts.push(Host {
                run: 0,
                nodes: None,
                facts: Facts::new(),
                writing: BTreeMap::new(),
                handing: None,
                still_until: now,
                changes: Vec::new(),
            });
        }
        (1..=count).for_each(|node| net.start(node));
        net
    }

    fn all(&self) -> BTreeSet<NodeId> {
        (1..=self.hosts.len() as u64).map(NodeId).collect()
    }

    fn host(&mut self, node: u64) -> &mut Host {
        &mut self.hosts[node as usize - 1]
    }

    pub(super) fn start(&mut self, node: u64) {
        let (now, all, seed) = (self.now, self.all(), self.random.next());
        let host = self.host(node);
        if host.nodes.is_some() {
            return;
        }
        host.run += 1;
        let config = DetectionConfig {
            own: actor(node, host.run),
            dead_after: DEAD_AFTER,
            seed,
        };
        let mut nodes = Nodes::new(now, &config);
        let mut outputs = Vec::new();
        nodes.set_nodes(now, &all, &mut outputs);
        for other in all.iter().filter(|other| other.0 != node) {
            nodes.set_linked(now, *other, true, &mut outputs);
        }
        host.nodes = Some(nodes);
        self.put(node, outputs);
    }

    pub(super) fn kill(&mut self, node: u64) {
        let host = self.host(node);
        host.nodes = None;
        host.writing.clear();
        host.handing = None;
    }

    pub(super) fn stop(&mut self, node: u64) {
        self.with(node, |nodes, now, outputs| nodes.stop(now, outputs));
    }

    pub(super) fn rely_on_links(&mut self, node: u64) {
        self.with(node, |nodes, _, _| nodes.rely_on_links());
    }

    pub(super) fn unlink(&mut self, node: u64, other: u64) {
        self.with(node, |nodes, now, outputs| {
            nodes.set_linked(now, NodeId(other), false, outputs);
        });
    }

    pub(super) fn link(&mut self, node: u64, other: u64) {
        self.with(node, |nodes, now, outputs| {
            nodes.set_linked(now, NodeId(other), true, outputs);
        });
    }

    pub(super) fn pause(&mut self, node: u64, how_long: Duration) {
        self.host(node).still_until = self.now + how_long;
    }

    pub(super) fn cut(&mut self, from: u64, to: u64) {
        self.cut.insert((from, to));
    }

    pub(super) fn split(&mut self, sides: &[Vec<u64>]) {
        self.cut.clear();
        for side in sides {
            for other in sides.iter().filter(|other| *other != side).flatten() {
                self.cut.extend(side.iter().map(|node| (*node, *other)));
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    /// What a node has become, as one sees it, since all was forgotten.
    pub(super) fn states_of(&self, seen_by: u64, node: u64) -> Vec<NodeState> {
        let changes = self.hosts[seen_by as usize - 1].changes.iter();
        let of_node = changes.filter(|change| change.node == NodeId(node));
        of_node.map(|change| change.to).collect()
    }

    /// Word that told of a running node's state.
    pub(super) fn state_word(&mut self, node: u64) -> Word {
        let nodes = self.host(node).nodes.as_ref();
        nodes.expect("it runs").state_word()
    }

    pub(super) fn forget(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.changes.clear());
    }

    pub(super) fn pass(&mut self, how_long: Duration) {
        let end = self.now + how_long;
        loop {
            self.step();
            if self.now >= end {
                return;
            }
            self.now += TICK;
        }
    }

    /// Everything works, and everybody runs in the end.
    pub(super) fn calm(&mut self) {
        self.cut.clear();
        self.lossy = 0;
        let end = self.now + CALM_MAX;
        for node in 1..=self.hosts.len() as u64 {
            self.host(node).still_until = self.now;
            self.start(node);
        }
        while !self.is_calm() {
            assert!(self.now < end, "it does not become calm: {}", self.standings());
            self.now += TICK;
            self.step();
        }
    }

    /// All is well again, and a node that is stopped has left. Then it starts anew.
    pub(super) fn leave(&mut self, node: u64) {
        self.cut.clear();
        self.lossy = 0;
        let end = self.now + CALM_MAX;
        for other in 1..=self.hosts.len() as u64 {
            self.host(other).still_until = self.now;
            self.start(other);
        }
        self.stop(node);
        let has_left = |host: &Host| {
            let nodes = host.nodes.as_ref();
            nodes.is_some_and(|nodes| nodes.state() == NodeState::NotJoined)
        };
        while !has_left(self.host(node)) {
            assert!(self.now < end, "it does not leave: {}", self.standings());
            self.now += TICK;
            self.step();
        }
        self.kill(node);
    }

    fn is_calm(&self) -> bool {
        let count = self.hosts.len();
        self.hosts.iter().all(|host| {
            let responsible = host.nodes.as_ref().map(|nodes| owners(nodes, false).len());
            host.writing.is_empty() && responsible == Some(count)
        })
    }

    fn standings(&self) -> String {
        let hosts = self.hosts.iter().filter_map(|host| host.nodes.as_ref());
        hosts.map(|nodes| format!("\n{nodes:?}")).collect()
    }

    /// Everything that was acknowledged is everywhere. How much that is.
    pub(super) fn check(&self, seed: u64) -> usize {
        for (index, host) in self.hosts.iter().enumerate() {
            let missing: Vec<&u64> = self.acknowledged.difference(&host.facts).collect();
            assert!(
                missing.is_empty(),
                "seed {seed}: node {} lacks {missing:?}",
                index + 1
            );
        }
        self.acknowledged.len()
    }

    /// So many bad things happen, one after the other.
    pub(super) fn storm(&mut self, things: usize) {
        for _ in 0..things {
            self.worsen();
            let millis = self.random.between(20, 5_000) as u64;
            self.pass(Duration::from_millis(millis));
        }
    }

    fn worsen(&mut self) {
        let count = self.hosts.len();
        let node = self.random.between(1, count + 1) as u64;
        match self.random.between(0, 12) {
            0 | 1 => self.kill(node),
            2..5 => self.start(node),
            5 | 6 => {
                let mut sides = vec![Vec::new(); 3];
                for node in 1..=count as u64 {
                    sides[self.random.between(0, 3)].push(node);
                }
                self.split(&sides);
            }
            7 => {
                let other = self.random.between(1, count + 1) as u64;
                self.cut(node, other);
            }
            8 | 9 => self.heal(),
            10 => {
                let millis = self.random.between(100, 8_000) as u64;
                self.pause(node, Duration::from_millis(millis));
            }
            _ => self.lossy = [0, 3, 20][self.random.between(0, 3)],
        }
    }

    fn step(&mut self) {
        self.ticks += 1;
        while let Some(entry) = self
            .on_its_way
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now)
        {
            let (from, to, message) = entry.remove();
            self.deliver(from, to, message);
        }
        for node in 1..=self.hosts.len() as u64 {
            let still_until = self.host(node).still_until;
            if still_until <= self.now {
                self.with(node, |nodes, now, outputs| {
                    if nodes.deadline().is_some_and(|deadline| deadline <= now) {
                        nodes.tick(now, outputs);
                    }
                });
                self.write(node);
                self.hand_over(node);
            }
        }
    }

    fn with(&mut self, node: u64, call: impl FnOnce(&mut Nodes, Instant, &mut Vec<NodesOutput>)) {
        let (now, mut outputs) = (self.now, Vec::new());
        if let Some(nodes) = &mut self.host(node).nodes {
            call(nodes, now, &mut outputs);
        }
        self.put(node, outputs);
    }

    fn put(&mut self, from: u64, outputs: Vec<NodesOutput>) {
        for output in outputs {
            match output {
                NodesOutput::Send(to, bytes) => self.send(from, to.0, Message::Nodes(bytes)),
                NodesOutput::Changed(change) => self.host(from).changes.push(change),
            }
        }
    }

    fn send(&mut self, from: u64, to: u64, message: Message) {
        let is_lost = self.lossy > 0 && self.random.between(0, self.lossy) == 0;
        if is_lost || self.cut.contains(&(from, to)) {
            return;
        }
        self.numbers += 1;
        let millis = self.random.between(0, 30) as u64;
        let at = self.now + Duration::from_millis(millis);
        self.on_its_way.insert((at, self.numbers), (from, to, message));
    }

    fn deliver(&mut self, from: u64, to: u64, message: Message) {
        let still_until = self.host(to).still_until;
        if still_until > self.now {
            self.numbers += 1;
            self.on_its_way
                .insert((still_until, self.numbers), (from, to, message));
            return;
        }
        let host = self.host(to);
        if host.nodes.is_none() {
            return;
        }
        match message {
            Message::Nodes(bytes) => self.with(to, |nodes, now, outputs| {
                let heard = nodes.hear(now, NodeId(from), bytes, outputs);
                heard.expect("messages arrive as they were sent");
            }),
            Message::Fact(fact) => {
                host.facts.insert(fact);
                self.send(to, from, Message::HasFact(fact));
            }
            Message::HasFact(fact) => {
                if let Some(lacking) = host.writing.get_mut(&fact) {
                    lacking.remove(&from);
                }
            }
            Message::Give(number, facts) => {
                host.facts.extend(facts);
                let own = host.facts.clone();
                self.send(to, from, Message::Given(number, own));
            }
            Message::Given(number, facts) => {
                host.facts.extend(facts);
                if let Some((_, of, answered)) = &mut host.handing
                    && *of == number
                {
                    answered.insert(from);
                }
            }
        }
    }

    /// R1: what is written goes to all who are responsible or will be; to those who are neither any more it need not.
    fn write(&mut self, node: u64) {
        self.numbers += 1;
        let (fact, is_new) = (self.numbers, self.random.between(0, 40) == 0);
        let host = self.host(node);
        let Some(nodes) = &host.nodes else { return };
        let owners = owners(nodes, true);
        if is_new && nodes.state() == NodeState::Running {
            host.facts.insert(fact);
            let others = owners.iter().copied().filter(|owner| *owner != node);
            host.writing.insert(fact, others.collect());
        }
        let mut sending = Vec::new();
        let mut done = Vec::new();
        for (fact, lacking) in &mut host.writing {
            lacking.retain(|owner| owners.contains(owner));
            sending.extend(lacking.iter().map(|owner| (*owner, *fact)));
            if lacking.is_empty() {
                done.push(*fact);
            }
        }
        for fact in &done {
            host.writing.remove(fact);
        }
        self.acknowledged.extend(done);
        if !(is_new || self.ticks.is_multiple_of(AGAIN_EVERY)) {
            return;
        }
        for (to, fact) in sending {
            self.send(node, to, Message::Fact(fact));
        }
    }

    /// R2 to R4: what is to be handed over is, both ways.
    fn hand_over(&mut self, node: u64) {
        self.numbers += 1;
        let number = self.numbers;
        let host = self.host(node);
        let Some(nodes) = &host.nodes else { return };
        let Some(due) = nodes.to_hand_over() else {
            host.handing = None;
            return;
        };
        let mut owners = owners(nodes, due.state != NodeState::MergeMinority);
        owners.remove(&node);
        let handing = host.handing.take().filter(|(handover, _, _)| *handover == due);
        let (_, number, mut answered) = handing.unwrap_or_else(|| (due, number, BTreeSet::new()));
        answered.retain(|owner| owners.contains(owner));
        let lacking: Vec<u64> = owners.difference(&answered).copied().collect();
        if lacking.is_empty() {
            self.with(node, |nodes, now, outputs| nodes.handed_over(now, due, outputs));
            return;
        }
        let facts = host.facts.clone();
        host.handing = Some((due, number, answered));
        if number == self.numbers || self.ticks.is_multiple_of(AGAIN_EVERY) {
            for to in lacking {
                self.send(node, to, Message::Give(number, facts.clone()));
            }
        }
    }
}

fn owners(nodes: &Nodes, with_minority: bool) -> BTreeSet<u64> {
    let standings = nodes.standings().into_iter();
    let owners = standings.filter(|standing| {
        standing.state.is_in_primary() || with_minority && standing.state.is_in_minority()
    });
    owners.map(|standing| standing.node.0).collect()
}
