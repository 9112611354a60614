//! How a session behaves.

use std::time::Duration;

use bytes::Bytes;
use protocol::Text;
use protocol::packet::Will;

use super::backoff::BackoffLimits;

/// When to connect again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reconnect {
    /// Never: the first loss ends the session.
    Never,
    /// If the first attempt succeeded.
    #[default]
    AfterFirst,
    /// Always, also if the first attempt fails.
    Always,
}

/// Settings of a session.
#[derive(Clone)]
pub struct SessionOptions {
    /// What the client calls itself; not empty, no `+`, no `#`.
    pub client_id: Text,
    /// Start the first connection without the state of an earlier session.
    pub clean_start: bool,
    /// Keep alive in seconds; 0: off.
    pub keep_alive: u16,
    /// How long the server keeps the session after the connection is lost, in seconds.
    pub session_expiry: u32,
    /// How many QoS 1 and 2 messages the server may send before they are acknowledged; not 0.
    pub receive_maximum: u16,
    /// The largest packet taken from the server, in bytes.
    pub packet_size_max: u32,
    /// User name.
    pub username: Option<Text>,
    /// Password.
    pub password: Option<Bytes>,
    /// The message to publish if the connection ends abnormally.
    pub will: Option<Will>,
    /// From opening the transport to CONNACK.
    pub connect_timeout: Duration,
    /// From PINGREQ to PINGRESP.
    pub ping_timeout: Duration,
    /// How many operations may be under way; one more fails with `QueueFull`.
    pub operations_max: usize,
    /// How many keys may be watched; one more fails with `QueueFull`.
    pub watches_max: usize,
    /// Subscribe with an identifier of one's own, where the server takes one. Without it messages are told apart by their topics.
    pub subscription_identifiers: bool,
    /// When to connect again.
    pub reconnect: Reconnect,
    /// Waits between attempts.
    pub backoff: BackoffLimits,
    /// Decides jitter and correlation data; must differ between processes that share a client id.
    pub seed: u64,
}

impl SessionOptions {
    /// The defaults, for `client_id`.
    pub fn new(client_id: Text, seed: u64) -> Self {
        Self {
            client_id,
            clean_start: false,
            keep_alive: 30,
            session_expiry: 3600,
            receive_maximum: 1024,
            packet_size_max: 16 * 1024 * 1024,
            username: None,
            password: None,
            will: None,
            connect_timeout: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(10),
            operations_max: 4096,
            watches_max: 65_536,
            subscription_identifiers: true,
            reconnect: Reconnect::default(),
            backoff: BackoffLimits::default(),
            seed,
        }
    }
}

impl std::fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionOptions")
            .field("client_id", &self.client_id)
            .field("clean_start", &self.clean_start)
            .field("keep_alive", &self.keep_alive)
            .field("session_expiry", &self.session_expiry)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "(secret)"))
            .field("reconnect", &self.reconnect)
            .finish_non_exhaustive()
    }
}
