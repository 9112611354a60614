//! World of a history: machines, the network between them, clients, and what was promised to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Instant;

use cluster::NodeId;
use session_plane::connecting::{DisconnectReason, RefuseReason};
use session_plane::membership::Handshake;
use session_plane::plane::{EventContent, Now, PlaneMessage};
use session_plane::sessions::ConnectionViolation;
use session_plane::transfer::TransferMessage;
use session_plane::wire::{Confirm, Message};
use session_plane::{Dot, Slot, SlotSet};

use super::clients::{CLIENTS, RemovedEntry, Session, Waiting, slot};
use super::closed_later::MadeConnection;
use super::connections::{Accepted, CONNECTING, ConnectingClient, Socket};
use super::expiring_clients::ExpiringClients;
use super::group_clients::{GroupClients, part_slots};
use super::limited_queues::LimitedQueues;
use super::machine::{Body, Machine, TestAction, TestMessage, TestPlane, TestSessions, Value};
use super::network::{Network, Way};
use super::publishers::Publishers;
use super::random::Random;
use super::retained_clients::RetainedClients;
use super::stays::Stays;
use super::subscribers::Subscribers;
use super::transient_clients::TransientClients;
use super::will_clients::WillClients;

/// Milliseconds of a step.
pub(super) const TICK: u64 = 10;
/// Milliseconds between the wall clocks of two nodes at most.
pub(super) const SKEW_MAX: u64 = 20_000;
/// Milliseconds with faults.
const STORM: u64 = 12_000;
/// Milliseconds in which a cluster without faults comes to rest.
const REST: u64 = 30_000;

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) nodes: u64,
    pub(super) random: Random,
    pub(super) network: Network,
    pub(super) machines: BTreeMap<u64, Machine>,
    pub(super) sessions: BTreeMap<u8, Session>,
    pub(super) waiting: BTreeMap<Dot, Waiting>,
    /// Messages that were acknowledged, and the clients that are to have them.
    pub(super) expected: BTreeMap<Dot, BTreeSet<u8>>,
    /// Messages whose removal was begun.
    pub(super) removed: BTreeSet<RemovedEntry>,
    /// Entries whose removal was acknowledged.
    pub(super) gone: BTreeSet<RemovedEntry>,
    pub(super) connecting: BTreeMap<u8, ConnectingClient>,
    /// Connections of nodes that run, and whose they are.
    pub(super) sockets: BTreeMap<Socket, u8>,
    pub(super) publishers: Publishers,
    pub(super) subscribers: Subscribers,
    pub(super) will_clients: WillClients,
    pub(super) group_clients: GroupClients,
    pub(super) retained_clients: RetainedClients,
    pub(super) transient_clients: TransientClients,
    pub(super) expiring_clients: ExpiringClients,
    pub(super) limited_queues: LimitedQueues,
    /// Connections of clients that have had their CONNACK.
    pub(super) made_connections: Vec<MadeConnection>,
    /// Sessions that do not expire were ended by an operator.
    pub(super) is_ended_by_operator: bool,
    pub(super) stays: Stays,
    /// Last Confirm of a handshake from each node to each other one, and the Welcome behind it.
    pub(super) handshakes: BTreeMap<Way, Vec<TestMessage>>,
    /// First thing that went wrong.
    pub(super) confirmations: BTreeMap<Way, Confirm>,
    wrong: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, nodes: u64) -> World {
        let slots: SlotSet = (0..CLIENTS)
            .chain(CONNECTING)
            .map(slot)
            .chain([Slot::ROUTES, Slot::RETAINED])
            .chain(part_slots().iter())
            .collect();
        let skews = skews(seed, nodes);
        let limited_queues = LimitedQueues::new(seed);
        let machine = |(id, skew)| {
            let mut machine = Machine::new(id, nodes, slots.clone(), *ORIGIN, skew);
            machine.queues = limited_queues.limits;
            (id, machine)
        };
        let machines = (1..=nodes).zip(skews).map(machine);
        let mut world = World {
            now: 0,
            nodes,
            random: Random::new(seed),
            network: Network::default(),
            machines: machines.collect(),
            sessions: (0..CLIENTS).map(|number| (number, Session::default())).collect(),
            waiting: BTreeMap::new(),
            expected: BTreeMap::new(),
            removed: BTreeSet::new(),
            gone: BTreeSet::new(),
            connecting: CONNECTING
                .map(|number| (number, ConnectingClient::default()))
                .collect(),
            sockets: BTreeMap::new(),
            publishers: Publishers::default(),
            subscribers: Subscribers::default(),
            will_clients: WillClients::default(),
            group_clients: GroupClients::default(),
            retained_clients: RetainedClients::default(),
            transient_clients: TransientClients::default(),
            expiring_clients: ExpiringClients::new(Random::new(seed ^ 1).once_in(2)),
            limited_queues,
            made_connections: Vec::new(),
            is_ended_by_operator: false,
            stays: Stays::default(),
            handshakes: BTreeMap::new(),
            confirmations: BTreeMap::new(),
            wrong: None,
        };
        world.start_all();
        world
    }

    /// Plays a storm, and what follows it.
    pub(super) fn play(&mut self) -> Result<(), String> {
        while self.now < STORM {
            self.disturb();
            self.act_as_clients();
            self.act_as_connecting();
            self.act_as_publishers();
            self.act_as_subscribers();
            self.act_as_enqueueing();
            self.act_as_members();
            self.act_as_retaining();
            self.act_as_transient();
            self.act_as_operator();
            self.step()?;
        }
        self.mend();
        self.rest()?;
        self.check()?;
        self.connect_all();
        self.rest()?;
        self.check_connected()?;
        let exchanges = self.publish_all();
        self.join_all();
        self.rest()?;
        self.publish_shared_everywhere();
        self.retain_everywhere();
        self.enqueue_everywhere();
        let passed = self.pass_everywhere();
        self.finish()?;
        self.check_passed(&passed)?;
        self.note_given();
        self.check_completed(exchanges)?;
        self.check_group()?;
        self.check_retained_everywhere()?;
        self.rest()?;
        self.check()?;
        self.leave_all();
        self.rest()?;
        self.check()?;
        self.pass(self.time_of_expiry())?;
        self.rest()?;
        self.check_expired()?;
        self.connect_all();
        self.rest()?;
        self.check_connected()?;
        self.end_all()
    }

    /// Lets everything come to rest.
    pub(super) fn rest(&mut self) -> Result<(), String> {
        let end = self.now + REST;
        while let Err(why) = self.is_at_rest() {
            if self.now >= end {
                return Err(format!("no rest after {REST} ms: {why}"));
            }
            self.step()?;
        }
        Ok(())
    }

    /// Lets the exchanges of all publishers come to their end, and clients receive all there is. A client with a
    /// low Receive Maximum takes its time.
    fn finish(&mut self) -> Result<(), String> {
        let (mut end, mut answered) = (self.now + REST, 0);
        let is_empty = |world: &World| world.are_queues_empty().and_then(|()| world.is_group_empty());
        while !self.publishers.are_done() || is_empty(self).is_err() {
            if self.now >= end {
                is_empty(self)?;
                return Err(format!("after {REST} ms exchanges stay: {:?}", self.publishers));
            }
            self.connect_lost();
            self.release_all();
            self.acknowledge_all();
            if answered < self.subscribers.answered() {
                (end, answered) = (self.now + REST, self.subscribers.answered());
            }
            self.step()?;
        }
        Ok(())
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, millis: u64) -> Result<(), String> {
        let end = self.now + millis;
        while self.now < end {
            self.step()?;
        }
        Ok(())
    }

    /// Notes what went wrong, unless something has before.
    pub(super) fn fail(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub(super) fn machine(&mut self, id: u64) -> &mut Machine {
        self.machines.get_mut(&id).expect("a machine of the world")
    }

    /// Wall clocks of nodes differ in this history.
    pub(super) fn has_skew(&self) -> bool {
        self.machines.values().any(|machine| machine.skew > 0)
    }

    /// Each pair of machines once.
    pub(super) fn ways(&self) -> Vec<Way> {
        let ids = 1..=self.nodes;
        let pairs = ids
            .clone()
            .flat_map(|from| ids.clone().map(move |to| Way { from, to }));
        pairs.filter(|way| way.from < way.to).collect()
    }

    pub(super) fn start(&mut self, id: u64) {
        let now = self.now;
        self.machine(id).start(now);
        self.begin_mirror(id);
    }

    pub(super) fn crash(&mut self, id: u64) {
        self.lose_connections(id);
        self.lose_transient(id);
        self.machine(id).crash();
        for to in 1..=self.nodes {
            self.network.break_off(Way { from: id, to });
        }
    }

    /// One tick of every machine.
    fn step(&mut self) -> Result<(), String> {
        self.now += TICK;
        self.note_whole();
        self.note_stays();
        self.note_owners_of_parts();
        self.note_assignments();
        self.note_given();
        self.note_moves();
        self.connect();
        for id in 1..=self.nodes {
            if self.machines[&id].is_up(self.now) {
                self.receive_all(id);
                self.tick(id);
                self.send_streams(id);
            }
        }
        self.follow_retained();
        self.wrong.take().map_or(Ok(()), Err)
    }

    /// Connects what can be connected, and refuses what is down.
    fn connect(&mut self) {
        let now = self.now;
        for way in self.ways() {
            if self.network.is_cut(way) || self.network.is_connected(way) {
                continue;
            }
            let is_running = |world: &World, id: u64| world.machines[&id].sessions.is_some();
            if is_running(self, way.from) && is_running(self, way.to) {
                self.network.connect(way);
                for way in [way, way.back()] {
                    self.with_sessions(way.from, |sessions, at, actions| {
                        sessions.connected(at, NodeId(way.to), actions);
                    });
                }
            }
            for way in [way, way.back()] {
                let is_refused = !is_running(self, way.to) && self.machines[&way.from].is_up(now);
                if let Some(sessions) = self.machine(way.from).sessions.as_mut().filter(|_| is_refused) {
                    sessions.refused(NodeId(way.to));
                }
            }
        }
    }

    fn receive_all(&mut self, id: u64) {
        for from in (1..=self.nodes).filter(|from| *from != id) {
            let way = Way { from, to: id };
            while let Some(letter) = self.network.receive(way, self.now) {
                let said = format!("{:?}", letter.message);
                let mut received = Ok(());
                self.with_sessions(id, |sessions, at, actions| {
                    received = sessions.receive(at, letter.from, letter.message, actions);
                });
                if let Err(error) = received.as_ref()
                    && !error.is_ordinary()
                {
                    self.wrong
                        .get_or_insert(format!("{id} refused {said:.300} of {from}: {error}"));
                }
            }
        }
    }

    fn tick(&mut self, id: u64) {
        let takes = self.random.below(40);
        let now = self.now;
        let mut actions = Vec::new();
        self.machine(id).write(now, takes, &mut actions);
        self.apply(id, actions);
        self.with_sessions(id, |sessions, at, actions| {
            if sessions.deadline() <= at.monotonic {
                sessions.tick(at, actions);
            }
        });
    }

    /// Sends what the streams have, as far as the connections take it.
    fn send_streams(&mut self, id: u64) {
        for to in (1..=self.nodes).filter(|to| *to != id) {
            let way = Way { from: id, to };
            if !self.network.is_connected(way) {
                continue;
            }
            for _ in 0..self.random.below(6) {
                let sessions = self.machine(id).sessions.as_mut();
                let Some(message) = sessions.and_then(|sessions| sessions.next_message(NodeId(to))) else {
                    break;
                };
                self.send(way, message);
            }
        }
    }

    /// Sends a message as its bytes are read.
    fn send(&mut self, way: Way, message: TestMessage) {
        let arrives_at = self.now + self.random.below(3) * TICK;
        let Some(run) = self.machines[&way.from].plane().map(TestPlane::run) else {
            return;
        };
        self.record(way, &message);
        let sent: Message<Value, Body, EventContent<Value, Body>> = message.into();
        match Message::decode(sent.encode()) {
            Ok(read) if read != sent => {
                self.wrong.get_or_insert(format!("{sent:?} is read as {read:?}"));
            }
            Ok(read) => {
                let message = TestMessage::of_read(read).expect("a message of sessions");
                self.network.send(way, run, message, arrives_at);
            }
            Err(error) => {
                self.wrong.get_or_insert(format!("{sent:?} is not read: {error}"));
            }
        }
    }

    /// Keeps what begins a stay and the last confirmation, for tests that look at them.
    fn record(&mut self, way: Way, message: &TestMessage) {
        let TestMessage::Replication(sent) = message else {
            return;
        };
        match sent {
            PlaneMessage::Confirm(confirm) => {
                self.confirmations.insert(way, confirm.clone());
            }
            PlaneMessage::Handshake(Handshake::Confirm(_)) => {
                self.handshakes.insert(way, vec![message.clone()]);
            }
            PlaneMessage::Welcome(_) => self.handshakes.entry(way).or_default().push(message.clone()),
            _ => {}
        }
    }

    /// Lets a node do something, and applies its actions.
    pub(super) fn with_sessions(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut TestSessions, Now, &mut Vec<TestAction>),
    ) {
        let now = self.now;
        let machine = self.machine(id);
        let at = machine.now(now);
        let mut actions = Vec::new();
        if let Some(sessions) = &mut machine.sessions {
            act(sessions, at, &mut actions);
        }
        if let Some(action) = actions.iter().find(|action| tells_what_is_durable(action)) {
            self.wrong
                .get_or_insert(format!("{id} tells before its disk has it: {action:?}"));
        }
        self.apply(id, actions);
    }

    pub(super) fn apply(&mut self, id: u64, actions: Vec<TestAction>) {
        for action in actions {
            match action {
                TestAction::Send { to, message } => self.send(Way { from: id, to: to.0 }, message),
                TestAction::Durable(dot) => {
                    self.retained_durably(dot);
                    self.check_promised(dot);
                    self.acknowledge(dot);
                }
                TestAction::GaveUp { run, .. } => {
                    self.forget_receiver(id, run.node.0);
                    self.forget_node(id, run.node.0);
                    let to = run.node.0;
                    self.network.break_off(Way { from: id, to });
                }
                TestAction::EndRun(why) => self.fail(format!("{id} ends its run: {why}")),
                TestAction::Accept {
                    connection,
                    is_present,
                    birth,
                    session,
                } => {
                    let accepted = Accepted {
                        is_present,
                        birth,
                        session,
                    };
                    self.accepted(Socket { node: id, connection }, &accepted);
                }
                end @ (TestAction::Refuse { .. }
                | TestAction::Disconnect { .. }
                | TestAction::Violated { .. }
                | TestAction::Closed(_)) => self.apply_end(id, end),
                TestAction::Received {
                    connection,
                    packet_id,
                } => self.received(Socket { node: id, connection }, packet_id),
                TestAction::Freed {
                    connection,
                    packet_id,
                    ..
                } => self.freed(Socket { node: id, connection }, packet_id),
                TestAction::NotReceived { reason, .. } => {
                    self.fail(format!("{id} refuses PUBLISH: {reason}"));
                }
                TestAction::SendPublish(published) => {
                    let connection = published.connection;
                    self.publish_sent(Socket { node: id, connection }, published);
                }
                TestAction::SendPubrel {
                    connection,
                    packet_id,
                    is_found,
                } => self.pubrel_sent(Socket { node: id, connection }, packet_id, is_found),
                other => self.apply_beside_sessions(id, &other),
            }
        }
    }

    /// Actions of shared groups and transient sessions.
    fn apply_beside_sessions(&mut self, id: u64, action: &TestAction) {
        match action {
            TestAction::Joined { connection, .. } => {
                let connection = *connection;
                self.joined(Socket { node: id, connection });
            }
            TestAction::NotJoined { .. } => self.fail(format!("{id} refuses a member")),
            TestAction::Transient(message) => self.transient_received(id, message),
            TestAction::Unstored(body) => self.unstored_received(id, *body),
            TestAction::InterestsTold(_) => self.note_told(id),
            TestAction::Grant {
                connection,
                packet_id,
                ..
            } => {
                let connection = *connection;
                self.granted(Socket { node: id, connection }, *packet_id);
            }
            TestAction::Dropped(dropped) => self.dropped(id, dropped),
            TestAction::Left { .. } | TestAction::Changed { .. } => {}
            TestAction::WillDue { due, .. } => {
                let due = due.clone();
                self.with_sessions(id, |sessions, now, actions| {
                    sessions.publish_will(now, due, actions);
                });
            }
            other => self.fail(format!("{id} wants {other:?}")),
        }
    }

    /// A connection ends, or has ended.
    fn apply_end(&mut self, id: u64, end: TestAction) {
        match end {
            TestAction::Refuse {
                connection,
                reason: RefuseReason::TakenOver,
            } => self.take_over(Socket { node: id, connection }),
            TestAction::Disconnect { connection, reason } => {
                let socket = Socket { node: id, connection };
                if reason == DisconnectReason::SessionEnded {
                    self.told_of_end(socket);
                }
                self.take_over(socket);
            }
            TestAction::Refuse { connection, .. }
            | TestAction::Violated {
                connection,
                reason: ConnectionViolation::Member(_),
            } => {
                let socket = Socket { node: id, connection };
                self.close(socket, self.rest_of(socket, self.left(socket)));
            }
            TestAction::Violated { reason, .. } => self.fail(format!("{id} ends a connection: {reason}")),
            TestAction::Closed(connection) => {
                self.closed_durably(Socket { node: id, connection });
                self.sockets.remove(&Socket { node: id, connection });
                self.drop_inbox(Socket { node: id, connection });
                self.drop_member(Socket { node: id, connection });
            }
            other => self.fail(format!("{id} wants {other:?}")),
        }
    }
}

/// Milliseconds by which the wall clock of each node is ahead: in one of four histories they differ, by up to
/// more than a storm lasts.
fn skews(seed: u64, nodes: u64) -> Vec<u64> {
    let mut random = Random::new(!seed);
    let has_skew = random.once_in(4);
    let skews = (0..nodes).map(|_| if has_skew { random.below(SKEW_MAX) } else { 0 });
    skews.collect()
}

/// The action tells a peer that something is on the disk of this node.
fn tells_what_is_durable(action: &TestAction) -> bool {
    let TestAction::Send {
        message: TestMessage::Replication(message),
        ..
    } = action
    else {
        return false;
    };
    matches!(
        message,
        PlaneMessage::Confirm(_)
            | PlaneMessage::ConfirmResent(_)
            | PlaneMessage::Transfer(TransferMessage::SlotsMerged(_))
    )
}
