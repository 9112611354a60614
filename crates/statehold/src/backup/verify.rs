//! `statehold backup verify`

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::json;
use server::backup::{About, BackupReader, Counts, Record};

use super::progress::Progress;
use crate::exit::Exit;
use crate::output;

#[derive(Debug, Args)]
pub(super) struct Verify {
    /// The file
    file: PathBuf,
    /// Print what is in it as JSON
    #[arg(long)]
    json: bool,
}

/// What a file has in it.
pub(super) struct Verified {
    pub(super) about: About,
    pub(super) counts: Counts,
    pub(super) bytes: u64,
    /// Bytes of the queues of sessions, and of what goes with them.
    session_bytes: u64,
}

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let verified = verified(&self.file)?;
        let Verified {
            about,
            counts,
            bytes,
            session_bytes,
        } = verified;
        let file = self.file.display().to_string();
        let made_at = about.made_at_text();
        if self.json {
            let said = json!({
                "file": file,
                "bytes": bytes,
                "made_at": made_at,
                "cluster": about.cluster,
                "server_version": about.server_version,
                "nodes": about.nodes,
                "groups": counts.groups,
                "keys": counts.keys,
                "retained": counts.retained,
                "sessions": counts.sessions,
                "session_bytes": session_bytes,
            });
            output::line(said.to_string())?;
            return Ok(Exit::Done);
        }
        let cluster = if about.cluster.is_empty() {
            "a server on its own".to_owned()
        } else {
            format!("cluster {}, {} nodes", about.cluster, about.nodes)
        };
        output::line(format!(
            "{file}: whole, {bytes} bytes\nmade {made_at} of {cluster}, version {}\n{counts} ({session_bytes} bytes)",
            about.server_version
        ))?;
        Ok(Exit::Done)
    }
}

/// Reads all of a file.
pub(super) fn verified(file: &Path) -> anyhow::Result<Verified> {
    let mut reader = BackupReader::open(file)?;
    let bytes = reader.len_bytes()?;
    let mut progress = Progress::new();
    let (mut about, mut session_bytes, mut groups) = (None, 0, 0);
    while let Some(record) = reader.next()? {
        match record {
            Record::About(said) => about = Some(said),
            Record::Group(..) => groups += 1,
            Record::Session(item) => session_bytes += item.size() as u64,
            _ => {}
        }
        progress.at(|| format!("{} of {bytes} bytes", reader.position()));
    }
    let about = about.context("the file does not say what it is a backup of")?;
    anyhow::ensure!(
        about.groups == groups,
        "the file has {groups} of {} groups",
        about.groups
    );
    Ok(Verified {
        about,
        counts: reader.counts(),
        bytes,
        session_bytes,
    })
}
