//! `[limits]`: what a client may use of the server.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;

/// What a client may use of the server. Each limit says what happens when it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes that the server may hold for its clients, in its own account: messages, retained messages, the state store, what
    /// waits to be written, packets that have not arrived whole, connections, sessions, subscriptions and topic aliases.
    /// `"auto"` is half of the machine's memory, or of the control group's limit if that is less; `"none"` is any number. A
    /// profile is `"tiny"` (200 MiB), `"low"` (800 MiB), `"medium"` (3.5 GiB) or `"high"` (11 GiB). The quotas of the state
    /// store follow it. From 80 % on messages that would have to wait are refused
    /// (PUBACK or PUBREC 0x97), from 90 % on publishers are read from slowly, and at 100 % nothing is taken that would have
    /// to be kept. Packets that have not arrived whole may take an eighth of it. At least 8 MiB. docs/mqtt.md says more under "Overload".
    #[serde(with = "quantity::memory")]
    #[schemars(with = "quantity::MemoryText")]
    pub memory_max: MemoryMax,

    /// Network connections at once. One more is answered with CONNACK 0x89 Server busy and closed.
    pub connections_max: u32,

    /// Sessions, connected or not. A client without a session is then answered with CONNACK 0x97 Quota exceeded.
    pub sessions_max: u32,

    /// How long a new connection may take to send its CONNECT packet, handshakes included; then it is closed. While a listener has too
    /// many strangers, one that is silent has less: see `strangers_max`.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub connect_timeout: Duration,

    /// Strangers at once at one listener, between 1 and 1,000,000: connections whose client has not proved yet who it is, in the header
    /// of a proxy, a handshake, before CONNECT, or in an authentication. When all places are taken, the one of the address with most of
    /// them gives way that is silent for longer than a fifth of `connect_timeout` in a handshake, or a fortieth of it where CONNECT or
    /// AUTH is due; else the newest one of that address. All listeners together take a quarter of the open files of the process at most.
    /// Where a sixteenth of `memory_max` has room for fewer, at 64 KiB each, that counts.
    pub strangers_max: u32,

    /// Strangers at once of one address (IPv4 address, IPv6 /64, Unix user) at one listener, between 1 and 1,000,000. Beyond it the
    /// one of that address that is silent for too long gives way, else the newcomer is closed. Behind a proxy that sends the PROXY
    /// protocol it is the address of the client.
    pub strangers_per_address_max: u32,

    /// The longest Keep Alive; `"none"` lets clients choose any, also none at all. A client that asks for a longer one is told
    /// this one in CONNACK (Server Keep Alive). At most 65,535 seconds.
    #[serde(with = "quantity::optional_duration")]
    #[schemars(with = "quantity::OptionalDurationText")]
    pub keep_alive_max: Option<Duration>,

    /// The longest Session Expiry Interval; `"none"` lets clients choose any, also for ever. A longer one is shortened, and
    /// CONNACK says so.
    #[serde(with = "quantity::optional_duration")]
    #[schemars(with = "quantity::OptionalDurationText")]
    pub session_expiry_max: Option<Duration>,

    /// The largest packet that a client may send, with its fixed header; so it also limits values of the state store. Told
    /// in CONNACK (Maximum Packet Size). A larger one is answered with DISCONNECT 0x95 before any of it is kept. At
    /// most 268,435,460 bytes. The broker of Azure IoT Operations takes 4, 16, 64 or 256 MiB, by its memory profile.
    #[serde(with = "quantity::size32")]
    #[schemars(with = "quantity::SizeText")]
    pub packet_size_max: u32,

    /// The largest packet of a client that has not been let in: its CONNECT with its will, user name and password, and the AUTH
    /// packets before CONNACK. A larger CONNECT is answered with CONNACK 0x95 before any of it is kept. Between 1 KiB and
    /// 1 MiB; where `packet_size_max` is less, that counts.
    #[serde(with = "quantity::size32")]
    #[schemars(with = "quantity::SizeText")]
    pub connect_packet_size_max: u32,

    /// Messages that one client may publish a second; 0 is any number. From a client that is more than a second ahead nothing is read
    /// until it is no more: nothing is lost, and nobody else waits.
    pub publish_rate_max: u32,

    /// Bytes that one client may publish a second, topics and payloads; 0 is any number. As for messages.
    #[serde(with = "quantity::size32")]
    #[schemars(with = "quantity::SizeText")]
    pub publish_bytes_rate_max: u32,

    /// QoS 1 and 2 messages that a client may have sent without an acknowledgement. Told in CONNACK (Receive Maximum). One
    /// more is answered with DISCONNECT 0x93.
    pub receive_maximum: NonZeroU16,

    /// QoS 1 and 2 messages on their way to one client, however many more it allows. The others wait in the session's
    /// queue.
    pub inflight_max: NonZeroU16,

    /// Topic aliases that a client may set; 0 is none. Told in CONNACK (Topic Alias Maximum). A higher one is answered with
    /// DISCONNECT 0x94.
    pub topic_alias_maximum: u16,

    /// Topic aliases that the server sets towards one client, however many more it allows; 0 is none. Then the alias that
    /// was not used for longest gets another topic.
    pub topic_alias_outbound_max: u16,

    /// Whether messages with the user property `$high_priority` go before others while memory runs out. `false`: the property means
    /// nothing. A policy says who may use it (`docs/authorization.md`).
    pub high_priority: bool,

    /// Levels of a topic name or filter. Beyond it: SUBACK 0x8F for a filter; PUBACK, PUBREC or DISCONNECT 0x90 for a
    /// topic name.
    pub topic_levels_max: NonZeroU16,

    /// Bytes of a topic name or filter, between 256 and 65,527. Beyond it: as for levels.
    pub topic_bytes_max: u16,

    /// Subscriptions of one session. One more is answered with SUBACK 0x97.
    pub subscriptions_per_session_max: u32,

    /// Shared subscriptions of one session, of all that it may have. One more is answered with SUBACK 0x97.
    pub shared_subscriptions_per_session_max: u32,

    /// Topic filters in one SUBSCRIBE or UNSUBSCRIBE. A packet with more is answered with DISCONNECT 0x97.
    pub filters_per_packet_max: NonZeroU32,

    /// Steps that finding the subscribers of a message may take, whatever its topic: one for each beginning of a filter with
    /// wildcards that matches a beginning of the topic. 8,192 are about a millisecond. A filter that would make it more is answered
    /// with SUBACK 0x97, and so is one with which a single session would cause more than a sixteenth of it.
    pub matching_steps_max: NonZeroU32,

    /// Messages that wait in one session's queue. Then `queue_full` decides. Replies and notifications of the state store
    /// do not count: they have places of their own.
    pub queue_messages_max: u32,

    /// Bytes that wait in one session's queue: topic, payload, properties, and 256 bytes for each message. Then `queue_full`
    /// decides; a message that is larger alone is dropped.
    #[serde(with = "quantity::size")]
    #[schemars(with = "quantity::SizeText")]
    pub queue_bytes_max: u64,

    /// What gives way when a session's queue is full.
    pub queue_full: QueueFull,

    /// Bytes that wait to be written to one connection. Then the others wait in the session's queue, and the client is read from once a second; one that takes nothing meanwhile is read from until so many bytes of answers wait as well, since it may send all that it has before it reads.
    #[serde(with = "quantity::size32")]
    #[schemars(with = "quantity::SizeText")]
    pub outbound_bytes_max: u32,

    /// Retained messages of clients; what the server says of itself below `$SYS` is not counted. One for a further topic is refused with PUBACK or PUBREC 0x97; with QoS 0 it is delivered and not retained.
    pub retained_messages_max: u64,

    /// Bytes of retained messages: topic, payload, properties, and 256 bytes for each. As for their number.
    #[serde(with = "quantity::size")]
    #[schemars(with = "quantity::SizeText")]
    pub retained_bytes_max: u64,
}

