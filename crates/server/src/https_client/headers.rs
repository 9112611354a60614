//! Headers that settings give to requests: some said there, some in files because they are secrets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hyper::header::{HeaderName, HeaderValue};
use thiserror::Error;

use super::header_file::{self, HeaderFileError};
use crate::watched_file::WatchedFile;

/// Headers of all requests to one server.
#[derive(Debug)]
pub(crate) struct Headers {
    said: Vec<(HeaderName, HeaderValue)>,
    secret: Vec<(HeaderName, WatchedFile<HeaderValue, HeaderFileError>)>,
}

/// A header that no request can have.
#[derive(Debug, Error)]
pub enum HeadersError {
    /// The file with its value cannot be used.
    #[error("`{setting}.header_files`: {error}")]
    File {
        /// As in `authentication.custom`.
        setting: &'static str,
        /// Why.
        error: HeaderFileError,
    },
    /// Its name or value has characters that no header has.
    #[error("`{setting}.headers`: a name or value has characters that no header has")]
    Said {
        /// As in `authentication.custom`.
        setting: &'static str,
    },
}

impl Headers {
    /// `setting`: the table that they are in, as in `authentication.custom`.
    pub(crate) fn load(
        setting: &'static str,
        said: &BTreeMap<String, String>,
        files: &BTreeMap<String, PathBuf>,
    ) -> Result<Self, HeadersError> {
        let name = |name: &str| name.parse().map_err(|_| HeadersError::Said { setting });
        let secret = files.iter().map(|(header, file)| {
            let value = WatchedFile::load(setting, file, header_file::plain);
            let value = value.map_err(|error| HeadersError::File { setting, error })?;
            Ok((name(header)?, value))
        });
        let said = said.iter().map(|(header, value)| {
            let value = value.parse().map_err(|_| HeadersError::Said { setting })?;
            Ok((name(header)?, value))
        });
        Ok(Self {
            said: said.collect::<Result<_, HeadersError>>()?,
            secret: secret.collect::<Result<_, HeadersError>>()?,
        })
    }

    /// As they are at the moment.
    pub(crate) fn current(&self) -> Vec<(HeaderName, HeaderValue)> {
        let secret = self
            .secret
            .iter()
            .map(|(name, file)| (name.clone(), HeaderValue::clone(&file.current())));
        self.said.iter().cloned().chain(secret).collect()
    }

    /// Reads files again that have changed.
    pub(crate) fn look(&self) {
        self.secret.iter().for_each(|(_, file)| {
            file.look();
        });
    }

    /// Reads all files again.
    pub(crate) fn reload(&self) {
        self.secret.iter().for_each(|(_, file)| {
            file.reload();
        });
    }
}
