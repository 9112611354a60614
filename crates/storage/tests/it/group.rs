//! Replicas of one group, each on a disk that can crash, with a network between them that can lose everything.
//!
//! Nothing happens by itself: a test delivers messages, lets disks finish, and moves the time. What must never happen is
//! checked at every step: two leaders in a term, two different entries applied at an index, a read that misses something.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::random::Random;
use cluster::replica::record::LogPoint;
use cluster::replica::{Event, Members, MessageError, Missing, ReadId, Refusal, Request, Ticket};
use cluster::{Action, GroupId, Index, NodeId, Replica, ReplicaConfig, Term, Write};
use storage::{SimulatedDisk, Storage as _, recover_group};

pub(crate) const GROUP: GroupId = GroupId(3);

/// One node of the group.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) disk: SimulatedDisk,
    /// None while it is down.
    pub(crate) replica: Option<Replica>,
    pub(crate) applied: Vec<(Index, Bytes)>,
    /// The state machine as its last snapshot holds it.
    snapshot: Option<(LogPoint, Vec<(Index, Bytes)>)>,
    /// One that came from another node and is not durable yet.
    incoming: Option<(LogPoint, Vec<(Index, Bytes)>)>,
    keeping: Option<LogPoint>,
    pub(crate) restored: u64,
    /// Written and not yet synced, or not even written.
    persists: VecDeque<(Ticket, Vec<Write>)>,
    pub(crate) refused: Vec<(Request, Refusal)>,
    starts: u64,
}

/// A snapshot that one node sends to another.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    point: LogPoint,
    members: Members,
    applied: Vec<(Index, Bytes)>,
}

/// All nodes, what is on the way between them, and what is known to be decided.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) now: Instant,
    pub(crate) members: BTreeMap<NodeId, Member>,
    wire: Vec<(NodeId, NodeId, Bytes)>,
    /// Messages that were ever on it.
    pub(crate) sent: usize,
    /// Snapshots on the way, with the record of who votes.
    offers: Vec<(NodeId, NodeId, Offer)>,
    /// Pairs that cannot reach each other.
    cut: BTreeSet<(NodeId, NodeId)>,
    pub(crate) random: Random,
    config: fn(&mut ReplicaConfig),
    /// Who voted first.
    founders: Vec<NodeId>,
    decided: BTreeMap<Index, (Term, Bytes)>,
    leaders: BTreeMap<Term, NodeId>,
    /// Who takes part from each index on, as somebody has applied it.
    changes: BTreeMap<Index, Members>,
    /// Reads on the way, and the newest index decided when they were asked.
    reads: BTreeMap<ReadId, Index>,
    pub(crate) reads_served: u64,
    /// Logs that end too early: who says so, of which node.
    pub(crate) missing: Vec<(NodeId, NodeId, Missing)>,
}

impl Group {
    pub(crate) fn new(size: u64, seed: u64) -> Group {
        Group::with_config(size, seed, |_| {})
    }

    pub(crate) fn with_config(size: u64, seed: u64, config: fn(&mut ReplicaConfig)) -> Group {
        let mut group = Group {
            now: origin(),
            members: BTreeMap::new(),
            wire: Vec::new(),
            sent: 0,
            offers: Vec::new(),
            cut: BTreeSet::new(),
            random: Random::new(seed),
            config,
            founders: (1..=size).map(NodeId).collect(),
            decided: BTreeMap::new(),
            leaders: BTreeMap::new(),
            changes: BTreeMap::new(),
            reads: BTreeMap::new(),
            reads_served: 0,
            missing: Vec::new(),
        };
        for node in (1..=size).map(NodeId) {
            group.add_disk(node);
        }
        for node in group.nodes() {
            group.start(node);
        }
        group
    }

    /// A new node starts, and knows only who founded the group.
    pub(crate) fn add(&mut self, node: NodeId) {
        self.add_disk(node);
        self.start(node);
    }

