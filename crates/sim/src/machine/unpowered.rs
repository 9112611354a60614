//! A simulated server without power: what it had in memory is gone, its disk is not.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use broker::recovery::RecordsError;
use broker::{Action, Node, NodeConfig, RecoveredControl, RecoveredStore, Recovery};
use bytes::Bytes;
use cluster::control::{CONTROL, Control};
use cluster::forming::{Founder, Founding};
use cluster::random::Random;
use cluster::replica::record::{self, HardState, LogPoint};
use cluster::replica::{Replica, ReplicaConfig};
use cluster::{GroupId, Keyspace, NodeId, Write};
use mqtt::now::Now;
use state_service::{DialectChoice, RecoveredGroup, SCAN_KEY_BYTES, ScanSeal, StateStoreConfig};
use storage::{Drawn, Identity, RecoveryError, SimulatedDisk, Storage, recover_control, recover_group};
use store::Store;

use super::{Machine, MachineConfig, WALL_AT_ORIGIN};
use crate::rest::Bound;

/// What is left of a server whose power is off.
#[derive(Debug)]
pub struct Unpowered {
    pub(super) config: MachineConfig,
    pub(super) disk: SimulatedDisk,
    pub(super) snapshots: Snapshots,
    pub(super) origin: Instant,
}

/// The latest durable snapshot of each group.
pub(super) type Snapshots = BTreeMap<GroupId, (LogPoint, Vec<Bytes>)>;

/// What becomes of what was written and not synced when the power fails. A batch that was written in part is found by its checksum
/// and cut off, so there is no third way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torn {
    /// Everything after some batch is lost.
    Somewhere,
    /// All of it is lost.
    AtTheSync,
}

/// Why a server does not start. Nothing was changed.
#[derive(Debug)]
pub enum StartError {
    /// A record of the session plane cannot be understood.
    Record(RecordsError),
    /// The log, or what goes with it, is damaged.
    Log(RecoveryError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
        }
    }
}

impl Unpowered {
    /// A server with an empty disk.
    pub fn new(config: MachineConfig, origin: Instant) -> Self {
        let disk = SimulatedDisk::new(config.seed);
        Self::with_disk(config, disk, origin)
    }

    pub(super) fn with_disk(config: MachineConfig, disk: SimulatedDisk, origin: Instant) -> Self {
        Self {
            config,
            disk,
            snapshots: Snapshots::new(),
            origin,
        }
    }

    /// The power is back, at this moment, and there is room on the disk.
    ///
    /// # Errors
    /// If what is on the disk cannot be understood: the server does not start.
    pub fn start(mut self, at: Instant) -> Result<Machine, StartError> {
        self.disk.full_after(u64::MAX);
        let now = now_at(&self.config, self.origin, at);
        let drawn = Drawn {
            node: self.config.node,
            // Nodes say hello at the edge, which is not simulated.
            nonce: 0,
        };
        let identity = Identity::take(&mut self.disk, drawn).map_err(StartError::Log)?;
        if self.config.forgets_votes {
            self.forget_votes();
        }
        let (node, actions) = recovered_node(&self.config, &identity, &self.disk, &self.snapshots, now)?;
        let mut machine = Machine::starting(self, node, now, identity.incarnation().0 << 16);
        machine.carry_out(actions);
        let is_alone = machine.config.voters.len() == 1;
        let mut bound = Bound::new("a node alone does not lead");
        while is_alone && !machine.node.is_available() {
            bound.round().unwrap_or_else(|why| panic!("{why}"));
            machine.flush();
            machine.write_all();
        }
        Ok(machine)
    }

    /// The disk, to look at.
    pub fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// One bit of a durable record flips: of the log, or of what goes with it. Says whether that record is needed; what is not may
    /// be damaged without anybody noticing it.
    pub fn flip_bit(&mut self, random: &mut Random) -> bool {
        let mut records = Vec::new();
        for keyspace in [Keyspace::Meta, Keyspace::Log] {
            let mut note = |key: &[u8], value: Bytes| {
                records.push((keyspace, Bytes::copy_from_slice(key), value.len()));
                ControlFlow::Continue(())
            };
            self.disk
                .scan(keyspace, &[], &mut note)
                .expect("the simulated disk can be read");
        }
        if records.is_empty() {
            return false;
        }
        let (keyspace, key, len) = &records[random.between(0, records.len())];
        let is_needed = *keyspace == Keyspace::Meta || self.is_in_log(key);
        self.disk.damage(*keyspace, key, random.between(0, *len)) && is_needed
    }

    /// Entries before the log's start are only still there because nobody has removed them yet.
    fn is_in_log(&self, key: &[u8]) -> bool {
        record::parse_entry_key(key).is_ok_and(|(group, index)| {
            let start = storage::recovery::log_start(&self.disk, group);
            start.is_ok_and(|start| index > start.index)
        })
    }

