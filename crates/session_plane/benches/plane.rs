//! Durable messages through planes: processor time from PUBLISH until it is durable and removed, without a
//! client, and with one that answers with QoS 1 or 2.
//!
//! Nodes are in one process. Messages between them are encoded and read, records are made and
//! dropped; nothing is written. `cargo bench -p session_plane --bench plane` prints a line for each
//! number of nodes: the time of all nodes together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use session_plane::connecting::{Connect, ConnectionId, ConnectionLimits, QuestionLimits};
use session_plane::delivering::{
    DeliveringLimits, DeliveryAnswer, DeliveryQos, DeliveryStage, DeliveryValue, PacketDelivery,
};
use session_plane::expiring::{LifetimeValue, SessionExpiry};
use session_plane::feed::{SinkLimits, SourceLimits, Window};
use session_plane::groups;
use session_plane::interests::{InterestChange, InterestLimits};
use session_plane::membership::MembershipConfig;
use session_plane::plane::{
    CopyRef, EventContent, Limits, Matching, NewBirth, NewChange, NewEntry, Now, NumberedValue, PlaneConfig,
    PlaneImage, Timing,
};
use session_plane::publishing::{PacketId, PacketUse, PublishingLimits, WillNumber};
use session_plane::queue_limits::{QueueLimits, QueueValue};
use session_plane::sessions::{
    ConnectionValues, FeedConfig, GroupConfig, SessionsAction, SessionsConfig, SessionsMessage,
};
use session_plane::stream::{IncomingLimits, OutgoingLimits};
use session_plane::transfer::{AskerLimits, HolderLimits, TransferBytes, TransferValue};
use session_plane::wills::{WillLimits, WillPart, WillValue};
use session_plane::wire::{Message, WireValue};
use session_plane::{
    Birth, ClientId, Dot, EntryKind, Fact, MadeEvent, Matched, NodeState, Pending, RecordBatch, RecordValue,
    Run, Sessions, Slot, SlotSet,
};

const PAYLOAD: usize = 256;
const IN_FLIGHT: usize = 32;
const MESSAGES: usize = 32_000;

/// Value of an entry, and content of a message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Value(Bytes);

impl TransferBytes for Value {
    fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl TransferValue for Value {
    fn append_digest(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0);
    }
}

impl WireValue for Value {
    fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    fn from_bytes(bytes: Bytes) -> Option<Value> {
        Some(Value(bytes))
    }
}

impl RecordValue for Value {
    fn content(&self) -> Option<Bytes> {
        Some(self.0.clone())
    }

    fn to_record(&self) -> Bytes {
        Bytes::new()
    }

    fn from_record(_: Bytes, content: Option<Bytes>) -> Option<Value> {
        content.map(Value)
    }
}

/// No message here has QoS 2, and no connection has a will.
impl NumberedValue<Value> for Value {
    fn of_use(_: PacketUse, body: Option<Value>) -> Value {
        body.unwrap_or(Value(Bytes::new()))
    }

    fn packet_use(&self) -> Option<PacketUse> {
        None
    }

    fn of_will_number(_: WillNumber) -> Value {
        Value(Bytes::new())
    }

    fn of_will_end(_: Option<Duration>) -> Value {
        Value(Bytes::new())
    }

    fn body(&self) -> Option<Value> {
        None
    }
}

impl WillValue for Value {
    fn will_part(&self) -> Option<WillPart> {
        None
    }
}

/// Bytes of the value of a packet id. No payload has as many.
const DELIVERY_BYTES: usize = 24;

/// Payloads count, and nothing expires.
impl QueueValue for Value {
    fn queue_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
}

/// Sessions do not expire.
impl LifetimeValue for Value {
    fn of_expiry(_: SessionExpiry) -> Value {
        Value(Bytes::new())
    }

    fn session_expiry(&self) -> Option<SessionExpiry> {
        None
    }
}

impl DeliveryValue for Value {
    fn of_delivery(delivery: PacketDelivery) -> Value {
        let stage = match delivery.stage {
            DeliveryStage::Sent(DeliveryQos::AtLeastOnce) => 0,
            DeliveryStage::Sent(DeliveryQos::ExactlyOnce) => 1,
            DeliveryStage::Released => 2,
            DeliveryStage::Freeing => 3,
        };
        let mut bytes = Vec::with_capacity(DELIVERY_BYTES);
        bytes.extend(u32::from(delivery.packet_id.0.get()).to_be_bytes());
        bytes.extend(delivery.connection_clock.to_bits().to_be_bytes());
        bytes.extend(delivery.order.to_be_bytes());
        bytes.extend(u32::to_be_bytes(stage));
        Value(bytes.into())
    }

