//! Files of other programs, read without believing them: nothing is allocated by a length that stands in them, and what is wrong is
//! an error that says where.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use anyhow::Context;
use thiserror::Error;

/// Why a file cannot be read.
#[derive(Debug, Error)]
pub(super) enum FileError {
    /// The disk says no.
    #[error("cannot read it: {0}")]
    Io(io::Error),
    /// There should be more.
    #[error("it is cut off: it ends at byte {at}, in the middle of something")]
    Ends {
        /// From its beginning.
        at: u64,
    },
    /// It is none of its kind, or bytes in it have changed.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// From its beginning.
        at: u64,
        /// What stands there.
        what: &'static str,
    },
    /// Its first bytes are those of something else.
    #[error("it is no {what}")]
    Foreign {
        /// What it should be.
        what: &'static str,
    },
    /// It was written by a version of the other program that is not known here.
    #[error("it has version {version} of its format; {known} can be read")]
    Version {
        /// As it stands there.
        version: u64,
        /// Those that can be read.
        known: &'static str,
    },
    /// Bytes in it have changed.
    #[error("its checksum is wrong: it is damaged, or was still being written")]
    Checksum,
}

/// A file that is read from its beginning to its end.
#[derive(Debug)]
pub(super) struct FileReader<R> {
    inner: R,
    at: u64,
}

/// Bytes that may have been too many to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bounded {
    /// All of them.
    All(Vec<u8>),
    /// How many there are, and the first ones.
    TooMany {
        /// In the file.
        bytes: u64,
        /// Some.
        first: Vec<u8>,
    },
}

/// Bytes of something too large that are kept, to say what it was.
const KEPT_BYTES: usize = 256;

/// Opens a file for reading it in pieces.
pub(super) fn open(path: &Path) -> anyhow::Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(BufReader::with_capacity(PIECE_BYTES, file))
}

const PIECE_BYTES: usize = 64 << 10;

impl<R: Read> FileReader<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, at: 0 }
    }

    /// How far it is read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn inner(&self) -> &R {
        &self.inner
    }

    /// What is read stands at the place where it is now.
    pub(super) fn damaged<T>(&self, what: &'static str) -> Result<T, FileError> {
        Err(FileError::Damaged { at: self.at, what })
    }

    /// So many bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, FileError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next byte, if the file does not end here.
    pub(super) fn byte_or_end(&mut self) -> Result<Option<u8>, FileError> {
        let mut byte = [0];
        loop {
            match self.inner.read(&mut byte) {
                Ok(0) => return Ok(None),
                Ok(_) => {
                    self.at += 1;
                    return Ok(Some(byte[0]));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::Io(error)),
            }
        }
    }

    /// So many bytes, if they are not more than `bytes_max`; else only the first ones.
    pub(super) fn bytes(&mut self, count: u64, bytes_max: u64) -> Result<Bounded, FileError> {
        let is_kept = count <= bytes_max;
        let mut kept = Vec::new();
        let mut left = count;
        let mut piece = [0; 4096];
        while left > 0 {
            let length = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            self.fill(&mut piece[..length])?;
            left -= length as u64;
            let wanted = if is_kept {
                length
            } else {
                length.min(KEPT_BYTES - kept.len())
            };
            kept.extend_from_slice(&piece[..wanted]);
        }
        Ok(if is_kept {
            Bounded::All(kept)
        } else {
            Bounded::TooMany {
                bytes: count,
                first: kept,
            }
        })
    }

    /// Reads so many bytes and forgets them.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), FileError> {
        self.bytes(count, 0).map(drop)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), FileError> {
        match self.inner.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(FileError::Ends { at: self.at }),
            Err(error) => Err(FileError::Io(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_up_to_a_limit_and_read_in_any_case() {
        let file = [7; 10_000];
        let mut reader = FileReader::new(&file[..]);
        assert_eq!(reader.bytes(3, 3).expect("there"), Bounded::All(vec![7; 3]));
        let too_many = Bounded::TooMany {
            bytes: 9_000,
            first: vec![7; KEPT_BYTES],
        };
        assert_eq!(reader.bytes(9_000, 8_999).expect("there"), too_many);
        reader.skip(996).expect("there");
        assert_eq!(reader.byte_or_end().expect("there"), Some(7));
        assert_eq!(reader.byte_or_end().expect("the end"), None);
    }

    #[test]
    fn a_length_that_is_a_lie_is_an_end_that_comes_early() {
        let mut reader = FileReader::new(&b"abc"[..]);
        let ended = reader.bytes(u64::MAX, u64::MAX);
        assert!(matches!(ended, Err(FileError::Ends { at: 0 })), "{ended:?}");
    }
}
