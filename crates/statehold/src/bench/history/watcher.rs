//! A client that watches the keys of a round, and writes down what it was told.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::protocol::state_store::{Notification, Reply, Request};

use super::Shared;
use super::asker::{KEYS, KINDS};
use super::caller::Caller;
use super::log::{self, Watched};
use crate::bench::clock;
use crate::bench::random::Random;

/// How long a watcher waits at once.
const LISTEN: Duration = Duration::from_millis(100);

/// How many keys it watches.
const WATCHED: u64 = 4;

pub(super) async fn run(number: u32, mut random: Random, shared: Rc<Shared>) -> anyhow::Result<()> {
    let mut watcher = Watcher {
        caller: Caller::new("watcher", number, &shared)?,
        open: BTreeMap::new(),
    };
    while !shared.is_over.get() {
        if watcher.caller.connect().await {
            while !shared.is_over.get() && watcher.watch_round(&mut random).await? {}
        }
        watcher.close(None)?;
    }
    Ok(())
}

struct Watcher {
    caller: Caller,
    /// What is watched now.
    open: BTreeMap<Vec<u8>, Watched>,
}

impl Watcher {
    /// Watches some keys until the round is over. False: the connection is lost.
    async fn watch_round(&mut self, random: &mut Random) -> anyhow::Result<bool> {
        let shared = Rc::clone(&self.caller.shared);
        let now = clock::now();
        let (round, end) = (shared.round(now), shared.end_of_round(now));
        for _ in 0..WATCHED {
            let kind = super::caller::one_of(random, &KINDS);
            let key = shared.key(round, kind, random.below(KEYS));
            if !self.register(key).await? {
                return Ok(false);
            }
        }
        while clock::now() < end && !shared.is_over.get() {
            let alive = self.caller.listen(end.min(clock::now() + LISTEN)).await?;
            self.take();
            if !alive {
                return Ok(false);
            }
        }
        self.stop_all().await
    }

    async fn register(&mut self, key: String) -> anyhow::Result<bool> {
        if self.open.contains_key(key.as_bytes()) {
            return Ok(true);
        }
        let request = key_notify(&key, false);
        match self.caller.ask_here(&request).await? {
            None => return Ok(false),
            // It may be registered nevertheless, but was not told so.
            Some(answer) if answer.reply != Reply::Ok => return Ok(true),
            Some(_) => {}
        }
        let registered = self.caller.shared.moment(clock::now());
        // A change may have come together with the answer.
        let watched = Watched {
            key: key.clone(),
            registered,
            stopped: None,
            changes: Vec::new(),
        };
        self.open.insert(key.into_bytes(), watched);
        self.take();
        Ok(true)
    }

    /// Ends all watches. What was changed before must be there.
    async fn stop_all(&mut self) -> anyhow::Result<bool> {
        let keys: Vec<Vec<u8>> = self.open.keys().cloned().collect();
        for key in keys {
            let stopped = clock::now();
            let name = String::from_utf8_lossy(&key).into_owned();
            let answer = self.caller.ask_here(&key_notify(&name, true)).await?;
            self.take();
            // Whoever was registered and is not any more should have been told of everything all the same.
            let is_stopped = |reply: &Reply| matches!(reply, Reply::Ok | Reply::NotWatched);
            if !answer.is_some_and(|answer| is_stopped(&answer.reply)) {
                return Ok(false);
            }
            self.close_one(&key, Some(stopped))?;
        }
        Ok(true)
    }

    fn take(&mut self) {
        for notified in self.caller.take_notified() {
            let at = self.caller.shared.moment(notified.at);
            let Some(watched) = self.open.get_mut(&notified.key) else {
                continue;
            };
            let value = match &notified.change {
                Notification::Set { value } => Some(value.as_ref()),
                Notification::Delete => None,
            };
            watched.changes.push(log::change(at, value, &notified.version));
        }
    }

    fn close(&mut self, stopped: Option<Instant>) -> anyhow::Result<()> {
        self.take();
        let keys: Vec<Vec<u8>> = self.open.keys().cloned().collect();
        keys.iter().try_for_each(|key| self.close_one(key, stopped))
    }

    fn close_one(&mut self, key: &[u8], stopped: Option<Instant>) -> anyhow::Result<()> {
        let Some(mut watched) = self.open.remove(key) else {
            return Ok(());
        };
        let shared = &self.caller.shared;
        watched.stopped = stopped.map(|at| shared.moment(at));
        shared.state.borrow_mut().log.watched(watched)
    }
}

fn key_notify(key: &str, stop: bool) -> Request {
    Request::KeyNotify {
        key: Bytes::copy_from_slice(key.as_bytes()),
        stop,
    }
}
