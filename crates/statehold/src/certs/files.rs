//! A certificate and its key on disk.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::KeyPair;

use crate::exit::UsageError;

/// Where a certificate and its key are.
pub(super) struct Files {
    cert: PathBuf,
    key: PathBuf,
}

/// What each file begins with; what reads PEM leaves it out.
const COMMENT: &str =
    "# Statehold test: made by `statehold certs` to try things out. Do not use it for anything else.\n";

impl Files {
    /// Those of this name, in a directory that is made if it is missing.
    pub(super) fn at(directory: &Path, name: &str) -> anyhow::Result<Self> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(UsageError(format!("`{name}` cannot be the name of a file")).into());
        }
        let name = name.replace(['*', ':'], "_");
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self {
            cert: directory.join(format!("{name}.pem")),
            key: directory.join(format!("{name}.key")),
        })
    }

    pub(super) fn refuse_to_replace(&self, is_forced: bool) -> anyhow::Result<()> {
        let there = [&self.cert, &self.key].into_iter().find(|file| file.exists());
        match there {
            Some(file) if !is_forced => {
                let why = format!("{} is there already; --force writes over it", file.display());
                Err(UsageError(why).into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn write(&self, certificate: &str, key: &KeyPair) -> anyhow::Result<()> {
        write(&self.key, &key.serialize_pem())?;
        write(&self.cert, certificate)
    }

    /// The certificate and the key, as settings name them.
    pub(super) fn shown(&self) -> [String; 2] {
        [&self.cert, &self.key].map(|file| file.display().to_string())
    }
}

/// Only the owner can read it, from its first byte on.
fn write(file: &Path, pem: &str) -> anyhow::Result<()> {
    let write = || {
        let mut options = File::options();
        let mut opened = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(file)?;
        opened.set_permissions(Permissions::from_mode(0o600))?;
        opened.write_all(COMMENT.as_bytes())?;
        opened.write_all(pem.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}
