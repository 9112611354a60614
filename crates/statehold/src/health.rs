//! `statehold health`: what a container runtime asks.

use clap::Args;
use serde_json::json;

use crate::admin::AdminArgs;
use crate::exit::{self, Exit};
use crate::output;

/// Ask a server whether it works.
///
/// Ends with 0 if it does, and with 1 if it does not or cannot be asked, as container runtimes want it. Without --ready a server is healthy that
/// recovers; with it only one to which clients should be sent. No token is needed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Health {
    /// Whether clients should be sent there, rather than whether it is alive
    #[arg(long)]
    ready: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

impl Health {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let page = if self.ready { "/readyz" } else { "/healthz" };
        let said = self.admin.run(async |client| Ok(client.text(page).await?));
        let (is_well, said) = match said {
            Ok(said) => (true, said.trim_end().to_owned()),
            Err(error) => (false, exit::told(&error)),
        };
        if self.json {
            output::line(json!({ "healthy": is_well, "said": said }).to_string())?;
        } else if is_well {
            output::line(&said)?;
        } else {
            exit::note(&said);
        }
        // A container runtime knows 0 and 1.
        Ok(if is_well { Exit::Done } else { Exit::NotFound })
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold health
  statehold health --ready --admin http://127.0.0.1:8080
  HEALTHCHECK CMD [\"statehold\", \"health\"]          in a Dockerfile";
