//! One simulated server: a node, its disk, its clock, and what it sent to each connection.

mod unpowered;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use broker::backups::{Item, Tally};
use broker::{
    Action, Administration, ClusterAnswer, ClusterQuestion, DiskTicket, Event, Node, Redirect, ShareStrategy,
};
use bytes::{Bytes, BytesMut};
use cluster::forming::Founder;
use cluster::peers::{AgreedClock, Reading};
use cluster::replica::record::LogPoint;
use cluster::{GroupId, Keyspace, NodeId, Write};
use mqtt::authentication::{Answer, Question};
use mqtt::ids::ConnectionId;
use mqtt::limits::Limits;
use mqtt::now::Now;
use mqtt::policies::{Policies, PolicyId};
use mqtt::traces::{Span, TracesConfig};
use protocol::packet::{DecodeError, Decoder, ProtocolVersion};
use protocol::state_store::Condition;
use protocol::{Hlc, Packet, Text};
use session_plane::SlotSet;
use storage::{SimulatedDisk, Storage};
use store::{Command, CommandAction, Image, Origin, Quota, ScanLimits, Store};

pub(crate) use self::unpowered::scan_seal;
use self::unpowered::{Snapshots, now_at};
pub use self::unpowered::{StartError, Torn, Unpowered, founder};
use crate::rest::Bound;

/// Settings of a simulated server.
#[derive(Debug, Clone)]
pub struct MachineConfig {
    /// Decides everything that is random.
    pub seed: u64,
    /// Which node it is.
    pub node: NodeId,
    /// All nodes of its cluster; itself alone, if it has none.
    pub voters: Vec<NodeId>,
    /// Whether there is a control group: then nodes may come and go, and `voters` are the founders.
    pub has_control: bool,
    /// How many groups its state store has.
    pub groups: u32,
    /// By how many milliseconds its wall clock is ahead of its monotonic one, which begins with the simulation.
    pub clock_ahead: i64,
    /// Differences of its wall clock above this are doubted first.
    pub clock_skew_max: Duration,
    /// How many nodes have a say in what time it is.
    pub clock_members: usize,
    /// Limits of the node.
    pub limits: Limits,
    /// How often `$SYS` is published.
    pub sys_interval: Option<Duration>,
    /// Clients have to say who they are; [`Machine::answer`] knows.
    pub authenticates: bool,
    /// What clients may do: by the first of them, if there is one.
    pub policies: Policies,
    /// Messages between nodes.
    pub silence_max: Duration,
    /// Where clients are sent instead.
    pub redirect: Option<Redirect>,
    /// What is traced.
    pub traces: Option<TracesConfig>,
    /// Slots of the cluster; see [`few_slots`](crate::few_slots).
    pub slots: Option<SlotSet>,
    /// Who of those who share a subscription gets a message.
    pub share_strategy: ShareStrategy,
    /// Bytes of log after which a snapshot is taken.
    pub snapshot_log_bytes: u64,
    /// Entries that are kept before a snapshot, for nodes that lag a little.
    pub log_tail_entries: u64,
    /// Keys and bytes of the state store.
    pub quota: Quota,
    /// How large a page of a SCAN may become.
    pub scan: ScanLimits,
    /// Requests of the state store that may wait for their decision.
    pub store_requests_max: usize,
    /// A defect to put in: the disk confirms before it syncs.
    pub acknowledges_before_sync: bool,
    /// A defect to put in: it does not know for whom it voted before it lost its power.
    pub forgets_votes: bool,
    /// What it appends to its log is kept for [`Machine::take_logged`].
    pub tells_log: bool,
}

