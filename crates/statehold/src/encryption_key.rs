//! `statehold encryption-key`

use std::path::PathBuf;

use clap::Args;

use crate::exit::Exit;
use crate::output;

/// Add a new key to the file of `encryption.key_file`, which is made if it is not there.
///
/// The server encrypts with the last key of the file from its next start on, and writes everything that was encrypted with
/// another one anew. Without this file nobody can read the data directory any more: keep a copy elsewhere.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EncryptionKey {
    /// The key file
    file: PathBuf,
}

impl EncryptionKey {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let key = server::add_encryption_key(&self.file)?;
        output::line(format!("key {key} was added to {}", self.file.display()))?;
        Ok(Exit::Done)
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold encryption-key /etc/statehold/keys     a first key, or one more";
