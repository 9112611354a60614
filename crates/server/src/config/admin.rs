//! `[admin]`: the pages for operators and their programs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;
use super::tls::Tls;

/// The health, readiness and metrics pages, and a way to have files taken anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// IP address and port of `/healthz`, `/readyz`, `/metrics` and `/reload`. An address that other machines can reach needs `tls`
    /// and `tokens`. Port 0 takes a free port, which the `statehold ready` line names.
    pub address: SocketAddr,

    /// File with a line for each token, as `statehold admin-token` writes it. With it, who asks for `/metrics` needs a token of the
    /// scope `read`, `backup` or `write`. A backup needs one of the scope `backup` or `write`, `/reload` one of the scope `write`, also without this setting, and then cannot be
    /// had.
    /// `/healthz` and `/readyz` need none. It is read again on SIGHUP and a few seconds after it has changed.
    pub tokens: PathBuf,

    /// Names by which the pages may be asked for, besides `localhost` and IP addresses. A request with another `Host` is
    /// refused with 421, so that a web page that a browser shows cannot read them through a name of its own.
    pub host_names: Vec<String>,

    /// How long a page waits for an answer of the node's thread, before it says 503.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub answer_within: Duration,

    /// TLS of the pages.
    pub tls: AdminTls,
}

/// TLS of the pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdminTls {
    /// PEM file with the certificate, followed by those between it and the authority. Empty: the pages are not encrypted. The files
    /// are read again on SIGHUP and a few seconds after they have changed.
    pub cert: PathBuf,

    /// PEM file with the private key of `cert`.
    pub key: PathBuf,
}

impl AdminTls {
    /// As that of a listener; `None`: the pages are not encrypted.
    pub(crate) fn for_listener(&self) -> Option<Tls> {
        self.is_there().then(|| Tls::of(&self.cert, &self.key))
    }

    fn is_there(&self) -> bool {
        !self.cert.as_os_str().is_empty()
    }
}

impl Admin {
    /// Where `statehold cluster` finds the pages that listen at this address.
    pub(crate) fn url(&self, address: SocketAddr) -> String {
        let scheme = if self.tls.is_there() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        let mut require = |holds: bool, setting: &str, why: &str| {
            if !holds {
                problems.push(Problem::new(setting, why.to_owned()));
            }
        };
        let is_protected = self.tls.is_there() && !self.tokens.as_os_str().is_empty();
        require(
            self.address.ip().is_loopback() || is_protected,
            "admin.address",
            &format!(
                "{} can be reached by other machines: set `admin.tls.cert`, `admin.tls.key` and `admin.tokens`, or use a loopback \
                 address such as 127.0.0.1:8080",
                self.address
            ),
        );
        require(
            self.tls.is_there() != self.tls.key.as_os_str().is_empty(),
            "admin.tls",
            "a certificate and its key belong together",
        );
        require(
            !self.answer_within.is_zero(),
            "admin.answer_within",
            "no node answers within 0s",
        );
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8080)),
            tokens: PathBuf::new(),
            host_names: Vec::new(),
            answer_within: Duration::from_secs(2),
            tls: AdminTls::default(),
        }
    }
}
