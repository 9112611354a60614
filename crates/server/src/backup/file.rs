//! A backup on disk. It has its name only when it is whole and synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use thiserror::Error;

use super::{Counts, Decoder, Encoder, FormatError, Problem, Record};

/// A file cannot be written or read.
#[derive(Debug, Error)]
pub enum BackupFileError {
    /// The system says no.
    #[error("{}: {error}", .file.display())]
    Io {
        /// Which file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is a file of that name.
    #[error("{} is there already: give the backup another name, or take that away", .0.display())]
    Exists(PathBuf),
    /// Something has the name under which a backup is written.
    #[error(
        "{} is there already: another backup is being written, one was broken off, or somebody has put it there; look at it, and take it away",
        .0.display()
    )]
    Unfinished(PathBuf),
    /// It is not what was written.
    #[error("{}: {error}", .file.display())]
    Format {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        error: FormatError,
    },
    /// A record is longer than any may be.
    #[error(transparent)]
    Record(#[from] Problem),
}

/// Bytes that are read and written at once.
const CHUNK: usize = 256 << 10;

const UNFINISHED: &str = ".unfinished";

/// Place in a backup that is being written, to which it can be put back.
#[derive(Debug)]
pub struct BackupMark {
    encoder: Option<Encoder>,
    bytes: u64,
}

/// A backup that is being written. What is dropped before it is finished is removed.
#[derive(Debug)]
pub struct BackupFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    encoder: Option<Encoder>,
    buffer: BytesMut,
    bytes: u64,
}

impl BackupFile {
    /// Begins a file that only its owner can read.
    ///
    /// # Errors
    /// If there is one of that name, or it cannot be made.
    pub fn create(path: &Path) -> Result<Self, BackupFileError> {
        // A link counts as well, also one to nothing.
        if path.symlink_metadata().is_ok() {
            return Err(BackupFileError::Exists(path.to_owned()));
        }
        let mut name = path.as_os_str().to_owned();
        name.push(UNFINISHED);
        let unfinished = PathBuf::from(name);
        // New: what somebody else has put there could be a link to another file, or be read by who has it open.
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => BackupFileError::Unfinished(unfinished.clone()),
            _ => io_error(&unfinished, error),
        })?;
        let (encoder, head) = Encoder::begin();
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            file,
            encoder: Some(encoder),
            buffer: BytesMut::from(&head[..]),
            bytes: 0,
        })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If the disk is full, or the like.
    pub fn push(&mut self, record: &Record) -> Result<(), BackupFileError> {
        if let Some(encoder) = &mut self.encoder {
            encoder.push(record, &mut self.buffer)?;
        }
        if self.buffer.len() >= CHUNK {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Marks the end of what was appended so far.
    ///
    /// # Errors
    /// If the disk is full, or the like.
    pub fn mark(&mut self) -> Result<BackupMark, BackupFileError> {
        self.flush()?;
        Ok(BackupMark {
            encoder: self.encoder.clone(),
            bytes: self.bytes,
        })
    }

    /// Removes everything that was appended after a mark.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub fn back_to(&mut self, mark: &BackupMark) -> Result<(), BackupFileError> {
        let cut = self.file.set_len(mark.bytes);
        let cut = cut.and_then(|()| self.file.seek(SeekFrom::Start(mark.bytes)));
        cut.map_err(|error| io_error(&self.unfinished, error))?;
        self.buffer.clear();
        self.encoder.clone_from(&mark.encoder);
        self.bytes = mark.bytes;
        Ok(())
    }

    /// How much is in it.
    pub fn counts(&self) -> Counts {
        self.encoder.as_ref().map(Encoder::counts).unwrap_or_default()
    }

    /// Ends it, syncs it, and gives it its name; how much is in it, and its bytes.
    ///
    /// # Errors
    /// If the disk is full, or the like; then there is no file of that name.
    pub fn finish(mut self) -> Result<(Counts, u64), BackupFileError> {
        let Some(encoder) = self.encoder.take() else {
            return Ok(Default::default());
        };
        let (counts, end) = encoder.end();
        self.buffer.extend_from_slice(&end);
        self.flush()?;
        let named = self.file.sync_all().and_then(|()| {
            // Whoever has made one of that name meanwhile keeps it.
            match fs::hard_link(&self.unfinished, &self.path) {
                Ok(()) => fs::remove_file(&self.unfinished)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                // Not every file system has links.
                Err(_) => fs::rename(&self.unfinished, &self.path)?,
            }
            let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
        });
        named.map_err(|error| io_error(&self.path, error))?;
        Ok((counts, self.bytes))
    }

    fn flush(&mut self) -> Result<(), BackupFileError> {
        let written = self.file.write_all(&self.buffer);
        written.map_err(|error| io_error(&self.unfinished, error))?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for BackupFile {
    fn drop(&mut self) {
        // It is gone already if it has its name.
        let _ = fs::remove_file(&self.unfinished);
    }
}

/// Reads the records of a file one after the other.
#[derive(Debug)]
pub struct BackupReader {
    path: PathBuf,
    file: File,
    decoder: Decoder,
    chunk: Vec<u8>,
}

impl BackupReader {
    /// Opens a file.
    ///
    /// # Errors
    /// If it is not there, or the like.
    pub fn open(path: &Path) -> Result<Self, BackupFileError> {
        let file = File::open(path).map_err(|error| io_error(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            decoder: Decoder::default(),
            chunk: vec![0; CHUNK],
        })
    }

    /// The next record; `None`: there are no more, and all was right.
    ///
    /// # Errors
    /// If the file is damaged, or cannot be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "an error ends it, as an iterator does not"
    )]
    pub fn next(&mut self) -> Result<Option<Record>, BackupFileError> {
        loop {
            let record = self.decoder.next().map_err(|error| self.format(error))?;
            if record.is_some() {
                return Ok(record);
            }
            let read = self.file.read(&mut self.chunk);
            match read.map_err(|error| io_error(&self.path, error))? {
                0 => {
                    self.decoder.finish().map_err(|error| self.format(error))?;
                    return Ok(None);
                }
                length => self.decoder.push(&self.chunk[..length]),
            }
        }
    }

    /// How much was read.
    pub fn counts(&self) -> Counts {
        self.decoder.counts()
    }

    /// How many bytes of whole records were read.
    pub fn position(&self) -> u64 {
        self.decoder.position()
    }

    /// How many bytes there are.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn len_bytes(&self) -> Result<u64, BackupFileError> {
        let about = self.file.metadata();
        Ok(about.map_err(|error| io_error(&self.path, error))?.len())
    }

    fn format(&self, error: FormatError) -> BackupFileError {
        let file = self.path.clone();
        BackupFileError::Format { file, error }
    }
}

fn io_error(file: &Path, error: io::Error) -> BackupFileError {
    let file = file.to_owned();
    BackupFileError::Io { file, error }
}