    fn packet_delivery(&self) -> Option<PacketDelivery> {
        let bytes: [u8; DELIVERY_BYTES] = self.0[..].try_into().ok()?;
        let [id, rest @ ..] = bytes.as_chunks::<4>().0 else {
            return None;
        };
        let long = |at: usize| {
            let [high, low] = [rest[at], rest[at + 1]].map(u32::from_be_bytes).map(u64::from);
            (high << 32) | low
        };
        Some(PacketDelivery {
            packet_id: PacketId(u16::try_from(u32::from_be_bytes(*id)).ok()?.try_into().ok()?),
            connection_clock: Hlc::from_bits(long(0))?,
            order: long(2),
            stage: match u32::from_be_bytes(rest[4]) {
                0 => DeliveryStage::Sent(DeliveryQos::AtLeastOnce),
                1 => DeliveryStage::Sent(DeliveryQos::ExactlyOnce),
                2 => DeliveryStage::Released,
                _ => DeliveryStage::Freeing,
            },
        })
    }

    /// The first byte of a payload is the QoS.
    fn delivery_qos(&self) -> Option<DeliveryQos> {
        match self.0.first()? {
            1 => Some(DeliveryQos::AtLeastOnce),
            2 => Some(DeliveryQos::ExactlyOnce),
            _ => None,
        }
    }

    fn of_member(&self, _: &Value) -> Value {
        self.clone()
    }
}

/// Every message is for the one subscriber.
#[derive(Debug)]
struct OneSubscriber(ClientId);

impl Matching<Value, Value> for OneSubscriber {
    fn matches(&self, copy: &CopyRef<'_, Value>, _: Dot, pending: &Pending<Value>) -> Vec<Matched<Value>> {
        let live = copy
            .entries
            .live(copy.covered, self.0.as_bytes(), EntryKind::Subscription);
        live.map(|(_, entry)| Matched {
            client: self.0.clone(),
            birth: entry.birth,
            value: pending.message.clone(),
        })
        .collect()
    }

    fn slots(&self, _: &CopyRef<'_, Value>, _: &Value) -> SlotSet {
        [Slot::of_client(self.0.as_bytes())].into_iter().collect()
    }

    fn subscribe(&mut self, _: &ClientId, _: &[&Value]) {}

    fn point(&self, _: &Value) -> Option<u64> {
        None
    }

    fn nodes(&self, _: &Value) -> BTreeSet<NodeId> {
        BTreeSet::new()
    }

    fn learn(&mut self, _: NodeId, _: InterestChange) {}

    fn forget(&mut self, _: NodeId) {}

    fn interests(&self, _: NodeId) -> usize {
        0
    }
}

type Node = Sessions<Value, Value, OneSubscriber>;
type Action = SessionsAction<Value, Value>;

struct Cluster {
    now: Now,
    nodes: BTreeMap<u64, Node>,
    on_the_way: VecDeque<(u64, u64, Bytes)>,
    client: Connected,
    counts: Counts,
}

/// Client of node 1, which answers each packet.
#[derive(Debug, Default)]
struct Connected {
    connection: Option<ConnectionId>,
    birth: Option<Birth>,
    answers: Vec<(PacketId, DeliveryAnswer)>,
}

/// What has happened so far, at all nodes together.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    durable: usize,
    messages: usize,
    bytes: usize,
    records: usize,
}

