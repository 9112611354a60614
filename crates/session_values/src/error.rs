//! Errors of decoding values.

use mqtt::records::RecordError;

/// Bytes are no value. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A newer version of this program wrote the value, or it is no value at all.
    #[error("a value has version {version}, which is unknown")]
    UnknownVersion {
        /// First byte of the value.
        version: u8,
    },
    /// A newer version of this program wrote the value, or it is damaged.
    #[error("a value has form {form}, which is unknown")]
    UnknownForm {
        /// Second byte of the value.
        form: u8,
    },
    /// There are no bytes.
    #[error("a value is empty")]
    Empty,
    /// A message comes without its content.
    #[error("the content of a message is missing")]
    NoContent,
    /// A value of another form than a message comes with a content.
    #[error("a value has a content, and is no message")]
    UnexpectedContent,
    /// A part of the value is wrong.
    #[error(transparent)]
    Part(#[from] RecordError),
}
