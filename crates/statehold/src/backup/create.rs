//! `statehold backup create`
//!
//! The backup is made part by part: each group of the state store, the retained messages, the sessions. A part that fails because a
//! node restarts or a group elects its leader is taken out of the file again, and asked for anew.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use server::backup::{About, BackupFile, Counts, Decoder, Record};
use server::{AdminClientError, AdminStream, clock};

use super::nodes::{Nodes, NodesArgs, is_elsewhere};
use super::progress::Progress;
use super::retry::{Passing, Tries};
use crate::admin::hint;
use crate::duration;
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
    /// Take keys from one node's copy where no majority is left: acknowledged writes may be missing
    ///
    /// For the last disks of a cluster whose other nodes are lost for good. A group without a leader is taken from that of the named nodes whose log is longest,
    /// with the end of the log that nobody can decide about any more. So the backup may lack the last writes that were acknowledged, may have writes that were
    /// answered with an error, and a lock in it may have been given back or got by another holder. Restore it into a new cluster, and never start the lost nodes
    /// again beside that.
    #[arg(long = "unsafe", requires = "allow_missing")]
    is_unsafe: bool,
    /// How long a part of the backup is tried again while a node restarts, or a group has no leader; 0: not at all
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration::parse)]
    retry_for: Duration,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nodes: NodesArgs,
}

/// What a backup is made of, one after the other.
#[derive(Debug, Clone, Copy)]
enum Part {
    Group(u32),
    Retained,
    Sessions,
}

/// A backup that is being made.
struct Making<'a> {
    args: &'a Create,
    nodes: Nodes,
    file: BackupFile,
    progress: Progress,
    /// With `--unsafe`: tries since a leader was found. Groups that nobody leads are not waited for one by one.
    leader_tries: Tries,
}

/// How long a leader is waited for with `--unsafe`: longer than an election takes.
const LEADER_WITHIN: Duration = Duration::from_secs(5);

impl Create {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let ran = runtime::block_on(self.create());
        ran.map_err(|error| hint::completed(error, &self.nodes.admin.admin))
    }

    async fn create(&self) -> anyhow::Result<Exit> {
        let mut file = BackupFile::create(&self.file)?;
        let nodes = self.reach().await?;
        let about = about(&nodes)?;
        let groups = about.groups;
        file.push(&Record::About(about))?;
        let mut making = Making {
            args: self,
            nodes,
            file,
            progress: Progress::new(),
            leader_tries: self.leader_tries(),
        };
        for group in 0..groups {
            making.add(Part::Group(group)).await?;
        }
        // Before sessions, since they come back in this order: a session must not get them a second time.
        making.add(Part::Retained).await?;
        making.add(Part::Sessions).await?;
        let Making { file, progress, .. } = making;
        drop(progress);
        let (counts, bytes) = file.finish()?;
        self.say(counts, bytes)
    }

    fn leader_tries(&self) -> Tries {
        Tries::within(LEADER_WITHIN.min(self.retry_for))
    }

    async fn reach(&self) -> anyhow::Result<Nodes> {
        let mut tries = Tries::within(self.retry_for);
        loop {
            match self.nodes.reach(self.allow_missing).await {
                Ok(nodes) => return Ok(nodes),
                Err(error) => tries.after(error).await?,
            }
        }
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

impl Making<'_> {
    /// Adds a part; again from its beginning, as long as what makes it fail may pass.
    async fn add(&mut self, part: Part) -> anyhow::Result<()> {
        let mark = self.file.mark()?;
        let mut tries = Tries::within(self.args.retry_for);
        while let Err(error) = self.try_to_add(part).await {
            tries.after(error).await?;
            self.file.back_to(&mark)?;
        }
        Ok(())
    }

    async fn try_to_add(&mut self, part: Part) -> anyhow::Result<()> {
        if let Part::Group(group) = part {
            let stream = self.stream_of_group(group).await?;
            return self.take(stream).await;
        }
        let before = self.nodes.states().await?;
        // Each node has all retained messages, and its own sessions.
        let (path, count) = match part {
            Part::Retained => ("/api/backup/retained", 1),
            _ => ("/api/backup/sessions", self.nodes.all.len()),
        };
        for node in 0..count {
            let stream = self.nodes.all[node].client.stream(path).await?;
            self.take(stream).await?;
        }
        if self.nodes.states().await? != before {
            let why = "sessions went from one node to another while the backup was made, so it may lack some";
            return Err(Passing(why.to_owned()).into());
        }
        Ok(())
    }

    async fn stream_of_group(&mut self, group: u32) -> anyhow::Result<AdminStream> {
        loop {
            let error = match led(&self.nodes, group).await {
                Ok(stream) => {
                    self.leader_tries = self.args.leader_tries();
                    return Ok(stream);
                }
                Err(error) if !self.args.is_unsafe => return Err(error),
                Err(error) => error,
            };
            if let Err(error) = self.leader_tries.after(error).await {
                return survived(&self.nodes, group, error).await;
            }
        }
    }

    async fn take(&mut self, mut stream: AdminStream) -> anyhow::Result<()> {
        let mut decoder = Decoder::default();
        while let Some(piece) = stream.next().await? {
            decoder.push(&piece);
            while let Some(record) = decoder.next().context("what a node sent")? {
                self.file.push(&record)?;
                self.progress.at(|| self.file.counts().to_string());
            }
        }
        let broken_off = |error| Passing(format!("a node has broken off, and its log says why: {error}"));
        decoder.finish().map_err(broken_off)?;
        Ok(())
    }
}

fn about(nodes: &Nodes) -> anyhow::Result<About> {
    let first = &nodes.all[0].has;
    let groups = first["groups"]
        .as_u64()
        .and_then(|groups| u32::try_from(groups).ok());
    Ok(About {
        made_at: clock::wall(),
        cluster: nodes.cluster.clone(),
        server_version: first["version"].as_str().unwrap_or_default().to_owned(),
        nodes: u16::try_from(nodes.all.len()).context("too many nodes")?,
        groups: groups.context("the server does not say how many groups it has")?,
    })
}

/// A group from its leader.
async fn led(nodes: &Nodes, group: u32) -> anyhow::Result<AdminStream> {
    let mut silent = None;
    for node in &nodes.all {
        match node.client.stream(&format!("/api/backup/groups/{group}")).await {
            Ok(stream) => return Ok(stream),
            Err(error) if is_elsewhere(&error) => {}
            // Another one may lead.
            Err(error @ AdminClientError::NoAnswer { .. }) => silent = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    let why = format!(
        "none of these nodes leads group {group} of the state store; `statehold cluster groups` shows who does, and whether a \
         majority is there"
    );
    let why = Passing(why);
    Err(silent.map_or_else(|| why.into(), anyhow::Error::from))
}

/// A group from the copy that has most, since it has no leader for this reason.
async fn survived(nodes: &Nodes, group: u32, error: anyhow::Error) -> anyhow::Result<AdminStream> {
    for node in nodes.by_log_end(group) {
        let path = format!("/api/backup/groups/{group}?copy=own");
        match node.client.stream(&path).await {
            Ok(stream) => {
                exit::note(&format!(
                    "group {group} of the state store is as node {} has it, without a majority (--unsafe): writes that were acknowledged \
                     may be missing, and some that were not may be there",
                    node.id
                ));
                return Ok(stream);
            }
            Err(error) if is_elsewhere(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(error.context("no node that was named has a copy"))
}
