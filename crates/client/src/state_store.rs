//! The state store of the server.

use std::time::Duration;

use bytes::Bytes;
use protocol::hlc::Hlc;
use protocol::state_store::{Condition, Dialect, ErrorText, Reply, Request};

use crate::client::Client;
use crate::core::{Operation, OperationError, Outcome};
use crate::watch::Watch;

/// The state store of the server that a client is connected to. Cheap to clone.
///
/// Keys are one byte or more, values any bytes. Every write has a *version*, which orders the writes of a key.
#[derive(Debug, Clone)]
pub struct StateStore {
    client: Client,
}

/// Why a request had no effect, or an unknown one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store refused the request; nothing changed.
    #[error("the state store refused the request: {}", .0.text(Dialect::Sdk))]
    Refused(ErrorText),
    /// The request did not get through, or its answer did not come back. After
    /// [`TimedOut`](OperationError::TimedOut) and [`Ended`](OperationError::Ended) it may have been executed. A request
    /// that has timed out is not executed later, a second of rounding and what the server has taken in aside.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

/// How to set a key.
///
/// ```
/// use std::time::Duration;
/// use statehold_client::SetOptions;
///
/// let lease = SetOptions::new().if_absent_or_equal().expires_in(Duration::from_secs(10));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetOptions {
    condition: Condition,
    expires_in: Option<u64>,
    fencing: Option<Hlc>,
}

/// Whether a key was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetOutcome {
    /// It was.
    Stored {
        /// Of this write.
        version: Hlc,
    },
    /// The condition was not met.
    NotApplied {
        /// Of the value that the key has, if the server said.
        version: Option<Hlc>,
    },
}

/// A value with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// Of the write that set it.
    pub version: Hlc,
}

/// Whether a key was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    /// It was.
    Deleted {
        /// Of the value that it had, if the server said.
        version: Option<Hlc>,
    },
    /// There was no such key.
    Missing,
    /// It has another value than the one given to `vdel`.
    OtherValue {
        /// Of the value that it has, if the server said.
        version: Option<Hlc>,
    },
}

impl StateStore {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client that carries the requests.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sets a key.
    pub async fn set(
        &self,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
        options: SetOptions,
    ) -> Result<SetOutcome, StoreError> {
        self.set_within(self.client.timeout(), key.into(), value.into(), options)
            .await
    }

    pub(crate) async fn set_within(
        &self,
        timeout: Duration,
        key: Bytes,
        value: Bytes,
        options: SetOptions,
    ) -> Result<SetOutcome, StoreError> {
        let SetOptions {
            condition,
            expires_in,
            fencing,
        } = options;
        let request = Request::Set {
            key,
            value,
            condition,
            expires_in,
        };
        match self.request(timeout, request, fencing).await? {
            (Reply::Ok, Some(version)) => Ok(SetOutcome::Stored { version }),
            (Reply::NotApplied, version) => Ok(SetOutcome::NotApplied { version }),
            _ => Err(OperationError::MalformedReply.into()),
        }
    }

    /// The value of a key, or `None` if there is no such key.
    pub async fn get(&self, key: impl Into<Bytes>) -> Result<Option<Entry>, StoreError> {
        let request = Request::Get { key: key.into() };
        match self.request(self.client.timeout(), request, None).await? {
            (Reply::Value(value), Some(version)) => Ok(Some(Entry { value, version })),
            (Reply::Missing, _) => Ok(None),
            _ => Err(OperationError::MalformedReply.into()),
        }
    }

    /// Deletes a key. A fenced one needs a fencing token that is not older.
    pub async fn del(&self, key: impl Into<Bytes>, fencing: Option<Hlc>) -> Result<Deletion, StoreError> {
        let request = Request::Del { key: key.into() };
        self.delete(self.client.timeout(), request, fencing).await
    }

    /// Deletes a key if it has this value.
    pub async fn vdel(
        &self,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
        fencing: Option<Hlc>,
    ) -> Result<Deletion, StoreError> {
        let request = Request::VDel {
            key: key.into(),
            value: value.into(),
        };
        self.delete(self.client.timeout(), request, fencing).await
    }

    pub(crate) async fn vdel_within(
        &self,
        timeout: Duration,
        key: Bytes,
        value: Bytes,
    ) -> Result<Deletion, StoreError> {
        self.delete(timeout, Request::VDel { key, value }, None).await
    }