/// How many bytes the server may hold for its clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MemoryMax {
    /// Half of what the process may use.
    #[default]
    Auto,
    /// Any number.
    Unlimited,
    /// As many as a memory profile says.
    Profile(MemoryProfile),
    /// So many.
    Bytes(u64),
}

/// Memory profiles, by the names of the broker of Azure IoT Operations: about what one frontend and one backend worker of it
/// use together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryProfile {
    /// 200 MiB.
    Tiny,
    /// 800 MiB.
    Low,
    /// 3.5 GiB.
    Medium,
    /// 11 GiB.
    High,
}

impl MemoryProfile {
    const ALL: [Self; 4] = [Self::Tiny, Self::Low, Self::Medium, Self::High];

    /// As it is written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// The profile of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// What the server may hold for its clients.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Tiny => 200 << 20,
            Self::Low => 800 << 20,
            Self::Medium => 3_584 << 20,
            Self::High => 11 << 30,
        }
    }
}

impl MemoryMax {
    /// The number, for a process that may use so many, if that is known.
    pub fn bytes(self, available: Option<u64>) -> u64 {
        match self {
            Self::Auto => available.map_or(u64::MAX, half),
            Self::Unlimited => u64::MAX,
            Self::Profile(profile) => profile.bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The number that quotas are in proportion to: also without a limit, or where nobody knows what the machine has, one that it
    /// is likely to have.
    pub fn for_quotas(self, available: Option<u64>) -> u64 {
        match self {
            Self::Auto | Self::Unlimited => available.map_or(MemoryProfile::Medium.bytes(), half),
            _ => self.bytes(available),
        }
    }
}

/// Half of what the process may use.
fn half(available: u64) -> u64 {
    (available / 2).max(MEMORY_LEAST)
}

/// What gives way when a session's queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueFull {
    /// The messages that wait for longest. What is on its way is never dropped.
    #[default]
    DropOldest,
    /// The message that comes.
    DropNewest,
}

impl Limits {
    /// As the broker takes them, for a process that may use so many bytes, if that is known.
    pub fn for_broker(&self, available: Option<u64>) -> mqtt::limits::Limits {
        mqtt::limits::Limits {
            packet_size_max: self.packet_size_max,
            publish_rate_max: self.publish_rate_max,
            publish_bytes_rate_max: self.publish_bytes_rate_max,
            receive_maximum: self.receive_maximum.get(),
            topic_alias_maximum: self.topic_alias_maximum,
            topic_alias_outbound_max: self.topic_alias_outbound_max,
            queue_messages_max: self.queue_messages_max,
            queue_bytes_max: self.queue_bytes_max,
            queue_full: match self.queue_full {
                QueueFull::DropOldest => mqtt::limits::QueueFull::DropOldest,
                QueueFull::DropNewest => mqtt::limits::QueueFull::DropNewest,
            },
            inflight_max: self.inflight_max.get(),
            session_expiry_max: self.session_expiry_max,
            subscriptions_per_session_max: self.subscriptions_per_session_max,
            shared_subscriptions_per_session_max: self.shared_subscriptions_per_session_max,
            filters_per_packet_max: self.filters_per_packet_max.get(),
            matching_steps_max: self.matching_steps_max.get(),
            topic_levels_max: self.topic_levels_max.get(),
            high_priority: self.high_priority,
            topic_bytes_max: self.topic_bytes_max,
            retained_messages_max: self.retained_messages_max,
            retained_bytes_max: self.retained_bytes_max,
            memory_max: self.memory_max.bytes(available),
            connections_max: self.connections_max,
            sessions_max: self.sessions_max,
            keep_alive_max: self.keep_alive_max,
            connect_timeout: self.connect_timeout,
            outbound_bytes_max: self.outbound_bytes_max,
            // It is `log.slow_operation`.
            slow_operation: Duration::MAX,
        }
    }

