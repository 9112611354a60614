//! What can be wrong with the file of a policy.

use std::io;
use std::path::PathBuf;

use mqtt::authorization::PolicyError;
use thiserror::Error;

use super::file::FILE_BYTES_MAX;

/// A file that is no policy.
#[derive(Debug, Error)]
pub enum PolicyFileError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Its name does not tell its format.
    #[error("{}: the name of a policy ends with .yaml, .yml, .json or .toml", .file.display())]
    Ending {
        /// Which.
        file: PathBuf,
    },
    /// There is a mistake in it.
    #[error("{}{}: {mistake}", .file.display(), colon(.line))]
    Wrong {
        /// Which.
        file: PathBuf,
        /// Counted from 1, if it is known.
        line: Option<usize>,
        /// What.
        mistake: Box<Mistake>,
    },
}

/// What is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mistake {
    /// More than [`FILE_BYTES_MAX`].
    #[error("the file is larger than {} MiB", FILE_BYTES_MAX >> 20)]
    TooLarge,
    /// It is not in the format that its name tells.
    #[error("{0}")]
    Syntax(String),
    /// There is nothing in it.
    #[error("there is no policy")]
    Nothing,
    /// Of several it would have to be guessed.
    #[error("the file has more than one document")]
    Documents,
    /// They can make a small file large.
    #[error("anchors and aliases are not taken: write it out")]
    Alias,
    /// They can make a text something else.
    #[error("tags are not taken")]
    Tag,
    /// Deeper than any policy is.
    #[error("this is too deep for a policy")]
    Depth,
    /// A field has a list or a table for a name.
    #[error("a field has no name")]
    FieldName,
    /// A field that no policy has.
    #[error("{part} has no `{field}`; it has {}", fields.join(", "))]
    Unknown {
        /// Of what.
        part: &'static str,
        /// The field.
        field: String,
        /// Those that there are.
        fields: &'static [&'static str],
    },
    /// A field twice.
    #[error("`{field}` stands twice")]
    Twice {
        /// The field.
        field: String,
    },
    /// A field that has to be there.
    #[error("{part} needs `{field}`")]
    Missing {
        /// What.
        part: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A list where a text should be, or the like.
    #[error("`{field}` is {expected}")]
    Kind {
        /// The field.
        field: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Another word than those that a field may have.
    #[error("`{field}` is {}, not `{found}`", choices.join(" or "))]
    Choice {
        /// The field.
        field: &'static str,
        /// What stands there.
        found: String,
        /// What may.
        choices: Vec<&'static str>,
    },
    /// A text that looks like something else to its format.
    #[error("`{field}` is a text: write {found} between quotes")]
    Quotes {
        /// The field.
        field: String,
        /// What stands there.
        found: &'static str,
    },
    /// A binary key that is not Base64.
    #[error("a binary key is written in Base64: `{0}` is not")]
    Base64(String),
    /// The rules say something that cannot be.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

fn colon(line: &Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(":{line}"))
}