    /// Lists the keys that match a glob: `*` any sequence, `?` one character, `[ab]`, `[a-z]`, `[!a]`.
    pub fn scan(&self, pattern: impl Into<Bytes>) -> Scan {
        Scan {
            store: self.clone(),
            pattern: pattern.into(),
            next: Next::First,
        }
    }

    /// Watches a key: every change from here on comes out of the [`Watch`].
    pub async fn watch(&self, key: impl Into<Bytes>) -> Result<Watch, StoreError> {
        let (stream, sender, receiver) = self.client.new_stream();
        let operation = Operation::Watch {
            stream,
            key: key.into(),
        };
        match self.client.submit(operation, Some((stream, sender))).await? {
            Outcome::Watching => Ok(Watch::new(self.client.clone(), stream, receiver)),
            Outcome::Replied {
                reply: Reply::Error(error),
                ..
            } => Err(StoreError::Refused(error)),
            _ => Err(OperationError::MalformedReply.into()),
        }
    }

    async fn delete(
        &self,
        timeout: Duration,
        request: Request,
        fencing: Option<Hlc>,
    ) -> Result<Deletion, StoreError> {
        match self.request(timeout, request, fencing).await? {
            (Reply::Deleted(0), _) => Ok(Deletion::Missing),
            (Reply::Deleted(_), version) => Ok(Deletion::Deleted { version }),
            (Reply::OtherValue, version) => Ok(Deletion::OtherValue { version }),
            _ => Err(OperationError::MalformedReply.into()),
        }
    }

    async fn request(
        &self,
        timeout: Duration,
        request: Request,
        fencing: Option<Hlc>,
    ) -> Result<(Reply, Option<Hlc>), StoreError> {
        match self
            .client
            .submit_within(timeout, Operation::Store { request, fencing }, None)
            .await?
        {
            Outcome::Replied {
                reply: Reply::Error(error),
                ..
            } => Err(StoreError::Refused(error)),
            Outcome::Replied { reply, version } => Ok((reply, version)),
            _ => Err(OperationError::MalformedReply.into()),
        }
    }
}

impl SetOptions {
    /// Sets the key whatever it was, for ever.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only if there is no such key (`NX`).
    #[must_use]
    pub fn if_absent(mut self) -> Self {
        self.condition = Condition::NotExists;
        self
    }

    /// Only if there is no such key, or it has the value being set (`NEX`): to renew a lease.
    #[must_use]
    pub fn if_absent_or_equal(mut self) -> Self {
        self.condition = Condition::NotExistsOrEqual;
        self
    }

    /// Only if there is no such key, or it has this value (`NEX value`): compare and set.
    #[must_use]
    pub fn if_absent_or(mut self, value: impl Into<Bytes>) -> Self {
        self.condition = Condition::NotExistsOrEqualTo(value.into());
        self
    }

    /// The key is deleted after this long, in whole milliseconds, 1 at least (`PX`). Without it an earlier
    /// expiry is cleared.
    #[must_use]
    pub fn expires_in(mut self, expires_in: Duration) -> Self {
        let milliseconds = u64::try_from(expires_in.as_millis()).unwrap_or(u64::MAX);
        self.expires_in = Some(milliseconds.clamp(1, Request::EXPIRES_IN_MAX_MS));
        self
    }

    /// Protects the key: from now on it takes no write without a token, or with an older one.
    #[must_use]
    pub fn fencing(mut self, token: Hlc) -> Self {
        self.fencing = Some(token);
        self
    }
}

/// The keys that match a pattern, page by page. A key that exists during the whole scan is listed once.
#[derive(Debug)]
pub struct Scan {
    store: StateStore,
    pattern: Bytes,
    next: Next,
}

#[derive(Debug)]
enum Next {
    First,
    Page(Bytes),
    Done,
}

impl Scan {
    /// The next page, which may be empty, or `None` after the last one.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Bytes>>, StoreError> {
        let token = match &self.next {
            Next::First => None,
            Next::Page(token) => Some(token.clone()),
            Next::Done => return Ok(None),
        };
        let request = Request::Scan {
            pattern: self.pattern.clone(),
            token,
        };
        let (Reply::Keys { keys, token }, _) = self
            .store
            .request(self.store.client.timeout(), request, None)
            .await?
        else {
            return Err(OperationError::MalformedReply.into());
        };
        self.next = token.map_or(Next::Done, Next::Page);
        Ok(Some(keys))
    }
}
