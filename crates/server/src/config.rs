//! The settings of a server: one file, overridden by the command line.
//!
//! The structs below are the only list of settings. Their doc comments and defaults make the JSON schema
//! ([`Config::schema_json`]), the example file ([`Config::default_toml`]) and `docs/configuration.md`, so a setting that
//! is not described cannot exist. A `Config` from [`Config::load`] has passed every check; nobody checks again.

mod address;
mod addresses;
mod admin;
mod audit;
mod authentication;
pub(crate) mod authorization;
mod cluster;
mod custom;
mod encryption;
mod example;
mod file;
mod jwt;
mod k8s_sat;
mod limits;
mod listeners;
mod otlp;
mod quantity;
mod reference;
mod requests;
mod self_test;
mod settings;
mod state_store;
mod tls;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::address::{AddressError, FileMode, FileModeError, ListenAddress, SocketPath};
pub use self::admin::{Admin, AdminTls};
pub use self::audit::Audit;
pub use self::authentication::{Authentication, AuthenticationMethod, Password, Redirect, Scram, X509};
pub use self::authorization::Authorization;
pub use self::cluster::{Cluster, PeerTls};
pub use self::custom::Custom;
pub use self::encryption::Encryption;
pub use self::file::{ConfigError, Problem};
pub use self::jwt::{Jwt, JwtAlgorithm};
pub use self::k8s_sat::K8sSat;
pub use self::limits::{Limits, MemoryMax, MemoryProfile};
pub use self::listeners::{Listener, WebSocket};
pub use self::otlp::Otlp;
pub use self::self_test::SelfTest;
pub use self::state_store::{DialectChoice, QuotaMax, StateStore};
pub use self::tls::{Certificate, ClientCertificate, CrlDoubt, Tls, TlsVersion};
pub use ::cluster::peers::PeerAddress;

/// Settings of a Statehold server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Directory of everything durable. Made if it is missing, and locked: a second server that is given the same directory
    /// does not start. A relative path is relative to the working directory.
    pub data_dir: PathBuf,

    /// When a write counts as done.
    pub durability: Durability,

    /// Encryption of everything in the data directory (`docs/encryption.md`).
    pub encryption: Encryption,

    /// The other nodes of a cluster (`docs/cluster.md`). Without this table the server is on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Cluster")]
    pub cluster: Option<Cluster>,

    /// Where MQTT clients connect; one table `[[listeners]]` for each address. A file without any has one listener at
    /// `127.0.0.1:1883`.
    pub listeners: Vec<Listener>,

    /// How clients say who they are, at listeners with `authentication`.
    pub authentication: Authentication,

    /// A policy for each kind of listener: what clients may do where it is named in `authorization`. Names are letters, digits, `-` and `_`.
    pub authorization: authorization::Policies,

    /// Another server for the clients of this one.
    pub redirect: Redirect,

    /// The health, readiness and metrics pages.
    pub admin: Admin,

    /// How often `$SYS/broker/...` is published: what the server counts, as retained messages; `"none"` publishes nothing. Each
    /// is published when it has changed.
    #[serde(with = "quantity::optional_duration")]
    #[schemars(with = "quantity::OptionalDurationText")]
    pub sys_interval: Option<Duration>,

    /// The state store.
    pub state_store: StateStore,

    /// When the replicated log is replaced by an image of the store.
    pub snapshot: Snapshot,

    /// Shared subscriptions.
    pub shared_subscriptions: SharedSubscriptions,

    /// What a client may use of the server. Each limit says what happens when it is reached.
    pub limits: Limits,

    /// What is written to stderr.
    pub log: Log,

    /// The audit log: who came in, who was denied what, and when that what decides about it has changed (`docs/audit.md`).
    pub audit: Audit,

    /// A client inside the server that does what clients do, and says whether it works and how long it takes (`docs/observability.md`).
    pub self_test: SelfTest,

    /// Traces for a collector of OpenTelemetry: where the time of single requests and messages went (`docs/observability.md`).
    pub otlp: Otlp,
}

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Synced to disk: what was acknowledged survives a power cut.
    #[default]
    Disk,
    /// Given to the operating system and not synced: what was acknowledged survives the end of the process, but not of the
    /// machine. A SET with the user property `aio-persistence` = `true` is synced all the same.
    Memory,
}

/// Shared subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SharedSubscriptions {
    /// Which of the clients that share a subscription gets a message. Messages with the user property `$partition` go by its
    /// value under every strategy: the same value, the same client. Clients that are not connected get something only if
    /// none is.
    pub strategy: ShareStrategy,
}

