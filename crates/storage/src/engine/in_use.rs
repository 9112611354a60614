//! With which keys the files of a data directory are encrypted, as they say themselves.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use super::sealing;
use crate::data_dir::{DataDir, OpenError};
use crate::encryption::{Encryption, KeyId, Stamp};
use crate::fault::{Doing, Fault};
use crate::{snapshot_files, wal};

/// The keys of all files; none among them: something is plain. Fails if one of them cannot be read with `encryption`. A
/// file whose header is damaged is left to whoever reads it. Changes nothing.
pub(super) fn check(dir: &DataDir, encryption: &Encryption) -> Result<BTreeSet<Option<KeyId>>, OpenError> {
    let mut keys = BTreeSet::new();
    for (file, stamp) in stamps(dir)? {
        encryption.open_file(&file, stamp)?;
        keys.insert(stamp.map(|stamp| stamp.key));
    }
    Ok(keys)
}

fn stamps(dir: &DataDir) -> Result<Vec<(PathBuf, Option<Stamp>)>, Fault> {
    let opening = |error: io::Error| Fault::from_io(Doing::Opening, error);
    let mut stamps = wal::stamps(&dir.wal()).map_err(opening)?;
    stamps.extend(snapshot_files::stamps(&dir.snapshots()).map_err(opening)?);
    if dir.engine().exists() {
        stamps.push((
            sealing::stamp_file(&dir.engine()),
            sealing::read_stamp(&dir.engine())?,
        ));
    }
    Ok(stamps)
}
