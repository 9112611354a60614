//! `[authentication]` and `[redirect]`: who clients are, and where they are sent instead.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::custom::Custom;
use super::file::Problem;
use super::jwt::Jwt;

/// A way to say who one is, as `listeners.authentication` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticationMethod {
    /// Enhanced authentication with the method SCRAM-SHA-256: a name and a password that the server never sees.
    Scram,
    /// A JSON Web Token, as password or as Authentication Data of the method JWT.
    Jwt,
    /// A server of one's own that is asked over HTTPS.
    Custom,
}

impl AuthenticationMethod {
    /// As settings and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scram => "scram",
            Self::Jwt => "jwt",
            Self::Custom => "custom",
        }
    }
}

/// How clients say who they are, at listeners with `authentication`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Authentication {
    /// The method `"scram"`: enhanced authentication of MQTT 5 with SCRAM-SHA-256. The server never sees a password.
    pub scram: Scram,

    /// The method `"jwt"`: JSON Web Tokens of an issuer whose public keys are known, as password of CONNECT or as enhanced
    /// authentication with the method `JWT`.
    pub jwt: Jwt,

    /// The method `"custom"`: an HTTPS server of your own that decides.
    pub custom: Custom,
}

/// The method `"scram"`: enhanced authentication of MQTT 5 with SCRAM-SHA-256. The server never sees a password.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scram {
    /// File with a line for each client, as `statehold scram NAME` writes it. It is read again on SIGHUP and a few seconds after
    /// it has changed; connections stay, and a file that cannot be used changes nothing.
    pub file: PathBuf,
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