impl Cluster {
    #[expect(
        clippy::disallowed_methods,
        reason = "a clock of its own begins with an instant"
    )]
    fn new(count: u64, client: &ClientId) -> Cluster {
        let now = Now {
            monotonic: Instant::now(),
            wall: 1_000_000,
        };
        let nodes = (1..=count).map(|id| {
            let run = Run {
                node: NodeId(id),
                incarnation: Incarnation(1),
            };
            let matching = OneSubscriber(client.clone());
            let blank = Value(Bytes::new());
            let node = Sessions::new(now, &config(run, count), PlaneImage::default(), matching, blank);
            (id, node.expect("a cluster"))
        });
        let mut cluster = Cluster {
            now,
            nodes: nodes.collect(),
            on_the_way: VecDeque::new(),
            client: Connected::default(),
            counts: Counts::default(),
        };
        for from in 1..=count {
            for to in (1..=count).filter(|to| *to != from) {
                cluster.with(from, |node, now, actions| {
                    node.connected(now, NodeId(to), actions);
                });
            }
        }
        for _ in 0..1_000 {
            cluster.pass(10);
        }
        cluster
    }

    fn with(&mut self, id: u64, act: impl FnOnce(&mut Node, Now, &mut Vec<Action>)) {
        let (now, mut actions) = (self.now, Vec::new());
        act(self.nodes.get_mut(&id).expect("a node"), now, &mut actions);
        for action in actions {
            match action {
                SessionsAction::Send { to, message } => self.send(id, to.0, message),
                SessionsAction::Durable(_) => self.counts.durable += 1,
                SessionsAction::Accept {
                    connection, birth, ..
                } => {
                    self.client.connection = Some(connection);
                    self.client.birth = Some(birth);
                }
                SessionsAction::SendPublish(published) => {
                    let answer = match published.qos {
                        DeliveryQos::AtLeastOnce => DeliveryAnswer::Puback,
                        DeliveryQos::ExactlyOnce => DeliveryAnswer::Pubrec,
                    };
                    self.client.answers.push((published.packet_id, answer));
                }
                SessionsAction::SendPubrel { packet_id, .. } => {
                    self.client.answers.push((packet_id, DeliveryAnswer::Pubcomp));
                }
                SessionsAction::EndRun(why) => panic!("{why}"),
                _ => {}
            }
        }
    }

    fn send(&mut self, from: u64, to: u64, message: SessionsMessage<Value, Value>) {
        let message: Message<Value, Value, EventContent<Value, Value>> = message.into();
        let bytes = message.encode();
        self.counts.messages += 1;
        self.counts.bytes += bytes.len();
        self.on_the_way.push_back((from, to, bytes));
    }

    /// Sends and receives everything, and persists it.
    fn pump(&mut self) {
        loop {
            let ids: Vec<u64> = self.nodes.keys().copied().collect();
            for from in ids.iter().copied() {
                for to in ids.iter().copied().filter(|to| *to != from) {
                    while let Some(message) = self
                        .nodes
                        .get_mut(&from)
                        .and_then(|node| node.next_message(NodeId(to)))
                    {
                        self.send(from, to, message);
                    }
                }
            }
            let arrived = std::mem::take(&mut self.on_the_way);
            let answers = std::mem::take(&mut self.client.answers);
            let is_quiet = arrived.is_empty() && answers.is_empty();
            for (packet_id, answer) in answers {
                let connection = self.client.connection.expect("a client is sent packets");
                self.with(1, |node, now, actions| {
                    node.answer(now, connection, packet_id, answer, actions);
                });
            }
            for (from, to, bytes) in arrived {
                let run = self.nodes[&from].plane().run();
                let read = Message::decode(bytes).expect("what was encoded");
                let message = SessionsMessage::of_read(read).expect("a message of sessions");
                self.with(to, |node, now, actions| {
                    let received = node.receive(now, run, message, actions);
                    assert!(received.is_ok() || received.is_err_and(|error| error.is_ordinary()));
                });
            }
            for id in ids {
                let mut batch = RecordBatch::default();
                let point = self.nodes.get_mut(&id).map(|node| node.persist_point(&mut batch));
                self.counts.records += batch.into_writes().len();
                self.with(id, |node, now, actions| {
                    let persisted = point.map(|point| node.persisted(now, point, actions));
                    assert!(persisted.is_some_and(|persisted| persisted.is_ok()));
                });
            }
            if is_quiet && self.on_the_way.is_empty() && self.client.answers.is_empty() {
                return;
            }
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now.monotonic += Duration::from_millis(millis);
        self.now.wall += millis;
        for id in self.nodes.keys().copied().collect::<Vec<u64>>() {
            self.with(id, |node, now, actions| {
                if node.deadline() <= now.monotonic {
                    node.tick(now, actions);
                }
            });
        }
        self.pump();
    }

    fn change(&mut self, slots: SlotSet, change: NewChange<Value>) -> MadeEvent {
        let mut made = None;
        self.with(1, |node, now, actions| {
            made = node.change(now, ConnectionId(0), slots, change, actions).ok();
        });
        made.expect("the stream has room")
    }

    /// Begins the session of the client, and subscribes it.
    fn subscribe(&mut self, client: &ClientId) {
        let new = |birth, fact| NewChange {
            client: client.clone(),
            removes: Vec::new(),
            adds: Some(NewEntry {
                birth,
                fact,
                value: Value(Bytes::new()),
            }),
        };
        let is_clean = false;
        let slots: SlotSet = [slot_of(client), Slot::ROUTES].into_iter().collect();
        let begun = NewBirth::Here {
            is_clean,
            clock: None,
        };
        let MadeEvent { dot, clock } =
            self.change(slots.clone(), new(begun, Fact::Session { connected: None }));
        let birth = Birth { dot, clock, is_clean };
        self.change(slots, new(NewBirth::Of(birth), Fact::Subscription));
        self.pass(10);
    }

    /// Connects the client, and subscribes it.
    fn connect(&mut self, client: &ClientId) {
        let blank = Value(Bytes::new());
        let connect = Connect {
            client: client.clone(),
            is_clean: false,
        };
        let values = ConnectionValues {
            connection: blank.clone(),
            session: blank.clone(),
            will: None,
            receive_maximum: NonZeroU16::MAX,
        };
        self.with(1, |node, now, actions| {
            node.connect(now, connect, values, actions)
                .expect("there is room");
        });
        while self.client.birth.is_none() {
            self.pass(1);
        }
        let birth = self.client.birth.expect("it is accepted");
        let slots: SlotSet = [slot_of(client), Slot::ROUTES].into_iter().collect();
        let subscription = NewChange {
            client: client.clone(),
            removes: Vec::new(),
            adds: Some(NewEntry {
                birth: NewBirth::Of(birth),
                fact: Fact::Subscription,
                value: blank,
            }),
        };
        self.change(slots, subscription);
        self.pass(10);
    }

    /// Publishes messages at once. Without a client that answers, they are removed when they are durable.
    fn publish(&mut self, client: &ClientId, payload: &Bytes) {
        let slots: SlotSet = [slot_of(client)].into_iter().collect();
        let mut dots = Vec::new();
        for _ in 0..IN_FLIGHT {
            self.with(1, |node, now, actions| {
                let made = node.publish(now, slots.clone().into(), Value(payload.clone()), actions);
                dots.push(made.expect("the stream has room"));
            });
        }
        self.pump();
        let is_answered = self.client.connection.is_some();
        for dot in dots.into_iter().filter(|_| !is_answered) {
            let removal = NewChange {
                client: client.clone(),
                removes: vec![dot],
                adds: None,
            };
            self.change(slots.clone(), removal);
        }
        self.pass(1);
    }

    fn is_running(&self) -> bool {
        let mut planes = self.nodes.values().map(Sessions::plane);
        planes.all(|plane| plane.state() == NodeState::Running)
    }
}

