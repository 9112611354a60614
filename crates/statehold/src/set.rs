//! `statehold set`

use std::time::Duration;

use clap::Args;
use client::{Hlc, SetOptions, SetOutcome};

use crate::exit::Exit;
use crate::input::ValueArgs;
use crate::output::{self, Json};
use crate::runtime::block_on;
use crate::server::ServerArgs;
use crate::{duration, get};

/// Set a key.
///
/// Prints the version of the write. Exit code 1: the condition was not met.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Set {
    /// The key
    key: String,
    #[command(flatten)]
    value: ValueArgs,
    /// Only if there is no such key
    #[arg(long, group = "condition")]
    nx: bool,
    /// Only if there is no such key, or it has this value already
    #[arg(long, group = "condition")]
    nex: bool,
    /// Only if there is no such key, or it has the value OLD: compare and set
    #[arg(long, group = "condition", value_name = "OLD")]
    if_value: Option<String>,
    /// Delete the key after this long
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    expires_in: Option<Duration>,
    /// The fencing token: from now on the key takes no write with an older one
    #[arg(long, visible_alias = "ft", value_name = "VERSION", value_parser = get::parse_version)]
    fencing_token: Option<Hlc>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Set {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let options = self.options();
        let value = self.value.read()?;
        let outcome = block_on(async {
            let store = self.server.state_store().await?;
            let outcome = store.set(self.key.clone(), value, options).await?;
            store.client().disconnect().await;
            Ok(outcome)
        })?;
        let (stored, version) = match outcome {
            SetOutcome::Stored { version } => (true, Some(version)),
            SetOutcome::NotApplied { version } => (false, version),
        };
        if self.json {
            Json::new()
                .with("key", self.key)
                .with("stored", stored)
                .with_version(version.as_ref())
                .print()?;
        } else if let (true, Some(version)) = (stored, version) {
            output::line(version.to_string())?;
        }
        Ok(if stored { Exit::Done } else { Exit::NotFound })
    }

    fn options(&self) -> SetOptions {
        let mut options = SetOptions::new();
        if self.nx {
            options = options.if_absent();
        }
        if self.nex {
            options = options.if_absent_or_equal();
        }
        if let Some(value) = &self.if_value {
            options = options.if_absent_or(value.clone());
        }
        if let Some(expires_in) = self.expires_in {
            options = options.expires_in(expires_in);
        }
        if let Some(token) = &self.fencing_token {
            options = options.fencing(token.clone());
        }
        options
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold set greeting hello
  statehold set config --file config.json
  date | statehold set last-run
  statehold set lease me --nex --expires-in 10s     take or renew a lease
  statehold set counter 8 --if-value 7              compare and set
  statehold set pump/speed 7 --fencing-token \"$STATEHOLD_FENCING_TOKEN\"";
