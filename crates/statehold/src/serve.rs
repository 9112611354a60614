//! `statehold serve`

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use server::config::{Config, Durability, ListenAddress, LogFormat, Overrides, PeerAddress, PeerTls};
use server::{Ready, Scheme, logging, shutdown};

use crate::exit::{self, Exit};
use crate::output;

/// Run a server.
///
/// With --peer-listen it is a node of a cluster, and ready when the cluster is formed.
/// It prints one line when it is ready: `statehold ready mqtt=ADDR admin=ADDR`, with `mqtts=`, `ws=` and `wss=` for
/// listeners with TLS and WebSocket, and `peers=` for a node of a cluster. SIGTERM and SIGINT stop it: clients are told, everything acknowledged is on disk, and the exit code is 0.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Settings; `statehold config default` writes a file to start from. Options go before the file
    #[arg(long, short = 'c', value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgs,
}

/// What goes before the settings of a file.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// Where MQTT clients connect, IP:PORT or unix:PATH, more than once if needed; port 0 takes a free one [default: 127.0.0.1:1883]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<ListenAddress>,
    /// Let clients connect that do not say who they are, also from other machines
    #[arg(long)]
    allow_anonymous: bool,
    /// Directory of everything durable [default: data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where health and metrics are served [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Be a node of a cluster: where other nodes connect, IP:PORT
    #[arg(long, value_name = "ADDR", help_heading = "Cluster")]
    peer_listen: Option<SocketAddr>,
    /// Where other nodes reach this one, IP:PORT or NAME:PORT [default: --peer-listen]
    #[arg(long, value_name = "ADDR", help_heading = "Cluster")]
    peer_advertise: Option<PeerAddress>,
    /// Where nodes of the cluster are, IP:PORT or NAME:PORT, separated by commas; this one's own address may be among them
    #[arg(long, value_name = "ADDR", value_delimiter = ',', help_heading = "Cluster")]
    join: Vec<PeerAddress>,
    /// How many nodes form the cluster, the same on all of them; only read while there is none
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    cluster_size: Option<u16>,
    /// How many groups the cluster has, the same on all nodes; only read while there is none [default: 1]
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    groups: Option<u32>,
    /// This node's certificate for other nodes, PEM, good for servers and clients
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    peer_cert: Option<PathBuf>,
    /// The private key of --peer-cert, PEM
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    peer_key: Option<PathBuf>,
    /// The authority of the nodes' certificates, PEM; who has one of it is believed to be a node
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    peer_ca: Option<PathBuf>,
    /// Lists of revoked certificates of nodes, PEM or DER, separated by commas
    #[arg(long, value_name = "FILE", value_delimiter = ',', help_heading = "Cluster")]
    peer_crl: Vec<PathBuf>,
    /// Talk to other nodes in clear and believe whoever connects; on loopback addresses only
    #[arg(long, help_heading = "Cluster")]
    insecure_peers: bool,
    /// When a write counts as done: synced to disk, or only written [default: disk]
    #[arg(long)]
    durability: Option<DurabilityArg>,
    /// The form of log lines on stderr [default: text]
    #[arg(long)]
    log_format: Option<LogFormatArg>,
    /// error, warn, info, debug or trace, or for example info,broker=debug [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DurabilityArg {
    Disk,
    Memory,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormatArg {
    Text,
    Json,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let config = Config::load(self.config.as_deref(), &self.settings.overrides())?;
        let _logging = logging::start(&config.log)?;
        server::run(&config, shutdown::requested(), say_ready)?;
        Ok(Exit::Done)
    }
}

impl SettingsArgs {
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            listen: self.listen.clone(),
            allow_anonymous: self.allow_anonymous,
            data_dir: self.data_dir.clone(),
            admin: self.admin,
            peer_listen: self.peer_listen,
            peer_advertise: self.peer_advertise.clone(),
            join: self.join.clone(),
            cluster_size: self.cluster_size,
            groups: self.groups,
            insecure_peers: self.insecure_peers,
            peer_tls: PeerTls {
                cert: self.peer_cert.clone().unwrap_or_default(),
                key: self.peer_key.clone().unwrap_or_default(),
                ca: self.peer_ca.clone().unwrap_or_default(),
                crl: self.peer_crl.clone(),
            },
            durability: self.durability.map(|durability| match durability {
                DurabilityArg::Disk => Durability::Disk,
                DurabilityArg::Memory => Durability::Memory,
            }),
            log_format: self.log_format.map(|format| match format {
                LogFormatArg::Text => LogFormat::Text,
                LogFormatArg::Json => LogFormat::Json,
            }),
            log_level: self.log_level.clone(),
        }
    }
}

/// The one line that scripts wait for.
fn say_ready(ready: &Ready) {
    let mut line = "statehold ready".to_owned();
    for scheme in Scheme::ALL {
        let at_scheme = ready.listeners.iter().filter(|(its, _)| *its == scheme);
        let addresses: Vec<_> = at_scheme.map(|(_, address)| address.to_string()).collect();
        if !addresses.is_empty() {
            let _ = write!(line, " {}={}", scheme.name(), addresses.join(","));
        }
    }
    if let Some(address) = &ready.peers {
        let _ = write!(line, " peers={address}");
    }
    let said = output::line(format!("{line} admin={}", ready.admin));
    if let Err(error) = said {
        // Whoever started the server does not listen; clients may all the same.
        exit::note(&format!("cannot say that the server is ready: {error}"));
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold serve
  statehold serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 --data-dir /var/lib/statehold
  statehold serve --config statehold.toml --log-format json

Three nodes on one machine; the same on each with its own addresses and directory, in any order, and again after a crash:
  statehold serve --data-dir a --listen 127.0.0.1:1883 --admin 127.0.0.1:8081 --peer-listen 127.0.0.1:7001 \
      --join 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003 --cluster-size 3 --insecure-peers";