/// Which of the clients that share a subscription gets a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShareStrategy {
    /// The next one in turn. One that has much waiting in its queue is passed over while another has not.
    #[default]
    RoundRobin,
    /// The same one for all messages of one publisher, by its client id, as long as the same clients are connected.
    HashClient,
    /// The same one for all messages to one topic, as long as the same clients are connected.
    HashTopic,
}

impl Config {
    /// Time for which another node may be silent until it is declared dead.
    pub fn silence_max(&self) -> Duration {
        self.cluster
            .as_ref()
            .map_or(cluster::SILENCE_MAX, |cluster| cluster.silence_max)
    }
}

impl ShareStrategy {
    /// As the broker takes it.
    pub fn for_broker(self) -> broker::ShareStrategy {
        match self {
            Self::RoundRobin => broker::ShareStrategy::RoundRobin,
            Self::HashClient => broker::ShareStrategy::HashClient,
            Self::HashTopic => broker::ShareStrategy::HashTopic,
        }
    }
}

/// When the replicated log is replaced by an image of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshot {
    /// A snapshot is taken when the log has grown by so much since the last one, or to the size of that one, whichever is
    /// more. Less makes restarts faster and writes more to disk. At least 4 KiB.
    #[serde(with = "quantity::size")]
    #[schemars(with = "quantity::SizeText")]
    pub log_bytes_min: u64,
}

/// What is written to stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,

    /// `error`, `warn`, `info`, `debug` or `trace`; or one level for each part, such as `info,broker=debug`. The environment
    /// variable `STATEHOLD_LOG` goes before it.
    pub level: String,

    /// Lines of one kind and about one principal, or about one address where nobody has proved who it is, in 10 seconds. What is beyond it is
    /// left out, and how much that was is a line.
    pub rate_max: u32,

    /// From when on something is slow: a request of a client, a write to the disk, or what the node's thread does in one go. It is a line of
    /// level `warn`, so many a second at most, and `statehold_slow_operations_total` counts all (`docs/observability.md`). `"none"`: nothing is; `"0ms"`: everything is.
    #[serde(with = "quantity::optional_duration")]
    #[schemars(with = "quantity::OptionalDurationText")]
    pub slow_operation: Option<Duration>,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people to read.
    #[default]
    Text,
    /// One JSON object for each line.
    Json,
}

