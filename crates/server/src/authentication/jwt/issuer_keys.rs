//! Where the keys of an issuer are from: a file, or a server that is asked again and again.
//!
//! Keys that are there stay until others have come that can be used. A server that cannot be reached is no reason not to start.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::{Notify, watch};

use super::key_set::{KeySet, KeySetError};
use crate::authentication::AuthenticationError;
use crate::clock;
use crate::config;
use crate::https_client::{HttpError, HttpsClient, RequestLimits, TlsFiles, Url};
use crate::watched_file::WatchedFile;

/// The keys that count at the moment.
#[derive(Debug)]
pub(super) enum IssuerKeys {
    File(WatchedFile<KeySet, KeysFileError>),
    Fetched(FetchedKeys),
}

/// A file of keys that cannot be used.
#[derive(Debug, Error)]
pub enum KeysFileError {
    /// It cannot be read.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no key set.
    #[error("{}: {error}", .file.display())]
    Content {
        /// Which.
        file: PathBuf,
        /// Why.
        error: KeySetError,
    },
}

/// Keys that are fetched.
#[derive(Debug)]
pub(super) struct FetchedKeys {
    client: HttpsClient,
    refresh_interval: Duration,
    current: RefCell<Option<Arc<KeySet>>>,
    /// When the last fetch began, and whether it goes on.
    began: Cell<Option<Instant>>,
    is_under_way: Cell<bool>,
    /// A token names a key that is not known.
    wanted: Notify,
    /// How many fetches have ended.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Error)]
enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the status is {0}, not 200")]
    Status(u16),
    #[error(transparent)]
    Content(#[from] KeySetError),
}

/// An issuer with a key for each of its customers needs some; all identity providers have less.
const KEYS_BYTES_MAX: usize = 256 * 1_024;

/// Between two fetches for keys that are not known: whoever makes up names of keys must not make the issuer busy.
const UNKNOWN_KEY_EVERY: Duration = Duration::from_secs(30);

/// After a fetch that failed; twice as long after each further one.
const AGAIN_LEAST: Duration = Duration::from_secs(1);

/// At most.
const AGAIN_MOST: Duration = Duration::from_secs(60);

impl IssuerKeys {
    pub(super) fn load(settings: &config::Jwt) -> Result<Self, AuthenticationError> {
        if settings.keys_url.is_empty() {
            let file = WatchedFile::load("authentication.jwt", &settings.keys_file, read);
            return Ok(Self::File(file.map_err(AuthenticationError::JwtKeys)?));
        }
        let url = Url::parse(&settings.keys_url, settings.allow_http).map_err(|error| {
            AuthenticationError::Address {
                setting: "authentication.jwt.keys_url",
                error,
            }
        })?;
        let files = TlsFiles {
            ca: settings.ca.clone(),
            ..TlsFiles::default()
        };
        let limits = RequestLimits {
            timeout: settings.timeout,
            requests_max: 1,
            body_bytes_max: KEYS_BYTES_MAX,
        };
        let client = HttpsClient::new(url, files, limits).map_err(|error| AuthenticationError::Tls {
            setting: "authentication.jwt.ca",
            error,
        })?;
        Ok(Self::Fetched(FetchedKeys {
            client,
            refresh_interval: settings.refresh_interval,
            current: RefCell::default(),
            began: Cell::default(),
            is_under_way: Cell::default(),
            wanted: Notify::new(),
            ended: watch::Sender::new(0),
        }))
    }

    /// `None` while none have come.
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::File(file) => Some(file.current()),
            Self::Fetched(fetched) => fetched.current.borrow().clone(),
        }
    }

    /// Waits for other keys, if there may be others soon. False if not.
    pub(super) async fn renewed(&self) -> bool {
        match self {
            Self::File(_) => false,
            Self::Fetched(fetched) => fetched.renewed().await,
        }
    }

    pub(super) async fn keep(&self) {
        if let Self::Fetched(fetched) = self {
            fetched.keep().await;
        }
    }

    pub(super) fn look(&self) {
        if let Self::File(file) = self {
            file.look();
        }
    }

    pub(super) fn reload(&self) {
        match self {
            Self::File(file) => {
                file.reload();
            }
            Self::Fetched(fetched) if !fetched.is_under_way.get() => fetched.wanted.notify_one(),
            Self::Fetched(_) => {}
        }
    }
}

impl FetchedKeys {
    async fn keep(&self) {
        let mut again = AGAIN_LEAST;
        loop {
            let wait = match self.fetch().await {
                Ok(keys) => {
                    if again > AGAIN_LEAST || self.current.borrow().is_none() {
                        tracing::info!(keys = keys.len(), "fetched the keys of authentication.jwt");
                    }
                    self.current.replace(Some(Arc::new(keys)));
                    again = AGAIN_LEAST;
                    self.refresh_interval
                }
                Err(error) => {
                    if again == AGAIN_LEAST {
                        let has_keys = self.current.borrow().is_some();
                        tracing::error!(%error, has_keys, "cannot fetch the keys of authentication.jwt: those that are there hold");
                    }
                    let wait = again;
                    again = (again * 2).min(AGAIN_MOST);
                    wait
                }
            };
            self.is_under_way.set(false);
            self.ended.send_modify(|ended| *ended += 1);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        self.began.set(Some(clock::instant()));
        self.is_under_way.set(true);
        let response = self.client.get().await?;
        if response.status != 200 {
            return Err(FetchError::Status(response.status));
        }
        Ok(KeySet::parse(&response.body)?)
    }

    async fn renewed(&self) -> bool {
        let mut ended = self.ended.subscribe();
        if !self.is_under_way.get() {
            let began = self.began.get();
            if began.is_some_and(|began| clock::instant().duration_since(began) < UNKNOWN_KEY_EVERY) {
                return false;
            }
            self.wanted.notify_one();
        }
        ended.changed().await.is_ok()
    }
}

fn read(file: &Path) -> Result<KeySet, KeysFileError> {
    let json = crate::text_file::read(file).map_err(|error| KeysFileError::Unreadable {
        file: file.to_owned(),
        error,
    })?;
    KeySet::parse(json.as_bytes()).map_err(|error| KeysFileError::Content {
        file: file.to_owned(),
        error,
    })
}
