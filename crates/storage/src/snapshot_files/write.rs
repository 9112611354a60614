//! Writes one snapshot file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use cluster::GroupId;
use cluster::replica::record::LogPoint;

use super::{
    CHUNK_BYTES_MAX, FOOTER_NUMBER, SnapshotFiles, UNFINISHED_SUFFIX, chunk_checksum, cipher, footer, header,
    name,
};
use crate::data_dir;
use crate::encryption::{FileCipher, FileKeys, Stamp};
use crate::fault::{Doing, Fault};

/// The file is synced each time this much was written, so that the disk never has to take a whole snapshot at once while
/// the log waits for its own sync.
const BYTES_PER_SYNC: u64 = 4 << 20;

/// A snapshot that is being written. Dropped before [`SnapshotWriter::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct SnapshotWriter {
    files: SnapshotFiles,
    group: GroupId,
    point: LogPoint,
    /// None when finished.
    unfinished: Option<PathBuf>,
    file: File,
    /// None: it is plain.
    cipher: Option<FileCipher>,
    chunks: u32,
    bytes: u64,
    unsynced_bytes: u64,
}

impl SnapshotWriter {
    pub(super) fn create(
        files: SnapshotFiles,
        group: GroupId,
        point: LogPoint,
    ) -> io::Result<SnapshotWriter> {
        let keys = files.encryption.new_file();
        SnapshotWriter::create_with(files, (group, point), keys)
    }

    /// The same with these keys.
    pub(super) fn create_with(
        files: SnapshotFiles,
        (group, point): (GroupId, LogPoint),
        keys: Option<(Stamp, FileKeys)>,
    ) -> io::Result<SnapshotWriter> {
        let path = files
            .dir
            .join(format!("{}{UNFINISHED_SUFFIX}", name(group, point)));
        let mut file = File::create(&path)?;
        let stamp = keys.as_ref().map(|(stamp, _)| *stamp);
        let directory = files.mark.id;
        file.write_all(&header(group, point, directory, stamp))?;
        let unfinished = Some(path);
        Ok(SnapshotWriter {
            files,
            group,
            point,
            unfinished,
            file,
            cipher: keys.map(|(_, keys)| cipher(&keys, group, point, Some(directory))),
            chunks: 0,
            bytes: 0,
            unsynced_bytes: 0,
        })
    }

    /// Appends a chunk of 1 byte to 16 MiB. Chunks of 64 KiB to 1 MiB are written well.
    pub fn chunk(&mut self, data: &[u8]) -> Result<(), Fault> {
        assert!(!data.is_empty(), "an empty chunk means the end");
        assert!(
            data.len() <= CHUNK_BYTES_MAX,
            "a chunk has a limit, so that reading it has one"
        );
        let written = match &self.cipher {
            None => self.write_chunk(data.len(), data),
            Some(cipher) => {
                let mut sealed = data.to_vec();
                let tag = cipher.seal(u64::from(self.chunks), &[], &mut sealed);
                sealed.extend_from_slice(&tag);
                self.write_chunk(data.len(), &sealed)
            }
        };
        written.map_err(|error| Fault::from_io(Doing::WritingSnapshot, error))
    }

    /// Makes the snapshot durable, gives it its name, and removes older ones of the group. Returns the size of the file.
    pub fn finish(mut self) -> Result<u64, Fault> {
        let size = self
            .finish_file()
            .map_err(|error| Fault::from_io(Doing::WritingSnapshot, error))?;
        self.files.remove_older(self.group, self.point)?;
        Ok(size)
    }

    /// Writes what is on disk of a chunk with `len` bytes.
    fn write_chunk(&mut self, len: usize, data: &[u8]) -> io::Result<()> {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(len as u32).to_be_bytes());
        head[4..].copy_from_slice(&chunk_checksum(self.chunks, data).to_be_bytes());
        self.file.write_all(&head)?;
        self.file.write_all(data)?;
        self.chunks += 1;
        self.bytes += len as u64;
        self.unsynced_bytes += data.len() as u64;
        if self.unsynced_bytes >= BYTES_PER_SYNC {
            self.file.sync_data()?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }

    fn finish_file(&mut self) -> io::Result<u64> {
        let mut footer = footer(self.chunks, self.bytes).to_vec();
        if let Some(cipher) = &self.cipher {
            let tag = cipher.seal(FOOTER_NUMBER, &footer, &mut []);
            footer.extend_from_slice(&tag);
        }
        let crc = crc32c::crc32c(&footer);
        self.file.write_all(&0_u32.to_be_bytes())?;
        self.file.write_all(&footer)?;
        self.file.write_all(&crc.to_be_bytes())?;
        self.file.sync_all()?;
        let unfinished = self.unfinished.take().expect("a snapshot is finished once");
        fs::rename(unfinished, self.files.dir.join(name(self.group, self.point)))?;
        data_dir::sync_dir(&self.files.dir)?;
        Ok(self.file.metadata()?.len())
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if let Some(unfinished) = self.unfinished.take() {
            // If it cannot be removed now, the next start does it.
            let _ = fs::remove_file(unfinished);
        }
    }
}
