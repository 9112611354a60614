//! `statehold backup restore`

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use bytes::{Bytes, BytesMut};
use clap::Args;
use serde_json::{Value, json};
use server::AdminClientError;
use server::backup::{BackupReader, Encoder, RESTORED_AT_ONCE_MAX, Record, place_of};

use super::nodes::{Node, Nodes, NodesArgs};
use super::progress::Progress;
use super::verify::verified;
use crate::admin::hint;
use crate::exit::{self, Exit, UsageError};
use crate::output;
use crate::runtime;

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The file
    file: PathBuf,
    /// Also where there is something already: what is there, in the same version or a newer one, stays
    #[arg(long)]
    merge: bool,
    /// Do not put sessions to nodes of the cluster that are not named
    #[arg(long)]
    allow_missing: bool,
    /// Print what became of everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    nodes: NodesArgs,
}

/// Bytes that are sent at once, unless one record has more.
const AT_ONCE: usize = 512 << 10;

/// How often something is sent before it is given up.
const TRIES: u32 = 10;

const TRY_EVERY: Duration = Duration::from_secs(1);

/// What the server says of records.
const FATES: [&str; 5] = ["restored", "there", "over", "refused", "unreadable"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Floors,
    Keys,
    Retained,
    Sessions,
}

/// How many of one kind came to each fate.
type Tally = [u64; FATES.len()];

/// Records of one kind for one node, until they are sent.
struct Batch {
    encoder: Encoder,
    bytes: BytesMut,
    records: usize,
}

struct Sending<'a> {
    nodes: &'a Nodes,
    kind: Kind,
    batches: Vec<Batch>,
    tallies: [Tally; 4],
}

impl Restore {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let ran = runtime::block_on(self.restore());
        ran.map_err(|error| hint::completed(error, &self.nodes.admin.admin))
    }

    async fn restore(&self) -> anyhow::Result<Exit> {
        // Nothing is sent of a file that is not right to its end.
        let verified = verified(&self.file)?;
        let nodes = self.nodes.reach(self.allow_missing).await?;
        if !self.merge {
            nodes.all.iter().try_for_each(check_empty)?;
        }
        let mut sending = Sending {
            nodes: &nodes,
            kind: Kind::Floors,
            batches: nodes.all.iter().map(|_| Batch::new()).collect(),
            tallies: Default::default(),
        };
        let mut reader = BackupReader::open(&self.file)?;
        let mut progress = Progress::new();
        while let Some(record) = reader.next()? {
            sending.take(&record).await?;
            progress.at(|| format!("{} of {} bytes", reader.position(), verified.bytes));
        }
        sending.send_all().await?;
        drop(progress);
        self.say(&sending.tallies)
    }

    fn say(&self, tallies: &[Tally; 4]) -> anyhow::Result<Exit> {
        let [_, keys, retained, sessions] = tallies;
        let of = |tally: &Tally| {
            let fates = FATES.iter().zip(tally);
            Value::Object(
                fates
                    .map(|(fate, count)| ((*fate).to_owned(), (*count).into()))
                    .collect(),
            )
        };
        if self.json {
            let said = json!({ "keys": of(keys), "retained": of(retained), "sessions": of(sessions) });
            output::line(said.to_string())?;
        } else {
            for (name, [restored, there, over, refused, unreadable]) in [
                ("keys", keys),
                ("retained messages", retained),
                ("sessions", sessions),
            ] {
                exit::note(&format!(
                    "{restored} {name} restored; {there} were there, {over} had expired, {refused} found no room, {unreadable} could \
                     not be read"
                ));
            }
        }
        let is_whole = tallies
            .iter()
            .all(|[_, _, _, refused, unreadable]| refused + unreadable == 0);
        if is_whole {
            return Ok(Exit::Done);
        }
        exit::note(
            "not everything is back: raise the limits of the settings if there was no room, or use a newer version if something could \
             not be read; then run the command again with --merge",
        );
        Ok(Exit::Failed)
    }
}

fn check_empty(node: &Node) -> anyhow::Result<()> {
    let count = |name: &str| node.has[name].as_u64().unwrap_or_default();
    let (keys, retained, sessions) = (count("keys"), count("retained"), count("sessions"));
    if keys + retained + sessions == 0 {
        return Ok(());
    }
    Err(UsageError(format!(
        "node {} is not empty: it has {keys} keys, {retained} retained messages and {sessions} sessions. With --merge what is \
         there stays, in the same version or a newer one, and the rest is put to it: so a restore that was broken off goes on",
        node.id
    ))
    .into())
}

impl Batch {
    fn new() -> Self {
        let (encoder, head) = Encoder::begin();
        Self {
            encoder,
            bytes: BytesMut::from(&head[..]),
            records: 0,
        }
    }

    fn finish(mut self) -> Bytes {
        let (_, end) = self.encoder.end();
        self.bytes.extend_from_slice(&end);
        self.bytes.freeze()
    }
}

impl Sending<'_> {
    async fn take(&mut self, record: &Record) -> anyhow::Result<()> {
        let (kind, place) = match record {
            Record::About(_) => return Ok(()),
            Record::Group(..) => (Kind::Floors, 0),
            Record::Key(_) => (Kind::Keys, 0),
            Record::Retained(_) => (Kind::Retained, 0),
            // Always the same node, also if this is done again.
            Record::Session(item) => (Kind::Sessions, place_of(&item.client_id, self.nodes.all.len())),
        };
        if kind != self.kind {
            self.send_all().await?;
            self.kind = kind;
        }
        let batch = &mut self.batches[place];
        batch.encoder.push(record, &mut batch.bytes)?;
        batch.records += 1;
        if batch.records >= RESTORED_AT_ONCE_MAX || batch.bytes.len() >= AT_ONCE {
            self.send(place).await?;
        }
        Ok(())
    }

    async fn send_all(&mut self) -> anyhow::Result<()> {
        for place in 0..self.batches.len() {
            if self.batches[place].records > 0 {
                self.send(place).await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, place: usize) -> anyhow::Result<()> {
        let batch = std::mem::replace(&mut self.batches[place], Batch::new());
        let (node, bytes) = (&self.nodes.all[place], batch.finish());
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(TRY_EVERY).await;
            }
            // Put back twice is put back once.
            let said = match node.client.post_bytes("/api/restore", bytes.clone()).await {
                Ok(said) => said,
                Err(AdminClientError::Refused { status: 503, .. } | AdminClientError::NoAnswer { .. }) => {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if said["in_doubt"].as_u64().unwrap_or_default() == 0 {
                let tally = &mut self.tallies[self.kind as usize];
                for (count, fate) in tally.iter_mut().zip(FATES) {
                    *count += said[fate].as_u64().unwrap_or_default();
                }
                return Ok(());
            }
        }
        bail!(
            "node {} has not taken a part of the backup in {TRIES} tries; when it serves again, run the command again with --merge",
            node.id
        )
    }
}
