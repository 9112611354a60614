//! Encryption of everything in the data directory: AES-256-GCM with keys from a file (`docs/encryption.md`).
//!
//! No key of the file encrypts anything itself. Each file on disk that is encrypted has a stamp: which key, and a random
//! salt. From both come the keys of that file only (HKDF-SHA256), so a number that counts from the beginning of the file is
//! a nonce that is never used twice, whatever became of other files with the same name, after a crash as well. What is
//! where in the file is authenticated too: nothing can be moved to another place or file.
//!
//! Key material is wiped when it is dropped, and never shown.

mod cipher;
mod key_file;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::hkdf;
use zeroize::Zeroizing;

pub(crate) use self::cipher::{FileCipher, FileKeys, TAG_LEN};
pub use self::key_file::{KeyFileError, add_key};

/// Bytes of a key.
pub(crate) const KEY_LEN: usize = 32;

const CHECK_LEN: usize = 8;
const SALT_LEN: usize = 16;

/// The number of a key in the key file. The highest one encrypts what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(pub u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a data directory is written and what it can be read with.
#[derive(Clone, Default)]
pub struct Encryption {
    keys: Option<Arc<Keys>>,
    writes_plain: bool,
    /// Nothing that is not encrypted is accepted.
    is_strict: bool,
    is_changing: bool,
}

struct Keys {
    by_id: BTreeMap<KeyId, Zeroizing<[u8; KEY_LEN]>>,
    file: PathBuf,
}

/// A file on disk cannot be read with the keys that there are, or was not written with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    /// There are no keys at all.
    #[error(
        "{} is encrypted with key {key}, and no key file is set (`encryption.key_file`)",
        file.display()
    )]
    NoKeyFile { file: PathBuf, key: KeyId },
    /// The key was removed from the key file, or was never in it.
    #[error("{} is encrypted with key {key}, which is not in {}", file.display(), key_file.display())]
    KeyMissing {
        file: PathBuf,
        key: KeyId,
        key_file: PathBuf,
    },
    /// There is a key of that number, and it is another one.
    #[error(
        "{} is encrypted with another key {key} than the one in {}: a wrong or damaged key file",
        file.display(),
        key_file.display()
    )]
    KeyWrong {
        file: PathBuf,
        key: KeyId,
        key_file: PathBuf,
    },
    /// All was encrypted, and this is not.
    #[error("{} is not encrypted, and everything in this data directory was", file.display())]
    NotEncrypted { file: PathBuf },
    /// Its checksums fit, and it is not what was written with this key.
    #[error(
        "{} at byte {offset}: this was not written with key {key} at this place: somebody has changed the file",
        file.display()
    )]
    NotAuthentic { file: PathBuf, offset: u64, key: KeyId },
}

impl EncryptionError {
    /// Whether a file was changed, and is not only without its key.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::NoKeyFile { .. } | Self::KeyMissing { .. } | Self::KeyWrong { .. } => false,
            Self::NotEncrypted { .. } | Self::NotAuthentic { .. } => true,
        }
    }
}

/// What an encrypted file says in clear: its key, how to know that a key is the right one, and what makes the keys of this
/// file unlike those of any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) key: KeyId,
    check: [u8; CHECK_LEN],
    salt: [u8; SALT_LEN],
}

impl Encryption {
    /// Nothing is encrypted, and nothing encrypted can be read.
    pub fn none() -> Encryption {
        Encryption::default()
    }

    /// Everything is encrypted with the newest key of this file, and can be read with each of them.
    pub fn from_file(file: &Path) -> Result<Encryption, KeyFileError> {
        let by_id = key_file::read(file)?;
        let file = file.to_owned();
        Ok(Encryption {
            keys: Some(Arc::new(Keys { by_id, file })),
            ..Encryption::default()
        })
    }

    /// The keys are for reading only: everything is written plain from now on.
    pub fn reading_only(self) -> Encryption {
        Encryption {
            writes_plain: true,
            ..self
        }
    }

    /// The key with which new files are encrypted; none: they are plain.
    pub fn key(&self) -> Option<KeyId> {
        let keys = self.keys.as_ref().filter(|_| !self.writes_plain)?;
        keys.by_id.last_key_value().map(|(id, _)| *id)
    }

