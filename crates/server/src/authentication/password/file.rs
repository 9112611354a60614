//! The file of `authentication.password`: a line for each name, and lines that begin with `#`.
//!
//! A line is `name:$argon2id$...`, then attributes as in ` site=north floor=3`, where `%20` is a space and `%25` a percent sign. The scheme in
//! each hash is its version. A file with a line that is not understood is not used at all.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mqtt::principal::Attributes;
use protocol::Text;
use thiserror::Error;

use super::hash::{Cost, PasswordHash};
use crate::text_file;

/// All names, and what is known of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Passwords {
    by_name: BTreeMap<String, Entry>,
    /// Those of all lines: who is not known costs what one of them costs.
    costs: Vec<Cost>,
}

/// What the file knows of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the password has to have.
    pub hash: PasswordHash,
    /// Of the principal.
    pub attributes: Attributes,
}

/// A file that cannot be used.
#[derive(Debug, Error)]
pub enum PasswordsError {
    /// It cannot be read, or is not UTF-8.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is far longer than the names of a fleet need.
    #[error("{} is longer than {FILE_BYTES_MAX} bytes", .file.display())]
    TooLong {
        /// Which.
        file: PathBuf,
    },
    /// A line is not as `statehold passwd` writes it.
    #[error("{}:{line}: not a line as `statehold passwd` writes it, or its parameters are beyond the bounds", .file.display())]
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

/// Lines of a million names.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Attributes of one name.
const ATTRIBUTES_MAX: usize = 64;

impl Passwords {
    pub(crate) fn read(file: &Path) -> Result<Self, PasswordsError> {
        Self::parse(file, &text_of(file)?)
    }

    fn parse(file: &Path, text: &str) -> Result<Self, PasswordsError> {
        let mut by_name = BTreeMap::new();
        let mut costs = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if is_comment(line) {
                continue;
            }
            let (file, line_number) = (file.to_owned(), index + 1);
            let Some((name, entry)) = parts(line) else {
                return Err(PasswordsError::Line {
                    file,
                    line: line_number,
                });
            };
            costs.push(entry.hash.cost());
            if by_name.insert(name.to_owned(), entry).is_some() {
                return Err(PasswordsError::Twice {
                    file,
                    line: line_number,
                    name: name.to_owned(),
                });
            }
        }
        Ok(Self { by_name, costs })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name)
    }

    /// What a name costs that nobody has, by a number that is always the same for it: there are as many of each cost as there are among
    /// those that somebody has.
    pub(super) fn cost_of_unknown(&self, number: u64) -> Cost {
        let Some(count) = std::num::NonZeroU64::new(self.costs.len() as u64) else {
            return Cost::default();
        };
        let index = usize::try_from(number % count).expect("there are as many");
        self.costs[index]
    }
}

impl Entry {
    /// A line of the file; `None` if the name or an attribute cannot be in one.
    pub fn line(&self, name: &str) -> Option<String> {
        let mut line = format!("{name}:{}", self.hash);
        for (attribute, value) in self.attributes.iter() {
            let _ = write!(line, " {}={}", escape(attribute), escape(value));
        }
        let is_read_again = !is_comment(&line) && parts(&line) == Some((name, self.clone()));
        is_read_again.then_some(line)
    }
}

/// The text of a file with a name's line replaced, added at the end, or, without a line, left out. Everything else stays as it is.
/// The second part says whether the name had a line.
pub fn with_line(file: &Path, name: &str, line: Option<&str>) -> Result<(String, bool), PasswordsError> {
    let text = match text_of(file) {
        Err(PasswordsError::Unreadable { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
            String::new()
        }
        other => other?,
    };
    // What would not be read is not written either.
    let had_one = Passwords::parse(file, &text)?.get(name).is_some();
    let is_of_name = |line: &str| !is_comment(line) && parts(line).is_some_and(|(of, _)| of == name);
    let mut out = String::new();
    let mut push = |line: &str| {
        out.push_str(line);
        out.push('\n');
    };
    for present in text.lines() {
        if !is_of_name(present) {
            push(present);
        } else if let Some(line) = line {
            push(line);
        }
    }
    if let Some(line) = line.filter(|_| !had_one) {
        push(line);
    }
    Ok((out, had_one))
}

fn text_of(file: &Path) -> Result<String, PasswordsError> {
    let unreadable = |error| PasswordsError::Unreadable {
        file: file.to_owned(),
        error,
    };
    let text = text_file::read_at_most(file, FILE_BYTES_MAX).map_err(unreadable)?;
    text.ok_or_else(|| PasswordsError::TooLong {
        file: file.to_owned(),
    })
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

fn parts(line: &str) -> Option<(&str, Entry)> {
    // A name may have a colon in it; the scheme begins with one that is not part of a name.
    let at = line.find(":$argon2id$")?;
    let (name, rest) = (&line[..at], line[at + 1..].trim_end());
    let is_name = !name.is_empty() && name.trim() == name && Text::new(name).is_ok();
    if !is_name || line.contains(|c: char| c.is_control() && c != '\r') {
        return None;
    }
    let mut words = rest.split(' ');
    let hash = PasswordHash::parse(words.next()?)?;
    let mut attributes = Vec::new();
    for word in words {
        let (attribute, value) = word.split_once('=')?;
        let attribute = unescape(attribute).filter(|attribute| !attribute.is_empty())?;
        attributes.push((attribute, unescape(value)?));
    }
    let count = attributes.len();
    let attributes: Attributes = attributes.into_iter().collect();
    let fits = count <= ATTRIBUTES_MAX && attributes.len() == count;
    fits.then_some((name, Entry { hash, attributes }))
}

/// What would end a word or a name is written as its bytes.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        if character.is_control() || character.is_whitespace() || matches!(character, '%' | '=') {
            for byte in character.to_string().bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

fn unescape(text: &str) -> Option<Text> {
    let mut parts = text.split('%');
    let mut out = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        let is_hex = code.bytes().all(|digit| digit.is_ascii_hexdigit());
        out.push(u8::from_str_radix(code, 16).ok().filter(|_| is_hex)?);
        out.extend_from_slice(rest.as_bytes());
    }
    Text::new(String::from_utf8(out).ok()?).ok()
}

#[cfg(test)]
mod tests;
