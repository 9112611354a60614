//! Machine of a history: a process with its plane, and a disk that outlives it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Incarnation, NodeId};

use session_plane::connecting::{ConnectionLimits, QuestionLimits};
use session_plane::delivering::{DeliveringLimits, PacketDelivery};
use session_plane::feed::{SinkLimits, SourceLimits, Window};
use session_plane::groups;
use session_plane::interests::{InterestChange, InterestLimits};
use session_plane::membership::MembershipConfig;
use session_plane::plane::{
    CopyRef, Limits, Matching, Now, PersistPoint, Plane, PlaneConfig, PlaneImage, Timing,
};
use session_plane::publishing::{PacketUse, PublishingLimits, WillNumber};
use session_plane::queue_limits::QueueLimits;
use session_plane::sessions::{FeedConfig, GroupConfig, SessionsAction, SessionsConfig, SessionsMessage};
use session_plane::stream::{IncomingLimits, OutgoingLimits};
use session_plane::transfer::{AskerLimits, HolderLimits};
use session_plane::wills::WillLimits;
use session_plane::{
    Birth, ClientId, Dot, EntryKind, Matched, Pending, RecordBatch, RecordWrite, RecordsReader, Run,
    Sessions, Slot, SlotSet,
};

use super::group_clients::{group, part_of};
use super::transient_clients::KnownFilters;

pub(super) const SILENCE_MAX: u64 = 500;
/// Milliseconds from CONNECT to its answer.
const CLAIM_MAX: u64 = 3_000;

/// Content of a message: which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Body(pub(super) u32);

/// Value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    /// Which one it is.
    Plain(u32),
    /// Message of a queue.
    Message(Body),
    /// Use of a packet id.
    Use(PacketUse, Option<Body>),
    /// Will, with its delay in milliseconds.
    Will(Body, u64),
    /// Delay of a will in milliseconds, as the end of its connection says it.
    WillEnd(Option<u64>),
    /// Number of a will.
    WillNumber(WillNumber),
    /// Packet id to a client.
    Delivery(PacketDelivery),
    /// Session of a connection, with its interval in seconds.
    Session(u32),
    /// Interval in seconds of a session without a connection.
    Expiry(u32),
}
pub(super) type TestPlane = Plane<Value, Body, AllSubscribers>;
pub(super) type TestSessions = Sessions<Value, Body, AllSubscribers>;
pub(super) type TestAction = SessionsAction<Value, Body>;
pub(super) type TestMessage = SessionsMessage<Value, Body>;

/// Each message matches each client that has subscribed earlier, in the session that was begun last.
#[derive(Debug, Default)]
pub(super) struct AllSubscribers {
    filters: KnownFilters,
    /// Clients and groups with subscriptions, by how many they have.
    subscribers: BTreeMap<ClientId, usize>,
}

impl AllSubscribers {
    /// The plane has told the subscriptions of a client, or of a group.
    fn check_subscribed(&self, subscriber: &ClientId) {
        let count = self.subscribers.get(subscriber);
        assert!(
            count.is_some_and(|count| *count > 0),
            "{subscriber:?} is not told"
        );
    }
}

impl Matching<Value, Body> for AllSubscribers {
    fn matches(
        &self,
        copy: &CopyRef<'_, Value>,
        message: Dot,
        pending: &Pending<Body>,
    ) -> Vec<Matched<Value>> {
        let mut matched = Vec::new();
        if part_of(pending.message).is_some() {
            return shared(copy, message, pending);
        }
        for (client, _) in copy.entries.sessions() {
            let live = copy
                .entries
                .live(copy.covered, client.as_bytes(), EntryKind::Subscription);
            let earlier = live.filter(|(_, entry)| entry.clock < pending.clock);
            if let Some((_, subscription)) =
                earlier.max_by_key(|(_, entry)| (entry.birth.clock, entry.birth.dot))
            {
                self.check_subscribed(client);
                matched.push(Matched {
                    client: client.clone(),
                    birth: subscription.birth,
                    value: Value::Message(pending.message),
                });
            }
        }
        matched
    }

    fn slots(&self, routes: &CopyRef<'_, Value>, body: &Body) -> SlotSet {
        if let Some(part) = part_of(*body) {
            let has_members = has_members(routes);
            if has_members {
                self.check_subscribed(group().key());
            }
            return SlotSet::from_iter(has_members.then_some(part));
        }
        let clients = routes.entries.sessions().map(|(client, _)| client.as_bytes());
        let subscribed = clients.filter(|client| {
            let mut live = routes
                .entries
                .live(routes.covered, client, EntryKind::Subscription);
            live.next().is_some()
        });
        let subscribed = subscribed.inspect(|client| {
            self.check_subscribed(&ClientId::new(client).expect("a short id"));
        });
        subscribed.map(Slot::of_client).collect()
    }

