//! The file of `authentication.scram`: a line `name:secret` for each client, and lines that begin with `#`.
//!
//! The scheme in each secret is its version. A file with a line that is not understood is not used at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::secret::Secret;

/// All secrets by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Secrets {
    by_name: BTreeMap<String, Secret>,
}

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum SecretsError {
    /// It cannot be read, or is not UTF-8.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A line is not `name:SCRAM-SHA-256$...`, as `statehold scram` writes it.
    #[error("{}:{line}: not a line as `statehold scram` writes it", .file.display())]
    Line {
        /// Which.
        file: PathBuf,
        /// Counted from one.
        line: usize,
    },
    /// A name has two lines.
    #[error("{}:{line}: `{name}` has a line above", .file.display())]
    Twice {
        /// Which.
        file: PathBuf,
        /// The second one.
        line: usize,
        /// Whose.
        name: String,
    },
}

impl Secrets {
    pub(crate) fn read(file: &Path) -> Result<Self, SecretsError> {
        let text = crate::text_file::read(file).map_err(|error| SecretsError::Unreadable {
            file: file.to_owned(),
            error,
        })?;
        Self::parse(file, &text)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, SecretsError> {
        let mut by_name = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (file, line_number) = (file.to_owned(), index + 1);
            let Some((name, secret)) = entry_parts(line) else {
                return Err(SecretsError::Line {
                    file,
                    line: line_number,
                });
            };
            if by_name.insert(name.to_owned(), secret).is_some() {
                return Err(SecretsError::Twice {
                    file,
                    line: line_number,
                    name: name.to_owned(),
                });
            }
        }
        Ok(Self { by_name })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Secret> {
        self.by_name.get(name)
    }

    /// How often clients of this file hash their password, if there is one.
    pub(super) fn iterations(&self) -> Option<u32> {
        self.by_name.values().next().map(|secret| secret.iterations)
    }
}

/// A line of the file; `None` if the name cannot be in one.
pub fn entry(name: &str, secret: &Secret) -> Option<String> {
    let line = format!("{name}:{secret}");
    let is_read_again = !name.starts_with('#') && entry_parts(&line) == Some((name, secret.clone()));
    is_read_again.then_some(line)
}

fn entry_parts(line: &str) -> Option<(&str, Secret)> {
    // A name may have a colon in it, a secret's scheme is at one place only.
    let (name, secret) = line.rsplit_once(":SCRAM-SHA-256$")?;
    let is_name = !name.is_empty() && name.trim() == name && !name.contains(char::is_control);
    is_name.then_some((name, Secret::parse(secret.trim_end())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::of_password(b"pencil", 4_096).expect("sensible")
    }

    fn parse(text: &str) -> Result<Secrets, String> {
        Secrets::parse(Path::new("clients.scram"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_found_with_their_secrets() {
        let (one, other) = (secret(), secret());
        let text = format!("# a fleet\n\npump:{one}\r\nplant:1/pump 2:{other}\n");
        let secrets = parse(&text).expect("right");
        assert_eq!(secrets.get("pump"), Some(&one));
        assert_eq!(secrets.get("plant:1/pump 2"), Some(&other));
        assert_eq!(secrets.get("nobody"), None);
    }

    #[test]
    fn a_mistake_names_its_line() {
        let secret = secret();
        assert_eq!(
            parse(&format!("pump:{secret}\npump:plain text\n")),
            Err("clients.scram:2: not a line as `statehold scram` writes it".to_owned())
        );
        assert_eq!(
            parse(&format!("pump:{secret}\npump:{secret}\n")),
            Err("clients.scram:2: `pump` has a line above".to_owned())
        );
    }

    #[test]
    fn a_name_that_would_not_be_read_again_has_no_line() {
        let secret = secret();
        assert!(entry("plant:1/pump 2", &secret).is_some());
        for name in ["", "#pump", " pump", "a\nb"] {
            assert_eq!(entry(name, &secret), None, "{name:?}");
        }
    }

    /// A file as a released version wrote it.
    #[test]
    fn a_file_of_version_0_1_is_read() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1/clients.scram");
        let secrets = Secrets::read(Path::new(file)).expect("right");
        let rfc = Secret::salted(b"pencil", secrets.get("user").expect("there").salt.clone(), 4_096);
        assert_eq!(secrets.get("user"), rfc.ok().as_ref());
    }
}
