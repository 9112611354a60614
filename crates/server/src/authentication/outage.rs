//! Tells the operator that a server that is asked does not answer: once when that begins, and once when it ends.

use std::cell::Cell;
use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::clock;

/// Whether one server answers.
#[derive(Debug)]
pub(super) struct Outage {
    /// As in `authentication.custom`.
    setting: &'static str,
    is_on: Cell<bool>,
    told_at: Cell<Option<Instant>>,
}

/// A server that answers now and then is not told of more often.
const TELL_EVERY: Duration = Duration::from_secs(60);

impl Outage {
    pub(super) fn new(setting: &'static str) -> Self {
        Self {
            setting,
            is_on: Cell::default(),
            told_at: Cell::default(),
        }
    }

    /// It does not answer, or not with what is expected.
    pub(super) fn failed(&self, error: &dyn Display) {
        let was_on = self.is_on.replace(true);
        let now = clock::instant();
        let was_told = self
            .told_at
            .get()
            .is_some_and(|told_at| was_on || now.duration_since(told_at) < TELL_EVERY);
        if !was_told {
            self.told_at.set(Some(now));
            tracing::error!(%error, "the server of {} does not answer: clients are refused", self.setting);
        }
    }

    pub(super) fn answered(&self) {
        if self.is_on.replace(false) {
            tracing::info!("the server of {} answers again", self.setting);
        }
    }
}
