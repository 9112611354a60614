//! What files of a data directory say of themselves in clear.

use std::path::PathBuf;

use crate::directory_id::DirectoryId;
use crate::encryption::Stamp;

/// Heads of files that can be read. A file whose head is damaged is left to whoever reads it.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Data directory to which each file belongs; none: an older version of the program wrote it.
    pub(crate) directories: Vec<(PathBuf, Option<DirectoryId>)>,
    /// Stamp of each file that can be encrypted; none: it is plain.
    pub(crate) stamps: Vec<(PathBuf, Option<Stamp>)>,
}
