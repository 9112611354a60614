//! `[self_test]`: the client inside the server.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;

/// A client inside the server that does what clients do, and says whether it works and how long it takes (`docs/observability.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfTest {
    /// How often it connects, subscribes, publishes, and sets, gets and deletes a key; `"none"` is never. A round writes two small
    /// entries of the log, so a disk that wears is not asked more often than it must. At least 1 s.
    #[serde(with = "quantity::optional_duration")]
    #[schemars(with = "quantity::OptionalDurationText")]
    pub interval: Option<Duration>,

    /// How long each step may take; one that takes longer has timed out. The key that it sets expires a minute after that. 10 ms to 60 s.
    #[serde(with = "quantity::duration")]
    #[schemars(with = "quantity::DurationText")]
    pub timeout: Duration,
}

impl SelfTest {
    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        if self.interval.is_some_and(|interval| interval < INTERVAL_LEAST) {
            let why = "it would be more work than what it looks after: at least 1 s";
            problems.push(Problem::new("self_test.interval", why.to_owned()));
        }
        if !(TIMEOUT_LEAST..=TIMEOUT_MOST).contains(&self.timeout) {
            let why = "a step takes longer than less, and nobody waits for more: 10 ms to 60 s";
            problems.push(Problem::new("self_test.timeout", why.to_owned()));
        }
    }
}

impl Default for SelfTest {
    fn default() -> Self {
        Self {
            interval: None,
            timeout: Duration::from_secs(5),
        }
    }
}

const INTERVAL_LEAST: Duration = Duration::from_secs(1);
const TIMEOUT_LEAST: Duration = Duration::from_millis(10);
const TIMEOUT_MOST: Duration = Duration::from_secs(60);