    fn add_disk(&mut self, node: NodeId) {
        let disk = SimulatedDisk::new(self.random.next());
        let member = Member {
            disk,
            replica: None,
            applied: Vec::new(),
            snapshot: None,
            incoming: None,
            keeping: None,
            restored: 0,
            persists: VecDeque::new(),
            refused: Vec::new(),
            starts: 0,
        };
        self.members.insert(node, member);
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.members.keys().copied().collect()
    }

    pub(crate) fn member(&self, node: NodeId) -> &Member {
        &self.members[&node]
    }

    fn member_mut(&mut self, node: NodeId) -> &mut Member {
        self.members.get_mut(&node).unwrap()
    }

    pub(crate) fn replica(&self, node: NodeId) -> &Replica {
        self.member(node).replica.as_ref().unwrap()
    }

    /// The node that leads in the newest term, if one does.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let leaders = self.members.iter().filter_map(|(node, member)| {
            let replica = member.replica.as_ref().filter(|replica| replica.is_leader())?;
            Some((replica.term(), *node))
        });
        leaders.max().map(|(_, node)| node)
    }

    /// Starts a node from what is on its disk.
    pub(crate) fn start(&mut self, node: NodeId) {
        let mut config = ReplicaConfig::new(GROUP, node, self.founders.clone(), self.random.next());
        (self.config)(&mut config);
        let now = self.now;
        let member = self.member_mut(node);
        assert!(member.replica.is_none(), "it runs already");
        let snapshot = member.snapshot.clone();
        let recovered =
            recover_group(&member.disk, GROUP, snapshot.as_ref().map(|(point, _)| *point)).unwrap();
        member.applied = snapshot.map_or(Vec::new(), |(_, applied)| applied);
        member.starts += 1;
        let mut actions = Vec::new();
        member.replica = Some(Replica::new(now, config, recovered, &mut actions).unwrap());
        self.execute(node, actions);
    }

    /// Stops a node without a word; its disk loses some of what was not synced.
    pub(crate) fn crash(&mut self, node: NodeId) {
        let member = self.member_mut(node);
        member.replica = None;
        (member.incoming, member.keeping) = (None, None);
        let unwritten = member.persists.drain(..).collect::<Vec<_>>();
        for (_, writes) in unwritten {
            member.disk.write(&writes).unwrap();
        }
        member.disk.crash();
    }

    /// The same, and nothing of what was on its way has reached the disk.
    pub(crate) fn crash_hard(&mut self, node: NodeId) {
        self.member_mut(node).persists.clear();
        self.crash(node);
    }

    /// Stops a node, and starts it with another disk.
    pub(crate) fn start_with_disk(&mut self, node: NodeId, disk: SimulatedDisk) {
        self.crash(node);
        self.member_mut(node).disk = disk;
        self.start(node);
    }

    /// Settles until the node has applied a change of members whose record is not on its disk.
    pub(crate) fn settle_but_for_members(&mut self, node: NodeId) {
        let before = self.changes.len();
        for _ in 0..100 {
            for other in self.nodes() {
                if self.changes.len() == before {
                    self.sync(other);
                }
            }
            for (from, to, bytes) in std::mem::take(&mut self.wire) {
                self.deliver(from, to, bytes);
            }
            if self.changes.len() > before && !self.member(node).persists.is_empty() {
                return;
            }
        }
        panic!("nothing changes");
    }

    pub(crate) fn step(&mut self, node: NodeId, event: Event) {
        let now = self.now;
        let Some(replica) = self.member_mut(node).replica.as_mut() else {
            return;
        };
        let mut actions = Vec::new();
        replica.step(now, event, &mut actions);
        if replica.has_news() {
            replica.step(now, Event::Flush, &mut actions);
        }
        self.execute(node, actions);
    }

    /// A step whose actions nobody sees: only a panic matters.
    pub(crate) fn step_unchecked(&mut self, node: NodeId, event: Event) {
        let now = self.now;
        let Some(replica) = self.member_mut(node).replica.as_mut() else {
            return;
        };
        let mut actions = Vec::new();
        replica.step(now, event, &mut actions);
        for action in actions {
            if let Action::Persist { ticket, .. } = action {
                self.step_unchecked(node, Event::Persisted { ticket });
            }
        }
    }

    pub(crate) fn propose(&mut self, node: NodeId, data: impl Into<Bytes>) {
        self.step(node, Event::Propose { data: data.into() });
    }

    pub(crate) fn read(&mut self, node: NodeId) -> ReadId {
        let read = ReadId(self.random.next());
        let newest = self
            .decided
            .last_key_value()
            .map_or(Index::ZERO, |(index, _)| *index);
        self.reads.insert(read, newest);
        self.step(node, Event::Read { read });
        read
    }

    /// The node's disk finishes what it was given, with one sync.
    pub(crate) fn sync(&mut self, node: NodeId) {
        let member = self.member_mut(node);
        if member.replica.is_none() {
            return;
        }
        let mut last = None;
        for (ticket, writes) in member.persists.drain(..) {
            member.disk.write(&writes).unwrap();
            last = Some(ticket);
        }
        let Some(ticket) = last else { return };
        member.disk.sync().unwrap();
        self.step(node, Event::Persisted { ticket });
    }

    /// Remembers the state machine of a node as a snapshot.
    pub(crate) fn take_snapshot(&mut self, node: NodeId) {
        let member = self.member_mut(node);
        let Some(replica) = &member.replica else { return };
        let point = replica.applied();
        member.snapshot = Some((point, member.applied.clone()));
        self.step(
            node,
            Event::SnapshotTaken {
                index: point.index,
                term: point.term,
            },
        );
    }

    /// Nothing passes between the nodes of `one` and all others.
    pub(crate) fn partition(&mut self, one: &[NodeId]) {
        for inside in one {
            for outside in self.nodes().into_iter().filter(|node| !one.contains(node)) {
                self.cut.insert((*inside, outside));
                self.cut.insert((outside, *inside));
            }
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    /// Delivers messages and finishes syncs until nothing is on the way.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            for node in self.nodes() {
                self.sync(node);
            }
            let on_disk = self.members.values().all(|member| member.persists.is_empty());
            if self.wire.is_empty() && self.offers.is_empty() && on_disk {
                return;
            }
            while !self.offers.is_empty() {
                self.deliver_offer(0);
            }
            for node in self.nodes() {
                self.keep(node);
            }
            for (from, to, bytes) in std::mem::take(&mut self.wire) {
                self.deliver(from, to, bytes);
            }
        }
        panic!("the group talks without end");
    }

    /// Moves the time from one deadline to the next, settling at each.
    pub(crate) fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            for node in self.nodes() {
                self.timeout_if_due(node);
            }
            self.settle();
        }
        self.now = end;
    }

    /// Moves the time to the next deadline, and delivers one message at a time until `is_enough`.
    pub(crate) fn advance_until(&mut self, is_enough: impl Fn(&Group) -> bool) {
        while !is_enough(self) {
            if self.wire.is_empty() {
                let deadline = self.next_deadline().expect("somebody waits");
                self.now = self.now.max(deadline);
                self.nodes()
                    .into_iter()
                    .for_each(|node| self.timeout_if_due(node));
            } else {
                let (from, to, bytes) = self.wire.remove(0);
                self.deliver(from, to, bytes);
            }
            if !is_enough(self) {
                self.nodes().into_iter().for_each(|node| self.sync(node));
            }
        }
    }

    /// Until some node leads.
    pub(crate) fn elect(&mut self) -> NodeId {
        for _ in 0..100 {
            self.advance(Duration::from_millis(100));
            if let Some(leader) = self.leader() {
                return leader;
            }
        }
        panic!("nobody was elected within ten seconds: {self:#?}");
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.members
            .values()
            .filter_map(|member| member.replica.as_ref()?.deadline())
            .min()
    }

    pub(crate) fn timeout_if_due(&mut self, node: NodeId) {
        let due = self.member(node).replica.as_ref().and_then(Replica::deadline);
        if due.is_some_and(|due| due <= self.now) {
            self.step(node, Event::Timeout);
        }
    }

    /// Delivers, doubles, delays or loses one message.
    pub(crate) fn disturb_wire(&mut self) {
        if self.wire.is_empty() {
            return;
        }
        let position = self.random.between(0, self.wire.len());
        let (from, to, bytes) = self.wire.swap_remove(position);
        match self.random.between(0, 20) {
            0 => {}
            1 => {
                self.wire.push((from, to, bytes.clone()));
                self.deliver(from, to, bytes);
            }
            _ => self.deliver(from, to, bytes),
        }
    }

    /// Delivers or loses one snapshot.
    pub(crate) fn disturb_offers(&mut self) {
        let node = NodeId(self.random.between(1, self.members.len() + 1) as u64);
        self.keep(node);
        if self.offers.is_empty() {
            return;
        }
        let position = self.random.between(0, self.offers.len());
        match self.random.between(0, 5) {
            0 => drop(self.offers.swap_remove(position)),
            1 => {
                let doubled = self.offers[position].clone();
                self.offers.push(doubled);
            }
            _ => self.deliver_offer(position),
        }
    }

    fn deliver_offer(&mut self, position: usize) {
        let (from, to, offer) = self.offers.swap_remove(position);
        let LogPoint { index, term } = offer.point;
        let is_cut = self.cut.contains(&(from, to));
        let Some(replica) = self.member(to).replica.as_ref().filter(|_| !is_cut) else {
            return;
        };
        if !replica.lacks(index, term) {
            return self.step(to, Event::SnapshotOffered { index, term });
        }
        let incoming = &self.member(to).incoming;
        if incoming.as_ref().is_some_and(|(point, _)| point.index >= index) {
            return;
        }
        self.member_mut(to).incoming = Some((offer.point, offer.applied));
        let members = offer.members;
        self.step(to, Event::SnapshotReceived { index, term, members });
    }

    /// The snapshot that a node was given is durable, if its replica wants that.
    pub(crate) fn keep(&mut self, node: NodeId) {
        let member = self.member_mut(node);
        let Some((point, true)) = member.keeping.take().map(|point| {
            let is_there = member.incoming.as_ref().is_some_and(|(of, _)| *of == point);
            (point, is_there)
        }) else {
            return;
        };
        member.snapshot.clone_from(&member.incoming);
        let LogPoint { index, term } = point;
        self.step(node, Event::SnapshotKept { index, term });
    }

    pub(crate) fn take_wire(&mut self) -> Vec<(NodeId, NodeId, Bytes)> {
        std::mem::take(&mut self.wire)
    }

    /// What was applied anywhere, in order.
    pub(crate) fn decided(&self) -> Vec<Bytes> {
        self.decided.values().map(|(_, data)| data.clone()).collect()
    }

    /// What a node has applied since it began, and what its snapshot had.
    pub(crate) fn applied_by(&self, node: NodeId) -> Vec<Bytes> {
        let applied = self.member(node).applied.iter();
        applied.map(|(_, data)| data.clone()).collect()
    }

    pub(crate) fn others(&self, node: NodeId) -> Vec<NodeId> {
        self.nodes().into_iter().filter(|other| *other != node).collect()
    }

    /// All disturbances are over: everybody is there, somebody leads, and can still decide something.
    pub(crate) fn make_peace(&mut self) -> NodeId {
        self.heal();
        for node in self.nodes() {
            self.start_if_down(node);
        }
        self.settle();
        self.advance(Duration::from_secs(5));
        let leader = self.leader().expect("somebody leads after the peace");
        self.propose(leader, LAST_ENTRY);
        self.settle();
        self.advance(Duration::from_secs(1));
        assert_eq!(self.decided().last().unwrap(), LAST_ENTRY);
        leader
    }

    pub(crate) fn crash_if_up(&mut self, node: NodeId) {
        if self.member(node).replica.is_some() {
            self.crash(node);
        }
    }

    pub(crate) fn start_if_down(&mut self, node: NodeId) {
        if self.member(node).replica.is_none() {
            self.start(node);
        }
    }

    /// One of the things that may go wrong at any time, to this node or on the wire. `what`: one of a hundred.
    pub(crate) fn disturb(&mut self, node: NodeId, what: usize) {
        match what {
            0 => self.crash_if_up(node),
            1..=3 => self.start_if_down(node),
            4 => self.partition(&[node]),
            5..=8 => self.heal(),
            9..=25 => self.sync(node),
            26..=28 => self.disturb_offers(),
            29 => self.take_snapshot(node),
            30..=46 => {
                self.now += Duration::from_millis(self.random.between(1, 120) as u64);
                self.timeout_if_due(node);
            }
            _ => (0..4).for_each(|_| self.disturb_wire()),
        }
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        if !self.cut.contains(&(from, to)) && self.members.contains_key(&to) {
            self.step(to, Event::Message { from, bytes });
        }
    }

    fn execute(&mut self, node: NodeId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Persist { ticket, writes } => {
                    self.member_mut(node).persists.push_back((ticket, writes));
                }
                Action::Apply { index, term, data } => self.applied(node, index, term, data),
                Action::ReadReady { read, index } => {
                    let newest = self.reads.remove(&read).expect("a read is answered once");
                    assert!(newest <= index, "the read at {index} misses {newest}");
                    self.reads_served += 1;
                }
                Action::Refused { request, refusal } => {
                    if let Request::Read { read } = request {
                        self.reads.remove(&read).expect("a read is answered once");
                    }
                    self.member_mut(node).refused.push((request, refusal));
                }
                Action::Send { to, message } => {
                    self.sent += 1;
                    self.wire.push((node, to, message.into_bytes()));
                }
                Action::Leadership { leader, term } => {
                    if leader == Some(node) {
                        let first = *self.leaders.entry(term).or_insert(node);
                        assert_eq!(first, node, "two leaders in term {term}");
                    }
                }
                Action::Members { members } => self.member_changed(node, &members),
                // Answers to a replica that took no part any more, or not yet.
                Action::Dropped {
                    error: MessageError::Stranger,
                    ..
                } => {}
                Action::OfferSnapshot { to } => self.offer(node, to),
                Action::KeepSnapshot { index, term } => {
                    self.member_mut(node).keeping = Some(LogPoint { index, term });
                }
                Action::Restored { index, .. } => {
                    let member = self.member_mut(node);
                    let (point, applied) = member.incoming.take().expect("it was kept");
                    assert_eq!(point.index, index);
                    member.applied = applied;
                    member.restored += 1;
                }
                Action::SnapshotUnneeded { index } => {
                    let member = self.member_mut(node);
                    member.incoming.take_if(|(point, _)| point.index == index);
                }
                Action::Missing { node: of, missing } => {
                    self.missing.push((node, of.unwrap_or(node), missing));
                }
                Action::Dropped { from, error } => panic!("{node} dropped a message of {from}: {error}"),
            }
        }
    }

    fn member_changed(&mut self, node: NodeId, members: &Members) {
        let first = self
            .changes
            .entry(members.index)
            .or_insert_with(|| members.clone());
        assert_eq!(first, members, "{node} applies another change");
    }

    fn offer(&mut self, from: NodeId, to: NodeId) {
        let replica = self.replica(from);
        let offer = Offer {
            point: replica.applied(),
            members: replica.members().clone(),
            applied: self.member(from).applied.clone(),
        };
        self.offers.push((from, to, offer));
    }

    fn applied(&mut self, node: NodeId, index: Index, term: Term, data: Bytes) {
        let first = self.decided.entry(index).or_insert_with(|| (term, data.clone()));
        assert_eq!(
            *first,
            (term, data.clone()),
            "{node} applies something else at {index}"
        );
        let applied = &mut self.member_mut(node).applied;
        assert!(
            applied.last().is_none_or(|(last, _)| *last < index),
            "{node} applies {index} again"
        );
        applied.push((index, data));
    }
}

/// What is decided in the end of a disturbance.
const LAST_ENTRY: &str = "the last one";

/// How many seeds a test of disturbances plays.
pub(crate) fn seeds() -> u64 {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    seeds.unwrap_or(150)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test needs some instant as its origin"
)]
fn origin() -> Instant {
    Instant::now()
}