    /// Keys of these numbers, each with bytes of its number.
    #[cfg(test)]
    pub(crate) fn with_keys(ids: &[u32]) -> Encryption {
        let key = |id: &u32| (KeyId(*id), Zeroizing::new([*id as u8; KEY_LEN]));
        let by_id = ids.iter().map(key).collect();
        let file = PathBuf::from("keys of a test");
        Encryption {
            keys: Some(Arc::new(Keys { by_id, file })),
            ..Encryption::default()
        }
    }

    /// The same keys, for a directory in which nothing plain is accepted.
    pub(crate) fn strict(self) -> Encryption {
        Encryption {
            is_strict: true,
            ..self
        }
    }

    /// The same keys, for a directory in which something is not written as it is to be now.
    pub(crate) fn changing(self) -> Encryption {
        Encryption {
            is_changing: true,
            ..self
        }
    }

    /// Whether files from before may be plain, or encrypted with another key than the newest one.
    pub(crate) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// The stamp of a new file, and its keys; none if it is to be plain.
    pub(crate) fn new_file(&self) -> Option<(Stamp, FileKeys)> {
        let mut salt = [0; SALT_LEN];
        aws_lc_rs::rand::fill(&mut salt).expect("the system has random numbers");
        self.with_salt(salt)
    }

    /// The same with a salt that is not random, for golden files.
    pub(crate) fn with_salt(&self, salt: [u8; SALT_LEN]) -> Option<(Stamp, FileKeys)> {
        let key = self.key()?;
        let master = self.keys.as_ref()?.by_id.get(&key)?;
        let check = check_of(master);
        Some((Stamp { key, check, salt }, FileKeys::derive(master, &salt)))
    }

    /// The keys of a file with this stamp; none if it is plain and may be.
    pub(crate) fn open_file(
        &self,
        file: &Path,
        stamp: Option<Stamp>,
    ) -> Result<Option<FileKeys>, EncryptionError> {
        let file = file.to_owned();
        let Some(Stamp { key, check, salt }) = stamp else {
            return if self.is_strict {
                Err(EncryptionError::NotEncrypted { file })
            } else {
                Ok(None)
            };
        };
        let Some(keys) = &self.keys else {
            return Err(EncryptionError::NoKeyFile { file, key });
        };
        let key_file = keys.file.clone();
        match keys.by_id.get(&key) {
            None => Err(EncryptionError::KeyMissing { file, key, key_file }),
            Some(master) if check_of(master) != check => {
                Err(EncryptionError::KeyWrong { file, key, key_file })
            }
            Some(master) => Ok(Some(FileKeys::derive(master, &salt))),
        }
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = self
            .keys
            .as_ref()
            .map(|keys| keys.by_id.keys().collect::<Vec<_>>());
        f.debug_struct("Encryption")
            .field("keys", &ids)
            .field("writes_with", &self.key())
            .finish_non_exhaustive()
    }
}

impl Stamp {
    /// Bytes of a stamp.
    pub(crate) const LEN: usize = 4 + CHECK_LEN + SALT_LEN;

    pub(crate) fn encode(self) -> [u8; Stamp::LEN] {
        let mut bytes = [0; Stamp::LEN];
        bytes[..4].copy_from_slice(&self.key.0.to_be_bytes());
        bytes[4..4 + CHECK_LEN].copy_from_slice(&self.check);
        bytes[4 + CHECK_LEN..].copy_from_slice(&self.salt);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Stamp::LEN]) -> Stamp {
        let (key, rest) = bytes.split_first_chunk().expect("a stamp begins with a number");
        let (check, salt) = rest.split_first_chunk().expect("a check follows the number");
        Stamp {
            key: KeyId(u32::from_be_bytes(*key)),
            check: *check,
            salt: salt.try_into().expect("a salt is the rest"),
        }
    }
}

/// What shows that a key is the right one and says nothing else about it.
fn check_of(master: &[u8; KEY_LEN]) -> [u8; CHECK_LEN] {
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"").extract(master);
    let mut check = [0; CHECK_LEN];
    cipher::expand(&prk, &[b"statehold key check"], &mut check);
    check
}

#[cfg(test)]
mod tests;