/// A simulated server.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    node: Node,
    disk: SimulatedDisk,
    /// Batches that the disk thread has not written yet.
    writing: VecDeque<(DiskTicket, Vec<Write>)>,
    /// The snapshots that are being written, and those that are durable.
    snapshotting: BTreeMap<GroupId, (LogPoint, Image)>,
    snapshots: Snapshots,
    origin: Instant,
    clock: AgreedClock,
    now: Now,
    connections: BTreeMap<ConnectionId, Wire>,
    /// Those that the node reads from again.
    resumed: VecDeque<ConnectionId>,
    /// Slots below the highest that no connection has.
    free_slots: Vec<u32>,
    generation: u32,
    /// What nobody has answered yet.
    questions: VecDeque<(ConnectionId, Question)>,
    /// What other nodes are to be given.
    to_peers: VecDeque<(NodeId, Bytes)>,
    /// A write has failed.
    has_failed: bool,
    /// What was appended to the log, and removed from it.
    logged: Vec<Write>,
    /// Who is in the cluster, as the node told its edge last.
    pub peers: BTreeSet<Founder>,
    /// Who was in it, and is hung up on.
    pub removed: Vec<NodeId>,
    /// What operators asked about the cluster, and were answered.
    cluster_answers: VecDeque<ClusterAnswer>,
    restored: Vec<Tally>,
    spans: Vec<Span>,
}

/// The wire between the server and one client.
#[derive(Debug)]
struct Wire {
    version: ProtocolVersion,
    packet_size_max: u32,
    bytes: BytesMut,
    decoder: Decoder,
    is_closed: bool,
    /// What the client sent while nothing was read.
    unread: VecDeque<Packet>,
    /// The client reads nothing for now.
    is_stalled: bool,
    /// The node waits to hear that the client has read everything.
    owes_drained: bool,
}

impl MachineConfig {
    /// Defaults of the product.
    pub fn new(seed: u64) -> Self {
        let quota = Quota {
            keys_max: 1_000_000,
            bytes_max: 1 << 30,
        };
        Self {
            seed,
            node: NodeId(1),
            voters: vec![NodeId(1)],
            has_control: false,
            groups: 1,
            clock_ahead: 0,
            clock_skew_max: Duration::MAX,
            clock_members: 1,
            limits: Limits::default(),
            sys_interval: None,
            authenticates: false,
            policies: Policies::default(),
            silence_max: Duration::from_secs(2),
            redirect: None,
            traces: None,
            slots: None,
            share_strategy: ShareStrategy::default(),
            snapshot_log_bytes: 64 << 20,
            log_tail_entries: 100_000,
            quota,
            scan: ScanLimits::default(),
            store_requests_max: 100_000,
            acknowledges_before_sync: false,
            forgets_votes: false,
            tells_log: false,
        }
    }
}

impl Machine {
    /// A server with an empty disk, ready to serve. `origin` is any instant; only differences matter.
    pub fn new(config: MachineConfig, origin: Instant) -> Self {
        let started = Unpowered::new(config, origin).start(origin);
        started.expect("there is nothing to read")
    }

    /// A server that finds this on its disk.
    ///
    /// # Errors
    /// If it cannot be understood: the server does not start.
    pub fn on_disk(config: MachineConfig, disk: SimulatedDisk, origin: Instant) -> Result<Self, StartError> {
        Unpowered::with_disk(config, disk, origin).start(origin)
    }

    /// The power fails and comes back: connections, memory and what was not synced are gone.
    #[must_use]
    pub fn crash(self) -> Self {
        self.crash_for(Duration::ZERO)
    }

    /// The power fails, and comes back after a while.
    #[must_use]
    pub fn crash_for(self, down: Duration) -> Self {
        let at = self.now.instant + down;
        let started = self.switch_off(Torn::Somewhere).start(at);
        started.expect("the node reads what it wrote")
    }

    /// The power fails. `torn`: what becomes of what was written and not synced.
    #[must_use]
    pub fn switch_off(mut self, torn: Torn) -> Unpowered {
        // Batches on their way may or may not have reached the disk.
        while let Some((_, writes)) = self.writing.pop_front() {
            if self.disk.write(&writes).is_err() {
                break;
            }
        }
        match torn {
            Torn::Somewhere => self.disk.crash(),
            Torn::AtTheSync => self.disk.crash_losing_all(),
        }
        Unpowered {
            config: self.config,
            disk: self.disk,
            snapshots: self.snapshots,
            origin: self.origin,
        }
    }

