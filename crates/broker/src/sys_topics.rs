//! `$SYS`: what the node counts, as retained messages for MQTT clients.
//!
//! The names are those that Mosquitto made common. They are published when they have changed, at most once an interval,
//! and live in memory only: a restarted node says them anew.

use std::fmt::Display;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mqtt::message::Message;
use mqtt::now::Now;
use protocol::{Text, TopicName};

use crate::node::{Action, Node};
use crate::publishing::Keeping;

/// When what is below `$SYS` is published.
#[derive(Debug)]
pub(crate) struct SysTopics {
    interval: Option<Duration>,
    /// When the node began.
    began: Instant,
    next: Option<Instant>,
}

impl SysTopics {
    /// The first time is at once; `None`: never.
    pub(crate) fn new(began: Instant, interval: Option<Duration>) -> Self {
        Self {
            interval,
            began,
            next: interval.map(|_| began),
        }
    }

    /// When it is time again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.next
    }
}

impl Node {
    /// Publishes what has changed, if it is time.
    pub(crate) fn publish_sys_topics(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.sys_topics.next.is_none_or(|next| next > now.instant) {
            return;
        }
        self.sys_topics.next = self.sys_topics.interval.map(|interval| now.instant + interval);
        for (name, value) in self.sys_values(now) {
            let topic = TopicName::parse(Text::new(format!("{BEGIN}{name}")).expect("a short name"))
                .expect("the names have no wildcards");
            let payload = Bytes::from(value);
            let known = self.retained.get(topic.as_str(), now);
            if known.is_none_or(|known| known.payload != payload) {
                let message = Message::of_server(topic, payload, now).counted(&self.memory.messages);
                self.publish_message(now, message, Keeping::Memory, actions);
            }
        }
    }

    fn sys_values(&self, now: Now) -> Vec<(&'static str, String)> {
        let counters = &self.counters;
        let dropped = &counters.dropped;
        let uptime = now.instant.saturating_duration_since(self.sys_topics.began);
        let usage = self.groups.usage();
        let connected = self.sessions.len();
        let text = |value: &dyn Display| value.to_string();
        vec![
            ("version", format!("statehold {}", env!("CARGO_PKG_VERSION"))),
            ("uptime", format!("{} seconds", uptime.as_secs())),
            ("clients/connected", text(&connected)),
            ("clients/total", text(&self.sessions.len())),
            ("clients/disconnected", text(&(self.sessions.len() - connected))),
            (
                "subscriptions/count",
                text(&(self.subscriptions.len() + self.shares.subscriptions())),
            ),
            ("shared_subscriptions/count", text(&self.shares.len())),
            ("retained messages/count", text(&self.retained.len())),
            (
                "publish/messages/received",
                text(&counters.messages_in.iter().sum::<u64>()),
            ),
            (
                "publish/messages/sent",
                text(&counters.messages_out.iter().sum::<u64>()),
            ),
            ("publish/messages/dropped", text(&dropped.total())),
            (
                "publish/bytes/received",
                text(&counters.bytes_in.iter().sum::<u64>()),
            ),
            (
                "publish/bytes/sent",
                text(&counters.bytes_out.iter().sum::<u64>()),
            ),
            ("memory/level", text(&self.memory.level.name())),
            ("state store/keys", text(&usage.keys)),
            ("state store/bytes", text(&usage.bytes)),
            (
                "state store/requests",
                text(&counters.store_requests.iter().sum::<u64>()),
            ),
        ]
    }
}

/// What the names begin with.
const BEGIN: &str = "$SYS/broker/";
