//! One simulated server: a node, its disk, its clock, and what it sent to each connection.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use broker::limits::Limits;
use broker::records::RecordError;
use broker::{
    Action, Answer, ClusterAnswer, ClusterQuestion, ConnectionId, DialectChoice, DiskTicket, Event, Node,
    NodeConfig, Now, Policies, PolicyId, Question, RecoveredControl, RecoveredGroup, RecoveredStore,
    Recovery, Redirect, Report, ShareStrategy, StateStoreConfig,
};
use bytes::{Bytes, BytesMut};
use cluster::control::{CONTROL, Control};
use cluster::forming::{Founder, Founding};
use cluster::replica::record::LogPoint;
use cluster::replica::{Replica, ReplicaConfig};
use cluster::{GroupId, NodeId, Write};
use protocol::Packet;
use protocol::packet::{DecodeError, Decoder, ProtocolVersion};
use storage::{Identity, SimulatedDisk, Storage, recover_control, recover_group};
use store::{Command, CommandAction, Image, Origin, Quota, ScanLimits, Store};

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
    /// By how many milliseconds its wall clock is ahead of the simulation's.
    pub clock_ahead: u64,
    /// Limits of the node.
    pub limits: Limits,
    /// How often `$SYS` is published.
    pub sys_interval: Option<Duration>,
    /// Clients have to say who they are; [`Machine::answer`] knows.
    pub authenticates: bool,
    /// What clients may do: by the first of them, if there is one.
    pub policies: Policies,
    /// Where clients are sent instead.
    pub redirect: Option<Redirect>,
    /// Who of those who share a subscription gets a message.
    pub share_strategy: ShareStrategy,
    /// Bytes of log after which a snapshot is taken.
    pub snapshot_log_bytes: u64,
    /// Entries that are kept before a snapshot.
    pub log_tail_entries: u64,
    /// Keys and bytes of the state store.
    pub quota: Quota,
    /// Requests of the state store that may wait for their decision.
    pub store_requests_max: usize,
    /// A defect to put in: the disk confirms before it syncs.
    pub acknowledges_before_sync: bool,
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
    /// What operators were told.
    pub reports: Vec<Report>,
    /// Who is in the cluster, as the node told its edge last.
    pub peers: BTreeSet<Founder>,
    /// What operators asked about the cluster, and were answered.
    cluster_answers: VecDeque<ClusterAnswer>,
}

/// The latest snapshot of each group.
type Snapshots = BTreeMap<GroupId, (LogPoint, Vec<Bytes>)>;

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
            limits: Limits::default(),
            sys_interval: None,
            authenticates: false,
            policies: Policies::default(),
            redirect: None,
            share_strategy: ShareStrategy::default(),
            snapshot_log_bytes: 64 << 20,
            log_tail_entries: 100_000,
            quota,
            store_requests_max: 100_000,
            acknowledges_before_sync: false,
        }
    }
}

impl Machine {
    /// A server with an empty disk, ready to serve. `origin` is any instant; only differences matter.
    pub fn new(config: MachineConfig, origin: Instant) -> Self {
        let disk = SimulatedDisk::new(config.seed);
        let now = Now {
            instant: origin,
            wall: WALL_AT_ORIGIN + config.clock_ahead,
        };
        Self::recover(config, disk, Snapshots::new(), origin, now).expect("there is nothing to read")
    }

    /// A server that finds this on its disk.
    ///
    /// # Errors
    /// If it cannot be understood: the server does not start.
    pub fn on_disk(config: MachineConfig, disk: SimulatedDisk, origin: Instant) -> Result<Self, RecordError> {
        let now = Now {
            instant: origin,
            wall: WALL_AT_ORIGIN,
        };
        Self::recover(config, disk, Snapshots::new(), origin, now)
    }

