//! Whether a file has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What changes when a file is written or replaced; `None` while there is none.
pub(crate) type Stamp = Option<(u64, i64, i64, u64)>;

/// What the file looks like at the moment.
pub(crate) fn stamp(file: &Path) -> Stamp {
    let found = fs::metadata(file).ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}