    /// A server whose node was just made of what its disk holds.
    fn starting(unpowered: Unpowered, node: Node, now: Now, generation: u32) -> Self {
        let mut clock = AgreedClock::new(unpowered.config.clock_skew_max, now.into());
        clock.set_members(unpowered.config.clock_members);
        Self {
            config: unpowered.config,
            clock,
            node,
            disk: unpowered.disk,
            writing: VecDeque::new(),
            snapshotting: BTreeMap::new(),
            snapshots: unpowered.snapshots,
            origin: unpowered.origin,
            now,
            connections: BTreeMap::new(),
            resumed: VecDeque::new(),
            free_slots: Vec::new(),
            generation,
            questions: VecDeque::new(),
            to_peers: VecDeque::new(),
            has_failed: false,
            logged: Vec::new(),
            peers: BTreeSet::new(),
            removed: Vec::new(),
            cluster_answers: VecDeque::new(),
            restored: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Settings of the node.
    pub fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        self.now
    }

    /// The node, to look at.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The disk, to look at.
    pub fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// Opens a connection.
    pub fn open(&mut self) -> ConnectionId {
        self.generation += 1;
        let slot = self
            .free_slots
            .pop()
            .unwrap_or_else(|| u32::try_from(self.connections.len()).expect("few connections"));
        let id = ConnectionId::new(self.generation, slot);
        let wire = Wire {
            version: ProtocolVersion::V5,
            packet_size_max: u32::MAX,
            bytes: BytesMut::new(),
            decoder: Decoder::for_client(u32::MAX),
            is_closed: false,
            unread: VecDeque::new(),
            is_stalled: false,
            owes_drained: false,
        };
        self.connections.insert(id, wire);
        self.step(Event::Opened {
            connection: id,
            waited: Duration::ZERO,
            is_asked: self.config.authenticates,
            policy: (!self.config.policies.is_empty()).then_some(PolicyId(0)),
        });
        id
    }

    /// The client sends a packet.
    pub fn receive(&mut self, connection: ConnectionId, packet: Packet) {
        if let Some(wire) = self.connections.get_mut(&connection) {
            wire.unread.push_back(packet);
            self.read(connection);
        }
    }

    /// So much of a packet that is not complete comes from a client that it counts as a sign of life.
    pub fn receive_part(&mut self, connection: ConnectionId) {
        self.step(Event::PartReceived { connection });
    }

    /// The client sends what is no packet.
    pub fn violate(&mut self, connection: ConnectionId, error: DecodeError) {
        if self.is_open(connection) {
            self.step(Event::Violated { connection, error });
        }
    }

    /// The connection is over for both sides, and its slot is free. What was sent and not read is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.step(Event::Lost { connection });
        if self.connections.remove(&connection).is_some() {
            let slot = u32::try_from(connection.slot()).expect("few connections");
            self.free_slots.push(slot);
        }
    }

    /// The client reads nothing until [`Machine::resume`].
    pub fn stall(&mut self, connection: ConnectionId) {
        if let Some(wire) = self.connections.get_mut(&connection) {
            wire.is_stalled = true;
        }
    }

    /// The client has read everything.
    pub fn resume(&mut self, connection: ConnectionId) {
        let Some(wire) = self.connections.get_mut(&connection) else {
            return;
        };
        wire.is_stalled = false;
        if std::mem::take(&mut wire.owes_drained) {
            self.step(Event::Drained { connection });
        }
    }

    /// Bytes that were sent to the connection and not taken.
    pub fn sent_bytes(&self, connection: ConnectionId) -> usize {
        self.connections
            .get(&connection)
            .map_or(0, |wire| wire.bytes.len())
    }

    /// What the node wants to know of clients, since the last call.
    pub fn take_questions(&mut self) -> Vec<(ConnectionId, Question)> {
        self.questions.drain(..).collect()
    }

    /// The answer to the question about a connection.
    pub fn answer(&mut self, connection: ConnectionId, answer: Answer) {
        self.step(Event::Authenticated { connection, answer });
    }

    /// The connection breaks.
    pub fn lose(&mut self, connection: ConnectionId) {
        if let Some(wire) = self.connections.get_mut(&connection)
            && !std::mem::replace(&mut wire.is_closed, true)
        {
            self.step(Event::Lost { connection });
        }
    }