fn slot_of(client: &ClientId) -> Slot {
    Slot::of_client(client.as_bytes())
}

fn delivering_limits() -> DeliveringLimits {
    DeliveringLimits {
        in_flight_max: NonZeroU16::new(100).expect("it is above 0"),
        waiting_max: 1_100,
    }
}

fn group_config() -> GroupConfig {
    GroupConfig {
        sink: groups::SinkLimits {
            presences_max: 100,
            given_max: 1_000,
        },
        source: groups::SourceLimits {
            given_max: 1_000,
            window: 100,
        },
    }
}

fn feed_config() -> FeedConfig {
    FeedConfig {
        sink: SinkLimits {
            feeds_max: 10_000,
            window: Window {
                items: 100,
                bytes: 1 << 20,
            },
            deliveries_max: 100,
        },
        source: SourceLimits {
            feeds_per_peer_max: 100,
            held_max: 100,
            deliveries_max: 100,
        },
        retry_after: Duration::from_secs(1),
    }
}

fn config(run: Run, nodes: u64) -> SessionsConfig {
    let millis = Duration::from_millis;
    SessionsConfig {
        plane: PlaneConfig {
            membership: MembershipConfig {
                run,
                members: (1..=nodes).map(NodeId).collect(),
                silence_max: millis(1_000),
                gone_after: millis(300),
                found_after: millis(1_000),
                offer_every: millis(250),
            },
            slots: None,
            timing: Timing {
                heartbeat_every: millis(200),
                ask_after: millis(100),
                ask_again_after: millis(700),
                close_after: millis(2_000),
                offer_every: millis(500),
            },
            limits: Limits {
                outgoing: OutgoingLimits {
                    events_max: 10_000,
                    bytes_max: 1 << 26,
                    rings_max: 64,
                    copies_min: 1,
                },
                incoming: IncomingLimits {
                    events_max: 10_000,
                    bytes_max: 1 << 26,
                },
                asker: AskerLimits {
                    slots_per_peer_max: 1_024,
                    slots_max: 8_192,
                    slots_per_question_max: 256,
                    comparing_max: 64,
                    staged_bytes_max: 1 << 26,
                    question_bytes_max: 1 << 16,
                },
                holder: HolderLimits {
                    slots_per_peer_max: 1_024,
                    answers_max: 256,
                    part_bytes_max: 1 << 16,
                },
            },
        },
        connections: ConnectionLimits {
            connections_max: 10_000,
            claims_max: 1_000,
            claim_max: millis(5_000),
            releases_max: 4,
            entries_max: 100_000,
            claimants_max: 10,
        },
        questions: QuestionLimits {
            waiting_per_peer_max: 1_000,
            wait_max: millis(3_000),
        },
        publishing: PublishingLimits {
            waiting_max: 1_000,
            waiting_per_connection_max: 100,
            given_up_max: 1_000,
        },
        feeds: feed_config(),
        wills: WillLimits { firing_max: 100 },
        ending_max: 100,
        queues: QueueLimits::NONE,
        groups: group_config(),
        delivering: delivering_limits(),
        interests: interest_limits(),
    }
}

