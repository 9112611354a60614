//! What a process that died leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The directory as another process would find it if this one died now. Nothing is closed or flushed first.
pub(crate) fn after_kill(dir: &Path) -> TempDir {
    fn copy(from: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                copy(&entry.path(), &target)?;
            } else {
                fs::copy(entry.path(), target)?;
            }
        }
        Ok(())
    }
    // A thread of the engine may remove a file meanwhile; a process that dies does so at one moment.
    for _ in 0..1_000 {
        let killed = TempDir::new().unwrap();
        let before = files(dir);
        match copy(dir, killed.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            copied => copied.unwrap(),
        }
        if before.is_ok_and(|before| files(dir).is_ok_and(|after| after == before)) {
            return killed;
        }
    }
    panic!("files of {} change without end", dir.display());
}

/// All files, each with what changes when it is replaced or written.
fn files(dir: &Path) -> io::Result<BTreeSet<(PathBuf, u64, i64, i64)>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.append(&mut files(&entry.path())?);
        } else {
            let metadata = entry.metadata()?;
            found.insert((
                entry.path(),
                metadata.ino(),
                metadata.mtime(),
                metadata.mtime_nsec(),
            ));
        }
    }
    Ok(found)
}
