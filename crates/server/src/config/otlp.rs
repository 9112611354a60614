//! `[otlp]`: where traces go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;
use super::requests::Shown;
use crate::https_client::Url;

/// Traces for a collector of OpenTelemetry: where the time of single requests and messages went (`docs/observability.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Otlp {
    /// The collector, as in `"http://collector.example:4318"`; spans go to `/v1/traces` below it, by OTLP over HTTP with JSON. Empty: nothing
    /// is traced.
    pub endpoint: String,

    /// Which part of the requests and messages that belong to no trace begin one: `0` none, `1` all. What a client sends with the user
    /// property `traceparent` is traced if that says so, whatever this says.
    pub sample_ratio: f64,

    /// What the node is called in traces (`service.name`).
    pub service_name: String,

    /// Spans are sent at least this often, if there are any, and as soon as there are 512. 100 ms to 1 min.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub interval: Duration,

    /// How long one request to the collector may take.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub timeout: Duration,

    /// Spans that wait to be sent; more are dropped, and counted by `statehold_otlp_spans_total`. Clients never wait for them. 512 to
    /// 1,000,000; each takes less than 2 KiB.
    pub spans_max: u32,

    /// PEM file with the authorities of `endpoint`; empty: those of the system. Read again when it has changed.
    pub ca: PathBuf,

    /// PEM file with a certificate for the collector to know this server by; empty: none. Read again when it has changed.
    pub cert: PathBuf,

    /// PEM file with the private key of `cert`.
    pub key: PathBuf,

    /// Headers that each request has: name and value.
    pub headers: BTreeMap<String, String>,

    /// Headers whose value is the first line of a file, for secrets: name and file. Read again when it has changed. With any of them `endpoint` is
    /// `https`, or a loopback address.
    pub header_files: BTreeMap<String, PathBuf>,
}

impl Otlp {
    /// Whether anything is traced.
    pub fn is_on(&self) -> bool {
        !self.endpoint.is_empty()
    }

    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        let mut problem = |setting: &str, why: &str| {
            problems.push(Problem::new(&format!("otlp.{setting}"), why.to_owned()));
        };
        if !self.is_on() {
            return;
        }
        if !cfg!(feature = "otlp") {
            problem(
                "endpoint",
                "this build of the server sends no traces (feature `otlp`)",
            );
        }
        // What is secret is not sent where others can read along.
        if let Err(why) = Url::parse(&self.endpoint, self.header_files.is_empty()) {
            problem("endpoint", &why.to_string());
        }
        if self.endpoint.contains('?') {
            problem("endpoint", "without a query: spans go to `/v1/traces` below it");
        }
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            problem("sample_ratio", "0 (none) to 1 (all)");
        }
        if !(INTERVAL_LEAST..=INTERVAL_MOST).contains(&self.interval) {
            problem("interval", "100 ms to 1 min");
        }
        if self.timeout.is_zero() {
            problem("timeout", "more than 0s");
        }
        if !(SPANS_LEAST..=SPANS_MOST).contains(&self.spans_max) {
            problem("spans_max", "512 to 1,000,000");
        }
        let shown = Shown {
            cert: &self.cert,
            key: &self.key,
            headers: &self.headers,
            header_files: &self.header_files,
        };
        shown.violations(&mut problem);
    }
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            sample_ratio: 0.01,
            service_name: "statehold".to_owned(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            spans_max: 8_192,
            ca: PathBuf::new(),
            cert: PathBuf::new(),
            key: PathBuf::new(),
            headers: BTreeMap::new(),
            header_files: BTreeMap::new(),
        }
    }
}

const INTERVAL_LEAST: Duration = Duration::from_millis(100);
const INTERVAL_MOST: Duration = Duration::from_secs(60);
const SPANS_LEAST: u32 = 512;
const SPANS_MOST: u32 = 1_000_000;
