//! Waiting for a change of a cluster, with its progress on the terminal.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use server::{AdminClient, AdminClientError, clock};

use super::show::Cluster;
use crate::duration;
use crate::exit::{self, Exit};

/// How long a command stays.
#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// Wait at most so long until it is done; after it, it goes on without this command (0s: do not wait)
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = duration::parse)]
    wait: Duration,
}

/// Result of a look at a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    Done(String),
    Waits(String),
}

/// Wait for one change or several, until a point in time.
pub(super) struct Wait<'a> {
    client: &'a AdminClient,
    until: Instant,
    said: String,
}

/// How often a command that waits looks again.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Last line of a command whose time is over.
pub(super) const GOES_ON: &str = "it is not done yet, and goes on without this command";

impl WaitArgs {
    /// Whether the command ends as soon as its change is decided.
    pub(super) fn is_none(&self) -> bool {
        self.wait.is_zero()
    }

    /// Begins to wait.
    pub(super) fn begin<'a>(&self, client: &'a AdminClient) -> Wait<'a> {
        Wait {
            client,
            until: clock::instant() + self.wait,
            said: String::new(),
        }
    }

    /// Waits for one change, which goes on by itself.
    pub(super) async fn finish(
        &self,
        mut wait: Wait<'_>,
        look: impl Fn(Cluster<'_>) -> Look,
    ) -> anyhow::Result<Exit> {
        if self.is_none() || wait.until(look).await? {
            return Ok(Exit::Done);
        }
        exit::note(GOES_ON);
        Ok(Exit::NoAnswer)
    }
}

impl Wait<'_> {
    /// Asks for a change; again while nobody decides, as it is between two leaders. `taken` sees in the cluster that the change was
    /// decided and the answer was lost, and says so.
    ///
    /// # Errors
    /// If the change is refused, or the time is over.
    pub(super) async fn ask(
        &mut self,
        path: &str,
        asked: &Value,
        taken: impl Fn(Cluster<'_>) -> Option<String>,
    ) -> anyhow::Result<()> {
        loop {
            let error = match self.client.post(path, asked).await {
                Ok(answer) => {
                    // What the server has decided.
                    answer["taken"].as_str().into_iter().for_each(exit::note);
                    return Ok(());
                }
                Err(error) => error,
            };
            let is_passing = matches!(error, AdminClientError::Refused { status: 503, .. });
            if !is_passing || clock::instant() >= self.until {
                return Err(error.into());
            }
            self.say(format!("{error}; trying again"));
            tokio::time::sleep(LOOK_EVERY).await;
            let cluster = self.client.get("/cluster").await;
            if let Some(text) = cluster.ok().and_then(|cluster| taken(Cluster(&cluster))) {
                exit::note(&text);
                return Ok(());
            }
        }
    }

    /// Looks until it is done, and says what has changed meanwhile. False: the time is over.
    pub(super) async fn until(&mut self, look: impl Fn(Cluster<'_>) -> Look) -> anyhow::Result<bool> {
        loop {
            match self.client.get("/cluster").await {
                Ok(cluster) => match look(Cluster(&cluster)) {
                    Look::Done(text) => {
                        exit::note(&text);
                        return Ok(true);
                    }
                    Look::Waits(text) => self.say(text),
                },
                // A node may be busy for a moment.
                Err(AdminClientError::NoAnswer { .. } | AdminClientError::Refused { status: 503, .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if clock::instant() >= self.until {
                return Ok(false);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn say(&mut self, text: String) {
        if text != self.said {
            exit::note(&text);
            self.said = text;
        }
    }
}
