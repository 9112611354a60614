//! One adversary: its name, what it needs, and what it does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::attacker::Attacker;
use super::servers::Servers;

/// One adversary. `act` is called once, with a server that nobody else uses.
pub(super) struct Adversary {
    pub(super) name: &'static str,
    /// What it does, in one sentence.
    pub(super) about: &'static str,
    pub(super) world: World,
    /// Settings of the server, tables of TOML, such as `"[limits]\nmemory_max = \"256 MiB\"\n"`. `{place}` is its directory, with
    /// an empty `clients.scram`.
    pub(super) settings: &'static str,
    /// Prepares, calls [`Arena::begin`], and does its worst until it is answered, closed, or has had its time.
    pub(super) act: fn(&Arena<'_>) -> anyhow::Result<Outcome>,
}

/// Which servers the adversary meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum World {
    /// One server with the default settings.
    Alone,
    /// The same, whose listeners have a policy: [`super::servers::policy`].
    Policy,
    /// Three nodes of a cluster; the adversary and the client that pings are at the first one.
    Cluster,
}

/// What became of the adversary.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// In a few words, as in `SUBACK 0x97` or `closed after 10 s`.
    pub(super) became: String,
    /// What it has sent since [`Arena::begin`], roughly.
    pub(super) bytes_sent: u64,
}

/// What an adversary meets.
pub(super) struct Arena<'a> {
    servers: &'a Servers,
    acting: Arc<AtomicBool>,
}

impl Adversary {
    /// True if any server will do.
    pub(super) fn needs_nothing(&self) -> bool {
        self.world == World::Alone && self.settings.is_empty()
    }
}

impl Outcome {
    pub(super) fn new(became: impl Into<String>, bytes_sent: usize) -> Self {
        Self {
            became: became.into(),
            bytes_sent: bytes_sent as u64,
        }
    }
}

impl<'a> Arena<'a> {
    pub(super) fn new(servers: &'a Servers, acting: Arc<AtomicBool>) -> Self {
        Self { servers, acting }
    }

    /// All is prepared: from here on gaps and memory count.
    pub(super) fn begin(&self) {
        self.acting.store(true, Ordering::Release);
    }

    /// Plain MQTT of the server, or of the first node.
    pub(super) fn mqtt(&self) -> SocketAddr {
        self.servers.mqtt()
    }

    /// Its MQTT over WebSocket, at the path `/mqtt`.
    pub(super) fn websocket(&self) -> anyhow::Result<SocketAddr> {
        self.servers.address("ws")
    }

    /// The last listener of a kind, or another port: `mqtt`, `ws`, `admin`, `peers`.
    pub(super) fn last(&self, name: &str) -> anyhow::Result<SocketAddr> {
        self.servers.last_address(name)
    }

    /// A client with this id and a new session that ends with the connection.
    pub(super) fn client(&self, client_id: &str) -> anyhow::Result<Attacker> {
        Attacker::connect(self.mqtt(), client_id)
    }
}
