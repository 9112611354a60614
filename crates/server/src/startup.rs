//! From a data directory to a node that is ready to serve.

use broker::{NodeConfig, RecoveredControl, RecoveredStore, Recovery};
use cluster::control::{CONTROL, Control};
use cluster::forming::{Founding, Stage};
use cluster::replica::{Replica, ReplicaConfig};
use cluster::{GroupId, NodeId};
use mqtt::now::Now;
use state_service::{RecoveredGroup, SCAN_KEY_BYTES, ScanSeal, StateStoreConfig};
use std::ops::ControlFlow;
use std::time::Duration;
use storage::{
    ClockMark, Drawn, Engine, EngineConfig, Identity, KnownStarts, RolledBack, SnapshotFiles, Storage,
    is_blank, open_group, read_membership, recover_control,
};
use store::{ScanLimits, Store};

use crate::clock::{self, Clock};
use crate::config::{self, Config, Durability};
use crate::error::RunError;
use crate::machine_memory;
use crate::traces;

/// A node, its engine, and what the node wants done first.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) node: broker::Node,
    pub(crate) actions: Vec<broker::Action>,
    pub(crate) engine: Engine,
    pub(crate) snapshots: SnapshotFiles,
}

/// A data directory that is open, and whose it is.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    pub(crate) identity: Identity,
    pub(crate) known_starts: KnownStarts,
    /// The directory is an older copy.
    pub(crate) rolled_back: Option<RolledBack>,
    /// How far the node is on its way into a cluster.
    pub(crate) stage: Stage,
    /// What the node's clock has said before.
    pub(crate) mark: Option<ClockMark>,
    random: Random,
}

impl Opened {
    /// A number that nobody can guess.
    pub(crate) fn random(&mut self) -> u64 {
        self.random.next()
    }
}

/// Opens the data directory. A node of a cluster and one without do not go on with each other's.
pub(crate) fn open(config: &Config, encryption: storage::Encryption) -> Result<Opened, RunError> {
    let mut engine = open_engine(config, encryption)?;
    let stage = read_membership(&engine)?;
    let is_member = config.cluster.is_some();
    if is_member && stage == Stage::Waiting && !is_blank(&engine)? {
        return Err(RunError::NotEmpty {
            directory: config.data_dir.clone(),
        });
    }
    let mut random = Random::new();
    let mark = ClockMark::read(&engine)?;
    let drawn = Drawn {
        node: NodeId(random.next().max(1)),
        nonce: random.next(),
    };
    let identity = Identity::take(&mut engine, drawn)?;
    let (known_starts, rolled_back) = (KnownStarts::read(&engine)?, RolledBack::read(&engine)?);
    match &stage {
        Stage::Bound(_, founding) if !is_member => Err(RunError::NeedsCluster {
            directory: config.data_dir.clone(),
            node: identity.node,
            cluster: founding.cluster(),
        }),
        _ => Ok(Opened {
            engine,
            identity,
            known_starts,
            rolled_back,
            stage,
            mark,
            random,
        }),
    }
}

