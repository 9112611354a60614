//! L1: the state store is linearizable per key; a key's versions rise strictly, also over delete, expiry, restart, and a leader whose clock
//! is behind.
//!
//! Everything that clients ask and are told is remembered by key, with the moments of one clock that they all share. In the end there
//! has to be an order of each key's operations in which one copy answers the same (`history.rs`). What nobody was told about may have
//! been executed or not, and may be executed yet.

use std::collections::BTreeMap;

use crate::history::{self, Call, Explained, Operation, Outcome, Tolerance};

/// What was asked of all keys.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    /// What was not refused; a place stays what it is.
    keys: BTreeMap<String, Vec<Option<Operation>>>,
    latest: u64,
}

impl Histories {
    /// Somebody asks something of a key at this moment, in nanoseconds. The answer belongs to the place that comes back.
    pub(crate) fn asked(&mut self, at: u64, key: &str, call: Call) -> usize {
        let moment = self.moment(at);
        let history = self.keys.entry(key.to_owned()).or_default();
        history.push(Some(Operation::unknown(call, moment)));
        history.len() - 1
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, at: u64, key: &str, place: usize, outcome: Outcome) {
        let moment = self.moment(at);
        if let Some(Some(operation)) = self.keys.get_mut(key).and_then(|history| history.get_mut(place)) {
            operation.answered = Some((moment, outcome));
        }
    }

    /// It was refused, and not executed.
    pub(crate) fn refused(&mut self, key: &str, place: usize) {
        if let Some(operation) = self.keys.get_mut(key).and_then(|history| history.get_mut(place)) {
            *operation = None;
        }
    }

    /// A page of a SCAN that was asked for at one moment and came at another had the key, or had it not although there was its place.
    pub(crate) fn listed(&mut self, (asked, answered): (u64, u64), key: &str, is_there: bool) {
        let outcome = if is_there {
            Outcome::Listed
        } else {
            Outcome::Missing
        };
        let operation = Operation::answered(Call::List, asked, answered, outcome);
        self.keys.entry(key.to_owned()).or_default().push(Some(operation));
    }

    /// The moments at which things happen: no two are the same, while simulated time stands still.
    pub(crate) fn moment(&mut self, at: u64) -> u64 {
        self.latest = (self.latest + 1).max(at);
        self.latest
    }

    /// All keys, with what was asked of each.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &Operation>)> {
        self.keys
            .iter()
            .map(|(key, history)| (key.as_str(), history.iter().flatten()))
    }

    /// What was asked of a key.
    pub(crate) fn of(&self, key: &str) -> impl Iterator<Item = &Operation> {
        self.keys.get(key).into_iter().flatten().flatten()
    }

    /// One copy of each key explains what clients were told. Says of how many keys that is not known, because it would take too long
    /// to find out.
    pub(crate) fn check(&self, tolerance: Tolerance) -> Result<u64, String> {
        let mut not_known = 0;
        for (key, history) in self.keys() {
            let executed: Vec<Operation> = history.cloned().collect();
            let explained =
                history::explain_within(&executed, tolerance, TRIED_MAX).map_err(|violation| {
                    format!(
                        "L1: what clients were told of {key} does not fit: {}",
                        violation.explain(&executed)
                    )
                })?;
            not_known += u64::from(explained == Explained::NotKnown);
        }
        Ok(not_known)
    }
}

/// States of a key that are looked at: half a second's worth. Another seed finds what this one leaves open.
const TRIED_MAX: usize = 20_000;
