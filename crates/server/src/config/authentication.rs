//! `[authentication]`: who clients are.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way to say who one is, as `listeners.authentication` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuthenticationMethod {
    /// Enhanced authentication with the method SCRAM-SHA-256: a name and a password that the server never sees.
    Scram,
}

/// How clients say who they are, at listeners with `authentication`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Authentication {
    /// The method `"scram"`: enhanced authentication of MQTT 5 with SCRAM-SHA-256. The server never sees a password.
    pub scram: Scram,
}

/// The method `"scram"`: enhanced authentication of MQTT 5 with SCRAM-SHA-256. The server never sees a password.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scram {
    /// File with a line for each client, as `statehold scram NAME` writes it. It is read again on SIGHUP and a few seconds after
    /// it has changed; connections stay, and a file that cannot be used changes nothing.
    pub file: PathBuf,
}
