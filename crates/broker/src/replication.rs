//! Replication: the session plane of this node, which has sessions, queues and what topics retain.
//!
//! ```text
//!   CONNECT, SUBSCRIBE, PUBLISH, ...      other nodes
//!     | calls              ^ news           | ^ frames of channels
//!     v                    |                v |
//!   .------------------- Sessions (session_plane) --------------------.
//!   '------------------------------------------------------------------'
//!     | topics that have changed            | ^ records, and what is durable
//!     v                                     v |
//!   Retained (search by filter)           Keyspace::Plane
//! ```
//!
//! A server that is in no cluster is a cluster of one, and does the same. A change counts in this node's copy at once. Whoever waits for it
//! goes on when all owners that are present have it on their disks. `docs/internals/session-plane.md` has the rules.
//!
//! *Invariants*: the map that filters are searched in says what the copy says, at the end of each step. Whoever waits for an event goes on
//! once, when it is durable.

mod acting;
mod channel;
mod figures;
mod frames;
mod interests;
mod limits;
mod older;
mod older_sessions;
mod persisting;
mod reading;
mod retaining;
mod states;
mod stepping;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use cluster::NodeId;
use mqtt::memory::Memory;
use mqtt::now::Now;
use session_plane::plane::{self, Plane, PlaneImage};
use session_plane::sessions::{SessionsAction, SessionsMessage};
use session_plane::{ClientId, NodeState, RecordsReader, Run, Sessions, Slot};
use session_values::{Content, Filters, Value};

pub(crate) use self::acting::{packet_id_of, plane_packet_id};
pub use self::figures::ReplicationFigures;
pub(crate) use self::frames::{Cause, REPLICATION};
pub(crate) use self::older::{Older, OlderTopics};
pub(crate) use self::older_sessions::OlderSessions;
pub(crate) use self::retaining::RetainOutcome;
pub use self::retaining::TopicSeen;
pub(crate) use self::waits::{Awaited, GroupWait, ReplicatedEvent, Waiter};
use crate::awake::Awake;
use crate::node::NodeConfig;

use self::channel::Channel;
use self::frames::Encoder;
use self::interests::WantedFilters;
use self::states::KnownStates;
use self::waits::Waits;

/// Sessions of this node, upon its plane.
pub(crate) type NodeSessions = Sessions<Value, Content, Filters>;
/// Plane below them.
type NodePlane = Plane<Value, Content, Filters>;
/// Action of the sessions.
type NodeAction = SessionsAction<Value, Content>;
/// Message between the sessions of two nodes.
type NodeMessage = SessionsMessage<Value, Content>;
/// Records of the plane, as a start reads them.
pub(crate) type PlaneRecords = RecordsReader<Value, Content>;

/// Time between two looks at a plane that has nobody else.
const ALONE_EVERY: Duration = Duration::from_secs(60);

/// The same while the plane may have garbage.
const GARBAGE_EVERY: Duration = Duration::from_millis(100);

/// The plane, its connections, and what waits for it.
#[derive(Debug)]
pub(crate) struct Replication {
    run: Run,
    sessions: NodeSessions,
    /// The plane's monotonic time stands while the process does.
    awake: Awake,
    origin: Instant,
    members: BTreeSet<NodeId>,
    channels: BTreeMap<NodeId, Channel>,
    /// It has the event that was encoded last, until it is sent to all its receivers.
    encoder: Encoder,
    /// What sessions want of this node, until the step ends.
    news: VecDeque<NodeAction>,
    waits: Waits,
    wanted: WantedFilters,
    states: KnownStates,
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
    older: Older,
    /// Publishers that are not read from.
    held: BTreeSet<mqtt::ids::ConnectionId>,
    is_ended: bool,
    figures: ReplicationFigures,
}

impl Replication {
    /// Replication of a run. `members` are the nodes of its cluster, or it alone.
    pub(crate) fn new(
        now: Now,
        (config, memory): (&NodeConfig, &Memory),
        (run, mut members): (Run, BTreeSet<NodeId>),
        image: PlaneImage<Value, Content>,
        older: Older,
    ) -> Self {
        members.insert(run.node);
        let configured = limits::sessions_config(run, members.clone(), config);
        let at = plane::Now {
            monotonic: now.instant,
            wall: now.wall,
        };
        let filters = Filters::new(config.seed)
            .counting_in(memory.messages.clone())
            .keeping_together(config.share_strategy.kept_together());
        let sessions =
            Sessions::new(at, &configured, image, filters, Value::Blank).expect("the members are a cluster");
        let mut replication = Self {
            run,
            sessions,
            awake: Awake::new(now.instant),
            origin: now.instant,
            members,
            channels: BTreeMap::new(),
            encoder: Encoder::default(),
            news: VecDeque::new(),
            waits: Waits::default(),
            wanted: WantedFilters::default(),
            states: KnownStates::default(),
            is_due: true,
            alone_at: now.instant,
            cleared: BTreeSet::new(),
            cleared_bytes: 0,
            expired: BTreeSet::new(),
            older,
            held: BTreeSet::new(),
            is_ended: false,
            figures: ReplicationFigures::default(),
        };
        replication.set_channels();
        replication
    }

    /// Clocks of the plane.
    fn at(&self, now: Now) -> plane::Now {
        plane::Now {
            monotonic: self.origin + self.awake.time(),
            wall: now.wall,
        }
    }

    /// Plane below the sessions, to read.
    fn plane(&self) -> &NodePlane {
        self.sessions.plane()
    }

    /// There is no other node.
    pub(crate) fn is_alone(&self) -> bool {
        self.members.len() == 1
    }

    /// All nodes of the cluster are present, and this node's copy has merged with theirs: nobody comes with something that is not known.
    fn is_whole(&self) -> bool {
        self.is_alone() || self.plane().membership().is_complete() && self.plane().is_merged(Slot::RETAINED)
    }

    /// This node takes out what has expired, for all.
    fn is_remover(&self) -> bool {
        self.is_alone()
            || self.plane().state() != NodeState::Joining && self.plane().is_primary(Slot::RETAINED)
    }

    /// Sessions of this node, to read.
    pub(crate) fn sessions(&self) -> &NodeSessions {
        &self.sessions
    }

    /// Something is to be done at once.
    fn has_work(&self) -> bool {
        self.is_due || !self.news.is_empty()
    }

    /// Whether nothing waits to be durable.
    pub(crate) fn is_settled(&self) -> bool {
        self.waits.is_empty()
    }

    /// Time of the next look at the plane.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.is_ended {
            return None;
        }
        if self.can_remove_expired()
            || self.can_take_over_older()
            || self.has_older_sessions() && !self.is_behind()
            || self.has_work()
        {
            return Some(self.awake.looked_at());
        }
        if self.is_alone() {
            let own = self.sessions.deadline_beside_plane();
            let own = own.map(|due| self.instant_of(due));
            return own.into_iter().chain([self.alone_at]).min();
        }
        Some(self.instant_of(self.sessions.deadline()))
    }

    /// Moment of the monotonic clock at which the plane's time is `due`.
    fn instant_of(&self, due: Instant) -> Instant {
        let left = due.saturating_duration_since(self.origin + self.awake.time());
        self.awake.looked_at() + left
    }
}
