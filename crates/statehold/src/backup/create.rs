//! `statehold backup create`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use server::backup::{About, BackupFile, Counts, Decoder};
use server::{AdminStream, clock};

use super::nodes::{Nodes, NodesArgs, is_elsewhere};
use super::progress::Progress;
use crate::admin::hint;
use crate::exit::{self, Exit};
use crate::output;
use crate::runtime;

#[derive(Debug, Args)]
pub(super) struct Create {
    /// The file, which is not to be there yet
    file: PathBuf,
    /// Go without the nodes that are not named; their sessions are missing then
    #[arg(long)]
    allow_missing: bool,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nodes: NodesArgs,
}

/// How often all nodes are asked for a group that nobody leads: longer than any election takes.
const ROUNDS: u32 = 20;

const ROUND_EVERY: Duration = Duration::from_millis(500);

impl Create {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let ran = runtime::block_on(self.create());
        ran.map_err(|error| hint::completed(error, &self.nodes.admin.admin))
    }

    async fn create(&self) -> anyhow::Result<Exit> {
        let mut file = BackupFile::create(&self.file)?;
        let nodes = self.nodes.reach(self.allow_missing).await?;
        let first = &nodes.all[0].has;
        let groups = first["groups"]
            .as_u64()
            .and_then(|groups| u32::try_from(groups).ok());
        let groups = groups.context("the server does not say how many groups it has")?;
        let states = nodes.states().await?;
        let about = About {
            made_at: clock::wall(),
            cluster: nodes.cluster.clone(),
            server_version: first["version"].as_str().unwrap_or_default().to_owned(),
            nodes: u16::try_from(nodes.all.len()).context("too many nodes")?,
            groups,
        };
        file.push(&server::backup::Record::About(about))?;
        let mut progress = Progress::new();
        for group in 0..groups {
            let stream = stream_of_group(&nodes, group).await?;
            take(stream, &mut file, &mut progress).await?;
        }
        // Before sessions, since they come back in this order: a session must not get them a second time.
        let stream = nodes.all[0].client.stream("/api/backup/retained").await?;
        take(stream, &mut file, &mut progress).await?;
        for node in &nodes.all {
            let stream = node.client.stream("/api/backup/sessions").await?;
            take(stream, &mut file, &mut progress).await?;
        }
        if nodes.states().await? != states {
            bail!(
                "sessions went from one node to another while the backup was made, so it may lack some; nothing was written: run \
                 the command again"
            );
        }
        drop(progress);
        let (counts, bytes) = file.finish()?;
        self.say(counts, bytes)
    }

    fn say(&self, counts: Counts, bytes: u64) -> anyhow::Result<Exit> {
        let file = self.file.display().to_string();
        if self.json {
            let said = json!({
                "file": file,
                "bytes": bytes,
                "groups": counts.groups,
                "keys": counts.keys,
                "retained": counts.retained,
                "sessions": counts.sessions,
            });
            output::line(said.to_string())?;
        } else {
            exit::note(&format!("{file}: {counts}, {bytes} bytes"));
        }
        Ok(Exit::Done)
    }
}

/// A group from who leads it.
async fn stream_of_group(nodes: &Nodes, group: u32) -> anyhow::Result<AdminStream> {
    for round in 0..ROUNDS {
        if round > 0 {
            tokio::time::sleep(ROUND_EVERY).await;
        }
        for node in &nodes.all {
            match node.client.stream(&format!("/api/backup/groups/{group}")).await {
                Ok(stream) => return Ok(stream),
                Err(error) if is_elsewhere(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    bail!(
        "none of these nodes leads group {group} of the state store; `statehold cluster groups` shows who does, and whether a \
         majority is there"
    )
}

async fn take(mut stream: AdminStream, file: &mut BackupFile, progress: &mut Progress) -> anyhow::Result<()> {
    let mut decoder = Decoder::default();
    while let Some(piece) = stream.next().await? {
        decoder.push(&piece);
        while let Some(record) = decoder.next().context("what a node sent")? {
            file.push(&record)?;
            progress.at(|| file.counts().to_string());
        }
    }
    decoder
        .finish()
        .context("a node has broken off; its log says why")?;
    Ok(())
}