    fn subscribe(&mut self, subscriber: &ClientId, subscriptions: &[&Value]) {
        if subscriptions.is_empty() {
            self.subscribers.remove(subscriber);
        } else {
            self.subscribers.insert(subscriber.clone(), subscriptions.len());
        }
    }

    fn point(&self, _: &Value) -> Option<u64> {
        None
    }

    fn nodes(&self, body: &Body) -> BTreeSet<NodeId> {
        self.filters.nodes(*body)
    }

    fn learn(&mut self, node: NodeId, change: InterestChange) {
        self.filters.learn(node, change);
    }

    fn forget(&mut self, node: NodeId) {
        self.filters.forget(node);
    }

    fn interests(&self, node: NodeId) -> usize {
        self.filters.len(node)
    }
}

/// Message of the shared group, if a member has subscribed earlier.
fn shared(copy: &CopyRef<'_, Value>, message: Dot, pending: &Pending<Body>) -> Vec<Matched<Value>> {
    let group = group();
    let key = group.key();
    let members = copy.entries.live(copy.covered, key.as_bytes(), EntryKind::Member);
    let mut earlier = members.filter(|(_, entry)| entry.member_since() < Some(pending.clock));
    let matched = earlier.next().map(|_| Matched {
        client: key.clone(),
        birth: Birth::of_group_message(message, pending.clock),
        value: Value::Message(pending.message),
    });
    matched.into_iter().collect()
}

fn has_members(routes: &CopyRef<'_, Value>) -> bool {
    let group = group();
    let mut members = routes
        .entries
        .live(routes.covered, group.key().as_bytes(), EntryKind::Member);
    members.next().is_some()
}

/// Batch that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    ready_at: u64,
    point: PersistPoint,
    batch: RecordBatch,
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) id: u64,
    pub(super) nodes: u64,
    pub(super) slots: SlotSet,
    pub(super) queues: QueueLimits,
    /// None while the process does not run.
    pub(super) sessions: Option<TestSessions>,
    disk: BTreeMap<Bytes, Bytes>,
    writing: Option<Writing>,
    starts: u32,
    /// The disk writes nothing any more.
    is_disk_stopped: bool,
    /// The process stands still until then.
    paused_until: u64,
    /// Time that its monotonic clock lacks.
    lost: u64,
    epoch: Instant,
    /// Milliseconds by which its wall clock is ahead.
    pub(super) skew: u64,
}

impl Machine {
    pub(super) fn new(id: u64, nodes: u64, slots: SlotSet, epoch: Instant, skew: u64) -> Machine {
        Machine {
            id,
            nodes,
            slots,
            queues: QueueLimits::NONE,
            sessions: None,
            disk: BTreeMap::new(),
            writing: None,
            starts: 0,
            is_disk_stopped: false,
            paused_until: 0,
            lost: 0,
            epoch,
            skew,
        }
    }

    /// Clocks of the machine at `now` milliseconds.
    pub(super) fn now(&self, now: u64) -> Now {
        let stands = self.paused_until.saturating_sub(now);
        Now {
            monotonic: self.epoch + Duration::from_millis((now + stands).saturating_sub(self.lost)),
            wall: 1_000_000 + self.skew + now,
        }
    }

    /// Plane of the process.
    pub(super) fn plane(&self) -> Option<&TestPlane> {
        self.sessions.as_ref().map(Sessions::plane)
    }

    /// The process runs and does not stand still.
    pub(super) fn is_up(&self, now: u64) -> bool {
        self.sessions.is_some() && now >= self.paused_until
    }

    pub(super) fn start(&mut self, now: u64) {
        self.starts += 1;
        let run = Run {
            node: NodeId(self.id),
            incarnation: Incarnation(self.starts),
        };
        let config = SessionsConfig {
            queues: self.queues,
            ..config(run, self.nodes, self.slots.clone())
        };
        let sessions = Sessions::new(
            self.now(now),
            &config,
            self.read_disk(),
            AllSubscribers::default(),
            Value::Plain(4),
        );
        self.sessions = Some(sessions.expect("a cluster"));
    }

    fn read_disk(&self) -> PlaneImage<Value, Body> {
        let mut records = RecordsReader::default();
        for (key, value) in &self.disk {
            records.read(key.clone(), value).expect("the disk is not damaged");
        }
        PlaneImage::of_records(records).expect("the disk has all of the copies")
    }

    pub(super) fn crash(&mut self) {
        self.sessions = None;
        self.writing = None;
    }

    /// Lets the process stand still for some time, or longer if it does already.
    pub(super) fn pause(&mut self, now: u64, millis: u64) {
        let before = self.paused_until.max(now);
        self.paused_until = before.max(now + millis);
        self.lost += self.paused_until - before;
    }

