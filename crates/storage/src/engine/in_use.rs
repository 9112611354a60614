//! To which directory the files of a data directory belong, and with which keys they are encrypted, as they say themselves.

use std::collections::BTreeSet;
use std::io;

use super::sealing;
use crate::data_dir::{DataDir, OpenError};
use crate::directory_id::{self, DirectoryId, Found};
use crate::encryption::{Encryption, KeyId};
use crate::fault::{Doing, Fault};
use crate::heads::Heads;
use crate::{snapshot_files, wal};

/// How all files are written.
#[derive(Debug)]
pub(super) struct InUse {
    /// Keys; none among them: something is plain.
    pub(super) keys: BTreeSet<Option<KeyId>>,
    /// An older version of the program wrote one of them.
    pub(super) has_unmarked: bool,
}

/// Reads the heads of all files. Fails if one of them belongs to another directory, or cannot be read with `encryption`. A
/// file whose head is damaged is left to whoever reads it. Changes nothing.
pub(super) fn check(dir: &DataDir, encryption: &Encryption) -> Result<InUse, OpenError> {
    let heads = heads(dir)?;
    dir.mark().check_all(dir.path(), &heads.directories)?;
    let mut keys = BTreeSet::new();
    for (file, stamp) in heads.stamps {
        encryption.open_file(&file, stamp)?;
        keys.insert(stamp.map(|stamp| stamp.key));
    }
    let has_unmarked = heads.directories.iter().any(|(_, id)| id.is_none());
    Ok(InUse { keys, has_unmarked })
}

fn heads(dir: &DataDir) -> Result<Heads, OpenError> {
    let opening = |error: io::Error| Fault::from_io(Doing::Opening, error);
    let mut heads = Heads::default();
    wal::read_heads(&dir.wal(), &mut heads).map_err(opening)?;
    snapshot_files::read_heads(&dir.snapshots(), &mut heads).map_err(opening)?;
    let engine = dir.engine();
    if engine.exists() {
        let file = directory_id::path(&engine);
        let id = match DirectoryId::read(&engine).map_err(opening)? {
            Found::Id(id) => Some(id),
            Found::Missing if dir.mark().accepts_unmarked => None,
            Found::Missing => {
                let what = "it is missing";
                return Err(OpenError::Damaged { file, what });
            }
            Found::Damaged => {
                let what = "it is not what was written";
                return Err(OpenError::Damaged { file, what });
            }
        };
        heads.directories.push((file, id));
        heads
            .stamps
            .push((sealing::stamp_file(&engine), sealing::read_stamp(&engine)?));
    }
    Ok(heads)
}
