//! `[authentication.k8s_sat]`: tokens of Kubernetes service accounts.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;
use crate::https_client::Url;

/// The method `"k8s-sat"`: tokens of Kubernetes service accounts, as enhanced authentication with the method `K8S-SAT`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct K8sSat {
    /// The API server that says whether a token is right (TokenReview). Always `https`.
    pub api_server: String,

    /// PEM file with the authorities of `api_server`. Read again when it has changed.
    pub ca: PathBuf,

    /// File with the token of the server's own service account, which has to have the role `system:auth-delegator`, and to read the
    /// annotations of service accounts may `get` `serviceaccounts`. Read again when it has changed.
    pub token_file: PathBuf,

    /// For whom a token has to be made: one of these. At least one is needed.
    pub audiences: Vec<String>,

    /// Whether annotations of the service account become attributes of the principal: `aio-broker-auth/group: sensors` is the
    /// attribute `group`.
    pub annotations: bool,

    /// How long one request may take. A client whose token could not be reviewed is refused with 0x88.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub timeout: Duration,

    /// How long a token that was right is not reviewed again. A service account that is deleted may connect for so long.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub remember: Duration,

    /// Requests under way at once. One more waits, as long as `timeout` says.
    pub requests_max: u32,
}

impl K8sSat {
    /// What a listener with the method needs.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        let mut problem = |setting: &str, why: &str| {
            problems.push(Problem::new(
                &format!("authentication.k8s_sat.{setting}"),
                why.to_owned(),
            ));
        };
        match Url::parse(&self.api_server, false) {
            Ok(url) if url.is_tls() => {}
            Ok(_) => problem("api_server", "an address of https is needed"),
            Err(why) => problem("api_server", &why.to_string()),
        }
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            problem(
                "audiences",
                "without an audience tokens for others would count: name at least one",
            );
        }
        if self.timeout.is_zero() {
            problem("timeout", "more than 0s");
        }
        if self.requests_max == 0 {
            problem("requests_max", "at least 1");
        }
    }
}

impl Default for K8sSat {
    fn default() -> Self {
        let mounted = PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount");
        Self {
            api_server: "https://kubernetes.default.svc".to_owned(),
            ca: mounted.join("ca.crt"),
            token_file: mounted.join("token"),
            audiences: Vec::new(),
            annotations: true,
            timeout: Duration::from_secs(10),
            remember: Duration::from_secs(10),
            requests_max: 64,
        }
    }
}
