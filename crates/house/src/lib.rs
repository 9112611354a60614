//! The house rules that a test can hold (STYLE.md), as functions from text to findings.
//!
//! Nothing here is shipped. Each module checks one kind of rule and has samples that break it, so that a rule that
//! never fails shows; `tests/house.rs` runs them over the repository.

pub mod conformance;
pub mod docs;
pub mod escaping;
pub mod io;
pub mod layers;
pub mod manifests;
pub mod names;
pub mod repository;
pub mod source;
pub mod threats;
pub mod tidy;

use std::fmt;

/// One place where the house is not in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// A file, with a line where there is one.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

impl Finding {
    /// A finding in a whole file.
    pub fn in_file(path: &str, what: impl Into<String>) -> Self {
        Self {
            place: path.to_owned(),
            what: what.into(),
        }
    }

    /// A finding at a line, counted from one.
    pub fn at_line(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            place: format!("{path}:{line}"),
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.place, self.what)
    }
}
