//! From what is on disk to a node that runs.
//!
//! The caller reads the keyspaces in the order of [`Recovery::KEYSPACES`] and gives each record to
//! [`Recovery::record`]; [`Recovery::start`] makes the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cluster::write::Keyspace;
use cluster::{Incarnation, NodeId};
use mqtt::connection::Connections;
use mqtt::memory::Memory;
use mqtt::now::Now;
use mqtt::policies::PoliciesInForce;
use mqtt::records::{self, RecordError};
use mqtt::retained::{Edition, Retained};
use mqtt::subscriptions::{Shares, Subscriptions};
use mqtt::timers::Timers;
use mqtt::traces::Tracer;
use protocol::{Text, TopicName};
use session_plane::Run;
use session_plane::plane::PlaneImage;
use state_service::{Groups, RecoveredGroup, StateStoreConfig};

use crate::backups::Restorations;
use crate::claims::Claims;
use crate::closing::Shutdown;
use crate::commits::Commits;
use crate::control_group::{ControlGroup, RecoveredControl};
use crate::counters::Counters;
use crate::node::{Action, Node, NodeConfig};
use crate::relay::Relay;
use crate::replication::{Older, OlderSessions, OlderTopics, PlaneRecords, Replication};
use crate::routing::RouteScratch;
use crate::sessions::{ForcedEnds, Sessions};
use crate::sys_topics::SysTopics;
use crate::turns::{Turns, Work};
use crate::unknown_recipients::UnknownRecipients;

/// The state store as it was recovered.
#[derive(Debug)]
pub struct RecoveredStore {
    /// Its settings, for all groups together.
    pub config: StateStoreConfig,
    /// Its groups, in the order of their numbers.
    pub groups: Vec<RecoveredGroup>,
    /// The control group, where the node is a member of a cluster.
    pub control: Option<RecoveredControl>,
}

/// Collects records until the node can be made.
#[derive(Debug)]
pub struct Recovery {
    now: Now,
    config: NodeConfig,
    retained: Retained,
    memory: Memory,
    /// Records of the plane, in the order of their keys.
    plane: PlaneRecords,
    /// Topics of a directory without a plane. None: of a server without a cluster.
    older: Vec<(TopicName, Option<Edition>)>,
    /// Sessions of a directory whose sessions were not upon the plane.
    older_sessions: OlderSessions,
}

/// Records of the disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// One of a session, or of what is due to it.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Sessions of a cluster of an older version. Each node has a part of them, and none knows which is the latest.
    #[error(
        "the data directory has sessions of a cluster of an older version, such as that of client \"{client_id}\". Take a backup of the cluster with that version, start the nodes with new data directories, and restore it (docs/backup.md)"
    )]
    OlderCluster {
        /// One of the clients.
        client_id: Text,
    },
    /// One of the session plane, or they do not go together.
    #[error("the records of the session plane are damaged: {0}")]
    Plane(#[from] session_plane::RecordError),
}

impl Recovery {
    /// The order in which keyspaces are to be read.
    pub const KEYSPACES: [Keyspace; 6] = [
        Keyspace::Sessions,
        Keyspace::Subscriptions,
        Keyspace::Queue,
        Keyspace::Received,
        Keyspace::Retained,
        Keyspace::Plane,
    ];

    /// Nothing read yet.
    pub fn new(now: Now, config: NodeConfig) -> Self {
        Self {
            now,
            retained: Retained::new(&config.limits),
            memory: Memory::default(),
            config,
            plane: PlaneRecords::default(),
            older: Vec::new(),
            older_sessions: OlderSessions::default(),
        }
    }

    /// Takes one record.
    ///
    /// # Errors
    /// If it cannot be understood: the server must not start, since going on would lose what it says.
    pub fn record(&mut self, keyspace: Keyspace, key: &[u8], value: Bytes) -> Result<(), RecordsError> {
        match keyspace {
            Keyspace::Sessions | Keyspace::Subscriptions | Keyspace::Queue | Keyspace::Received => {
                self.older_sessions.record(keyspace, key, value)?;
            }
            Keyspace::Retained => self.retained(key, value)?,
            Keyspace::Plane => self.plane.read(Bytes::copy_from_slice(key), &value)?,
            Keyspace::Meta | Keyspace::Log => {}
        }
        Ok(())
    }

    /// Makes the node.
    ///
    /// # Errors
    /// If the records of the session plane do not go together: the server must not start with a part of them.
    pub fn start(self, store: RecoveredStore, actions: &mut Vec<Action>) -> Result<Node, RecordsError> {
        let now = self.now;
        let image = PlaneImage::of_records(self.plane)?;
        let incarnation = store.config.incarnation;
        let node_id = NodeId(store.config.node);
        let control = store
            .control
            .map(|control| Box::new(ControlGroup::new(now, node_id, control)));
        let groups = Groups::new(&store.config, store.groups);
        if let Some(client_id) = self.older_sessions.first().filter(|_| control.is_some()) {
            let client_id = client_id.clone();
            return Err(RecordsError::OlderCluster { client_id });
        }
        let older = older_topics(self.older, node_id);
        let older = Older {
            topics: older,
            sessions: self.older_sessions,
        };
        let run = Run {
            node: node_id,
            incarnation: Incarnation(incarnation),
        };
        let members = control
            .iter()
            .flat_map(|control| control.control().nodes().keys());
        let members = members.copied().collect();
        let replication = Replication::new(now, (&self.config, &self.memory), (run, members), image, older);
        let seed = self.config.seed;
        let mut node = Node {
            connections: Connections::default(),
            claims: Claims::default(),
            sessions: Sessions::new(seed),
            forced_ends: ForcedEnds::default(),
            subscriptions: Subscriptions::new(seed),
            shares: Shares::new(seed),
            retained: self.retained,
            replication: Box::new(replication),
            held: UnknownRecipients::default(),
            timers: Timers::new(),
            commits: Commits::default(),
            groups,
            control,
            relay: Relay::new(node_id, incarnation),
            restorations: Restorations::default(),
            outputs: Vec::new(),
            routes: RouteScratch::default(),
            tracer: Tracer::new(self.config.traces),
            work: Work::default(),
            turns: Turns::default(),
            counters: Counters::default(),
            memory: self.memory,
            sys_topics: SysTopics::new(now.instant, self.config.sys_interval),
            missed: BTreeMap::new(),
            policies: PoliciesInForce::new(self.config.policies.clone()),
            authenticating: 0,
            ending: Shutdown::default(),
            random: seed ^ u64::from(incarnation),
            config: self.config,
        };
        node.with_each_group(now, actions, |service, outputs| service.start(now, outputs));
        node.begin_retained(now);
        node.take_over_older_sessions(now, actions);
        node.with_control(now, actions, |control, _, outputs, actions| {
            control.start(now, outputs, actions);
        });
        Ok(node)
    }

    fn retained(&mut self, key: &[u8], value: Bytes) -> Result<(), RecordError> {
        let record = records::retained::decode(key, value, self.now)?;
        self.older.push((record.topic, record.edition));
        if let Some(message) = record.message {
            let message = Arc::new(message.counted(&self.memory.messages));
            self.retained.keep(message, record.edition);
        }
        Ok(())
    }
}

/// Topics of an older directory. Those without an edition are of a server that was in no cluster.
fn older_topics(found: Vec<(TopicName, Option<Edition>)>, node: NodeId) -> OlderTopics {
    let mut older = OlderTopics::default();
    for (topic, edition) in found {
        older.insert(&topic, edition.unwrap_or(Edition::of_old(node)));
    }
    older
}
