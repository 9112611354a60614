//! `statehold passwd`

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use client::protocol::Text;
use server::authentication::{PasswordEntry, PasswordHash, with_line};

use crate::exit::{Exit, UsageError};
use crate::{output, secret};

/// Add a name to the file of `authentication.password`, or give it another password.
///
/// The file has a hash (Argon2id) of each password. Nobody can connect with it, but who has it can try passwords: a file that is made by
/// this is for its owner only, and one that is there keeps owner and mode, except that it is for nobody else of the machine. The
/// file is replaced at once, and a server that uses it takes it a few seconds later.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Passwd {
    /// The file; made if it is not there
    file: PathBuf,
    /// The user name
    name: String,
    /// Take the name out of the file
    #[arg(long, conflicts_with_all = ["password_file", "attribute"])]
    delete: bool,
    /// Read the password from this file; a line break at its end does not count [default: asked for, or a line from stdin]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Something else that is known of the name, for rules about what it may do; those that it had are replaced
    #[arg(long, value_name = "NAME=VALUE", value_parser = attribute)]
    attribute: Vec<(Text, Text)>,
}

impl Passwd {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        // A link stays one.
        let file = std::fs::canonicalize(&self.file).unwrap_or_else(|_| self.file.clone());
        let line = if self.delete { None } else { Some(self.line()?) };
        let (text, had_one) = with_line(&file, &self.name, line.as_deref())?;
        if self.delete && !had_one {
            let name = &self.name;
            return Err(UsageError(format!("`{name}` is not in {}", file.display())).into());
        }
        replace(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
        output::line(match (self.delete, had_one) {
            (true, _) => "deleted",
            (false, true) => "replaced",
            (false, false) => "added",
        })?;
        Ok(Exit::Done)
    }

    fn line(&self) -> anyhow::Result<String> {
        let password = secret::read(self.password_file.as_deref())?;
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            let why = format!("a password has between 1 and {PASSWORD_BYTES_MAX} bytes");
            return Err(UsageError(why).into());
        }
        let entry = PasswordEntry {
            hash: PasswordHash::of_password(password.as_bytes()),
            attributes: self.attribute.iter().cloned().collect(),
        };
        entry.line(&self.name).ok_or_else(|| {
            let why = "a name is one line of text that does not begin with `#` or a space, and an attribute has a name";
            UsageError(why.to_owned()).into()
        })
    }
}

/// What CONNECT has room for.
const PASSWORD_BYTES_MAX: usize = u16::MAX as usize;

fn attribute(text: &str) -> Result<(Text, Text), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let text = |text: &str| Text::new(text).map_err(|error| error.to_string());
    Ok((text(name)?, text(value)?))
}

/// Writes a new file and puts it in the place of the old one: whoever reads it finds one or the other.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let before = std::fs::metadata(file).ok();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = write(&beside, text, before.as_ref()).and_then(|()| std::fs::rename(&beside, file));
    if written.is_err() {
        // It may not be there.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

fn write(beside: &Path, text: &str, before: Option<&std::fs::Metadata>) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut to: File = options.write(true).create_new(true).mode(0o600).open(beside)?;
    if let Some(before) = before {
        // Only root can give it to somebody else; then the server goes on reading it.
        let _ = std::os::unix::fs::fchown(&to, Some(before.uid()), Some(before.gid()));
        to.set_permissions(Permissions::from_mode(before.mode() & 0o770))?;
    }
    to.write_all(text.as_bytes())?;
    to.sync_all()
}

const EXAMPLES: &str = "\
Examples:
  statehold passwd clients.passwd pump-7                     asks for the password
  openssl rand -base64 18 | tee pump-7.password | statehold passwd clients.passwd pump-7
  statehold passwd clients.passwd pump-7 --attribute site=north --password-file secret
  statehold passwd clients.passwd pump-7 --delete";
