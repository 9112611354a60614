//! `[cluster]`: the other nodes, and how this one talks to them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cluster::forming::FOUNDERS_MAX;
use cluster::peers::PeerAddress;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;
use super::tls::Tls;

/// The other nodes of a cluster (`docs/cluster.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// IP address and port where other nodes connect. Whoever gets in there is believed: an address that other machines can reach
    /// needs `tls`, a loopback address `tls` or `insecure_peers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SocketAddr")]
    pub peer_listen: Option<SocketAddr>,

    /// Where other nodes reach this one, as IP:PORT or NAME:PORT; without it that is `peer_listen`. It is needed when `peer_listen` is
    /// an address such as `0.0.0.0`.
    #[serde(with = "optional_address", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub peer_advertise: Option<PeerAddress>,

    /// Where other nodes are, as IP:PORT or NAME:PORT. It may have this node's own address in it, so that all nodes have the same
    /// list. Others are learnt from those that are reached.
    #[serde(with = "addresses")]
    #[schemars(with = "Vec<String>")]
    pub join: Vec<PeerAddress>,

    /// How many nodes form the cluster, the same on all of them: 1 to 9. Only read while there is no cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u16")]
    pub size: Option<u16>,

    /// How many groups the state store has, the same on all nodes. Only read while there is no cluster; it can never be changed
    /// afterwards. 1 to 32.
    pub groups: u32,

    /// By how much clocks of nodes may differ. A node whose clock is off by more is refused.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub clock_skew_max: Duration,

    /// How often a leader tells the others that it is there.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub heartbeat_interval: Duration,

    /// How long a follower hears nothing of its leader until it wants to lead: so long at least, and at most twice as long. At
    /// least three times `heartbeat_interval`.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub election_timeout: Duration,

    /// Time for which a node may be silent until the others declare it dead. Nobody waits for it any more, and other owners serve its
    /// sessions. 1s to 60s.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub silence_max: Duration,

    /// Talk to other nodes in clear, and believe whoever connects. On loopback addresses only.
    pub insecure_peers: bool,

    /// TLS between nodes: each shows a certificate and wants to see one.
    pub tls: PeerTls,
}

/// TLS between nodes: each shows a certificate and wants to see one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PeerTls {
    /// PEM file with this node's certificate, followed by those between it and the authority. It has to be good for servers and for
    /// clients (`statehold certs node`); which name it has does not matter. All these files are read again on SIGHUP and a few seconds
    /// after they have changed.
    pub cert: PathBuf,

    /// PEM file with the private key of `cert`.
    pub key: PathBuf,

    /// PEM file with the authority of the nodes' certificates. Every holder of a certificate of it can be a node: use it for nothing
    /// else.
    pub ca: PathBuf,

    /// Files with lists of revoked certificates (CRL), PEM or DER. A node whose certificate, or one between it and the authority, is in one
    /// of them is not talked to; one that is connected when the list is read is hung up on. With any of them each authority needs
    /// one, and after its time (`nextUpdate`) a list lets no further node in.
    pub crl: Vec<PathBuf>,
}

impl PeerTls {
    /// As that of a listener whose clients have to have certificates; `None`: nodes talk in clear.
    pub(crate) fn for_listener(&self) -> Option<Tls> {
        self.is_there().then(|| Tls {
            client_ca: Some(self.ca.clone()),
            crl: self.crl.clone(),
            ..Tls::of(&self.cert, &self.key)
        })
    }

    fn files(&self) -> [&PathBuf; 3] {
        [&self.cert, &self.key, &self.ca]
    }

    fn is_there(&self) -> bool {
        self.files().iter().all(|file| !file.as_os_str().is_empty())
    }

    fn is_empty(&self) -> bool {
        self.crl.is_empty() && self.files().iter().all(|file| file.as_os_str().is_empty())
    }
}

