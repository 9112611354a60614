//! `[audit]`: the log of who came in, who was denied what, and what changed.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;
use super::quantity;

/// The audit log: who came in, who was denied what, and when that what decides about it has changed (`docs/audit.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// File to which a JSON object is appended for each thing that happens; made with mode 0600. `"stderr"` is the standard error,
    /// empty is no audit log. It is opened again on SIGHUP.
    pub file: PathBuf,

    /// A file that would become larger than this gets another name, with `.1` at its end, and a new one is begun.
    #[serde(with = "quantity::size")]
    #[schemars(with = "quantity::SizeText")]
    pub file_bytes_max: u64,

    /// Files with a number at their end that are kept. The oldest one is removed when there would be one more.
    pub files_max: u32,

    /// Lines of one kind and about one principal, or about one address where nobody has proved who it is, in 10 seconds. What is beyond it is
    /// left out, and how much that was is a line.
    pub rate_max: u32,
}

impl Audit {
    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        if self.file_bytes_max < FILE_BYTES_LEAST {
            let why = "a file would hold a few lines only: at least 64 KiB";
            problems.push(Problem::new("audit.file_bytes_max", why.to_owned()));
        }
        if self.files_max > FILES_MOST {
            let why = "all of them are renamed each time: at most 1,000";
            problems.push(Problem::new("audit.files_max", why.to_owned()));
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            file: PathBuf::new(),
            file_bytes_max: 64 << 20,
            files_max: 10,
            rate_max: 100,
        }
    }
}

/// Less would give files other names all the time.
const FILE_BYTES_LEAST: u64 = 64 << 10;

const FILES_MOST: u32 = 1_000;
