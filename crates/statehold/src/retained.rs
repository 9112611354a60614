//! `statehold retained`: the retained messages of a server, over its admin pages.

use std::io::IsTerminal;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use serde_json::Value;
use server::AdminClient;

use crate::admin::{AdminArgs, ListArgs, path};
use crate::clients::known;
use crate::exit::{self, Exit};
use crate::output;
use crate::table::{bytes, cell, table, terminal_width};

/// List retained messages, get one, delete one.
///
/// The command asks the admin pages of one node, whichever: all nodes of a cluster have the same retained messages.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RetainedCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List retained messages in the order of their topics; exit code 1: none matches
    List(List),
    /// Write the payload of one to stdout; exit code 1: there is none
    Get(Get),
    /// Delete one, in the whole cluster; exit code 1: there is none
    ///
    /// As a retained message without a payload does, which subscribers of the topic get as well.
    Delete(Delete),
}

#[derive(Debug, Args)]
struct List {
    /// Only those whose topics match this filter
    #[arg(default_value = "#")]
    filter: String,
    #[command(flatten)]
    list: ListArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct Get {
    /// The topic
    topic: String,
    /// Print what the admin page says, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Args)]
struct Delete {
    /// The topic
    topic: String,
    /// Print what the admin page says, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

impl RetainedCommand {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self.what {
            What::List(list) => list.admin.run(async |client| list.run(client).await),
            What::Get(get) => get.admin.run(async |client| get.run(client).await),
            What::Delete(delete) => delete.admin.run(async |client| delete.run(client).await),
        }
    }
}

impl List {
    async fn run(&self, client: &AdminClient) -> anyhow::Result<Exit> {
        let filters = [("filter", self.filter.as_str())];
        let list = ("/api/retained", "retained", filters.as_slice());
        let is_any = self.list.show(client, list, listed).await?;
        Ok(if is_any { Exit::Done } else { Exit::NotFound })
    }
}

impl Get {
    async fn run(&self, client: &AdminClient) -> anyhow::Result<Exit> {
        let found = client.get(&path(&["retained", &self.topic])).await;
        let Some(found) = known(found)? else {
            return Ok(Exit::NotFound);
        };
        if self.json {
            output::line(serde_json::to_string_pretty(&found)?)?;
            return Ok(Exit::Done);
        }
        let payload = found["payload_base64"].as_str().unwrap_or_default();
        let payload = STANDARD.decode(payload).context("the payload cannot be read")?;
        if std::io::stdout().is_terminal() {
            output::line(&payload)?;
        } else {
            output::raw(&payload)?;
        }
        if found["payload_truncated"] == true {
            exit::note(&format!(
                "this is the beginning of {} bytes; `statehold sub {} --count 1` gets all of it",
                found["bytes"], self.topic
            ));
            return Ok(Exit::Failed);
        }
        Ok(Exit::Done)
    }
}

impl Delete {
    async fn run(&self, client: &AdminClient) -> anyhow::Result<Exit> {
        let done = client.delete(&path(&["retained", &self.topic])).await;
        let Some(done) = known(done)? else {
            return Ok(Exit::NotFound);
        };
        if self.json {
            output::line(done.to_string())?;
        } else {
            exit::note(&format!("nothing is retained for {} any more", self.topic));
        }
        Ok(Exit::Done)
    }
}

fn listed(messages: &[Value]) -> String {
    let head = ["TOPIC", "BYTES", "QOS", "STORED", "EXPIRES", "CONTENT TYPE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for message in messages {
        rows.push(vec![
            cell(&message["topic"]),
            bytes(&message["bytes"]),
            cell(&message["qos"]),
            cell(&message["stored_at"]),
            cell(&message["expires_at"]),
            cell(&message["content_type"]),
        ]);
    }
    table(&rows, terminal_width())
}

const EXAMPLES: &str = "\
Examples:
  statehold retained list
  statehold retained list 'plant/+/state' --json
  statehold retained get plant/1/state
  statehold retained delete plant/1/state --token-file token

Changes need a token of the scope `write` (`statehold admin-token`). The variables STATEHOLD_ADMIN and STATEHOLD_ADMIN_TOKEN stand
for the options.";
