//! `[authentication.custom]`: a server of one's own that decides.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;
use super::requests::Shown;
use crate::https_client::Url;

/// The method `"custom"`: an HTTPS server of your own that decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Custom {
    /// The server that is asked, as in `"https://who.example:8443/"`. `http` is for loopback addresses only.
    pub url: String,

    /// PEM file with the authorities of `url`; empty: those of the system. Read again when it has changed.
    pub ca: PathBuf,

    /// PEM file with a certificate for the server that is asked to know this one by; empty: none. Read again when it has changed.
    pub cert: PathBuf,

    /// PEM file with the private key of `cert`.
    pub key: PathBuf,

    /// Headers that each request has: name and value.
    pub headers: BTreeMap<String, String>,

    /// Headers whose value is the first line of a file, for secrets: name and file. Read again when it has changed.
    pub header_files: BTreeMap<String, PathBuf>,

    /// Authentication Methods that the server is asked about, as in `["EXAMPLE"]`, in one round. Without any it is asked about
    /// clients with a user name or a certificate only.
    pub enhanced_methods: Vec<String>,

    /// How long one request may take. A client about whom nothing is known then is refused with 0x88.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub timeout: Duration,

    /// Requests under way at once. One more waits, as long as `timeout` says.
    pub requests_max: u32,

    /// How long the server is not asked again about the same credentials that it has accepted, unless they expire before. `"0s"`
    /// asks each time.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub remember: Duration,

    /// The same for credentials that it has denied.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub remember_denied: Duration,
}

impl Custom {
    /// What a listener with the method needs.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        let mut problem = |setting: &str, why: &str| {
            problems.push(Problem::new(
                &format!("authentication.custom.{setting}"),
                why.to_owned(),
            ));
        };
        if let Err(why) = Url::parse(&self.url, false) {
            problem("url", &why.to_string());
        }
        let shown = Shown {
            cert: &self.cert,
            key: &self.key,
            headers: &self.headers,
            header_files: &self.header_files,
        };
        shown.violations(&mut problem);
        if self.timeout.is_zero() {
            problem("timeout", "more than 0s");
        }
        if self.requests_max == 0 {
            problem("requests_max", "at least 1");
        }
    }
}

impl Default for Custom {
    fn default() -> Self {
        Self {
            url: String::new(),
            ca: PathBuf::new(),
            cert: PathBuf::new(),
            key: PathBuf::new(),
            headers: BTreeMap::new(),
            header_files: BTreeMap::new(),
            enhanced_methods: Vec::new(),
            timeout: Duration::from_secs(5),
            requests_max: 64,
            remember: Duration::from_secs(60),
            remember_denied: Duration::from_secs(5),
        }
    }
}