    fn recover(
        config: MachineConfig,
        mut disk: SimulatedDisk,
        snapshots: Snapshots,
        origin: Instant,
        now: Now,
    ) -> Result<Self, RecordError> {
        let identity =
            Identity::take(&mut disk, config.node).expect("a simulated disk is well after a crash");
        let (node, actions) = recovered_node(&config, identity, &disk, &snapshots, now)?;
        let mut machine = Self {
            config,
            node,
            disk,
            writing: VecDeque::new(),
            snapshotting: BTreeMap::new(),
            snapshots,
            origin,
            now,
            connections: BTreeMap::new(),
            resumed: VecDeque::new(),
            free_slots: Vec::new(),
            generation: identity.incarnation.0 << 16,
            questions: VecDeque::new(),
            to_peers: VecDeque::new(),
            reports: Vec::new(),
            peers: BTreeSet::new(),
            cluster_answers: VecDeque::new(),
        };
        machine.carry_out(actions);
        let is_alone = machine.config.voters.len() == 1;
        while is_alone && !machine.node.is_available() {
            machine.step(Event::Flush);
            machine.write_all();
        }
        Ok(machine)
    }

    /// The power fails and comes back: connections, memory and what was not synced are gone.
    #[must_use]
    pub fn crash(self) -> Self {
        self.crash_for(Duration::ZERO)
    }

    /// The power fails, and comes back after a while.
    #[must_use]
    pub fn crash_for(mut self, down: Duration) -> Self {
        // Batches on their way may or may not have reached the disk; the disk's seed decides.
        while let Some((_, writes)) = self.writing.pop_front() {
            self.disk.write(&writes).expect("the disk works until the crash");
        }
        self.disk.crash();
        self.move_clock(self.now.instant + down);
        Self::recover(self.config, self.disk, self.snapshots, self.origin, self.now)
            .expect("the node reads what it wrote")
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
        self.disk.write(&writes).expect("the simulated disk works");
        if !self.config.acknowledges_before_sync {
            self.disk.sync().expect("the simulated disk works");
        }
        self.step(Event::Durable { ticket });
        true
    }