impl Cluster {
    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        let mut require = |holds: bool, setting: &str, why: &str| {
            if !holds {
                problems.push(Problem::new(setting, why.to_owned()));
            }
        };
        require(
            self.clock_skew_max >= Duration::from_millis(1),
            "cluster.clock_skew_max",
            "no two clocks agree to less than 1ms",
        );
        require(
            self.heartbeat_interval >= HEARTBEAT_LEAST && self.heartbeat_interval <= HEARTBEAT_MOST,
            "cluster.heartbeat_interval",
            "between 10ms and 10s",
        );
        require(
            self.election_timeout >= 3 * self.heartbeat_interval && self.election_timeout <= ELECTION_MOST,
            "cluster.election_timeout",
            "at least three times cluster.heartbeat_interval, or a leader that has lost two messages is deposed; at most 60s",
        );
        require(
            self.silence_max >= Duration::from_secs(1) && self.silence_max <= Duration::from_secs(60),
            "cluster.silence_max",
            "between 1s and 60s: nodes are asked every half second",
        );
        require(
            (1..=state_service::GROUPS_MAX).contains(&self.groups),
            "cluster.groups",
            "between 1 and 32",
        );
        require(
            self.tls.is_there() || self.tls.is_empty(),
            "cluster.tls",
            "cert, key and ca (--peer-cert, --peer-key, --peer-ca) belong together, and crl (--peer-crl) needs all of them",
        );
        let Some(listen) = self.peer_listen else {
            let why = "a node of a cluster needs an address where others connect (--peer-listen)";
            return require(false, "cluster.peer_listen", why);
        };
        self.violations_of_node(listen, &mut require);
    }

    /// What the types do not say of a node of a cluster.
    fn violations_of_node(&self, listen: SocketAddr, require: &mut impl FnMut(bool, &str, &str)) {
        let size_max = u16::try_from(FOUNDERS_MAX).expect("it is small");
        require(
            self.size.is_some_and(|size| (1..=size_max).contains(&size)),
            "cluster.size",
            "say how many nodes form the cluster, 1 to 9 (--cluster-size)",
        );
        require(
            !self.join.is_empty() || self.size == Some(1),
            "cluster.join",
            "say where other nodes are (--join)",
        );
        require(
            self.peer_advertise.is_some() || !listen.ip().is_unspecified(),
            "cluster.peer_advertise",
            &format!("others cannot connect to {listen}: say where they reach this node (--peer-advertise)"),
        );
        let is_loopback = |address: &PeerAddress| address.ip().is_none_or(|ip| ip.ip().is_loopback());
        let others = self.join.iter().chain(&self.peer_advertise);
        let reached = others.clone().find(|address| !is_loopback(address));
        if self.insecure_peers {
            require(
                self.tls.is_empty(),
                "cluster.insecure_peers",
                "peers either talk by cluster.tls or in clear",
            );
            require(
                listen.ip().is_loopback() && reached.is_none(),
                "cluster.insecure_peers",
                &format!(
                    "{} is not a loopback address: set cluster.tls.cert, key and ca instead \
                     (--peer-cert, --peer-key, --peer-ca; `statehold certs` makes some to try out)",
                    reached.map_or(listen.to_string(), PeerAddress::to_string)
                ),
            );
        } else {
            let or_insecure = if listen.ip().is_loopback() && reached.is_none() {
                ", or on one machine cluster.insecure_peers (--insecure-peers)"
            } else {
                ""
            };
            require(
                !self.tls.is_empty(),
                "cluster.tls",
                &format!(
                    "whoever reaches {listen} would be believed to be a node: set cluster.tls.cert, key and ca \
                     (--peer-cert, --peer-key, --peer-ca; `statehold certs` makes some to try out){or_insecure}"
                ),
            );
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            peer_listen: None,
            peer_advertise: None,
            join: Vec::new(),
            size: None,
            groups: 1,
            clock_skew_max: Duration::from_millis(500),
            heartbeat_interval: Duration::from_millis(100),
            election_timeout: Duration::from_millis(300),
            silence_max: SILENCE_MAX,
            insecure_peers: false,
            tls: PeerTls::default(),
        }
    }
}

/// Time without a word after which a node is declared dead, where no setting says another.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(2);

const HEARTBEAT_LEAST: Duration = Duration::from_millis(10);
const HEARTBEAT_MOST: Duration = Duration::from_secs(10);
const ELECTION_MOST: Duration = Duration::from_secs(60);

/// Addresses of nodes in a file; for `#[serde(with = ...)]`.
mod addresses {
    use cluster::peers::PeerAddress;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &[PeerAddress], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(value.iter().map(PeerAddress::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PeerAddress>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let parsed = texts.iter().map(|text| text.parse().map_err(D::Error::custom));
        parsed.collect()
    }
}

/// An address of a node that may be left out; for `#[serde(with = ...)]`.
mod optional_address {
    use cluster::peers::PeerAddress;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Option<PeerAddress>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_ref().map_or("", PeerAddress::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PeerAddress>, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Some).map_err(D::Error::custom)
    }
}