fn interest_limits() -> InterestLimits {
    InterestLimits {
        own_max: 100,
        of_peer_max: 100,
        changes_max: 100,
        bytes_max: 1 << 16,
    }
}

/// What becomes of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Nobody,
    AtLeastOnce,
    ExactlyOnce,
}

impl Receiver {
    /// Events of a message: itself, the stages of its packet id, and its end.
    fn events(self) -> usize {
        match self {
            Receiver::Nobody | Receiver::AtLeastOnce => 2,
            Receiver::ExactlyOnce => 4,
        }
    }

    fn first_byte(self) -> u8 {
        match self {
            Receiver::Nobody | Receiver::AtLeastOnce => 1,
            Receiver::ExactlyOnce => 2,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn measure(count: u64, receiver: Receiver) {
    let client = ClientId::new(b"panel").expect("a short id");
    let started = Instant::now();
    let mut cluster = Cluster::new(count, &client);
    assert!(cluster.is_running(), "all nodes have joined");
    let joined = started.elapsed();
    match receiver {
        Receiver::Nobody => cluster.subscribe(&client),
        _ => cluster.connect(&client),
    }
    let payload = Bytes::from(vec![receiver.first_byte(); PAYLOAD]);
    let before = cluster.counts;
    let started = Instant::now();
    for _ in 0..MESSAGES / IN_FLIGHT {
        cluster.publish(&client, &payload);
    }
    let took = started.elapsed();
    let after = cluster.counts;
    let each = |after: usize, before: usize| (after - before) as f64 / MESSAGES as f64;
    assert_eq!(after.durable - before.durable, receiver.events() * MESSAGES);
    #[expect(clippy::print_stdout, reason = "the result of a benchmark")]
    let print = |line: String| println!("{line}");
    print(format!(
        "{count} nodes, {receiver:?}: {joined:.1?} until all run; a message {:.1} us, {:.1} messages between nodes, \
         {:.0} bytes in them, {:.1} records",
        took.as_secs_f64() * 1e6 / MESSAGES as f64,
        each(after.messages, before.messages),
        each(after.bytes, before.bytes),
        each(after.records, before.records),
    ));
}

fn main() {
    for count in [1, 3] {
        for receiver in [Receiver::Nobody, Receiver::AtLeastOnce, Receiver::ExactlyOnce] {
            measure(count, receiver);
        }
    }
}
