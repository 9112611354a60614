//! Every limit of the broker in one place: its default, its unit, and what happens at it.
//!
//! A limit that MQTT has a property for is also told to clients in CONNACK. The state store's own limits (keys, bytes,
//! clock skew) are in its configuration, because they are part of what replicas agree on.

use std::time::Duration;

/// The limits of one node. Built from the configuration; the defaults are [`Limits::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest packet a client may send, in bytes with its fixed header. Default 1 MiB + 64 KiB, so that a value of
    /// 1 MiB fits with topic and properties. Told as Maximum Packet Size. At the limit: DISCONNECT 0x95 as soon as the
    /// length is known, nothing of the packet is buffered.
    pub packet_size_max: u32,
    /// How many messages one client may publish a second; 0: any number. Default 0. A client that is more than a second ahead is
    /// not read from until it is no more.
    pub publish_rate_max: u32,
    /// How many bytes (topic and payload) one client may publish a second; 0: any number. Default 0. As for messages.
    pub publish_bytes_rate_max: u32,
    /// How many QoS 1 and 2 messages a client may have sent without an acknowledgement. Default 1,024. Told as Receive
    /// Maximum. At the limit: one more is answered with DISCONNECT 0x93.
    pub receive_maximum: u16,
    /// How many topic aliases a client may set. Default 32. Told as Topic Alias Maximum. A higher alias: DISCONNECT 0x94.
    pub topic_alias_maximum: u16,
    /// How many topic aliases are used towards one client, whatever higher maximum it allows. Default 32. At the limit:
    /// the alias that was not used for longest is given to another topic.
    pub topic_alias_outbound_max: u16,
    /// How many messages wait in one session's queue. Default 10,000. At the limit: see [`Limits::queue_full`].
    pub queue_messages_max: u32,
    /// How many bytes wait in one session's queue (topic, payload, properties and 256 bytes each). Default 64 MiB. At the
    /// limit: see [`Limits::queue_full`]; a message that is larger alone is dropped.
    pub queue_bytes_max: u64,
    /// What gives way when a session's queue is full. Default: the oldest message.
    pub queue_full: QueueFull,
    /// How many QoS 1 and 2 messages are on their way to one client, whatever higher Receive Maximum it allows. Default
    /// 1,024. At the limit: the others wait in the queue.
    pub inflight_max: u16,
    /// The longest Session Expiry Interval. Default 7 days; `None`: any, also for ever. At the limit: a longer one is
    /// shortened, and CONNACK says so.
    pub session_expiry_max: Option<Duration>,
    /// How many subscriptions one session may have. Default 10,000. At the limit: SUBACK 0x97 for each further filter.
    pub subscriptions_per_session_max: u32,
    /// How many of them may be shared. Default 1,000. At the limit: as for all.
    pub shared_subscriptions_per_session_max: u32,
    /// How many topic filters one SUBSCRIBE or UNSUBSCRIBE may have. Default 10,000. Beyond it: DISCONNECT 0x97.
    pub filters_per_packet_max: u32,
    /// How many steps finding the subscribers of a message may take, whatever its topic: one for each beginning of a filter with
    /// wildcards that the topic has. Default 8,192, about a millisecond. A session may cause a sixteenth of it. At the
    /// limit: SUBACK 0x97 for each filter that would raise it.
    pub matching_steps_max: u32,
    /// How many levels a topic name or filter may have. Default 128. Beyond it: SUBACK 0x8F for a filter, PUBACK or
    /// PUBREC 0x90 for a topic name (DISCONNECT 0x90 at QoS 0).
    pub topic_levels_max: u16,
    /// How many bytes a topic name or filter may have. Default, and the most that fits into a key on disk beside the
    /// session's number: 65,527. Beyond it: as for levels.
    pub topic_bytes_max: u16,
    /// How many retained messages of clients the node keeps. Default 1,000,000. At the limit: a message that is to be retained for a
    /// new topic is refused with PUBACK or PUBREC 0x97; with QoS 0 it is delivered and not retained.
    pub retained_messages_max: u64,
    /// How many bytes of retained messages the node keeps (topic, payload, properties and 256 bytes each). Default 1 GiB.
    /// At the limit: as for their number.
    pub retained_bytes_max: u64,
    /// How many bytes the node may hold for others, in its own account ([`crate::memory`]). Default: any. Towards the limit:
    /// see [`crate::memory::MemoryLevel`].
    pub memory_max: u64,
    /// Whether messages with `$high_priority` go before others while memory runs out. Default true. False: the property means nothing.
    pub high_priority: bool,
    /// How many connections of clients that are known are open at once. Default 100,000. At the limit: CONNACK 0x89, then closed.
    /// The edge bounds those whose client is not known yet.
    pub connections_max: u32,
    /// How many sessions there are, connected or not. Default 1,000,000. At the limit: CONNACK 0x97 to a client that has no
    /// session yet.
    pub sessions_max: u32,
    /// The longest Keep Alive. Default 1 hour; `None`: any, also none at all. At the limit: Server Keep Alive in CONNACK
    /// replaces a longer one (a 3.1.1 client cannot be told; its own Keep Alive then counts).
    pub keep_alive_max: Option<Duration>,
    /// How long a new connection may take to send its CONNECT. Default 10 s. After it: closed.
    pub connect_timeout: Duration,
    /// From when on something is slow, and the operator is told of it. Default: never.
    pub slow_operation: Duration,
    /// How many bytes wait to be written to one connection before nothing more is taken from its session's queue.
    /// Default 1 MiB.
    pub outbound_bytes_max: u32,
}