    /// Other policies decide from now on.
    pub fn set_policies(&mut self, policies: Policies) {
        self.config.policies = policies.clone();
        self.step(Event::Policies(policies));
    }

    /// Everything that has arrived was given to the node.
    pub fn flush(&mut self) {
        self.step(Event::Flush);
    }

    /// The disk writes and syncs one batch. False if there is none.
    pub fn write_one(&mut self) -> bool {
        let Some((ticket, writes)) = self.writing.pop_front() else {
            return false;
        };
        let is_durable = self.disk.write(&writes).is_ok()
            && (self.config.acknowledges_before_sync || self.disk.sync().is_ok());
        if is_durable {
            self.step(Event::Durable { ticket });
        } else {
            self.has_failed = true;
        }
        is_durable
    }

    /// The disk takes so many more bytes.
    pub fn fill_disk(&mut self, bytes: u64) {
        self.disk.full_after(bytes);
    }

    /// Whether the disk has failed: the server has to be switched off, and says nothing more.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Flushes and writes until nothing is left to do.
    ///
    /// # Panics
    /// When each write brings about the next one.
    pub fn write_all(&mut self) {
        let mut bound = Bound::new("a node writes");
        self.flush();
        while self.write_one() {
            bound.message().unwrap_or_else(|why| panic!("{why}"));
            self.flush();
        }
    }

    /// Finishes a snapshot that is being written, if there is one.
    pub fn finish_snapshot(&mut self) {
        if let Some((group, (point, image))) = self.snapshotting.pop_first() {
            self.snapshots
                .insert(group, (point, image.into_chunks().collect()));
            let LogPoint { index, term } = point;
            self.step(Event::SnapshotWritten { group, index, term });
        }
    }

    /// A snapshot that is being written cannot be. False if there is none.
    pub fn fail_snapshot(&mut self) -> bool {
        let Some((group, _)) = self.snapshotting.pop_first() else {
            return false;
        };
        self.step(Event::SnapshotFailed { group });
        true
    }

    /// The snapshot of a group cannot be read any more.
    pub fn lose_snapshot(&mut self, group: GroupId) {
        self.snapshots.remove(&group);
    }

    /// The snapshot of a group is another than it was, and nobody can see that. False if there is none.
    pub fn alter_snapshot(&mut self, group: GroupId) -> bool {
        let Some((_, chunks)) = self.snapshots.get_mut(&group) else {
            return false;
        };
        let mut store = Store::restore(chunks.drain(..)).expect("the snapshot is whole");
        let keys_max = store.quota().keys_max - 1;
        let quota = Quota {
            keys_max,
            ..store.quota()
        };
        damage(&mut store, CommandAction::Configure { quota });
        *chunks = store.image().into_chunks().collect();
        true
    }

    /// A key has another value in the memory of this node than what was written, and nobody can see that.
    pub fn alter_store(&mut self, group: GroupId, key: &str, value: &str) {
        let store = self.node.state_store_mut(group).expect("there is such a group");
        let action = CommandAction::Set {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: Bytes::copy_from_slice(value.as_bytes()),
            condition: Condition::None,
            expires_in: None,
            timestamp: Hlc {
                wall: store.stamp().clock,
                counter: 0,
                node: Text::new("damage").expect("a short name"),
            },
            fencing: None,
            retry: None,
        };
        damage(store, action);
    }

    /// An operator asks about the cluster.
    pub fn ask_cluster(&mut self, asks: ClusterQuestion) {
        self.step(Event::Cluster { question: 0, asks });
    }

    /// What operators were answered, since the last call.
    pub fn take_cluster_answers(&mut self) -> Vec<ClusterAnswer> {
        self.cluster_answers.drain(..).collect()
    }

    /// An operator puts something of a backup back.
    pub fn put_back(&mut self, items: Vec<Item>) {
        let wanted = Administration::Restore { items };
        self.step(Event::Administer { question: 0, wanted });
    }

    /// What operators were told of what they put back, since the last call.
    pub fn take_restored(&mut self) -> Vec<Tally> {
        std::mem::take(&mut self.restored)
    }

