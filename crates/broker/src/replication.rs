//! Replication: the session plane of this node, which has what topics retain.
//!
//! ```text
//!   publishing, expiry                    other nodes
//!     | retain, clear, remove               | ^ frames of channels
//!     v                                     v |
//!   .--------------------- Plane (session_plane) ---------------------.
//!   '------------------------------------------------------------------'
//!     | topics that have changed            | ^ records, and what is durable
//!     v                                     v |
//!   Retained (search by filter)           Keyspace::Plane
//! ```
//!
//! A server that is in no cluster is a cluster of one, and does the same. A write counts in this node's copy at once. Whoever waits for it
//! goes on when all nodes that are present have it on their disks. `docs/internals/session-plane.md` has the rules.
//!
//! *Invariants*: the map that filters are searched in says what the copy says, at the end of each step. Whoever waits for an event goes on
//! once, when it is durable.

mod channel;
mod figures;
mod frames;
mod limits;
mod older;
mod persisting;
mod retaining;
mod stepping;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::{Incarnation, NodeId};
use mqtt::now::Now;
use session_plane::plane::{self, Plane, PlaneAction, PlaneImage};
use session_plane::{ClientId, NodeState, RecordsReader, Run, Slot};

pub use self::figures::ReplicationFigures;
pub(crate) use self::frames::REPLICATION;
pub(crate) use self::older::OlderTopics;
pub(crate) use self::retaining::RetainOutcome;
pub use self::retaining::TopicSeen;
use self::value::{NoMessage, NoSessions, RetainedValue};
use crate::awake::Awake;
use crate::node::NodeConfig;
use crate::waiting::Waiter;

use self::channel::Channel;
use self::frames::Encoder;

/// Plane of this node.
type RetainedPlane = Plane<RetainedValue, NoMessage, NoSessions>;
/// Action of the plane.
type RetainedAction = PlaneAction<RetainedValue, NoMessage>;
/// Records of the plane, as a start reads them.
pub(crate) type PlaneRecords = RecordsReader<RetainedValue, NoMessage>;

/// Event of this node's plane that somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicatedEvent(u64);

/// Time between two looks at a plane that has nobody else.
const ALONE_EVERY: Duration = Duration::from_secs(60);

/// The plane, its connections, and what waits for it.
#[derive(Debug)]
pub(crate) struct Replication {
    run: Run,
    plane: RetainedPlane,
    /// The plane's monotonic time stands while the process does.
    awake: Awake,
    origin: Instant,
    members: BTreeSet<NodeId>,
    channels: BTreeMap<NodeId, Channel>,
    /// It has the event that was encoded last, until it is sent to all its receivers.
    encoder: Encoder,
    /// Own events that are not durable, and who waits for them.
    open: BTreeMap<u64, Vec<Waiter>>,
    /// Who waits until all nodes that are reached are present to the plane: what they wait for is durable at the others.
    late: Vec<Waiter>,
    /// Last own event that a point for the disk has.
    pointed: u64,
    /// Something else than own events came since the last point.
    is_changed: bool,
    /// The plane is looked at when the batch is over.
    is_due: bool,
    /// Next look at a plane that has nobody else.
    alone_at: Instant,
    /// Topics that are cleared while some node may not know that.
    cleared: BTreeSet<ClientId>,
    /// Bytes of their names.
    cleared_bytes: u64,
    /// Topics whose message has expired, until the primary owner has removed it.
    expired: BTreeSet<ClientId>,
    /// What an older data directory has of topics.
    older: OlderTopics,
    /// Publishers that are not read from.
    held: BTreeSet<mqtt::ids::ConnectionId>,
    is_ended: bool,
    figures: ReplicationFigures,
}

impl Replication {
    /// Replication of a run. `members` are the nodes of its cluster, or it alone.
    pub(crate) fn new(
        now: Now,
        config: &NodeConfig,
        (node, incarnation): (NodeId, u32),
        image: PlaneImage<RetainedValue, NoMessage>,
        older: OlderTopics,
    ) -> Self {
        let incarnation = Incarnation(incarnation);
        let run = Run { node, incarnation };
        let members = BTreeSet::from([node]);
        let configured = limits::plane_config(run, members.clone(), config);
        let at = plane::Now {
            monotonic: now.instant,
            wall: now.wall,
        };
        let plane = Plane::new(at, &configured, image, NoSessions).expect("one node is a cluster");
        Self {
            run,
            plane,
            awake: Awake::new(now.instant),
            origin: now.instant,
            members,
            channels: BTreeMap::new(),
            encoder: Encoder::default(),
            open: BTreeMap::new(),
            late: Vec::new(),
            pointed: 0,
            is_changed: true,
            is_due: true,
            alone_at: now.instant,
            cleared: BTreeSet::new(),
            cleared_bytes: 0,
            expired: BTreeSet::new(),
            older,
            held: BTreeSet::new(),
            is_ended: false,
            figures: ReplicationFigures::default(),
        }
    }

    /// Clocks of the plane.
    fn at(&self, now: Now) -> plane::Now {
        plane::Now {
            monotonic: self.origin + self.awake.time(),
            wall: now.wall,
        }
    }

    /// There is no other node.
    fn is_alone(&self) -> bool {
        self.members.len() == 1
    }

    /// All nodes of the cluster are present, and this node's copy has merged with theirs: nobody comes with something that is not known.
    fn is_whole(&self) -> bool {
        self.is_alone() || self.plane.membership().is_complete() && self.plane.is_merged(Slot::RETAINED)
    }

    /// Whether these nodes are present to the plane, and this node's copy has merged with theirs. Nobody waits for a run that has ended.
    pub(crate) fn is_merged_with(&self, nodes: &mut impl Iterator<Item = NodeId>) -> bool {
        let membership = self.plane.membership();
        self.is_ended
            || self.is_alone()
            || nodes.all(|node| membership.is_present(node)) && self.plane.is_merged(Slot::RETAINED)
    }

    /// This node takes out what has expired, for all.
    fn is_remover(&self) -> bool {
        self.is_alone() || self.plane.state() != NodeState::Joining && self.plane.is_primary(Slot::RETAINED)
    }

    /// Whether nothing waits to be durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty() && self.late.is_empty()
    }

    /// Time of the next look at the plane.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.is_ended {
            return None;
        }
        if self.can_remove_expired() || self.can_take_over_older() {
            return Some(self.awake.looked_at());
        }
        if self.is_alone() {
            return Some(self.alone_at);
        }
        let left = self
            .plane
            .deadline()
            .saturating_duration_since(self.origin + self.awake.time());
        Some(self.awake.looked_at() + left)
    }
}
