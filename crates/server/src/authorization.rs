//! Policies from files, on a thread that reads them again when they change. What they mean is decided in
//! `broker::authorization`, and where they are asked is the node's business.
//!
//! Invariant: the node has one policy for each name of the settings, always; a file that cannot be used stops the server while
//! it starts, and changes nothing later.

mod document;
mod fields;
mod file;
mod mistake;

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use broker::{NamedPolicy, Policies};
use protocol::Text;
use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;

pub use broker::authorization as rules;
pub use broker::{Attributes, Policy, Subject};

pub use self::file::{FILE_BYTES_MAX, read};
pub use self::mistake::{Mistake, PolicyFileError};
use crate::audit::Audit;
use crate::config::Config;
use crate::watched_file::WatchedFile;

/// A policy of the settings cannot be used.
#[derive(Debug, Error)]
#[error("`authorization.{name}.file`: {error}")]
pub struct AuthorizationError {
    /// Its name.
    pub name: String,
    /// Why.
    pub error: PolicyFileError,
}

/// The files of all policies, in the order of their ids.
#[derive(Debug)]
pub(crate) struct PolicyFiles(Vec<(Text, WatchedFile<Policy, PolicyFileError>)>);

/// The thread while it runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AuthorizationThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How often files are looked at. A change counts when two looks have found the same.
const LOOK_EVERY: Duration = Duration::from_secs(2);

impl PolicyFiles {
    /// Reads the files of the settings.
    pub(crate) fn load(config: &Config) -> Result<Self, AuthorizationError> {
        let mut files = Vec::new();
        for (name, settings) in &config.authorization {
            let watched = WatchedFile::load(format!("authorization.{name}"), &settings.file, read);
            let watched = watched.map_err(|error| AuthorizationError {
                name: name.clone(),
                error,
            })?;
            let text = Text::new(name.as_str()).expect("names are letters, digits, - and _");
            files.push((text, watched));
        }
        Ok(Self(files))
    }

    /// What holds at the moment.
    pub(crate) fn policies(&self) -> Policies {
        let named = self.0.iter().map(|(name, file)| NamedPolicy {
            name: name.clone(),
            policy: file.current(),
        });
        Policies::new(named.collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads again what has changed. True if any policy is another one now.
    fn look(&self) -> bool {
        self.0
            .iter()
            .fold(false, |is_new, (_, file)| file.look() | is_new)
    }

    /// Reads all again. True if any policy is another one now.
    fn reload(&self) -> bool {
        self.0
            .iter()
            .fold(false, |is_new, (_, file)| file.reload() | is_new)
    }
}

impl AuthorizationThread {
    /// Starts the thread, if there is a file to look at; other policies come out of the receiver when there are.
    pub(crate) fn start(files: PolicyFiles) -> io::Result<(Option<Self>, watch::Receiver<Policies>)> {
        let (policies, replaced) = watch::channel(files.policies());
        if files.is_empty() {
            return Ok((None, replaced));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        // From here on: who asks for a reload while the server starts does not end it.
        let hangup = {
            let _within = runtime.enter();
            signal(SignalKind::hangup())?
        };
        let audit = Audit::of_thread();
        let work = move || {
            audit.adopt_thread();
            runtime.block_on(async {
                tokio::select! {
                    () = run(&files, &policies, hangup) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("authorization".to_owned())
            .spawn(work)?;
        let started = Self {
            stop: Some(stop),
            thread: Some(thread),
        };
        Ok((Some(started), replaced))
    }
}

impl Drop for AuthorizationThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn run(files: &PolicyFiles, policies: &watch::Sender<Policies>, mut hangup: Signal) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_new = tokio::select! {
            Some(()) = hangup.recv() => files.reload(),
            _ = look.tick() => files.look(),
        };
        if is_new {
            policies.send_replace(files.policies());
        }
    }
}
