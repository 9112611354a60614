//! `[[listeners]]`: where and how MQTT clients connect.

use std::net::SocketAddr;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::{FileMode, ListenAddress};
use super::authentication::AuthenticationMethod;
use super::file::Problem;
use super::tls::Tls;

/// One address where MQTT clients connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// IP address and port. Port 0 takes a free port, which the `statehold ready` line names. An IPv6 address takes IPv6
    /// connections only: both kinds need two listeners. `unix:` and a path is a Unix socket: a file that is left of a server that was
    /// killed is replaced, and the file is removed when the server stops.
    #[schemars(with = "String")]
    pub address: ListenAddress,

    /// Who may connect to a Unix socket: the mode of its file, in base 8. Without it `"0660"`, its owner and its group. Only for
    /// `unix:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub mode: Option<FileMode>,

    /// How clients say who they are: a list of methods, tried in order; the first that a client's credentials are for decides. Each has
    /// a table `[authentication.METHOD]`, `"k8s-sat"` the table `[authentication.k8s_sat]`. A client that says nothing of itself is
    /// refused with CONNACK 0x87 (unless `allow_anonymous`), one that names another Authentication Method with 0x8C. Empty: nobody is
    /// asked.
    #[serde(default)]
    pub authentication: Vec<AuthenticationMethod>,

    /// What clients may do: the name of a policy, which `[authorization.NAME]` describes. Without it they may do everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub authorization: Option<String>,

    /// Whether clients connect without saying who they are. Has to be set for an address that other machines can reach, and
    /// for one that any web page can reach (`websocket` without `allowed_origins`), and with `proxy_protocol`, unless `authentication` or
    /// `tls.client_ca` asks clients who they are.
    #[serde(default)]
    pub allow_anonymous: bool,

    /// Connections of this listener at once, those in a handshake included. One more is closed as soon as it is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_max: Option<NonZeroU32>,

    /// Connections that this listener accepts in a second. So many may also come at once after a pause; one more is closed as
    /// soon as it is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_rate_max: Option<NonZeroU32>,

    /// Whether each connection begins with a header of the PROXY protocol (version 1 or 2), as load balancers send it. The address in
    /// it is then the client's. A connection without one, or with one that is malformed or longer than 4 KiB, is closed. Only
    /// the proxy should be able to reach such a listener: whoever does can claim any address.
    #[serde(default)]
    pub proxy_protocol: bool,

    /// TLS; without this table the listener is not encrypted. The files are read again on SIGHUP and a few seconds after
    /// they have changed; connections stay, and files that cannot be used change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Tls")]
    pub tls: Option<Tls>,

    /// MQTT over WebSocket; without this table the listener speaks MQTT itself. With `tls` it is `wss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WebSocket")]
    pub websocket: Option<WebSocket>,
}

/// MQTT over WebSocket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebSocket {
    /// The path that clients ask for; any other is answered with 404.
    pub path: String,

    /// Web pages that may connect, as in `"https://example.com"`; a browser tells where a page is from (Origin), and any other
    /// page is answered with 403. Empty lets all connect: no cookies are used, so a page can do no more than its user.
    /// A client that tells no origin is no browser and may connect.
    pub allowed_origins: Vec<String>,
}

impl Listener {
    /// A plain listener.
    pub fn at(address: impl Into<ListenAddress>) -> Self {
        Self {
            address: address.into(),
            mode: None,
            authentication: Vec::new(),
            authorization: None,
            allow_anonymous: false,
            connections_max: None,
            connection_rate_max: None,
            proxy_protocol: false,
            tls: None,
            websocket: None,
        }
    }

    /// What the types do not say; `name` is as in `listeners[0]`.
    pub(super) fn violations(&self, name: &str, problems: &mut Vec<Problem>) {
        if let Some(websocket) = &self.websocket
            && !websocket.path.starts_with('/')
        {
            problems.push(Problem::new(
                &format!("{name}.websocket.path"),
                "a path begins with `/`".to_owned(),
            ));
        }
        if let Some(tls) = &self.tls {
            tls.violations(&format!("{name}.tls"), problems);
        }
        if self.address.is_mapped() {
            problems.push(Problem::new(
                &format!("{name}.address"),
                format!("{} is an address of version 4: write it as one", self.address),
            ));
        }
        let is_unix = matches!(self.address, ListenAddress::Unix(_));
        if self.mode.is_some() && !is_unix {
            problems.push(Problem::new(
                &format!("{name}.mode"),
                "only a Unix socket has a mode".to_owned(),
            ));
        }
        let asks_clients =
            !self.authentication.is_empty() || self.tls.as_ref().is_some_and(Tls::requires_certificates);
        if self.allow_anonymous || asks_clients {
            return;
        }
        let whom_it_serves = if self.proxy_protocol {
            "is for what a proxy lets in, and clients are not asked who they are: set `allow_anonymous = true` to accept that"
        } else if !self.address.is_local() {
            "can be reached by other machines, and clients are not asked who they are: \
             set `allow_anonymous = true` to accept that, or listen on a loopback address"
        } else if self.is_open_to_pages() && !is_unix {
            "can be reached by any web page that a browser on this machine shows, and clients are not asked who they are: \
             set `allow_anonymous = true` to accept that, or name pages in `websocket.allowed_origins`"
        } else {
            return;
        };
        problems.push(Problem::new(
            &format!("{name}.allow_anonymous"),
            format!("{} {whom_it_serves}", self.address),
        ));
    }

    /// Browsers let every page open a WebSocket to every IP address, also to a loopback one.
    fn is_open_to_pages(&self) -> bool {
        self.websocket
            .as_ref()
            .is_some_and(|websocket| websocket.allowed_origins.is_empty())
    }
}

impl Default for WebSocket {
    fn default() -> Self {
        Self {
            path: "/mqtt".to_owned(),
            allowed_origins: Vec::new(),
        }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 1883)))
    }
}
