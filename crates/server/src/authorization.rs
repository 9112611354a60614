//! Policies from files. What they mean is decided in `broker::authorization`.

mod document;
mod fields;
mod file;
mod mistake;

pub use broker::authorization as rules;
pub use broker::{Attributes, Policy, Subject};

pub use self::file::{FILE_BYTES_MAX, read};
pub use self::mistake::{Mistake, PolicyFileError};