    /// The defect: the term stays, the vote does not.
    fn forget_votes(&mut self) {
        for group in (0..self.config.groups).map(GroupId) {
            let key = record::hard_state_key(group);
            let found = self.disk.get(Keyspace::Meta, &key).ok().flatten();
            let state = found.and_then(|found| record::decode_hard_state(group, &found).ok());
            let Some(state) = state else { continue };
            let state = HardState { vote: None, ..state };
            let write = Write::Put {
                keyspace: Keyspace::Meta,
                key,
                value: record::encode_hard_state(group, state),
            };
            self.disk.write(&[write]).expect("the disk was not filled yet");
        }
    }
}

/// What the clocks of a server say at `instant`.
pub(super) fn now_at(config: &MachineConfig, origin: Instant, instant: Instant) -> Now {
    let passed = u64::try_from((instant - origin).as_millis()).expect("simulations are short");
    let wall = (WALL_AT_ORIGIN + passed).saturating_add_signed(config.clock_ahead);
    Now {
        instant,
        wall,
        system_wall: wall,
    }
}

fn recovered_node(
    config: &MachineConfig,
    identity: &Identity,
    disk: &SimulatedDisk,
    snapshots: &Snapshots,
    now: Now,
) -> Result<(Node, Vec<Action>), StartError> {
    let node_config = NodeConfig {
        limits: config.limits.clone(),
        sys_interval: config.sys_interval,
        share_strategy: config.share_strategy,
        slots: config.slots.clone(),
        policies: config.policies.clone(),
        silence_max: config.silence_max,
        redirect: config.redirect.clone(),
        traces: config.traces,
        seed: config.seed,
    };
    let mut recovery = Recovery::new(now, node_config);
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
        read_all.map_err(StartError::Record)?;
    }
    let groups = (0..config.groups)
        .map(|group| recovered_group(config, GroupId(group), disk, snapshots, now))
        .collect::<Result<_, _>>()?;
    let state_store = StateStoreConfig {
        node: identity.node.0,
        incarnation: identity.incarnation().0,
        dialect: DialectChoice::Auto,
        quota: config.quota,
        entry_bytes_max: 1 << 20,
        pending_max: config.store_requests_max,
        snapshot_log_bytes: config.snapshot_log_bytes,
        snapshot_chunk_bytes: SNAPSHOT_CHUNK_BYTES,
        digest_interval: DIGEST_INTERVAL,
        scan: config.scan,
        scan_seal: scan_seal(),
    };
    let mut actions = Vec::new();
    let node = recovery.start(
        RecoveredStore {
            config: state_store,
            groups,
            control: config
                .has_control
                .then(|| recovered_control(config, disk, now))
                .transpose()?,
        },
        &mut actions,
    );
    Ok((node.map_err(StartError::Record)?, actions))
}

/// Seal of the tokens of all simulated nodes, so that a scan can be followed from one to the other.
pub(crate) fn scan_seal() -> ScanSeal {
    ScanSeal::new(&[7; SCAN_KEY_BYTES])
}

fn recovered_group(
    config: &MachineConfig,
    group: GroupId,
    disk: &SimulatedDisk,
    snapshots: &Snapshots,
    now: Now,
) -> Result<RecoveredGroup, StartError> {
    let mut started = Vec::new();
    let snapshot = snapshots.get(&group);
    let recovered = recover_group(disk, group, snapshot.map(|(point, _)| *point)).map_err(StartError::Log)?;
    let store = match snapshot {
        Some((_, chunks)) => Store::restore(chunks.iter().cloned()).expect("the snapshot is whole"),
        None => Store::new(),
    };
    let mut replica_config = ReplicaConfig::new(group, config.node, config.voters.clone(), config.seed);
    replica_config.log_tail_entries = config.log_tail_entries;
    let replica =
        Replica::new(now.instant, replica_config, recovered, &mut started).expect("the replica fits its log");
    Ok(RecoveredGroup {
        store,
        replica,
        started,
    })
}

/// Small, so that a snapshot of a few keys has several.
const SNAPSHOT_CHUNK_BYTES: usize = 256;

/// Often, compared with how long a simulation takes.
const DIGEST_INTERVAL: Duration = Duration::from_millis(100);

fn recovered_control(
    config: &MachineConfig,
    disk: &SimulatedDisk,
    now: Now,
) -> Result<RecoveredControl, StartError> {
    let founders = config.voters.iter().map(|node| founder(*node)).collect();
    let founding = Founding::new(founders, config.groups).expect("nodes can form a cluster");
    let (control, recovered) = recover_control(disk).map_err(StartError::Log)?;
    let mut started = Vec::new();
    let mut replica_config = ReplicaConfig::new(CONTROL, config.node, config.voters.clone(), config.seed);
    replica_config.log_tail_entries = CONTROL_LOG_TAIL;
    let replica =
        Replica::new(now.instant, replica_config, recovered, &mut started).expect("the replica fits its log");
    Ok(RecoveredControl {
        control: control.unwrap_or_else(|| Control::new(&founding)),
        replica,
        started,
        entries_kept: CONTROL_ENTRIES_KEPT,
    })
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
