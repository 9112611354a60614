//! Policies from files, on a thread that reads them again when they change. What they mean is decided in
//! `mqtt::authorization`, and where they are asked is the node's business.
//!
//! Invariant: the node has one policy for each name of the settings, always; a file that cannot be used stops the server while
//! it starts, and changes nothing later.

mod document;
mod fields;
mod file;
mod mistake;

use std::io;

use mqtt::policies::{NamedPolicy, Policies, PolicyId};
use protocol::Text;
use thiserror::Error;
use tokio::sync::watch;

pub use mqtt::authorization as rules;
pub use mqtt::authorization::{Policy, Subject};
pub use mqtt::principal::Attributes;

pub use self::file::{FILE_BYTES_MAX, read};
pub use self::mistake::{Mistake, PolicyFileError};
use crate::config::Config;
use crate::self_test;
use crate::side_thread::{Look, Looks, SideThread};
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

/// The policy of the client inside the server, which is behind those of the settings.
pub(crate) fn self_test_policy_id(config: &Config) -> PolicyId {
    let place = u16::try_from(config.authorization.len());
    PolicyId(place.expect("the settings have 256 policies at most"))
}

/// The thread while it runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AuthorizationThread {
    _thread: SideThread,
}

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
        Policies::new(named.chain([self_test::policy()]).collect())
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
        let work = move |looks| async move { run(&files, &policies, looks).await };
        let thread = SideThread::prepare()?.start("authorization", work)?;
        Ok((Some(Self { _thread: thread }), replaced))
    }
}

async fn run(files: &PolicyFiles, policies: &watch::Sender<Policies>, mut looks: Looks) {
    loop {
        let is_new = match looks.next().await {
            Look::Reload => files.reload(),
            Look::ForChanges => files.look(),
        };
        if is_new {
            policies.send_replace(files.policies());
        }
    }
}
