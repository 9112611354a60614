//! Clients that connect to nodes that crash, and the primary owner of their sessions. The world knows since
//! when each session has no connection.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::*;
use crate::queue_limits::QueueValue;
use crate::{
    Change, ConnectionOrder, DecidingNode, Entry, EntryKind, Fact, Interval, SlotEntries, VersionVector,
};

pub(super) const CLIENTS: usize = 3;
/// Nodes of connections. Node 0 is the primary owner.
const NODES: u64 = 3;
const EXPIRY_MAX: u32 = 3;
/// Milliseconds of a claim at most.
const CLAIM_MAX: u64 = 1_000;

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Nothing,
    Expiry(SessionExpiry),
}

impl LifetimeValue for Value {
    fn of_expiry(expiry: SessionExpiry) -> Value {
        Value::Expiry(expiry)
    }

    fn session_expiry(&self) -> Option<SessionExpiry> {
        match self {
            Value::Nothing => None,
            Value::Expiry(expiry) => Some(*expiry),
        }
    }
}

impl QueueValue for Value {
    fn queue_bytes(&self) -> u64 {
        0
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// CONNECT. An older connection ends before, if its node is reached.
    Connect {
        client: usize,
        node: u64,
        expiry: SessionExpiry,
    },
    /// CONNECT on another side of a split: an older connection stays open.
    TakeOver {
        client: usize,
        node: u64,
        expiry: SessionExpiry,
    },
    /// A CONNECT that gets no session.
    Claim {
        client: usize,
        node: u64,
    },
    /// Connections without a session end.
    Fail {
        client: usize,
    },
    /// The client leaves, with another interval perhaps.
    Close {
        client: usize,
        said: Option<SessionExpiry>,
    },
    /// An older connection closes, on another side of a split.
    CloseStale {
        client: usize,
        said: SessionExpiry,
    },
    Crash {
        node: u64,
    },
    /// The owner gives up a node, whether or not it has crashed.
    GiveUp {
        node: u64,
    },
    /// The owner comes to know the present run of a node.
    Meet {
        node: u64,
    },
    Wait {
        millis: u64,
    },
    /// The owner decides about the slots, or does not.
    Decide(bool),
    Tick,
    /// The owner writes what it was asked for.
    Write,
}

impl Step {
    pub(super) fn connect(client: usize, node: u64, seconds: u32) -> Step {
        let expiry = SessionExpiry::of_seconds(seconds);
        Step::Connect { client, node, expiry }
    }
}

fn expiries() -> impl Strategy<Value = SessionExpiry> {
    prop_oneof![
        4 => (0..=EXPIRY_MAX).prop_map(SessionExpiry::of_seconds),
        1 => Just(SessionExpiry::NEVER),
    ]
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..CLIENTS;
    let node = || 1..=NODES;
    let step = prop_oneof![
        6 => (client(), node(), expiries())
            .prop_map(|(client, node, expiry)| Step::Connect { client, node, expiry }),
        2 => (client(), node(), expiries())
            .prop_map(|(client, node, expiry)| Step::TakeOver { client, node, expiry }),
        2 => (client(), node()).prop_map(|(client, node)| Step::Claim { client, node }),
        2 => client().prop_map(|client| Step::Fail { client }),
        4 => (client(), proptest::option::of(expiries()))
            .prop_map(|(client, said)| Step::Close { client, said }),
        2 => (client(), expiries()).prop_map(|(client, said)| Step::CloseStale { client, said }),
        2 => node().prop_map(|node| Step::Crash { node }),
        2 => node().prop_map(|node| Step::GiveUp { node }),
        3 => node().prop_map(|node| Step::Meet { node }),
        6 => (0..2_500_u64).prop_map(|millis| Step::Wait { millis }),
        2 => any::<bool>().prop_map(Step::Decide),
        6 => Just(Step::Tick),
        6 => Just(Step::Write),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Session of a client, as it is in truth.
#[derive(Debug, Clone, Default)]
struct Truth {
    /// Event of the connection that has the session.
    holder: Option<Dot>,
    /// Older connections that are open: a later CONNECT has not reached their nodes.
    stale: BTreeSet<Dot>,
    /// Clock of the last connection that had the session.
    connected: Option<Hlc>,
    /// Expiry that the last connection has left.
    left: Option<Dot>,
    expiry: Option<SessionExpiry>,
    /// Milliseconds at which the last connection has ended.
    closed_at: u64,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) expiring: Expiring,
    state: State,
    wall: u64,
    clock: Hlc,
    last: BTreeMap<Run, u64>,
    runs: BTreeMap<u64, Run>,
    truths: Vec<Truth>,
    /// Asked for, and not written.
    waiting: Vec<Asked>,
    /// Connections whose nodes were asked to end them.
    released: BTreeSet<Dot>,
}

/// Action that waits to be written.
#[derive(Debug)]
struct Asked {
    client: usize,
    action: ExpiringAction,
    /// Entries that say that the session exists, as of then.
    ended: BTreeSet<Dot>,
    /// Clock of the last one.
    latest: Option<Hlc>,
}

/// Copy of the owner, and what it knows of runs.
#[derive(Debug)]
struct State {
    entries: SlotEntries<Value>,
    covered: VersionVector,
    met: BTreeMap<NodeId, Run>,
    /// Latest run of each node that was met, or that has made an event.
    heard: BTreeMap<NodeId, Run>,
    /// Runs that were given up.
    absent: BTreeSet<Run>,
    decides: bool,
}

impl State {
    fn hear(&mut self, run: Run) {
        let heard = self.heard.entry(run.node).or_insert(run);
        *heard = run.max(*heard);
    }
}

impl DecidingNode for State {
    fn decides(&self, _: Slot) -> bool {
        self.decides
    }
}

impl ExpiryState for State {
    fn clients(&self) -> Vec<ClientId> {
        let clients = self.entries.sessions().map(|(client, _)| client.clone());
        clients.filter(|_| self.decides).collect()
    }

    fn clients_of(&self, slot: Slot) -> Vec<ClientId> {
        let mut clients = self.clients();
        clients.retain(|client| Slot::of_client(client.as_bytes()) == slot);
        clients
    }

    fn lifetime(&self, client: &ClientId) -> Lifetime {
        let session = self.entries.session(client.as_bytes());
        let covers = |dot| self.covered.covers(dot);
        session.map_or_else(Lifetime::default, |session| known_lifetime(session, covers))
    }

    fn run_state(&self, run: Run) -> RunState {
        match self.met.get(&run.node) {
            _ if self.heard.get(&run.node).is_some_and(|heard| *heard > run) => RunState::Ended,
            Some(met) if *met == run && !self.absent.contains(&run) => RunState::Present,
            _ => RunState::Absent,
        }
    }
}

fn number_of(id: &ClientId) -> usize {
    let client = (0..CLIENTS).find(|client| client_id(*client) == *id);
    client.expect("a client")
}

fn client_id(client: usize) -> ClientId {
    ClientId::new(format!("press-{client}").as_bytes()).expect("short")
}

impl World {
    pub(super) fn new() -> World {
        let runs: BTreeMap<u64, Run> = (0..=NODES).map(|node| (node, run(node))).collect();
        let met = runs.values().map(|run| (run.node, *run)).collect();
        World {
            expiring: Expiring::new(ExpiringLimits {
                ending_max: 1,
                claim_max: Duration::from_millis(CLAIM_MAX),
            }),
            state: State {
                entries: SlotEntries::default(),
                covered: VersionVector::default(),
                met,
                heard: BTreeMap::new(),
                absent: BTreeSet::new(),
                decides: true,
            },
            wall: 1_000_000,
            clock: Hlc::ZERO,
            last: BTreeMap::new(),
            runs,
            truths: vec![Truth::default(); CLIENTS],
            waiting: Vec::new(),
            released: BTreeSet::new(),
        }
    }

    fn now(&self) -> Now {
        Now {
            monotonic: *ORIGIN + Duration::from_millis(self.wall),
            wall: self.wall,
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Connect { client, node, expiry } => {
                self.release_older(*client);
                self.connect(*client, *node, *expiry);
            }
            Step::TakeOver { client, node, expiry } => self.connect(*client, *node, *expiry),
            Step::Claim { client, node } => {
                self.make(*client, *node, Fact::Connection, BTreeSet::new(), Value::Nothing);
            }
            Step::Fail { client } => self.fail(*client),
            Step::Close { client, said } => self.close(*client, *said),
            Step::CloseStale { client, said } => self.close_stale(*client, *said),
            Step::Crash { node } => self.crash(*node),
            Step::GiveUp { node } => {
                self.state.absent.extend(self.state.met.get(&NodeId(*node)));
                self.tell(ExpiringEvent::RingChanged);
            }
            Step::Meet { node } => {
                let run = self.runs[node];
                self.state.absent.remove(&run);
                self.state.hear(run);
                self.state.met.insert(run.node, run);
                self.tell(ExpiringEvent::RingChanged);
            }
            Step::Wait { millis } => self.wait(*millis),
            Step::Decide(decides) => {
                self.state.decides = *decides;
                let slots = (0..CLIENTS).map(|client| Slot::of_client(client_id(client).as_bytes()));
                for slot in slots.collect::<BTreeSet<Slot>>() {
                    self.tell(ExpiringEvent::CopyChanged { slot });
                }
            }
            Step::Tick => self.tick(),
            Step::Write => self.write(),
        }
    }

    fn tell(&mut self, event: ExpiringEvent) {
        let now = self.now();
        self.expiring.step(now, event, &self.state);
    }

    fn tick(&mut self) {
        let now = self.now();
        let mut actions = Vec::new();
        self.expiring.tick(now, &self.state, &mut actions);
        assert!(
            actions.len() <= 1,
            "one client at a time, without wills: {actions:?}"
        );
        assert!(actions.is_empty() || self.state.decides, "it does not decide");
        for action in actions {
            if let ExpiringAction::Release { client, connections } = action {
                self.assert_earlier(number_of(&client), &connections);
                self.released.extend(connections);
                continue;
            }
            let asked = self.ask(action);
            let is_second = |other: &Asked| other.client == asked.client;
            assert!(
                !self.waiting.iter().any(is_second),
                "{:?} and {asked:?}",
                self.waiting
            );
            self.waiting.push(asked);
        }
    }

    /// Connections are earlier than the last one that had the session.
    fn assert_earlier(&self, client: usize, connections: &BTreeSet<Dot>) {
        let truth = &self.truths[client];
        let entries = self.entries(client, EntryKind::Connection).into_iter();
        let mut later = entries.filter(|(_, entry)| Some(entry.clock) >= truth.connected);
        let is_later = later.any(|(dot, _)| connections.contains(&dot));
        assert!(!is_later, "{connections:?} of {truth:?}");
    }

    /// Ends a session as it is now: a CONNECT may resume it before that is written.
    fn ask(&self, action: ExpiringAction) -> Asked {
        let client = number_of(action.client());
        let truth = &self.truths[client];
        let mut ended = BTreeSet::new();
        if let (ExpiringAction::Remove { removes, .. }, None) = (&action, truth.holder) {
            let mut left = truth.left.iter();
            assert!(
                left.all(|left| !removes.contains(left)),
                "{removes:?} of {truth:?}"
            );
        }
        if let ExpiringAction::End { connections, .. } = &action {
            let end = truth.expiry.and_then(|expiry| expiry.end(truth.closed_at));
            let has_passed = end.is_some_and(|end| end <= self.wall);
            assert!(truth.holder.is_none() && has_passed, "{truth:?} at {}", self.wall);
            ended.extend(connections);
            ended.append(&mut self.dots(client, EntryKind::Session));
            ended.append(&mut self.dots(client, EntryKind::Expiry));
        }
        let latest = self.latest(client);
        Asked {
            client,
            action,
            ended,
            latest,
        }
    }

    /// Clock of the last entry of a client's session, or of its expiry.
    fn latest(&self, client: usize) -> Option<Hlc> {
        let kinds = [EntryKind::Session, EntryKind::Expiry].into_iter();
        let entries = kinds.flat_map(|kind| self.entries(client, kind));
        entries.map(|(_, entry)| entry.clock).max()
    }

    /// Entries of a kind of a client.
    fn entries(&self, client: usize, kind: EntryKind) -> Vec<(Dot, Entry<Value>)> {
        let session = self.state.entries.session(client_id(client).as_bytes());
        let entries = session.into_iter().flat_map(|session| session.of_kind(kind));
        entries.map(|(dot, entry)| (dot, entry.clone())).collect()
    }

    fn dots(&self, client: usize, kind: EntryKind) -> BTreeSet<Dot> {
        self.entries(client, kind)
            .into_iter()
            .map(|(dot, _)| dot)
            .collect()
    }

    /// Sessions that count.
    pub(super) fn sessions(&self) -> usize {
        (0..CLIENTS)
            .filter(|client| !self.entries(*client, EntryKind::Session).is_empty())
            .count()
    }

    fn birth(&self, client: usize) -> Option<Birth> {
        self.entries(client, EntryKind::Session)
            .first()
            .map(|(_, entry)| entry.birth)
    }

    /// Makes an event of a node's run.
    fn make(&mut self, client: usize, node: u64, fact: Fact, removes: BTreeSet<Dot>, value: Value) -> Dot {
        let run = self.runs[&node];
        let number = self.last.entry(run).or_default();
        *number += 1;
        let dot = Dot { run, number: *number };
        self.clock = self.clock.next().max(Hlc::at(self.wall));
        let clock = self.clock;
        let own = Birth {
            dot,
            clock,
            is_clean: false,
        };
        let birth = self
            .birth(client)
            .filter(|_| fact != Fact::Connection)
            .unwrap_or(own);
        let adds = Some(Entry {
            birth,
            clock,
            fact,
            value,
        });
        self.apply(client, dot, removes, adds);
        dot
    }

    fn apply(&mut self, client: usize, dot: Dot, removes: BTreeSet<Dot>, adds: Option<Entry<Value>>) {
        let change = Change {
            dot,
            client: client_id(client),
            removes: removes.into_iter().collect(),
            adds,
        };
        self.state
            .entries
            .apply(&self.state.covered, change)
            .expect("room");
        self.state.hear(dot.run);
        let interval = Interval::one(dot).expect("a number");
        self.state.covered.insert(interval).expect("few runs");
        self.tell(ExpiringEvent::Changed {
            client: client_id(client),
        });
    }

    fn remove(&mut self, client: usize, node: u64, removes: BTreeSet<Dot>) {
        let run = self.runs[&node];
        let number = self.last.entry(run).or_default();
        *number += 1;
        let dot = Dot { run, number: *number };
        self.apply(client, dot, removes, None);
    }

    fn is_running(&self, dot: Dot) -> bool {
        self.runs[&dot.run.node.0] == dot.run
    }

    /// Older connections end whose nodes run.
    fn release_older(&mut self, client: usize) {
        let Truth { holder, stale, .. } = &mut self.truths[client];
        let older = std::mem::take(stale).into_iter().chain(holder.take());
        for older in older.collect::<Vec<Dot>>() {
            if self.is_running(older) {
                self.remove(client, older.run.node.0, BTreeSet::from([older]));
            }
        }
    }

    /// The claim gets the session, and sees nothing of connections whose nodes are gone.
    fn connect(&mut self, client: usize, node: u64, expiry: SessionExpiry) {
        // A claim waits until the nodes of older connections have answered, or are given up.
        let older = self.dots(client, EntryKind::Connection).into_iter();
        let lost = older
            .filter(|older| !self.is_running(*older))
            .map(|older| older.run);
        let lost: BTreeSet<Run> = lost.collect();
        self.state.absent.extend(lost);
        let own = self.make(client, node, Fact::Connection, BTreeSet::new(), Value::Nothing);
        let connected = Some(self.clock);
        let mut removes = self.dots(client, EntryKind::Session);
        removes.append(&mut self.dots(client, EntryKind::Expiry));
        self.make(
            client,
            node,
            Fact::Session { connected },
            removes,
            Value::Expiry(expiry),
        );
        let older = self.truths[client]
            .holder
            .filter(|holder| self.is_running(*holder));
        let truth = &mut self.truths[client];
        truth.stale.extend(older);
        truth.holder = Some(own);
        truth.connected = connected;
        truth.left = None;
        truth.expiry = Some(expiry);
    }

    fn fail(&mut self, client: usize) {
        self.fail_before(client, Hlc::at(u64::MAX));
    }

    /// Claims that are older get no session.
    fn fail_before(&mut self, client: usize, clock: Hlc) {
        let Truth { holder, stale, .. } = self.truths[client].clone();
        let connections = self.entries(client, EntryKind::Connection).into_iter();
        for (claim, entry) in connections {
            let is_claim = Some(claim) != holder && !stale.contains(&claim);
            if entry.clock < clock && is_claim && self.is_running(claim) {
                self.remove(client, claim.run.node.0, BTreeSet::from([claim]));
            }
        }
    }

    fn wait(&mut self, millis: u64) {
        self.wall += millis;
        let clock = Hlc::at(self.wall - CLAIM_MAX + 1);
        (0..CLIENTS).for_each(|client| self.fail_before(client, clock));
    }

    fn close(&mut self, client: usize, said: Option<SessionExpiry>) {
        let Some(holder) = self.truths[client]
            .holder
            .filter(|holder| self.is_running(*holder))
        else {
            return;
        };
        let node = holder.run.node.0;
        let expiry = said.or(self.truths[client].expiry).expect("it has the session");
        let removes = self.dots(client, EntryKind::Expiry);
        let connected = self.order_of(client, holder);
        let left = self.make(
            client,
            node,
            Fact::Expiry { connected },
            removes,
            Value::Expiry(expiry),
        );
        let truth = &mut self.truths[client];
        truth.holder = None;
        truth.left = Some(left);
        truth.expiry = Some(expiry);
        truth.closed_at = self.wall;
        self.remove(client, node, BTreeSet::from([holder]));
    }

    /// Place of a connection whose entry is there.
    fn order_of(&self, client: usize, connection: Dot) -> Option<ConnectionOrder> {
        let mut entries = self.entries(client, EntryKind::Connection).into_iter();
        let (_, entry) = entries.find(|(dot, _)| *dot == connection)?;
        Some(ConnectionOrder::of_connection(connection, entry.clock))
    }

    /// An older connection closes, on another side of a split. Its expiry holds for nobody.
    fn close_stale(&mut self, client: usize, said: SessionExpiry) {
        let stale = self.truths[client].stale.iter().copied();
        let open = stale.filter(|stale| self.is_running(*stale));
        let has_session = self.birth(client).is_some();
        let Some(stale) = open.min().filter(|_| has_session) else {
            return;
        };
        let node = stale.run.node.0;
        let connected = self.order_of(client, stale);
        self.make(
            client,
            node,
            Fact::Expiry { connected },
            BTreeSet::new(),
            Value::Expiry(said),
        );
        self.remove(client, node, BTreeSet::from([stale]));
        self.truths[client].stale.remove(&stale);
    }

    fn crash(&mut self, node: u64) {
        let ended = self.runs[&node];
        let incarnation = Incarnation(ended.incarnation.0 + 1);
        self.runs.insert(node, Run { incarnation, ..ended });
        for truth in &mut self.truths {
            if truth.holder.is_some_and(|holder| holder.run == ended) {
                truth.holder = None;
                truth.closed_at = self.wall;
            }
            truth.stale.retain(|stale| stale.run != ended);
        }
    }

    /// The owner makes the events that it was asked for, and nodes end the connections.
    fn write(&mut self) {
        for released in std::mem::take(&mut self.released) {
            for client in 0..CLIENTS {
                self.truths[client].stale.remove(&released);
                let is_open = self.dots(client, EntryKind::Connection).contains(&released);
                if is_open && self.is_running(released) {
                    self.remove(client, released.run.node.0, BTreeSet::from([released]));
                }
            }
        }
        for asked in std::mem::take(&mut self.waiting) {
            let is_void = asked.action.is_of_moment() && asked.latest != self.latest(asked.client);
            if !is_void {
                self.write_one(asked.client, asked.action, asked.ended);
            }
            let client = client_id(asked.client);
            self.tell(ExpiringEvent::Made { client });
        }
    }

    fn write_one(&mut self, client: usize, action: ExpiringAction, ended: BTreeSet<Dot>) {
        match action {
            ExpiringAction::End { .. } => self.remove(client, 0, ended),
            ExpiringAction::Write {
                connected,
                expiry,
                removes,
                ..
            } => {
                self.make(
                    client,
                    0,
                    Fact::Expiry { connected },
                    removes,
                    Value::Expiry(expiry),
                );
            }
            ExpiringAction::Remove { removes, .. } => self.remove(client, 0, removes),
            ExpiringAction::LeaveWill { .. } => panic!("there are no wills"),
            ExpiringAction::Release { .. } => panic!("a release makes no event"),
        }
    }

    /// All is known, and time passes.
    pub(super) fn come_to_rest(&mut self) {
        self.step(&Step::Decide(true));
        (1..=NODES).for_each(|node| self.step(&Step::Meet { node }));
        (0..CLIENTS).for_each(|client| self.step(&Step::Fail { client }));
        for _ in 0..200 {
            self.step(&Step::Tick);
            self.step(&Step::Write);
            self.step(&Step::Wait { millis: 100 });
        }
    }

    pub(super) fn assert_at_rest(&self) {
        assert_eq!(self.expiring.acting(), 0);
        assert_eq!(self.expiring.deadline(), None, "{:?}", self.expiring);
        for client in 0..CLIENTS {
            let truth = &self.truths[client];
            let holder: BTreeSet<Dot> = truth.holder.into_iter().collect();
            assert_eq!(self.dots(client, EntryKind::Connection), holder);
            let has_expiry = !self.dots(client, EntryKind::Expiry).is_empty();
            assert!(holder.is_empty() || !has_expiry, "an expiry beside a connection");
            let does_last = truth.holder.is_some() || truth.expiry == Some(SessionExpiry::NEVER);
            let has_session = !self.dots(client, EntryKind::Session).is_empty();
            assert_eq!(has_session, does_last, "{truth:?}");
        }
    }
}