    /// Flushes and writes until nothing is left to do.
    pub fn write_all(&mut self) {
        self.flush();
        while self.write_one() {
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
        let (node, incarnation, request) = (0, 0, 0);
        let origin = Origin {
            node,
            incarnation,
            request,
        };
        let keys_max = store.quota().keys_max - 1;
        let quota = Quota {
            keys_max,
            ..store.quota()
        };
        let action = CommandAction::Configure { quota };
        store.apply(Command { origin, action }, &mut Vec::new());
        *chunks = store.image().into_chunks().collect();
        true
    }

    /// An operator asks about the cluster.
    pub fn ask_cluster(&mut self, asks: ClusterQuestion) {
        self.step(Event::Cluster { question: 0, asks });
    }

    /// What operators were answered, since the last call.
    pub fn take_cluster_answers(&mut self) -> Vec<ClusterAnswer> {
        self.cluster_answers.drain(..).collect()
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

    fn move_clock(&mut self, to: Instant) {
        let passed = u64::try_from((to - self.origin).as_millis()).expect("simulations are short");
        self.now = Now {
            instant: to,
            wall: WALL_AT_ORIGIN + passed + self.config.clock_ahead,
        };
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
                Action::Persist { ticket, writes, .. } => self.writing.push_back((ticket, writes)),
                Action::Snapshot {
                    group,
                    index,
                    term,
                    image,
                } => {
                    self.snapshotting.insert(group, (LogPoint { index, term }, image));
                }
                Action::Report(report) => self.reports.push(report),
                Action::Resume { connection } => self.resumed.push_back(connection),
                Action::ToPeer { to, message } => self.to_peers.push_back((to, message)),
                Action::Peers { members, .. } => self.peers = members,
                Action::ClusterAnswer { answer, .. } => self.cluster_answers.push_back(answer),
                Action::Decided { .. } => {}
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

fn recovered_node(
    config: &MachineConfig,
    identity: Identity,
    disk: &SimulatedDisk,
    snapshots: &Snapshots,
    now: Now,
) -> Result<(Node, Vec<Action>), RecordError> {
    let node_config = NodeConfig {
        limits: config.limits.clone(),
        sys_interval: config.sys_interval,
        share_strategy: config.share_strategy,
        policies: config.policies.clone(),
        redirect: config.redirect.clone(),
        seed: config.seed,
    };
    let mut recovery = Recovery::new(now, node_config, identity.incarnation.0);
    for keyspace in Recovery::KEYSPACES {
        let mut read_all = Ok(());
        let mut read = |key: &[u8], value: Bytes| {
            read_all = recovery.record(keyspace, key, value);
            if read_all.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        disk.scan(keyspace, &[], &mut read)
            .expect("the simulated disk works");
        read_all?;
    }
    let groups = (0..config.groups)
        .map(|group| recovered_group(config, GroupId(group), identity, disk, snapshots, now))
        .collect();
    let state_store = StateStoreConfig {
        node: identity.node.0,
        incarnation: identity.incarnation.0,
        dialect: DialectChoice::Auto,
        quota: config.quota,
        entry_bytes_max: 1 << 20,
        pending_max: config.store_requests_max,
        snapshot_log_bytes: config.snapshot_log_bytes,
        snapshot_chunk_bytes: SNAPSHOT_CHUNK_BYTES,
        digest_interval: DIGEST_INTERVAL,
        scan: ScanLimits::default(),
    };
    let mut actions = Vec::new();
    let node = recovery.start(
        RecoveredStore {
            config: state_store,
            groups,
            control: config
                .has_control
                .then(|| recovered_control(config, identity, disk, now)),
        },
        &mut actions,
    );
    Ok((node, actions))
}

fn recovered_group(
    config: &MachineConfig,
    group: GroupId,
    identity: Identity,
    disk: &SimulatedDisk,
    snapshots: &Snapshots,
    now: Now,
) -> RecoveredGroup {
    let mut started = Vec::new();
    let snapshot = snapshots.get(&group);
    let recovered = recover_group(disk, group, snapshot.map(|(point, _)| *point)).expect("the log is whole");
    let store = match snapshot {
        Some((_, chunks)) => Store::restore(chunks.iter().cloned()).expect("the snapshot is whole"),
        None => Store::new(),
    };
    let mut replica_config = ReplicaConfig::new(group, identity.node, config.voters.clone(), config.seed);
    replica_config.log_tail_entries = config.log_tail_entries;
    let replica =
        Replica::new(now.instant, replica_config, recovered, &mut started).expect("the replica fits its log");
    RecoveredGroup {
        store,
        replica,
        started,
    }
}

/// Small, so that a snapshot of a few keys has several.
const SNAPSHOT_CHUNK_BYTES: usize = 256;

/// Often, compared with how long a simulation takes.
const DIGEST_INTERVAL: Duration = Duration::from_millis(100);

fn recovered_control(
    config: &MachineConfig,
    identity: Identity,
    disk: &SimulatedDisk,
    now: Now,
) -> RecoveredControl {
    let founders = config.voters.iter().map(|node| founder(*node)).collect();
    let founding = Founding::new(founders, config.groups).expect("nodes can form a cluster");
    let (control, recovered) = recover_control(disk).expect("the log is whole");
    let mut started = Vec::new();
    let mut replica_config = ReplicaConfig::new(CONTROL, identity.node, config.voters.clone(), config.seed);
    replica_config.log_tail_entries = CONTROL_LOG_TAIL;
    let replica =
        Replica::new(now.instant, replica_config, recovered, &mut started).expect("the replica fits its log");
    RecoveredControl {
        control: control.unwrap_or_else(|| Control::new(&founding)),
        replica,
        started,
        entries_kept: CONTROL_ENTRIES_KEPT,
    }
}

/// So few that nodes which come late need the state instead.
const CONTROL_ENTRIES_KEPT: u64 = 6;
const CONTROL_LOG_TAIL: u64 = 1;

/// A node of a simulated cluster.
pub fn founder(node: NodeId) -> Founder {
    let address = format!("node{node}:7000");
    Founder {
        node,
        address: address.parse().expect("a name and a port"),
    }
}

/// The wall clock at the start of every simulation: 2023-10-03 23:07:05 UTC, the example of the protocol's text.
const WALL_AT_ORIGIN: u64 = 1_696_374_425_000;
