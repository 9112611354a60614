//! `statehold del`

use clap::Args;
use client::{Deletion, Hlc};

use crate::exit::Exit;
use crate::get;
use crate::output::Json;
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// Delete a key.
///
/// Exit code 1: there is no such key.
#[derive(Debug, Args)]
pub(crate) struct Del {
    /// The key
    key: String,
    /// The fencing token, for a key that is protected by one
    #[arg(long, visible_alias = "ft", value_name = "VERSION", value_parser = get::parse_version)]
    fencing_token: Option<Hlc>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Del {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let deletion = block_on(async {
            let store = self.server.state_store().await?;
            let deletion = store.del(self.key.clone(), self.fencing_token).await?;
            store.client().disconnect().await;
            Ok(deletion)
        })?;
        show(self.key, &deletion, self.json)
    }
}

/// Reports how a DEL or a VDEL ended.
pub(crate) fn show(key: String, deletion: &Deletion, json: bool) -> anyhow::Result<Exit> {
    let (outcome, version) = match deletion {
        Deletion::Deleted { version } => ("deleted", version.as_ref()),
        Deletion::Missing => ("missing", None),
        Deletion::OtherValue { version } => ("other value", version.as_ref()),
    };
    if json {
        Json::new()
            .with("key", key)
            .with("outcome", outcome)
            .with_version(version)
            .print()?;
    }
    Ok(if matches!(deletion, Deletion::Deleted { .. }) {
        Exit::Done
    } else {
        Exit::NotFound
    })
}
