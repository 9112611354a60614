//! What clients of the state store asked and were told, and whether one copy of each key explains it.
//!
//! An [`Operation`] is one request about one key, from the moment when its client sent it to that when the answer came, if one came.
//! [`check`] looks for an order of a key's operations that one copy, asked by one client after the other, would have answered in
//! the same way, and in which each operation lies between its two moments: the history is linearizable. (Herlihy and Wing,
//! "Linearizability: a correctness condition for concurrent objects", 1990; the search is that of Wing and Gong, "Testing and
//! verifying concurrent objects", 1993, with the memory of Lowe, "Testing for linearizability", 2017.)
//!
//! Keys do not depend on each other, so each is checked alone. What one copy does is in `model.rs`: conditions, versions that rise,
//! fencing tokens, deadlines.
//!
//! What real clients asked and were told comes as lines of JSON (`recorded.rs`), together with what those were told who watched keys
//! (`watched.rs`) and who held locks (`held.rs`).

mod held;
mod model;
mod recorded;
mod search;
#[cfg(test)]
mod tests;
mod watched;

use std::fmt;

pub use self::held::Held;
pub use self::model::Model;
pub use self::recorded::{Checked, Recorded};
pub use self::search::{Explained, check, explain, explain_within};
pub use self::watched::{Change, End, Watched};

/// Wall, in Unix milliseconds, and counter of a version or a fencing token.
pub type Version = (u64, u64);

/// A request about a key. Times are in nanoseconds since the Unix epoch, of one clock which all clients share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// When it was sent.
    pub invoked: u64,
    /// When its answer came; `None`: nobody knows whether it was, or will be, executed.
    pub answered: Option<(u64, Outcome)>,
    /// What was asked.
    pub call: Call,
}

/// By how much a key may end before its time or after it. In nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tolerance {
    /// Before: clocks run at different speeds.
    pub early: u64,
    /// After: a leader that fails takes some of the group's time with it.
    pub late: u64,
}

/// Nanoseconds of a millisecond.
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// What is asked of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// GET.
    Get,
    /// SET.
    Set {
        /// What is to be stored.
        value: String,
        /// NX and NEX.
        condition: Condition,
        /// PX, in milliseconds.
        lives: Option<u64>,
        /// `__ft`
        token: Option<Version>,
    },
    /// DEL, and VDEL.
    Delete {
        /// VDEL: only if this is stored.
        only: Option<String>,
        /// `__ft`
        token: Option<Version>,
    },
    /// A page of a SCAN, for one of the keys that it has or would have.
    List,
}

/// What a SET needs of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Always,
    /// NX: that there is none.
    Missing,
    /// NEX: that there is none, or that it has this value.
    MissingOr(String),
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// GET: the value and its version.
    Found(String, Version),
    /// There is no such key.
    Missing,
    /// SCAN: the key is there.
    Listed,
    /// SET: the new version.
    Stored(Version),
    /// DEL and VDEL: the version that the value had.
    Deleted(Version),
    /// The condition of a SET, or the value of a VDEL, is not that of the key, which has this version.
    NotMet(Version),
    /// The fencing token is missing, or older than the key's.
    Fenced,
}

/// No order explains what clients were told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// As much of an order as was found: places in the history.
    pub order: Vec<usize>,
    /// The operations one of which would have to come next.
    pub stuck: Vec<usize>,
}

impl Call {
    /// Whether it leaves the key as it is.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::Get | Self::List)
    }
}

impl Operation {
    /// One that was answered.
    pub fn answered(call: Call, invoked: u64, returned: u64, outcome: Outcome) -> Self {
        Self {
            invoked,
            answered: Some((returned, outcome)),
            call,
        }
    }

    /// One that was not.
    pub fn unknown(call: Call, invoked: u64) -> Self {
        Self {
            invoked,
            answered: None,
            call,
        }
    }

    /// The last moment at which it may have been executed.
    pub(crate) fn ended(&self) -> u64 {
        self.answered.as_ref().map_or(u64::MAX, |(returned, _)| *returned)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} .. ", self.invoked)?;
        match &self.answered {
            Some((returned, outcome)) => write!(f, "{returned}: {:?} -> {outcome:?}", self.call),
            None => write!(f, "?: {:?}", self.call),
        }
    }
}

impl Violation {
    /// The last operations that could be put in order, and those that do not fit behind them.
    pub fn explain(&self, history: &[Operation]) -> String {
        const SHOWN: usize = 10;
        let mut text = String::from("in order:");
        for place in self.order.iter().rev().take(SHOWN).rev() {
            text += &format!("\n  {}", history[*place]);
        }
        text += "\nnone of these can come next:";
        for place in &self.stuck {
            text += &format!("\n  {}", history[*place]);
        }
        text
    }
}