/// Reads everything in the data directory and makes the node. With the founding of its cluster, if it belongs to one.
pub(crate) fn start(
    opened: Opened,
    clock: &Clock,
    config: &Config,
    policies: mqtt::policies::Policies,
    founding: Option<&Founding>,
) -> Result<Started, RunError> {
    let Opened {
        engine,
        identity,
        mark,
        mut random,
        ..
    } = opened;
    let snapshots = engine.snapshot_files()?;
    // What is on disk has lived until then at least.
    let now = clock::not_before(mark, clock.now());
    tell_of_clock(now, clock::now());

    let mut groups = Vec::new();
    for group in (0..founding.map_or(GROUPS, Founding::groups)).map(GroupId) {
        let replica_config = replica_config(config, &identity, founding, group, random.next());
        groups.push(recover_group(replica_config, &engine, &snapshots)?);
    }
    let control_config = replica_config(config, &identity, founding, CONTROL, random.next());
    let control = recover_control_group(control_config, &engine, founding)?;
    let store = RecoveredStore {
        config: state_store_config(config, &identity),
        groups,
        control,
    };
    let node_config = node_config(config, policies, &mut random);
    let mut recovery = Recovery::new(now, node_config);
    for keyspace in Recovery::KEYSPACES {
        let mut failed = None;
        engine.scan(
            keyspace,
            &[],
            &mut |key, value| match recovery.record(keyspace, key, value) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        if let Some(error) = failed {
            return Err(RunError::Record {
                keyspace: keyspace.name(),
                error,
            });
        }
    }
    let mut actions = Vec::new();
    let node = recovery.start(store, &mut actions);
    let node = node.map_err(|error| RunError::Record {
        keyspace: cluster::Keyspace::Plane.name(),
        error,
    })?;
    let took_ms = u64::try_from((clock::instant() - now.instant).as_millis()).unwrap_or(u64::MAX);
    let gauges = node.gauges();
    tracing::info!(
        node = %identity.node,
        incarnation = identity.incarnation().0,
        keys = gauges.store.keys,
        sessions = gauges.sessions,
        memory = gauges.memory.total(),
        memory_max = gauges.memory_max,
        took_ms,
        "recovered"
    );
    Ok(Started {
        node,
        actions,
        engine,
        snapshots,
    })
}

/// Says that the system's clock is behind what the node has seen before.
fn tell_of_clock(now: Now, system: Now) {
    let behind = Duration::from_millis(now.wall.saturating_sub(system.wall));
    if behind > CLOCK_BEHIND_MAX {
        tracing::warn!(
            ?behind,
            "the system's clock is behind what this node has seen: deadlines of messages and sessions go on from there; check the clock"
        );
    }
}

/// Clocks are corrected by so much without a word.
const CLOCK_BEHIND_MAX: Duration = Duration::from_secs(1);

fn node_config(config: &Config, policies: mqtt::policies::Policies, random: &mut Random) -> NodeConfig {
    NodeConfig {
        limits: limits(config),
        sys_interval: config.sys_interval,
        share_strategy: config.shared_subscriptions.strategy.for_broker(),
        policies,
        silence_max: config.silence_max(),
        redirect: config.redirect.for_broker(),
        slots: None,
        traces: traces::config(&config.otlp, random.next()),
        seed: random.next(),
    }
}

fn limits(config: &Config) -> mqtt::limits::Limits {
    let mut limits = config.limits.for_broker(machine_memory::bytes());
    limits.slow_operation = config.log.slow_operation.unwrap_or(Duration::MAX);
    if config.self_test.interval.is_some() {
        // The client inside takes no other client's place.
        limits.connections_max = limits.connections_max.saturating_add(1);
    }
    limits
}

/// The engine's memory is not in the broker's account, so it follows the limit as well.
fn engine_config(config: &Config) -> EngineConfig {
    let defaults = EngineConfig::default();
    let memory_max = config.limits.memory_max.bytes(machine_memory::bytes());
    let part = usize::try_from(memory_max / ENGINE_PART).unwrap_or(usize::MAX);
    EngineConfig {
        changes_bytes_max: part.clamp(ENGINE_BYTES_LEAST, defaults.changes_bytes_max),
        ..defaults
    }
}

fn open_engine(config: &Config, encryption: storage::Encryption) -> Result<Engine, RunError> {
    let engine = Engine::open_with(&config.data_dir, engine_config(config), encryption)?;
    let key = engine.key().map(|key| key.0);
    match (key, engine.has_changed_encryption()) {
        (Some(key), true) => tracing::warn!(
            key,
            "everything in the data directory was encrypted with this key; older keys are not needed any more"
        ),
        (Some(key), false) => tracing::info!(key, "everything in the data directory is encrypted"),
        (None, true) => {
            tracing::warn!("everything in the data directory was decrypted; no key is needed any more");
        }
        (None, false) => {}
    }
    Ok(engine)
}

/// The founders vote, and a node without a cluster alone.
fn replica_config(
    config: &Config,
    identity: &Identity,
    founding: Option<&Founding>,
    group: GroupId,
    seed: u64,
) -> ReplicaConfig {
    let voters = founding.map_or_else(|| vec![identity.node], Founding::ids);
    let replica_config = ReplicaConfig {
        may_lose_tail: config.durability == Durability::Memory,
        ..ReplicaConfig::new(group, identity.node, voters, seed)
    };
    let memory_max = config.limits.memory_max.bytes(machine_memory::bytes());
    match &config.cluster {
        None => replica_config,
        Some(settings) => ReplicaConfig {
            log_held_bytes: replica_config.log_held_bytes.min(memory_max / LOG_PART),
            heartbeat_interval: settings.heartbeat_interval,
            election_timeout_min: settings.election_timeout,
            election_timeout_max: 2 * settings.election_timeout,
            ..replica_config
        },
    }
}

fn recover_group(
    replica_config: ReplicaConfig,
    engine: &Engine,
    snapshots: &SnapshotFiles,
) -> Result<RecoveredGroup, RunError> {
    let group = replica_config.group;
    let (snapshot, recovered) = open_group(engine, snapshots, group)?;
    let store = match snapshot {
        None => Store::new(),
        Some(mut reader) => {
            for error in reader.passed_over() {
                tracing::error!(%group, %error, "a damaged snapshot was passed over; the log covers for it");
            }
            let mut failed = None;
            let chunks = reader
                .by_ref()
                .map_while(|chunk| chunk.map_err(|error| failed = Some(error)).ok());
            let restored = Store::restore(chunks);
            match failed {
                Some(error) => return Err(storage::RecoveryError::from(error).into()),
                None => restored?,
            }
        }
    };
    let mut started = Vec::new();
    let replica = Replica::new(clock::instant(), replica_config, recovered, &mut started)?;
    Ok(RecoveredGroup {
        store,
        replica,
        started,
    })
}

fn state_store_config(config: &Config, identity: &Identity) -> StateStoreConfig {
    let memory = config.limits.memory_max.for_quotas(machine_memory::bytes());
    StateStoreConfig {
        node: identity.node.0,
        incarnation: identity.incarnation().0,
        dialect: match config.state_store.dialect {
            config::DialectChoice::Auto => state_service::DialectChoice::Auto,
            config::DialectChoice::Sdk => state_service::DialectChoice::Sdk,
            config::DialectChoice::Published => state_service::DialectChoice::Published,
        },
        quota: config.state_store.quota(memory),
        entry_bytes_max: ENTRY_BYTES_MAX,
        pending_max: PENDING_MAX,
        snapshot_log_bytes: snapshot_log_bytes(config, memory),
        snapshot_chunk_bytes: SNAPSHOT_CHUNK_BYTES,
        digest_interval: DIGEST_INTERVAL,
        scan: ScanLimits::default(),
        scan_seal: scan_seal(),
    }
}

/// In a cluster the log is in memory until a snapshot has what it says.
fn snapshot_log_bytes(config: &Config, memory: u64) -> u64 {
    let least = config.snapshot.log_bytes_min;
    match config.cluster {
        Some(_) => least.min(memory / LOG_PART),
        None => least,
    }
}

/// Of this run only: what it has sealed is worth nothing after it.
fn scan_seal() -> ScanSeal {
    let mut key = [0; SCAN_KEY_BYTES];
    aws_lc_rs::rand::fill(&mut key).expect("the system has random numbers");
    ScanSeal::new(&key)
}

fn recover_control_group(
    replica_config: ReplicaConfig,
    engine: &Engine,
    founding: Option<&Founding>,
) -> Result<Option<RecoveredControl>, RunError> {
    let Some(founding) = founding else {
        return Ok(None);
    };
    let (control, recovered) = recover_control(engine)?;
    let mut started = Vec::new();
    let replica = Replica::new(clock::instant(), replica_config, recovered, &mut started)?;
    Ok(Some(RecoveredControl {
        control: control.unwrap_or_else(|| Control::new(founding)),
        replica,
        started,
        entries_kept: CONTROL_ENTRIES_KEPT,
    }))
}

/// Entries of the control group's log after which its state is written as one record. They are some 50 bytes long, and there is one
/// for each change of the cluster, and each change of the group's leader.
const CONTROL_ENTRIES_KEPT: u64 = 4_096;

/// The groups of the state store of a node without a cluster.
const GROUPS: u32 = 1;

/// A log entry is closed at this size, so that one slow write does not hold up too many requests.
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// The part of `limits.memory_max` that changes of the engine may take until they are moved to tables; five times as much while
/// the disk is slow. With less than the least, tables would be written all the time.
const ENGINE_PART: u64 = 64;

/// The part of it that the log of one group of a cluster may take.
const LOG_PART: u64 = 32;

const ENGINE_BYTES_LEAST: usize = 1 << 20;

/// A chunk of a snapshot on its way to another node: encoded in a tenth of a millisecond, read in one.
const SNAPSHOT_CHUNK_BYTES: usize = 128 << 10;

/// How often replicas compare their stores while something changes.
const DIGEST_INTERVAL: Duration = Duration::from_secs(5);

/// Requests of all clients that may wait for their decision; beyond it they are refused as unavailable.
const PENDING_MAX: usize = 100_000;

/// Seeds from the operating system: what is not to be guessed by clients starts here.
#[derive(Debug)]
struct Random(std::hash::RandomState);

impl Random {
    fn new() -> Self {
        Self(std::hash::RandomState::new())
    }

    fn next(&mut self) -> u64 {
        use std::hash::BuildHasher;
        let number = self.0.hash_one("statehold");
        self.0 = std::hash::RandomState::new();
        number
    }
}

#[cfg(test)]
mod tests {
    use broker::Event;
    use mqtt::ids::SessionNumber;
    use mqtt::memory::Held;
    use mqtt::message::Message;
    use mqtt::policies::Policies;
    use mqtt::records::retained;
    use mqtt::records::session::{self, Positions, Presence, SessionRecord};
    use protocol::packet::QoS;
    use protocol::properties::MessageProperties;
    use protocol::{Text, TopicName};

    use super::*;

    const HOUR: u64 = 3_600_000;
    const EXPIRY: Duration = Duration::from_secs(600);
    const LEFT: Duration = Duration::from_secs(100);

    /// What a run leaves behind at whose end `EXPIRY` is over but for `LEFT`, by a clock that says `wall` when it begins.
    fn earlier_run(config: &Config, now: Now) {
        let mut engine = Engine::open(&config.data_dir).unwrap();
        let drawn = Drawn {
            node: NodeId(7),
            nonce: 1,
        };
        Identity::take(&mut engine, drawn).unwrap();
        let record = SessionRecord {
            number: SessionNumber(1 << 32),
            expiry: u32::try_from(EXPIRY.as_secs()).unwrap(),
            presence: Presence::Disconnected { since: now.wall },
            positions: Positions {
                next_sequence: 0,
                sent_below: 0,
            },
            will: None,
            owner: None,
        };
        let message = Message {
            topic: TopicName::parse(Text::new("plant/1").unwrap()).unwrap(),
            payload: "21.5".into(),
            properties: MessageProperties::default(),
            qos: QoS::AtLeastOnce,
            retain: true,
            publisher: None,
            expires_at: Some(now.instant + EXPIRY),
            received_at: now.instant,
            held: Held::default(),
        };
        let passed = u64::try_from((EXPIRY - LEFT).as_millis()).unwrap();
        let mark = ClockMark {
            wall: now.wall + passed,
            is_last: true,
        };
        let client_id = Text::new("pump").unwrap();
        engine
            .write(&[
                session::put(&client_id, &record),
                retained::put(&message, now),
                mark.put(),
            ])
            .unwrap();
        engine.sync().unwrap();
    }

    #[test]
    fn mqtt_3_3_2_6_a_start_with_an_earlier_clock_extends_nothing() {
        let directory = tempfile::TempDir::new().unwrap();
        let config = Config {
            data_dir: directory.path().join("data"),
            sys_interval: None,
            ..Config::default()
        };
        let system = clock::now();
        // The system's clock was set back by an hour before this start.
        let before = Now {
            wall: system.wall + HOUR,
            ..system
        };
        earlier_run(&config, before);
        let opened = open(&config, storage::Encryption::none()).unwrap();
        let clock = Clock::going_on_from(opened.mark, Duration::ZERO);
        let mut node = start(opened, &clock, &config, Policies::default(), None)
            .unwrap()
            .node;
        let kept = |node: &broker::Node| (node.gauges().retained_messages, node.gauges().sessions);
        assert_eq!(kept(&node), (1, 1));
        for (later, expected) in [(Duration::ZERO, (1, 1)), (LEFT, (0, 0))] {
            let now = clock.now();
            let passed = u64::try_from(later.as_millis()).unwrap();
            let now = Now {
                instant: now.instant + later,
                wall: now.wall + passed,
                system_wall: now.wall + passed,
            };
            node.step(now, Event::Timeout, &mut Vec::new());
            assert_eq!(kept(&node), expected, "{later:?}");
        }
    }
}
