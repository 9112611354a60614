//! Writes snapshots anew with the key that is to be used now or plain, and with the id of their directory.

use super::{Head, SnapshotError, SnapshotFiles, SnapshotReader, SnapshotWriter, list, read};
use crate::fault::{Doing, Fault};

impl SnapshotFiles {
    /// Replaces each snapshot that is not written as new ones are. Each is there as a whole at any time.
    pub(crate) fn rewrite(&self) -> Result<(), SnapshotError> {
        let reading = |error| Fault::from_io(Doing::ReadingSnapshot, error);
        // The newest first: when it is written, older ones of its group go.
        for (of, path) in list(&self.dir).map_err(reading)?.into_iter().rev() {
            if !path.exists() {
                continue;
            }
            let head = read::head(&path, of).map_err(reading)?;
            if head.is_some_and(|head| self.is_as_new(head)) {
                continue;
            }
            let reader = SnapshotReader::open_checked(&path, of, self)?;
            let mut writer = SnapshotWriter::create(self.clone(), of.0, of.1)
                .map_err(|error| Fault::from_io(Doing::WritingSnapshot, error))?;
            for chunk in reader {
                writer.chunk(&chunk?)?;
            }
            writer.finish()?;
        }
        Ok(())
    }

    fn is_as_new(&self, head: Head) -> bool {
        head.stamp.map(|stamp| stamp.key) == self.encryption.key() && head.directory == Some(self.mark.id)
    }
}
