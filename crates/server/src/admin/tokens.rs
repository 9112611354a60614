//! The file of `admin.tokens`: a line `name:scope:sha256$hash` for each token, and lines that begin with `#`.
//!
//! A token has 256 random bits, so one SHA-256 of it is enough: nobody tries all of them. The scheme in each line is its version. A
//! file with a line that is not understood is not used at all.

use std::fmt;
use std::path::{Path, PathBuf};

use aws_lc_rs::{constant_time, digest, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use thiserror::Error;

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Look at what does not change the server.
    Read,
    /// That, and make backups, which have everything in them that the server has.
    Backup,
    /// That, and change it.
    Write,
}

/// All tokens.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<Token>);

/// One token, of which only the hash is known.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    name: String,
    scope: Scope,
    hash: [u8; HASH_BYTES],
}

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum TokensError {
    /// It cannot be read, or is not UTF-8.
    #[error("`admin.tokens`: cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A line is not as `statehold admin-token` writes it.
    #[error("`admin.tokens`: {}:{line}: not a line as `statehold admin-token` writes it", .file.display())]
    Line {
        /// Which.
        file: PathBuf,
        /// Counted from one.
        line: usize,
    },
    /// There are more than the server looks through for each request.
    #[error("`admin.tokens`: {} has more than {TOKENS_MAX} tokens", .file.display())]
    TooMany {
        /// Which.
        file: PathBuf,
    },
}

/// What a new token has in front: programs that look for secrets in places where they should not be know it by that.
const PREFIX: &str = "sth_";

const SCHEME: &str = "sha256$";

const HASH_BYTES: usize = 32;

/// All of them are compared with each request.
const TOKENS_MAX: usize = 1_000;

impl Tokens {
    pub(crate) fn read(file: &Path) -> Result<Self, TokensError> {
        let text = crate::text_file::read(file).map_err(|error| TokensError::Unreadable {
            file: file.to_owned(),
            error,
        })?;
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let token = Token::parse(line.trim_end()).ok_or_else(|| TokensError::Line {
                file: file.to_owned(),
                line: index + 1,
            })?;
            tokens.push(token);
        }
        if tokens.len() > TOKENS_MAX {
            let file = file.to_owned();
            return Err(TokensError::TooMany { file });
        }
        Ok(Self(tokens))
    }

    /// Whose token it is, and what it is good for. Takes as long for one as for another.
    pub(super) fn find(&self, token: &[u8]) -> Option<(&str, Scope)> {
        let hash = hash(token);
        let mut found = None;
        for known in &self.0 {
            if constant_time::verify_slices_are_equal(&known.hash, &hash).is_ok() {
                found = Some((known.name.as_str(), known.scope));
            }
        }
        found
    }
}

impl Token {
    fn parse(line: &str) -> Option<Self> {
        let (name, rest) = line.split_once(':')?;
        let (scope, rest) = rest.split_once(':')?;
        let hash = URL_SAFE_NO_PAD.decode(rest.strip_prefix(SCHEME)?).ok()?;
        is_name(name).then_some(Self {
            name: name.to_owned(),
            scope: Scope::parse(scope)?,
            hash: hash.try_into().ok()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, scope, hash } = self;
        write!(
            to,
            "{name}:{}:{SCHEME}{}",
            scope.name(),
            URL_SAFE_NO_PAD.encode(hash)
        )
    }
}

impl Scope {
    /// As a line of the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Backup => "backup",
            Self::Write => "write",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Backup, Self::Write]
            .into_iter()
            .find(|scope| scope.name() == text)
    }
}

/// A new token, and its line for the file of `admin.tokens`. `None` if the name cannot be in a line.
pub fn new_token(name: &str, scope: Scope) -> Option<(String, String)> {
    if !is_name(name) {
        return None;
    }
    let mut bits = [0; HASH_BYTES];
    rand::fill(&mut bits).expect("the system has random numbers");
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bits));
    let line = Token {
        name: name.to_owned(),
        scope,
        hash: hash(token.as_bytes()),
    };
    Some((token, line.to_string()))
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ':';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.starts_with('#') && name.chars().all(is_plain)
}

const NAME_BYTES_MAX: usize = 128;

fn hash(token: &[u8]) -> [u8; HASH_BYTES] {
    let hash = digest::digest(&digest::SHA256, token);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tokens, String> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        let name = file.path().display().to_string();
        Tokens::read(file.path()).map_err(|error| error.to_string().replace(&name, "tokens"))
    }

    #[test]
    fn a_token_is_found_by_nothing_but_itself() {
        let (read_token, read_line) = new_token("prometheus", Scope::Read).expect("a name");
        let (write_token, write_line) = new_token("ops", Scope::Write).expect("a name");
        let tokens = read(&format!("# ours\n\n{read_line}\r\n{write_line}\n")).expect("right");
        assert_eq!(
            tokens.find(read_token.as_bytes()),
            Some(("prometheus", Scope::Read))
        );
        assert_eq!(tokens.find(write_token.as_bytes()), Some(("ops", Scope::Write)));
        let hash = read_line.rsplit_once('$').expect("a hash").1;
        for wrong in [
            "",
            "sth_",
            hash,
            &read_token[..read_token.len() - 1],
            &write_token.to_lowercase(),
        ] {
            assert_eq!(tokens.find(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(!read_line.contains(&read_token[PREFIX.len()..]));
        assert_eq!(Tokens::default().find(b""), None);
    }

    #[test]
    fn a_mistake_names_its_line() {
        let (_, line) = new_token("ops", Scope::Write).expect("a name");
        for wrong in [
            "ops",
            "ops:write",
            "ops:write:plain",
            "ops:write:sha256$short",
            &line.replace("write", "all"),
            &line.replace("sha256", "sha1"),
            &line.replace("ops", ""),
        ] {
            let error = read(&format!("{line}\n{wrong}\n")).expect_err("a mistake");
            assert!(error.contains("tokens:2: not a line"), "{wrong}: {error}");
        }
        for name in ["", "#ops", "a b", "a:b", "a\nb"] {
            assert_eq!(new_token(name, Scope::Read), None, "{name:?}");
        }
        let error = read(&format!("{line}\n").repeat(TOKENS_MAX + 1)).expect_err("too many");
        assert!(error.contains("more than 1000 tokens"), "{error}");
    }

    /// A file as a released version wrote it.
    #[test]
    fn a_file_of_version_0_1_is_read() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/v1/admin.tokens");
        let tokens = Tokens::read(Path::new(file)).expect("right");
        assert_eq!(tokens.find(b"sth_golden"), Some(("golden", Scope::Read)));
    }
}
