//! `[authentication]` and `[redirect]`: who clients are, and where they are sent instead.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::custom::Custom;
use super::file::Problem;
use super::jwt::Jwt;
use super::k8s_sat::K8sSat;
use super::{Listener, quantity};

/// A way to say who one is, as `listeners.authentication` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticationMethod {
    /// Enhanced authentication with the method SCRAM-SHA-256: a name and a password that the server never sees.
    Scram,
    /// A JSON Web Token, as password or as Authentication Data of the method JWT.
    Jwt,
    /// A token of a Kubernetes service account, as Authentication Data of the method K8S-SAT.
    K8sSat,
    /// A server of one's own that is asked over HTTPS.
    Custom,
    /// User name and password of CONNECT, and a file with their Argon2id hashes.
    Password,
    /// The certificate that the client has shown in the handshake of TLS.
    X509,
}

impl AuthenticationMethod {
    /// As settings and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scram => "scram",
            Self::Jwt => "jwt",
            Self::K8sSat => "k8s-sat",
            Self::Custom => "custom",
            Self::Password => "password",
            Self::X509 => "x509",
        }
    }
}

/// How clients say who they are, at listeners with `authentication`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Authentication {
    /// Failed attempts of one address (of IPv6: of one /64) within `failures_within`: that many may come at once, and then they come back
    /// evenly. While none is left, what could be a guess is refused with CONNACK 0x9F and nothing is computed for it; a
    /// password that was verified lately is not. What succeeds does not count. 0 is any number.
    pub failures_max: u32,

    /// The time in which `failures_max` attempts come back.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub failures_within: Duration,

    /// The method `"scram"`: enhanced authentication of MQTT 5 with SCRAM-SHA-256. The server never sees a password.
    pub scram: Scram,

    /// The method `"jwt"`: JSON Web Tokens of an issuer whose public keys are known, as password of CONNECT or as enhanced
    /// authentication with the method `JWT`.
    pub jwt: Jwt,

    /// The method `"k8s-sat"`: tokens of Kubernetes service accounts, as enhanced authentication with the method `K8S-SAT`.
    pub k8s_sat: K8sSat,

    /// The method `"custom"`: an HTTPS server of your own that decides.
    pub custom: Custom,
    /// The method `"password"`: user name and password of CONNECT, as every client can send them. Without TLS they can be read along.
    pub password: Password,

    /// The method `"x509"`: the certificate of the client says who it is. Its common name is the principal's name; where it has none, the
    /// first DNS name is. Needs `tls.client_ca`.
    pub x509: X509,
}

/// The method `"scram"`: enhanced authentication of MQTT 5 with SCRAM-SHA-256. The server never sees a password.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scram {
    /// File with a line for each client, as `statehold scram NAME` writes it. It is read again on SIGHUP and a few seconds after
    /// it has changed; connections stay, and a file that cannot be used changes nothing.
    pub file: PathBuf,
}

/// The method `"password"`: user name and password of CONNECT, as every client can send them. Without TLS they can be read along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Password {
    /// File with a line for each name, as `statehold passwd FILE NAME` writes it. It is read again on SIGHUP and a few seconds after it
    /// has changed; connections stay, and a file that cannot be used changes nothing.
    pub file: PathBuf,

    /// Passwords that were verified and are found again without computing their hash, which takes 20 ms or more; so a fleet that
    /// comes back is not kept waiting. Each takes about 100 bytes, and what is kept is no password; beyond the number those
    /// that were not used for longest are forgotten. 0 computes every time.
    pub remembered_max: u32,
}

/// The method `"x509"`: the certificate of the client says who it is. Its common name is the principal's name; where it has none, the
/// first DNS name is. Needs `tls.client_ca`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct X509 {
    /// TOML file with a table for each subject that gives attributes: `subject = "CN = smart-fan, O = Contoso"` and
    /// `attributes = { building = "17" }`. The first that fits counts, from the client's certificate to the authority. Empty: no
    /// attributes. It is read again on SIGHUP and a few seconds after it has changed; a file that cannot be used changes nothing.
    pub attributes_file: PathBuf,
}

