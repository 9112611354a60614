//! `[encryption]`: whether what is on disk can be read by whoever has the disk.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::Problem;

/// Encryption of everything in the data directory (`docs/encryption.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Encryption {
    /// File with a line for each key, as `statehold encryption-key` writes it. The last one encrypts, with AES-256-GCM; the
    /// others are for what was encrypted before. What is plain, or encrypted with another key, is written anew at the start.
    /// Empty: nothing is encrypted. It is read at the start only.
    pub key_file: PathBuf,

    /// Write everything plain again, at the start; the keys are for reading only. After that `key_file` is not needed.
    pub decrypt: bool,
}

impl Encryption {
    /// As storage takes it. Reads the key file.
    pub(crate) fn for_storage(&self) -> Result<storage::Encryption, storage::KeyFileError> {
        if self.key_file.as_os_str().is_empty() {
            return Ok(storage::Encryption::none());
        }
        let encryption = storage::Encryption::from_file(&self.key_file)?;
        Ok(if self.decrypt {
            encryption.reading_only()
        } else {
            encryption
        })
    }

    /// What the types do not say.
    pub(super) fn violations(&self, problems: &mut Vec<Problem>) {
        if self.decrypt && self.key_file.as_os_str().is_empty() {
            let why = "nothing can be decrypted without `encryption.key_file`";
            problems.push(Problem::new("encryption.decrypt", why.to_owned()));
        }
    }
}
