//! A node without others and without a disk, for tests and benchmarks.

use std::time::{Duration, Instant};

use broker::{Action, Node, NodeConfig, RecoveredStore, Recovery, ShareStrategy};
use cluster::replica::{Recovered, Replica, ReplicaConfig};
use cluster::{GroupId, NodeId};
use mqtt::limits::Limits;
use mqtt::now::Now;
use mqtt::policies::Policies;
use state_service::{DialectChoice, RecoveredGroup, StateStoreConfig};
use store::{Quota, ScanLimits, Store};

/// Some moment.
#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way"
)]
pub(crate) fn now() -> Now {
    Now {
        instant: Instant::now(),
        wall: 1_700_000_000_000,
        system_wall: 1_700_000_000_000,
    }
}

/// A state store without a quota.
pub(crate) fn state_store() -> StateStoreConfig {
    StateStoreConfig {
        node: 1,
        incarnation: 1,
        dialect: DialectChoice::Auto,
        quota: Quota::UNLIMITED,
        entry_bytes_max: 1 << 20,
        pending_max: 100,
        snapshot_log_bytes: 1 << 20,
        snapshot_chunk_bytes: 1_024,
        digest_interval: Duration::from_secs(5),
        scan: ScanLimits::default(),
        scan_seal: state_service::ScanSeal::new(&[1; state_service::SCAN_KEY_BYTES]),
    }
}

/// The node, and what it wants done first.
pub(crate) fn node(now: Now, limits: Limits, state_store: StateStoreConfig) -> (Node, Vec<Action>) {
    recovered(now, Recovery::new(now, config(limits)), state_store)
}

/// Settings without anything beside the limits.
pub(crate) fn config(limits: Limits) -> NodeConfig {
    NodeConfig {
        limits,
        sys_interval: None,
        share_strategy: ShareStrategy::default(),
        silence_max: Duration::from_secs(2),
        policies: Policies::default(),
        redirect: None,
        traces: None,
        slots: None,
        seed: 1,
    }
}

/// The same of a node that has read its records.
pub(crate) fn recovered(now: Now, recovery: Recovery, state_store: StateStoreConfig) -> (Node, Vec<Action>) {
    let mut started = Vec::new();
    let replica = ReplicaConfig::new(GroupId(0), NodeId(1), vec![NodeId(1)], 1);
    let replica = Replica::new(now.instant, replica, Recovered::nothing(), &mut started);
    let group = RecoveredGroup {
        store: Store::new(),
        replica: replica.expect("it fits"),
        started,
    };
    let recovered = RecoveredStore {
        config: state_store,
        groups: vec![group],
        control: None,
    };
    let mut actions = Vec::new();
    let node = recovery.start(recovered, &mut actions);
    (node.expect("the records are whole"), actions)
}
