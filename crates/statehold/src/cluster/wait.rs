//! Waiting for a change of a cluster, with its progress on the terminal.

use std::time::{Duration, Instant};

use clap::Args;
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
    /// Begins to wait; `None`: nobody wants to.
    pub(super) fn begin<'a>(&self, client: &'a AdminClient) -> Option<Wait<'a>> {
        let wait = Wait {
            client,
            until: clock::instant() + self.wait,
            said: String::new(),
        };
        (!self.wait.is_zero()).then_some(wait)
    }

    /// Waits for one change, which goes on by itself.
    pub(super) async fn until(
        &self,
        client: &AdminClient,
        look: impl Fn(Cluster<'_>) -> Look,
    ) -> anyhow::Result<Exit> {
        let Some(mut wait) = self.begin(client) else {
            return Ok(Exit::Done);
        };
        if wait.until(look).await? {
            return Ok(Exit::Done);
        }
        exit::note(GOES_ON);
        Ok(Exit::NoAnswer)
    }
}

impl Wait<'_> {
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