    /// The largest packet of a client that has not been let in.
    pub(crate) fn connect_packet_size_max(&self) -> u32 {
        self.connect_packet_size_max.min(self.packet_size_max)
    }

    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        let mut require = |held: bool, name: &str, why: &str| {
            if !held {
                problems.push(Problem::new(&format!("limits.{name}"), why.to_owned()));
            }
        };
        let packet = PACKET_SIZE_LEAST..=PACKET_SIZE_MOST;
        require(
            packet.contains(&self.packet_size_max),
            "packet_size_max",
            "the largest packet is between 1 KiB and 268435460 bytes",
        );
        require(
            (PACKET_SIZE_LEAST..=CONNECT_PACKET_SIZE_MOST).contains(&self.connect_packet_size_max),
            "connect_packet_size_max",
            "the largest packet of a client that has not been let in is between 1 KiB and 1 MiB",
        );
        let keep_alive_fits = |longest: Duration| {
            let seconds = Duration::from_secs(1)..=Duration::from_secs(u64::from(u16::MAX));
            seconds.contains(&longest)
        };
        require(
            self.keep_alive_max.is_none_or(keep_alive_fits),
            "keep_alive_max",
            "the longest Keep Alive is between 1s and 65535s, or \"none\"",
        );
        require(
            (TOPIC_BYTES_LEAST..=TOPIC_BYTES_MOST).contains(&self.topic_bytes_max),
            "topic_bytes_max",
            "the longest topic has between 256 and 65527 bytes",
        );
        require(
            !self.connect_timeout.is_zero(),
            "connect_timeout",
            "no client can connect within 0s",
        );
        require(
            !matches!(self.memory_max, MemoryMax::Bytes(..MEMORY_LEAST)),
            "memory_max",
            "with less than 8 MiB hardly a client could be served",
        );
        require(
            self.connections_max > 0,
            "connections_max",
            "a server without connections serves nobody",
        );
        require(
            (1..=STRANGERS_MOST).contains(&self.strangers_max),
            "strangers_max",
            "strangers are between 1 and 1000000: every client begins as one",
        );
        require(
            (1..=STRANGERS_MOST).contains(&self.strangers_per_address_max),
            "strangers_per_address_max",
            "strangers of one address are between 1 and 1000000",
        );
        require(
            self.sessions_max > 0,
            "sessions_max",
            "a server without sessions serves nobody",
        );
        require(
            self.queue_messages_max > 0,
            "queue_messages_max",
            "a session needs a queue of at least one message",
        );
        require(
            self.outbound_bytes_max > 0,
            "outbound_bytes_max",
            "nothing could be written to a connection with 0 bytes",
        );
    }
}