/// What the command line says, which goes before the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--listen`: replaces all listeners of the file.
    pub listen: Vec<ListenAddress>,
    /// `--allow-anonymous`: sets `allow_anonymous` of every listener.
    pub allow_anonymous: bool,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--admin`
    pub admin: Option<SocketAddr>,
    /// `--peer-listen`
    pub peer_listen: Option<SocketAddr>,
    /// `--peer-advertise`
    pub peer_advertise: Option<PeerAddress>,
    /// `--join`: replaces the addresses of the file.
    pub join: Vec<PeerAddress>,
    /// `--cluster-size`
    pub cluster_size: Option<u16>,
    /// `--groups`
    pub groups: Option<u32>,
    /// `--insecure-peers`
    pub insecure_peers: bool,
    /// `--peer-cert`, `--peer-key`, `--peer-ca` and `--peer-crl`
    pub peer_tls: PeerTls,
    /// `--durability`
    pub durability: Option<Durability>,
    /// `--log-format`
    pub log_format: Option<LogFormat>,
    /// `--log-level`
    pub log_level: Option<String>,
}

impl Config {
    /// Reads the settings: defaults, then the file, then the command line; and checks them all.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let source = path.map(file::Source::read).transpose()?;
        let mut config = match &source {
            Some(source) => source.parse()?,
            None => Self::default(),
        };
        config.apply(overrides);
        let violations = config.violations();
        if violations.is_empty() {
            return Ok(config);
        }
        Err(match &source {
            Some(source) => source.locate(violations),
            None => ConfigError::Rejected(violations),
        })
    }

    /// Whether the values make sense together; for a `Config` that was made by hand.
    pub fn check(&self) -> Result<(), ConfigError> {
        let violations = self.violations();
        if violations.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Rejected(violations))
        }
    }

    /// The JSON schema of the file.
    pub fn schema_json() -> String {
        settings::schema_json()
    }

    /// A file that says what the defaults say, every setting described and commented out.
    pub fn default_toml() -> String {
        example::default_toml()
    }

    /// `docs/configuration.md`
    pub fn reference_markdown() -> String {
        reference::markdown()
    }

    fn apply(&mut self, overrides: &Overrides) {
        if !overrides.listen.is_empty() {
            self.listeners = overrides
                .listen
                .iter()
                .map(|address| Listener::at(address.clone()))
                .collect();
        }
        if overrides.allow_anonymous {
            self.listeners
                .iter_mut()
                .for_each(|listener| listener.allow_anonymous = true);
        }
        if let Some(data_dir) = &overrides.data_dir {
            self.data_dir.clone_from(data_dir);
        }
        self.admin.address = overrides.admin.unwrap_or(self.admin.address);
        self.durability = overrides.durability.unwrap_or(self.durability);
        self.apply_to_cluster(overrides);
        self.log.format = overrides.log_format.unwrap_or(self.log.format);
        if let Some(level) = &overrides.log_level {
            self.log.level.clone_from(level);
        }
    }

    fn apply_to_cluster(&mut self, overrides: &Overrides) {
        let tls = &overrides.peer_tls;
        let is_said = overrides.peer_listen.is_some()
            || overrides.peer_advertise.is_some()
            || !overrides.join.is_empty()
            || overrides.cluster_size.is_some()
            || overrides.groups.is_some()
            || overrides.insecure_peers
            || *tls != PeerTls::default();
        if !is_said {
            return;
        }
        let cluster = self.cluster.get_or_insert_default();
        cluster.peer_listen = overrides.peer_listen.or(cluster.peer_listen);
        if overrides.peer_advertise.is_some() {
            cluster.peer_advertise.clone_from(&overrides.peer_advertise);
        }
        if !overrides.join.is_empty() {
            cluster.join.clone_from(&overrides.join);
        }
        cluster.size = overrides.cluster_size.or(cluster.size);
        cluster.groups = overrides.groups.unwrap_or(cluster.groups);
        cluster.insecure_peers |= overrides.insecure_peers;
        if !tls.crl.is_empty() {
            cluster.tls.crl.clone_from(&tls.crl);
        }
        let files = [
            (&mut cluster.tls.cert, &tls.cert),
            (&mut cluster.tls.key, &tls.key),
            (&mut cluster.tls.ca, &tls.ca),
        ];
        for (file, overriding) in files {
            if !overriding.as_os_str().is_empty() {
                file.clone_from(overriding);
            }
        }
    }

    /// What a type cannot say. The setting of each is a path as in `limits.receive_maximum` or `listeners[0].address`.
    fn violations(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.listeners.is_empty() {
            problems.push(Problem::new(
                "listeners",
                "at least one listener is needed".to_owned(),
            ));
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            listener.violations(&format!("listeners[{index}]"), &mut problems);
        }
        self.admin.violations(&mut problems);
        addresses::violations(self, &mut problems);
        if self.data_dir.as_os_str().is_empty() {
            problems.push(Problem::new("data_dir", "a directory is needed".to_owned()));
        }
        if self.snapshot.log_bytes_min < SNAPSHOT_LOG_BYTES_LEAST {
            let why = "a snapshot for every few requests would write more than it saves: at least 4 KiB";
            problems.push(Problem::new("snapshot.log_bytes_min", why.to_owned()));
        }
        if let Err(error) = crate::logging::filter(&self.log.level) {
            problems.push(Problem::new("log.level", error.to_string()));
        }
        self.authentication.violations(&self.listeners, &mut problems);
        self.encryption.violations(&mut problems);
        if let Some(cluster) = &self.cluster {
            cluster.violations(&mut problems);
        }
        authorization::violations(&self.authorization, &self.listeners, &mut problems);
        self.audit.violations(&mut problems);
        self.self_test.violations(&mut problems);
        self.otlp.violations(&mut problems);
        self.redirect.violations(&mut problems);
        self.limits.violations(&mut problems);
        problems
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("data"),
            durability: Durability::default(),
            encryption: Encryption::default(),
            cluster: None,
            listeners: vec![Listener::default()],
            authentication: Authentication::default(),
            authorization: authorization::Policies::default(),
            redirect: Redirect::default(),
            admin: Admin::default(),
            sys_interval: Some(Duration::from_secs(10)),
            state_store: StateStore::default(),
            snapshot: Snapshot::default(),
            shared_subscriptions: SharedSubscriptions::default(),
            limits: Limits::default(),
            log: Log::default(),
            audit: Audit::default(),
            self_test: SelfTest::default(),
            otlp: Otlp::default(),
        }
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            log_bytes_min: 64 << 20,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: "info".to_owned(),
            rate_max: 20,
            slow_operation: Some(Duration::from_secs(1)),
        }
    }
}

/// Less would take a snapshot after every few requests.
const SNAPSHOT_LOG_BYTES_LEAST: u64 = 4 << 10;

#[cfg(test)]
mod tests;
