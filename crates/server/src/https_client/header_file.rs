//! The value of a header of a request that is a secret: the first line of a file.

use std::path::{Path, PathBuf};

use hyper::header::HeaderValue;
use thiserror::Error;

/// A file that cannot be the value of a header.
#[derive(Debug, Error)]
pub enum HeaderFileError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Its first line is empty, or has characters that no header has.
    #[error("the first line of {} cannot be the value of a header", .file.display())]
    Content {
        /// Which.
        file: PathBuf,
    },
}

/// What stands in the file.
pub(crate) fn plain(file: &Path) -> Result<HeaderValue, HeaderFileError> {
    value(file, "")
}

/// What stands in the file, as a token that its bearer may use.
#[cfg(feature = "kubernetes")]
pub(crate) fn bearer(file: &Path) -> Result<HeaderValue, HeaderFileError> {
    value(file, "Bearer ")
}

fn value(file: &Path, before: &str) -> Result<HeaderValue, HeaderFileError> {
    let text = crate::text_file::read(file).map_err(|error| HeaderFileError::Unreadable {
        file: file.to_owned(),
        error,
    })?;
    let line = text.lines().next().unwrap_or_default().trim();
    let value = (!line.is_empty()).then(|| HeaderValue::from_str(&format!("{before}{line}")));
    let Some(Ok(mut value)) = value else {
        return Err(HeaderFileError::Content {
            file: file.to_owned(),
        });
    };
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_value_and_is_not_shown() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let file = directory.path().join("secret");
        std::fs::write(&file, "  s3cret \r\nmore\n").expect("written");
        let value = plain(&file).expect("right");
        assert_eq!(value.as_bytes(), b"s3cret");
        assert!(!format!("{value:?}").contains("s3cret"));
        for content in ["", "\nx", "a\u{0}b"] {
            std::fs::write(&file, content).expect("written");
            assert!(
                matches!(plain(&file), Err(HeaderFileError::Content { .. })),
                "{content:?}"
            );
        }
        assert!(matches!(
            plain(&directory.path().join("none")),
            Err(HeaderFileError::Unreadable { .. })
        ));
    }
}