/// Mirrors `mqtt::limits::Limits::default`; a test compares them.
impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_max: MemoryMax::Auto,
            connections_max: 100_000,
            sessions_max: 1_000_000,
            connect_timeout: Duration::from_secs(10),
            strangers_max: 1_000,
            strangers_per_address_max: 200,
            keep_alive_max: Some(Duration::from_secs(3_600)),
            session_expiry_max: Some(Duration::from_secs(7 * 24 * 3_600)),
            packet_size_max: (1 << 20) + (64 << 10),
            connect_packet_size_max: 128 << 10,
            publish_rate_max: 0,
            publish_bytes_rate_max: 0,
            receive_maximum: non_zero(1_024),
            inflight_max: non_zero(1_024),
            topic_alias_maximum: 32,
            topic_alias_outbound_max: 32,
            topic_levels_max: non_zero(128),
            high_priority: true,
            topic_bytes_max: TOPIC_BYTES_MOST,
            subscriptions_per_session_max: 10_000,
            shared_subscriptions_per_session_max: 1_000,
            filters_per_packet_max: NonZeroU32::new(10_000).expect("the defaults are not zero"),
            matching_steps_max: NonZeroU32::new(8_192).expect("the defaults are not zero"),
            queue_messages_max: 10_000,
            queue_bytes_max: 64 << 20,
            queue_full: QueueFull::default(),
            outbound_bytes_max: 1 << 20,
            retained_messages_max: 1_000_000,
            retained_bytes_max: 1 << 30,
        }
    }
}

/// More connections than a machine has ports towards another one.
const STRANGERS_MOST: u32 = 1_000_000;

/// Less would be reached by a few clients.
const MEMORY_LEAST: u64 = 8 << 20;

fn non_zero(value: u16) -> NonZeroU16 {
    NonZeroU16::new(value).expect("the defaults are not zero")
}

/// Room for the topics of the state store, and for those to which its clients have answers sent.
const TOPIC_BYTES_LEAST: u16 = 256;

/// With a session's number before it, that is the longest key on disk.
const TOPIC_BYTES_MOST: u16 = 65_527;

/// Room for a CONNECT or an acknowledgement with a few properties.
const PACKET_SIZE_LEAST: u32 = 1_024;

/// More than a will, a user name and a password of 65,535 bytes each take, and little for a stranger.
const CONNECT_PACKET_SIZE_MOST: u32 = 1 << 20;

/// Fixed header of five bytes and the largest Remaining Length, 268,435,455.
const PACKET_SIZE_MOST: u32 = 268_435_460;