impl Authentication {
    /// What the types do not say.
    pub(super) fn violations(&self, listeners: &[Listener], problems: &mut Vec<Problem>) {
        if self.failures_within.is_zero() {
            let why = "attempts that come back within 0s are not limited: set `failures_max = 0` for that";
            problems.push(Problem::new("authentication.failures_within", why.to_owned()));
        }
        let mut needs_file = |method: AuthenticationMethod, file: &Path| {
            let is_used = listeners
                .iter()
                .any(|listener| listener.authentication.contains(&method));
            if is_used && file.as_os_str().is_empty() {
                let name = method.name();
                let why = format!("a listener has the method `{name}`, which needs a file");
                problems.push(Problem::new(&format!("authentication.{name}.file"), why));
            }
        };
        needs_file(AuthenticationMethod::Scram, &self.scram.file);
        needs_file(AuthenticationMethod::Password, &self.password.file);
        for (index, listener) in listeners.iter().enumerate() {
            let asks = listener.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
            if listener.authentication.contains(&AuthenticationMethod::X509) && !asks {
                let why = "the method `x509` needs `tls.client_ca`: without it no client shows a certificate";
                let setting = format!("listeners[{index}].authentication");
                problems.push(Problem::new(&setting, why.to_owned()));
            }
        }
        let has = |method| {
            let mut methods = listeners.iter().flat_map(|listener| &listener.authentication);
            methods.any(|one| *one == method)
        };
        if has(AuthenticationMethod::Jwt) {
            self.jwt.violations(problems);
        }
        if has(AuthenticationMethod::K8sSat) {
            self.k8s_sat.violations(problems);
        }
        if has(AuthenticationMethod::Custom) {
            self.custom.violations(problems);
        }
    }
}

impl Default for Authentication {
    fn default() -> Self {
        Self {
            failures_max: 60,
            failures_within: Duration::from_secs(60),
            scram: Scram::default(),
            password: Password::default(),
            x509: X509::default(),
            jwt: Jwt::default(),
            k8s_sat: K8sSat::default(),
            custom: Custom::default(),
        }
    }
}

impl Default for Password {
    fn default() -> Self {
        Self {
            file: PathBuf::new(),
            remembered_max: 100_000,
        }
    }
}

/// Another server for the clients of this one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Redirect {
    /// Where clients go when this server stops, as in `"b.example:1883"`; several are separated by spaces. They are told in
    /// DISCONNECT 0x9C Use another server, with this as Server Reference. Empty: DISCONNECT 0x8B Server shutting down.
    pub server: String,

    /// Whether they shall stay there: 0x9D Server moved instead of 0x9C.
    pub permanent: bool,

    /// Whether nobody is let in any more: each CONNECT is answered with CONNACK 0x9C or 0x9D and the Server Reference, to clients
    /// of version 3.1.1 with 3 Server unavailable.
    pub new_clients: bool,
}

impl Redirect {
    /// As the broker takes it.
    pub fn for_broker(&self) -> Option<broker::Redirect> {
        let server = protocol::Text::new(self.server.as_str()).ok()?;
        (!server.is_empty()).then_some(broker::Redirect {
            server,
            is_permanent: self.permanent,
            is_for_new_clients: self.new_clients,
        })
    }

    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        if self.server.is_empty() {
            if self.new_clients || self.permanent {
                let why = "clients cannot be sent away without saying where";
                problems.push(Problem::new("redirect.server", why.to_owned()));
            }
            return;
        }
        let is_reference =
            |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_control() || c == '/');
        if !self.server.split(' ').all(is_reference) || self.server.len() > SERVER_BYTES_MOST {
            let why = "write for example \"b.example:1883\"; several are separated by single spaces";
            problems.push(Problem::new("redirect.server", why.to_owned()));
        }
    }
}

/// Far more than a few names need, and less than a string of MQTT may have.
const SERVER_BYTES_MOST: usize = 1_024;
