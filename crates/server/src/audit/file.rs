//! Where the audit log goes: a file that is replaced when it is large, or stderr.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config;

/// Why there is no audit log.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The file cannot be opened.
    #[error("cannot open the audit log {} (audit.file): {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The system does not give a thread or a poll.
    #[error("cannot start the audit log: {0}")]
    System(io::Error),
}

/// Where lines are written.
#[derive(Debug)]
pub(super) struct AuditFile {
    /// None: stderr.
    path: Option<PathBuf>,
    /// None: stderr, or the file cannot be opened at the moment.
    file: Option<File>,
    bytes: u64,
    bytes_max: u64,
    files_max: u32,
    /// Lines that could not be written.
    lost: u64,
    has_failed: bool,
}

impl AuditFile {
    /// None: no audit log is wanted.
    pub(super) fn open(settings: &config::Audit) -> Result<Option<Self>, AuditError> {
        let path = match settings.file.as_os_str() {
            name if name.is_empty() => return Ok(None),
            name if name == "stderr" => None,
            _ => Some(settings.file.clone()),
        };
        let mut file = Self {
            path,
            file: None,
            bytes: 0,
            bytes_max: settings.file_bytes_max,
            files_max: settings.files_max,
            lost: 0,
            has_failed: false,
        };
        file.try_open().map_err(|error| AuditError::File {
            file: settings.file.clone(),
            error,
        })?;
        Ok(Some(file))
    }

    /// Whether the file could be opened. It is not made: who checks settings may be another user than who serves.
    pub(super) fn check(settings: &config::Audit) -> Result<(), AuditError> {
        let file = &settings.file;
        if file.as_os_str().is_empty() || file == Path::new("stderr") {
            return Ok(());
        }
        let checked = match File::options().append(true).open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => directory_of(file),
            opened => opened.map(drop),
        };
        checked.map_err(|error| AuditError::File {
            file: file.clone(),
            error,
        })
    }

    /// Opens the file under its name again: what was opened may have got another one.
    pub(super) fn reopen(&mut self) {
        let opened = self.try_open();
        self.note(opened, 0);
    }

    /// Writes whole lines. If that fails, they are counted, and the next ones are tried again.
    pub(super) fn write(&mut self, lines: &str) {
        let written = self.try_write(lines);
        let count = lines.lines().count() as u64;
        self.note(written, count);
    }

    /// Lines that could not be written since it was asked last. None while nothing can be written.
    pub(super) fn take_lost(&mut self) -> u64 {
        if self.has_failed {
            0
        } else {
            std::mem::take(&mut self.lost)
        }
    }

    fn try_write(&mut self, lines: &str) -> io::Result<()> {
        if self.path.is_none() {
            return io::stderr().lock().write_all(lines.as_bytes());
        }
        if self.bytes > 0 && self.bytes + lines.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        if self.file.is_none() {
            self.try_open()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(lines.as_bytes())?;
            self.bytes += lines.len() as u64;
        }
        Ok(())
    }

    fn try_open(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        self.file = None;
        let file = File::options().create(true).append(true).mode(0o600).open(path)?;
        self.bytes = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// `audit.log` becomes `audit.log.1`, that becomes `audit.log.2`, and the last one goes.
    fn rotate(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        self.file = None;
        for number in (1..self.files_max).rev() {
            rename(&numbered(path, number), &numbered(path, number + 1))?;
        }
        if self.files_max == 0 {
            fs::remove_file(path)?;
        } else {
            rename(path, &numbered(path, 1))?;
        }
        self.try_open()
    }

    /// Says once that it fails, and once that it does no more.
    fn note(&mut self, result: io::Result<()>, lines: u64) {
        match result {
            Ok(()) if self.has_failed => {
                self.has_failed = false;
                tracing::info!(lost = self.lost, "the audit log can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                self.lost += lines;
                self.file = None;
                if !self.has_failed {
                    self.has_failed = true;
                    tracing::error!(%error, "the audit log cannot be written; what is left out is counted");
                }
            }
        }
    }
}

/// An error if there is no directory for the file.
fn directory_of(file: &Path) -> io::Result<()> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::read_dir(directory).map(drop)
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// Where there is nothing to rename, nothing is done.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}
