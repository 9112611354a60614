//! `statehold get`

use std::io::IsTerminal;

use clap::Args;
use client::Hlc;

use crate::exit::Exit;
use crate::output::{self, Json};
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// Write the value of a key to stdout.
///
/// The value is written byte for byte; on a terminal, controls in it are escaped and a line break follows. Exit code 1: there is no such key.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    /// The key
    key: String,
    /// Print the version instead of the value
    #[arg(long, conflicts_with = "json")]
    version_only: bool,
    /// Print a JSON object with key, value (value_hex if it is not UTF-8) and version
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Get {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let found = block_on(async {
            let store = self.server.state_store().await?;
            let found = store.get(self.key.clone()).await?;
            store.client().disconnect().await;
            Ok(found)
        })?;
        let Some(entry) = found else {
            return Ok(Exit::NotFound);
        };
        if self.json {
            let json = Json::new()
                .with("key", self.key)
                .with_bytes("value", &entry.value);
            json.with_version(Some(&entry.version)).print()?;
        } else if self.version_only {
            output::line(entry.version.to_string())?;
        } else if std::io::stdout().is_terminal() {
            output::line(&entry.value)?;
        } else {
            output::raw(&entry.value)?;
        }
        Ok(Exit::Done)
    }
}

/// Parses a version or fencing token as other commands print it.
pub(crate) fn parse_version(text: &str) -> Result<Hlc, String> {
    Hlc::parse(text)
        .map_err(|error| format!("{text:?} is not a version such as 1696374425000:1:StateStore: {error}"))
}

const EXAMPLES: &str = "\
Examples:
  statehold get greeting
  statehold get config > config.json
  if statehold get maintenance > /dev/null; then exit; fi";
