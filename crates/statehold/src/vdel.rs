//! `statehold vdel`

use clap::Args;
use client::Hlc;

use crate::exit::Exit;
use crate::input::ValueArgs;
use crate::runtime::block_on;
use crate::server::ServerArgs;
use crate::{del, get};

/// Delete a key if it has a given value.
///
/// Exit code 1: there is no such key, or it has another value.
#[derive(Debug, Args)]
pub(crate) struct Vdel {
    /// The key
    key: String,
    #[command(flatten)]
    value: ValueArgs,
    /// The fencing token, for a key that is protected by one
    #[arg(long, visible_alias = "ft", value_name = "VERSION", value_parser = get::parse_version)]
    fencing_token: Option<Hlc>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Vdel {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let value = self.value.read()?;
        let deletion = block_on(async {
            let store = self.server.state_store().await?;
            let deletion = store.vdel(self.key.clone(), value, self.fencing_token).await?;
            store.client().disconnect().await;
            Ok(deletion)
        })?;
        del::show(self.key, &deletion, self.json)
    }
}