    /// Ends a pause. The clock goes on from where it stood.
    pub(super) fn go_on(&mut self, now: u64) {
        let unspent = self.paused_until.saturating_sub(now);
        self.paused_until -= unspent;
        self.lost -= unspent;
    }

    pub(super) fn stop_disk(&mut self) {
        self.is_disk_stopped = true;
    }

    /// Goes on with the disk; `takes` is the time of the next write.
    pub(super) fn write(&mut self, now: u64, takes: u64, actions: &mut Vec<TestAction>) {
        let at = self.now(now);
        let Some(sessions) = self.sessions.as_mut().filter(|_| !self.is_disk_stopped) else {
            return;
        };
        if let Some(writing) = self.writing.take_if(|writing| writing.ready_at <= now) {
            writing
                .batch
                .into_writes()
                .into_iter()
                .for_each(|write| apply(&mut self.disk, write));
            sessions
                .persisted(at, writing.point, actions)
                .expect("points are in order");
        }
        if self.writing.is_none() {
            let mut batch = RecordBatch::default();
            let point = sessions.persist_point(&mut batch);
            self.writing = Some(Writing {
                ready_at: now + takes,
                point,
                batch,
            });
        }
    }
}

fn apply(disk: &mut BTreeMap<Bytes, Bytes>, write: RecordWrite) {
    match write {
        RecordWrite::Put { key, value } => {
            disk.insert(key, value);
        }
        RecordWrite::Remove { key } => {
            let removed = disk.remove(&key);
            assert!(removed.is_some(), "only what the disk has is removed from it");
        }
        RecordWrite::RemoveRange { from, to } => disk.retain(|key, _| *key < from || *key >= to),
    }
}

fn config(run: Run, nodes: u64, slots: SlotSet) -> SessionsConfig {
    SessionsConfig {
        plane: plane_config(run, nodes, slots),
        connections: ConnectionLimits {
            connections_max: 100,
            claims_max: 50,
            claim_max: Duration::from_millis(CLAIM_MAX),
            releases_max: 2,
            entries_max: 1_000,
            claimants_max: 10,
        },
        questions: QuestionLimits {
            waiting_per_peer_max: 20,
            wait_max: Duration::from_millis(CLAIM_MAX * 2 / 3),
        },
        publishing: PublishingLimits {
            waiting_max: 100,
            waiting_per_connection_max: 10,
            given_up_max: 10_000,
        },
        feeds: FeedConfig {
            sink: SinkLimits {
                feeds_max: 100,
                window: Window { items: 6, bytes: 200 },
                deliveries_max: 100,
            },
            source: SourceLimits {
                feeds_per_peer_max: 20,
                held_max: 6,
                deliveries_max: 100,
            },
            retry_after: Duration::from_millis(SILENCE_MAX / 5),
        },
        wills: WillLimits { firing_max: 2 },
        ending_max: 2,
        queues: QueueLimits::NONE,
        groups: GroupConfig {
            sink: groups::SinkLimits {
                presences_max: 20,
                given_max: 20,
            },
            source: groups::SourceLimits {
                given_max: 10,
                window: 3,
            },
        },
        delivering: DeliveringLimits {
            in_flight_max: NonZeroU16::new(4).expect("it is above 0"),
            waiting_max: 26,
        },
        interests: InterestLimits {
            own_max: 8,
            of_peer_max: 8,
            changes_max: 2,
            bytes_max: 100,
        },
    }
}

fn plane_config(run: Run, nodes: u64, slots: SlotSet) -> PlaneConfig {
    let millis = Duration::from_millis;
    PlaneConfig {
        membership: MembershipConfig {
            run,
            members: (1..=nodes).map(NodeId).collect(),
            silence_max: millis(SILENCE_MAX),
            gone_after: millis(SILENCE_MAX / 5),
            found_after: millis(2 * SILENCE_MAX),
            offer_every: millis(SILENCE_MAX / 4),
        },
        slots: Some(slots),
        timing: Timing {
            heartbeat_every: millis(SILENCE_MAX / 5),
            ask_after: millis(SILENCE_MAX / 10),
            ask_again_after: millis(SILENCE_MAX * 2 / 3),
            close_after: millis(SILENCE_MAX * 2),
            offer_every: millis(SILENCE_MAX / 2),
        },
        limits: Limits {
            outgoing: OutgoingLimits {
                events_max: 1_000,
                bytes_max: 1 << 22,
                rings_max: 64,
                copies_min: 1,
            },
            incoming: IncomingLimits {
                events_max: 20,
                bytes_max: 1 << 20,
            },
            asker: AskerLimits {
                slots_per_peer_max: 4,
                slots_max: 8,
                slots_per_question_max: 3,
                comparing_max: 2,
                staged_bytes_max: 1 << 20,
                question_bytes_max: 400,
            },
            holder: HolderLimits {
                slots_per_peer_max: 4,
                answers_max: 8,
                part_bytes_max: 600,
            },
        },
    }
}