/// How many notifications of watched keys wait in one session's queue: one of each key that a connection may watch, which the
/// node checks against the store's limit. They may
/// have [`Limits::queue_bytes_max`] together. At the limit: DISCONNECT 0x97, and the connection watches nothing any more.
pub const NOTIFICATIONS_MAX: usize = 1 << 14;

/// What gives way when a session's queue is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueFull {
    /// The messages that wait for longest. What is inflight is never dropped.
    #[default]
    DropOldest,
    /// The message that comes.
    DropNewest,
}

/// What one session keeps of the node's [`Limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// As [`Limits::queue_messages_max`].
    pub queue_messages_max: u32,
    /// As [`Limits::inflight_max`].
    pub inflight_max: u16,
    /// As [`Limits::queue_full`].
    pub queue_full: QueueFull,
    /// As [`Limits::queue_bytes_max`].
    pub queue_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            packet_size_max: 1_048_576 + 65_536,
            publish_rate_max: 0,
            publish_bytes_rate_max: 0,
            receive_maximum: 1_024,
            topic_alias_maximum: 32,
            topic_alias_outbound_max: 32,
            queue_messages_max: 10_000,
            queue_bytes_max: 64 * 1_048_576,
            queue_full: QueueFull::DropOldest,
            inflight_max: 1_024,
            session_expiry_max: Some(Duration::from_secs(7 * 24 * 3_600)),
            subscriptions_per_session_max: 10_000,
            shared_subscriptions_per_session_max: 1_000,
            filters_per_packet_max: 10_000,
            matching_steps_max: 8_192,
            topic_levels_max: 128,
            topic_bytes_max: 65_527,
            retained_messages_max: 1_000_000,
            retained_bytes_max: 1_073_741_824,
            memory_max: u64::MAX,
            high_priority: true,
            connections_max: 100_000,
            sessions_max: 1_000_000,
            keep_alive_max: Some(Duration::from_secs(3_600)),
            connect_timeout: Duration::from_secs(10),
            outbound_bytes_max: 1_048_576,
            slow_operation: Duration::MAX,
        }
    }
}

impl Limits {
    /// What each session keeps of them.
    pub fn of_session(&self) -> SessionLimits {
        SessionLimits {
            queue_messages_max: self.queue_messages_max,
            inflight_max: self.inflight_max,
            queue_full: self.queue_full,
            queue_bytes_max: self.queue_bytes_max,
        }
    }

    /// Whether a topic name or filter is no longer and has no more levels than allowed. A shared subscription's filter
    /// counts with its `$share/name/`.
    pub fn allow_topic(&self, topic: &str) -> bool {
        topic.len() <= usize::from(self.topic_bytes_max)
            && topic.bytes().filter(|byte| *byte == b'/').count() < usize::from(self.topic_levels_max)
    }

    /// The Session Expiry Interval in seconds that a client gets which asked for `asked`; `u32::MAX` is for ever.
    pub fn session_expiry(&self, asked: u32) -> u32 {
        match self.session_expiry_max {
            Some(longest) => asked.min(u32::try_from(longest.as_secs()).unwrap_or(u32::MAX)),
            None => asked,
        }
    }

    /// The Server Keep Alive in seconds to tell a client which asked for `asked` (0 is none), if it must be another.
    /// [MQTT-3.1.2-21]
    pub fn server_keep_alive(&self, asked: u16) -> Option<u16> {
        let longest = u16::try_from(self.keep_alive_max?.as_secs()).unwrap_or(u16::MAX);
        (asked == 0 || asked > longest).then_some(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_with_empty_ones() {
        let limits = Limits {
            topic_levels_max: 3,
            ..Limits::default()
        };
        assert!(limits.allow_topic("a/b/c"));
        assert!(limits.allow_topic("//"));
        assert!(!limits.allow_topic("///"));
    }

    #[test]
    fn a_longer_session_expiry_is_shortened() {
        let limits = Limits {
            session_expiry_max: Some(Duration::from_secs(60)),
            ..Limits::default()
        };
        assert_eq!(
            [0, 59, 60, u32::MAX].map(|asked| limits.session_expiry(asked)),
            [0, 59, 60, 60]
        );
        let unlimited = Limits {
            session_expiry_max: None,
            ..Limits::default()
        };
        assert_eq!(unlimited.session_expiry(u32::MAX), u32::MAX);
    }

    #[test]
    fn mqtt_3_1_2_21_server_keep_alive_replaces_none_and_longer_ones() {
        let limits = Limits {
            keep_alive_max: Some(Duration::from_secs(60)),
            ..Limits::default()
        };
        assert_eq!(
            [0, 1, 60, 61].map(|asked| limits.server_keep_alive(asked)),
            [Some(60), None, None, Some(60)]
        );
    }
}
