//! Watched keys: registered with the store once for all streams that watch a key, and again on every new
//! connection, because the store forgets registrations with the connection.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::Text;
use protocol::hlc::Hlc;
use protocol::state_store::topics::{notification_filter, notified_key};
use protocol::state_store::{ErrorText, Reply};

use super::operation::{OperationError, OperationId, StreamId};
use super::subscriptions::Streams;

#[derive(Debug)]
pub(super) struct Watches {
    client_id: Text,
    keys: BTreeMap<Bytes, WatchedKey>,
    /// The keys to register, with the time before which not to try.
    needed: BTreeMap<Bytes, Option<Instant>>,
    streams: BTreeMap<StreamId, Bytes>,
}

#[derive(Debug)]
struct WatchedKey {
    watchers: Vec<Watcher>,
    registration: Registration,
    /// Of the last change reported: a redelivered one is not reported again.
    last: Option<Hlc>,
}

#[derive(Debug)]
struct Watcher {
    stream: StreamId,
    /// Waits for the first registration; without it the stream is told of a gap.
    operation: Option<OperationId>,
}

/// `Needed -> Asked -> Made`, back to `Needed` when the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    Needed,
    Asked,
    Made,
}

/// What a change in a registration means for the streams of its key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Registered {
    /// Operations that end with this result.
    pub(super) operations: Vec<OperationId>,
    /// Streams that have missed changes, or that end, if the registration failed.
    pub(super) streams: Vec<StreamId>,
}

impl Watches {
    pub(super) fn new(client_id: &Text) -> Self {
        Self {
            client_id: client_id.clone(),
            keys: BTreeMap::new(),
            needed: BTreeMap::new(),
            streams: BTreeMap::new(),
        }
    }

    /// The filter of this client's notifications.
    pub(super) fn topic_filter(&self) -> Option<Text> {
        notification_filter(&self.client_id).map(|filter| filter.text().clone())
    }

    /// Adds a watcher. True if the key is registered, so that it watches from this moment.
    pub(super) fn watch(&mut self, stream: StreamId, operation: OperationId, key: Bytes) -> bool {
        let watched = self.keys.entry(key.clone()).or_insert_with(|| {
            self.needed.insert(key.clone(), None);
            WatchedKey {
                watchers: Vec::new(),
                registration: Registration::Needed,
                last: None,
            }
        });
        let is_registered = watched.registration == Registration::Made;
        let operation = (!is_registered).then_some(operation);
        watched.watchers.push(Watcher { stream, operation });
        self.streams.insert(stream, key);
        is_registered
    }

    /// Removes a watcher. The key, if it was the last one and the store has to be told.
    pub(super) fn unwatch(&mut self, stream: StreamId) -> Option<Bytes> {
        let key = self.streams.remove(&stream)?;
        let watched = self.keys.get_mut(&key)?;
        watched.watchers.retain(|watcher| watcher.stream != stream);
        if !watched.watchers.is_empty() {
            return None;
        }
        let is_known_to_the_store = watched.registration != Registration::Needed;
        self.keys.remove(&key);
        self.needed.remove(&key);
        is_known_to_the_store.then_some(key)
    }

    /// Nobody waits for `operation` any more: its stream is not a watcher.
    pub(super) fn forget(&mut self, operation: OperationId) -> Option<Bytes> {
        let mut watchers = self.keys.values().flat_map(|watched| &watched.watchers);
        let stream = watchers
            .find(|watcher| watcher.operation == Some(operation))?
            .stream;
        self.unwatch(stream)
    }

    /// The keys to register at `now`, which count as asked for.
    pub(super) fn take_needed(&mut self, now: Instant) -> Vec<Bytes> {
        let is_due = |_: &Bytes, not_before: &mut Option<Instant>| {
            not_before.is_none_or(|not_before| not_before <= now)
        };
        let due: Vec<Bytes> = self.needed.extract_if(.., is_due).map(|(key, _)| key).collect();
        for key in &due {
            if let Some(watched) = self.keys.get_mut(key) {
                watched.registration = Registration::Asked;
            }
        }
        due
    }

    /// When a registration that was put off is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.needed.values().flatten().min().copied()
    }

    /// The store registered the key.
    pub(super) fn registered(&mut self, key: &Bytes) -> Registered {
        let mut outcome = Registered::default();
        let Some(watched) = self.keys.get_mut(key) else {
            return outcome;
        };
        watched.registration = Registration::Made;
        for watcher in &mut watched.watchers {
            match watcher.operation.take() {
                Some(operation) => outcome.operations.push(operation),
                None => outcome.streams.push(watcher.stream),
            }
        }
        outcome
    }

    /// The store refused to register the key: everybody who watches it ends.
    pub(super) fn refused(&mut self, key: &Bytes) -> Registered {
        let mut outcome = Registered::default();
        let Some(watched) = self.keys.remove(key) else {
            return outcome;
        };
        for watcher in watched.watchers {
            self.streams.remove(&watcher.stream);
            match watcher.operation {
                Some(operation) => outcome.operations.push(operation),
                None => outcome.streams.push(watcher.stream),
            }
        }
        outcome
    }

    /// No answer, or the store cannot answer at the moment: to be tried again after a wait.
    pub(super) fn put_off(&mut self, now: Instant, key: &Bytes) {
        if let Some(watched) = self.keys.get_mut(key) {
            watched.registration = Registration::Needed;
            self.needed.insert(key.clone(), Some(now + RETRY_AFTER));
        }
    }

    pub(super) fn connection_lost(&mut self) {
        for (key, watched) in &mut self.keys {
            watched.registration = Registration::Needed;
            self.needed.insert(key.clone(), None);
        }
    }

    /// The key of a notification's topic, or `None` if the topic is not that of one.
    pub(super) fn key_of(&self, topic: &str) -> Option<Bytes> {
        notified_key(topic, &self.client_id).map(Bytes::from)
    }

    /// A change came: the streams to report it to; none if it was reported before.
    pub(super) fn changed(&mut self, key: &Bytes, version: Option<&Hlc>) -> Streams {
        let Some(watched) = self.keys.get_mut(key) else {
            return Streams::new();
        };
        if version.is_some() && watched.last.as_ref() >= version {
            return Streams::new();
        }
        watched.last = version.cloned();
        watched.watchers.iter().map(|watcher| watcher.stream).collect()
    }

    /// Everybody who watches something.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.streams.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }
}

/// Whether a registration that failed like this is worth another attempt.
pub(super) fn is_worth_retrying(result: &Result<Reply, OperationError>) -> bool {
    matches!(
        result,
        Ok(Reply::Error(ErrorText::Unavailable)) | Err(OperationError::TimedOut)
    )
}

/// Long enough for a group of replicas to choose a leader.
const RETRY_AFTER: Duration = Duration::from_secs(1);