    /// What was traced since it was asked last.
    pub fn take_spans(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.spans)
    }

    /// A node calls that is in no cluster.
    pub fn hear_caller(&mut self, caller: Founder) {
        self.step(Event::Called { caller });
    }

    /// Another node's message arrives.
    pub fn hear(&mut self, from: NodeId, message: Bytes) {
        self.step(Event::Peer { from, message });
    }

    /// What other nodes are to be given, since the last call.
    pub fn take_to_peers(&mut self) -> impl Iterator<Item = (NodeId, Bytes)> + '_ {
        self.to_peers.drain(..)
    }

    /// What it has given to the disk of its log, since the last call.
    pub fn take_logged(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.logged)
    }

    /// The records of its log that are on its disk.
    pub fn log_on_disk(&self) -> Vec<(Bytes, Bytes)> {
        let mut records = Vec::new();
        let mut note = |key: &[u8], value: Bytes| {
            records.push((Bytes::copy_from_slice(key), value));
            ControlFlow::Continue(())
        };
        let scanned = self.disk.scan(Keyspace::Log, &[], &mut note);
        scanned.expect("the simulated disk can be read");
        records
    }

    /// How many batches wait for the disk.
    pub fn writing_len(&self) -> usize {
        self.writing.len()
    }

    /// Its wall clock is set: by so many milliseconds ahead of its monotonic one.
    pub fn set_clock(&mut self, ahead: i64) {
        self.config.clock_ahead = ahead;
        self.move_clock(self.now.instant);
    }

    /// Time passes up to this moment, at which what is due happens; nothing is written to disk.
    pub fn tick(&mut self, to: Instant) {
        self.move_clock(to);
        if self
            .node
            .deadline(self.now)
            .is_some_and(|deadline| deadline <= to)
        {
            self.step(Event::Timeout);
        }
    }

    /// The server says goodbye to all clients.
    pub fn stop(&mut self) {
        self.step(Event::Stop);
    }

    /// The edge can send to these nodes, and to no others.
    pub fn set_links(&mut self, reached: BTreeSet<NodeId>) {
        self.step(Event::Links { reached });
    }

    /// Whether a snapshot is on disk.
    pub fn has_snapshot(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Time passes; timers fire when they are due.
    pub fn advance(&mut self, by: Duration) {
        let until = self.now.instant + by;
        while let Some(deadline) = self.node.deadline(self.now).filter(|deadline| *deadline <= until) {
            self.move_clock(deadline.max(self.now.instant));
            self.step(Event::Timeout);
            self.write_all();
            let is_stuck = self
                .node
                .deadline(self.now)
                .is_some_and(|next| next <= self.now.instant);
            if is_stuck {
                // A deadline in whole milliseconds of wall time may lie within the present one.
                self.move_clock((self.now.instant + Duration::from_millis(1)).min(until));
            }
        }
        self.move_clock(until);
    }

    /// Whether the server still talks to the connection.
    pub fn is_open(&self, connection: ConnectionId) -> bool {
        self.connections
            .get(&connection)
            .is_some_and(|wire| !wire.is_closed)
    }

    /// Whether the node takes the connection's next packet now.
    pub fn is_reading(&self, connection: ConnectionId) -> bool {
        self.node.is_reading(connection)
    }

    /// What the server has sent to the connection since the last call, as its client decodes it.
    pub fn take_sent(&mut self, connection: ConnectionId) -> Vec<Packet> {
        let Some(wire) = self.connections.get_mut(&connection) else {
            return Vec::new();
        };
        let mut packets = Vec::new();
        while let Some(packet) = wire
            .decoder
            .decode(&mut wire.bytes)
            .expect("the server sends what clients understand")
        {
            packets.push(packet);
        }
        assert!(wire.bytes.is_empty(), "the server sends whole packets");
        packets
    }

    /// What its system clock says, whatever it goes by.
    pub fn system_clock(&self) -> Reading {
        now_at(&self.config, self.origin, self.now.instant).into()
    }

    /// Another node's system clock said this just now.
    pub fn hear_clock(&mut self, node: NodeId, wall: u64) {
        let at = self.now.instant;
        self.clock.hear(node, Reading { at, wall });
    }

    fn move_clock(&mut self, to: Instant) {
        let system = now_at(&self.config, self.origin, to);
        let (wall, _) = self.clock.read(system.into());
        self.now = Now { wall, ..system };
    }

    fn step(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.node.step(self.now, event, &mut actions);
        self.carry_out(actions);
        while let Some(connection) = self.resumed.pop_front() {
            self.read(connection);
        }
    }

    /// Gives the node what the client has sent, as long as it reads.
    fn read(&mut self, connection: ConnectionId) {
        while self.is_open(connection) && self.node.is_reading(connection) {
            let wire = self.connections.get_mut(&connection);
            let Some(packet) = wire.and_then(|wire| wire.unread.pop_front()) else {
                return;
            };
            self.step(Event::Received { connection, packet });
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        let mut drained = Vec::new();
        for action in actions {
            match action {
                Action::Speak {
                    connection,
                    version,
                    packet_size_max,
                } => {
                    if let Some(wire) = self.connections.get_mut(&connection) {
                        wire.version = version;
                        wire.packet_size_max = packet_size_max;
                        wire.decoder.set_version(version);
                    }
                }
                Action::Authenticate { connection, question } => {
                    self.questions.push_back((connection, question));
                }
                Action::Send { connection, packet } => self.send(connection, &packet),
                Action::Publish { connection, publish } => {
                    self.send(connection, &Packet::Publish(Box::new(publish.to_packet())));
                }
                Action::Close { connection } => {
                    if let Some(wire) = self.connections.get_mut(&connection) {
                        wire.is_closed = true;
                    }
                }
                Action::ReportDrained { connection } => drained.push(connection),
                Action::Persist { ticket, writes, .. } => {
                    if self.config.tells_log {
                        self.logged
                            .extend(writes.iter().filter(|write| is_of_log(write)).cloned());
                    }
                    self.writing.push_back((ticket, writes));
                }
                Action::Snapshot {
                    group,
                    index,
                    term,
                    image,
                } => {
                    self.snapshotting.insert(group, (LogPoint { index, term }, image));
                }
                // Nobody reads the log of a simulated node.
                Action::Report(_) => {}
                Action::Resume { connection } => self.resumed.push_back(connection),
                Action::ToPeer { to, message } => self.to_peers.push_back((to, message.into_bytes())),
                Action::Peers { members, removed } => (self.peers, self.removed) = (members, removed),
                Action::ClusterAnswer { answer, .. } => self.cluster_answers.push_back(answer),
                Action::Restored { tally, .. } => self.restored.push(tally),
                Action::Traced(spans) => self.spans.extend(spans),
                Action::Decided { .. } | Action::Administered { .. } | Action::Frozen { .. } => {}
            }
        }
        // After the others: what the node sends then comes behind them.
        for connection in drained {
            self.report_drained(connection);
        }
    }

    fn report_drained(&mut self, connection: ConnectionId) {
        match self.connections.get_mut(&connection) {
            Some(wire) if wire.is_stalled => wire.owes_drained = true,
            _ => self.step(Event::Drained { connection }),
        }
    }

    fn send(&mut self, connection: ConnectionId, packet: &Packet) {
        let Some(wire) = self.connections.get_mut(&connection) else {
            return;
        };
        protocol::packet::encode(packet, wire.version, wire.packet_size_max, &mut wire.bytes)
            .expect("the node keeps to the client's Maximum Packet Size");
    }
}

/// Lets a store execute what no log has.
fn damage(store: &mut Store, action: CommandAction) {
    let (node, incarnation, request) = (0, 0, 0);
    let origin = Origin {
        node,
        incarnation,
        request,
    };
    store.apply(Command { origin, action }, &mut Vec::new());
}

fn is_of_log(write: &Write) -> bool {
    let (Write::Put { keyspace, .. }
    | Write::Remove { keyspace, .. }
    | Write::RemoveOnce { keyspace, .. }
    | Write::RemoveRange { keyspace, .. }
    | Write::RemoveRangeOnce { keyspace, .. }) = write;
    *keyspace == Keyspace::Log
}

/// The wall clock at the start of every simulation: 2023-10-03 23:07:05 UTC, the example of the protocol's text.
pub(crate) const WALL_AT_ORIGIN: u64 = 1_696_374_425_000;
