//! The key file: a line `number base64` for each key, numbers rising, and lines that begin with `#`.
//!
//! A file with a line that is not understood is not used at all. No message shows what a line holds.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::{KEY_LEN, KeyId};
use crate::data_dir;

/// Why a key file cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It cannot be read, or is not UTF-8.
    #[error("cannot read the key file {}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    /// It cannot be written.
    #[error("cannot write the key file {}: {error}", file.display())]
    Unwritable { file: PathBuf, error: io::Error },
    /// Others than its owner and its group can read it, or others than its owner can write it.
    #[error("the key file {} has mode {mode:04o}: nobody but its owner may write it, or others read it (0600)", file.display())]
    Mode { file: PathBuf, mode: u32 },
    /// A line is not `number base64` with 32 bytes.
    #[error("{}:{line}: not a line as `statehold encryption-key` writes it", file.display())]
    Line { file: PathBuf, line: usize },
    /// A number is not higher than that of the line before it.
    #[error("{}:{line}: key {key} is not newer than the one above", file.display())]
    Order { file: PathBuf, line: usize, key: KeyId },
    /// There is no key in it.
    #[error("the key file {} has no key; `statehold encryption-key` adds one", file.display())]
    Empty { file: PathBuf },
    /// It is longer than a key file can be.
    #[error("the key file {} is longer than {BYTES_MAX} bytes", file.display())]
    TooLong { file: PathBuf },
}

/// More than a thousand keys.
const BYTES_MAX: u64 = 64 << 10;

/// Bits of a file's mode that must not be set: written by its group, anything by others.
const MODE_REFUSED: u32 = 0o027;

const COMMENT: &str = "# Keys of a Statehold data directory. The last one encrypts; the others are for what was encrypted before.\n";

pub(super) fn read(file: &Path) -> Result<BTreeMap<KeyId, Zeroizing<[u8; KEY_LEN]>>, KeyFileError> {
    let keys = parse(file, &read_text(file)?)?;
    if keys.is_empty() {
        return Err(KeyFileError::Empty {
            file: file.to_owned(),
        });
    }
    Ok(keys)
}

/// Adds a new key to the key file, which is made if it is not there. Returns the key's number.
///
/// The file is replaced as a whole: whoever reads it meanwhile reads the old one or the new one. It keeps owner, group and
/// mode, so whoever reads it as one of its group goes on to; a link to it stays one.
pub fn add_key(file: &Path) -> Result<KeyId, KeyFileError> {
    let mut text = match read_text(file) {
        Err(KeyFileError::Unreadable { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
            Zeroizing::new(COMMENT.to_owned())
        }
        text => text?,
    };
    let newest = parse(file, &text)?.last_key_value().map_or(0, |(id, _)| id.0);
    let id = KeyId(newest.checked_add(1).ok_or(KeyFileError::TooLong {
        file: file.to_owned(),
    })?);
    let mut key = Zeroizing::new([0; KEY_LEN]);
    aws_lc_rs::rand::fill(&mut *key).expect("the system has random numbers");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let line = Zeroizing::new(format!("{id} {}\n", *Zeroizing::new(STANDARD.encode(*key))));
    if (text.len() + line.len()) as u64 > BYTES_MAX {
        return Err(KeyFileError::TooLong {
            file: file.to_owned(),
        });
    }
    text.push_str(&line);
    replace(file, &text).map_err(|error| KeyFileError::Unwritable {
        file: file.to_owned(),
        error,
    })?;
    Ok(id)
}

fn read_text(file: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let unreadable = |error| KeyFileError::Unreadable {
        file: file.to_owned(),
        error,
    };
    let opened = File::open(file).map_err(unreadable)?;
    let mode = opened.metadata().map_err(unreadable)?.mode() & 0o777;
    if mode & MODE_REFUSED != 0 {
        return Err(KeyFileError::Mode {
            file: file.to_owned(),
            mode,
        });
    }
    // As large as it can get: a string that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(BYTES_MAX as usize + 1));
    opened
        .take(BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(KeyFileError::TooLong {
            file: file.to_owned(),
        });
    }
    Ok(text)
}

fn parse(file: &Path, text: &str) -> Result<BTreeMap<KeyId, Zeroizing<[u8; KEY_LEN]>>, KeyFileError> {
    let mut keys = BTreeMap::new();
    // Some editors put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let line_number = index + 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, bytes) = parse_line(line).ok_or_else(|| KeyFileError::Line {
            file: file.to_owned(),
            line: line_number,
        })?;
        if keys.last_key_value().is_some_and(|(before, _)| *before >= key) {
            return Err(KeyFileError::Order {
                file: file.to_owned(),
                line: line_number,
                key,
            });
        }
        keys.insert(key, bytes);
    }
    Ok(keys)
}

fn parse_line(line: &str) -> Option<(KeyId, Zeroizing<[u8; KEY_LEN]>)> {
    let (id, encoded) = line.trim_end().split_once(' ')?;
    let id = id.parse().ok().filter(|id| *id > 0)?;
    let mut key = Zeroizing::new([0; KEY_LEN]);
    // One byte more than a key: something longer does not fit, and is not cut.
    let mut decoded = Zeroizing::new([0; KEY_LEN + 4]);
    let len = STANDARD.decode_slice(encoded, &mut *decoded).ok()?;
    key.copy_from_slice(decoded.get(..len).filter(|decoded| decoded.len() == KEY_LEN)?);
    Some((KeyId(id), key))
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = &fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let before = fs::metadata(file).ok();
    let unfinished = {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(".unfinished");
        file.with_file_name(name)
    };
    // What a crash has left is not written into: its mode may be another one.
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    // Only root can give it to somebody else. To nobody's group but the one it had is it opened.
    if let Some(before) = before
        && fchown(&new, Some(before.uid()), Some(before.gid())).is_ok()
    {
        new.set_permissions(Permissions::from_mode(before.mode() & 0o777))?;
    }
    new.write_all(text.as_bytes())?;
    new.sync_all()?;
    fs::rename(&unfinished, file)?;
    data_dir::sync_parent(file)
}
