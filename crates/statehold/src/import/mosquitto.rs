//! `statehold import mosquitto`

mod config;
mod database;
mod message;
mod queues;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use client::{RetainHandling, SubscriptionOptions};
use server::clock;

use self::database::{Database, Expiry, Queued, Record, Subscribed};
use self::queues::{QueueArgs, Queues};
use super::args::ImportArgs;
use super::carrier::{Carrier, DurableSession, Expected};
use super::file::{self, FileError};
use crate::exit::{Exit, UsageError};
use crate::runtime::block_on;

/// Carry over what Mosquitto keeps: retained messages, and sessions with their subscriptions.
///
/// Retained messages are published as they are, with what is left of their expiry. What waits for clients comes along with --queues.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("origin").required(true).args(["config", "database"]))]
pub(super) struct Mosquitto {
    /// Make a statehold.toml of this file, usually /etc/mosquitto/mosquitto.conf: its listeners, limits, passwords and access file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The directory for what --config makes; nothing that is there is written over [with --dry-run: only shown]
    #[arg(long, value_name = "DIRECTORY", requires = "config")]
    output: Option<PathBuf>,
    /// Read the file that Mosquitto keeps its state in (`persistence true`); stop Mosquitto first, or have it written (SIGUSR1)
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// Make durable sessions as well, by connecting under each client id, without the messages that wait for them. Needs a listener without authentication: a session belongs to
    /// who makes it, and one of nobody to the first that comes
    #[arg(long, requires = "database", conflicts_with_all = ["username", "cert", "client_id", "prefix"])]
    sessions: bool,
    #[command(flatten)]
    queues: QueueArgs,
    #[command(flatten)]
    import: ImportArgs,
}

/// What is in a file, without its messages.
#[derive(Debug, Default)]
struct Survey {
    /// Numbers of messages.
    retained: BTreeSet<u64>,
    sessions: BTreeMap<Vec<u8>, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// `None`: there is something of a session, but not the session.
    expiry: Option<Expiry>,
    subscriptions: Vec<Subscribed>,
    queued: Vec<Queued>,
}

impl Mosquitto {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match (&self.config, &self.database) {
            (Some(config), _) => self.convert(config),
            (None, Some(database)) => self.carry(database),
            (None, None) => Err(UsageError("neither --config nor --database".to_owned()).into()),
        }
    }

    fn convert(&self, config: &Path) -> anyhow::Result<Exit> {
        let directory = self.output.as_deref().filter(|_| !self.import.dry_run);
        if directory.is_none() && !self.import.dry_run {
            let why = "--config needs a directory to write to, --output DIRECTORY, or --dry-run to see what it would write";
            return Err(UsageError(why.to_owned()).into());
        }
        config::convert(
            config,
            self.output.as_deref(),
            self.import.dry_run,
            self.import.json,
        )
    }

    fn carry(&self, path: &Path) -> anyhow::Result<Exit> {
        let unusable = || format!("{} cannot be imported", path.display());
        let mut survey = survey(path).with_context(unusable)?;
        block_on(async {
            let expected = Expected {
                source: "mosquitto",
                what: "retained messages",
                total: Some(survey.retained.len() as u64),
                may_repeat: false,
            };
            let queues = match self.queues.queues {
                true => Some(
                    Queues::begin(&self.queues, &self.import, (path, &survey))
                        .await
                        .with_context(unusable)?,
                ),
                false => None,
            };
            let mut carrier = Carrier::begin(&self.import, expected).await?;
            if self.import.if_absent {
                carrier.look_first(&self.import.server).await?;
            }
            self.carry_retained(path, &mut survey, &mut carrier)
                .await
                .with_context(unusable)?;
            // After them: what is retained is no news for a session.
            carrier.settle().await?;
            for (client_id, session) in survey.sessions {
                match &queues {
                    Some(queues) => queues.carry(&client_id, session, &mut carrier).await?,
                    None => self.carry_session(client_id, session, &mut carrier).await?,
                }
            }
            carrier.finish().await
        })
    }

    async fn carry_retained(
        &self,
        path: &Path,
        survey: &mut Survey,
        carrier: &mut Carrier,
    ) -> anyhow::Result<()> {
        let mut database = Database::open(file::open(path)?, self.import.value_bytes_max)?;
        while let Some(record) = database.next()? {
            match record {
                Record::Message(stored) if survey.retained.remove(&stored.number) => {
                    message::carry(stored, self.import.value_bytes_max, carrier).await?;
                }
                Record::TooLarge { number, topic } if survey.retained.remove(&number) => {
                    carrier.left_out(&topic, super::carrier::too_large(self.import.value_bytes_max))?;
                }
                _ => {}
            }
        }
        if !survey.retained.is_empty() {
            let count = survey.retained.len();
            carrier.report.note(format!(
                "{count} retained messages are named in the file and not in it: it was not written to its end"
            ));
        }
        Ok(())
    }

    async fn carry_session(
        &self,
        client_id: Vec<u8>,
        session: Session,
        carrier: &mut Carrier,
    ) -> anyhow::Result<()> {
        for _ in &session.queued {
            carrier.left_out(
                &client_id,
                "a message that waits for a client, or is on its way (--queues)",
            )?;
        }
        let Some(expiry) = session.expiry else {
            return Ok(());
        };
        if !self.sessions {
            return carrier.left_out(&client_id, "a durable session (--queues, or --sessions)");
        }
        let Some(expiry) = left_of(expiry) else {
            carrier.passed_over("had expired");
            return Ok(());
        };
        if session
            .subscriptions
            .iter()
            .any(|subscribed| subscribed.identifier != 0)
        {
            carrier.left_out(
                &client_id,
                "the identifier of a subscription: its client has to subscribe again",
            )?;
        }
        let subscriptions = session.subscriptions.into_iter().map(|subscribed| {
            let options = options(&subscribed);
            Some((String::from_utf8(subscribed.filter).ok()?, options))
        });
        match (String::from_utf8(client_id.clone()), subscriptions.collect()) {
            (Ok(client_id), Some(subscriptions)) => {
                let session = DurableSession {
                    options: self.import.server.options()?,
                    client_id,
                    expiry,
                    subscriptions,
                    if_absent: self.import.if_absent,
                };
                carrier.session(session).await
            }
            _ => carrier.left_out(&client_id, "a session whose names are no text"),
        }
    }
}

/// Reads a file to its end.
fn survey(path: &Path) -> anyhow::Result<Survey> {
    let mut database = Database::open(file::open(path)?, 0)?;
    let mut survey = Survey::default();
    while let Some(record) = database.next()? {
        match record {
            Record::Message(_) | Record::TooLarge { .. } => {}
            Record::Retained { number } => {
                survey.retained.insert(number);
            }
            Record::Session { client_id, expiry } => {
                survey.sessions.entry(client_id).or_default().expiry = Some(expiry);
            }
            Record::Subscription(subscribed) => {
                let session = survey.sessions.entry(subscribed.client_id.clone()).or_default();
                session.subscriptions.push(subscribed);
            }
            Record::Queued(queued) => {
                let session = survey.sessions.entry(queued.client_id.clone()).or_default();
                session.queued.push(queued);
            }
        }
    }
    let is_alone = |session: &Session| session.expiry.is_none() && !session.subscriptions.is_empty();
    if survey.sessions.values().any(is_alone) {
        let what = "it has subscriptions of a session that is not in it";
        return Err(FileError::Damaged { at: 0, what }.into());
    }
    Ok(survey)
}

/// How long a session lasts from now on; `None`: it does not.
fn left_of(expiry: Expiry) -> Option<Duration> {
    let interval = u64::from(expiry.interval);
    let seconds = match expiry.at {
        Some(at) if expiry.interval != u32::MAX => at.saturating_sub(clock::wall() / 1_000).min(interval),
        _ => interval,
    };
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn options(subscribed: &Subscribed) -> SubscriptionOptions {
    SubscriptionOptions {
        qos: message::qos(subscribed.qos),
        no_local: subscribed.options & NO_LOCAL != 0,
        retain_as_published: subscribed.options & RETAIN_AS_PUBLISHED != 0,
        // What is retained was sent to it when it subscribed at Mosquitto.
        retain_handling: RetainHandling::DoNotSend,
    }
}

const NO_LOCAL: u8 = 4;
const RETAIN_AS_PUBLISHED: u8 = 8;

const EXAMPLES: &str = "\
Examples:
  statehold import mosquitto --config /etc/mosquitto/mosquitto.conf --dry-run
  statehold import mosquitto --config /etc/mosquitto/mosquitto.conf --output /etc/statehold
  statehold import mosquitto --database /var/lib/mosquitto/mosquitto.db --dry-run
  statehold import mosquitto --database mosquitto.db --only plant/ --report left-out.jsonl
  statehold import mosquitto --database mosquitto.db --queues --admin http://127.0.0.1:8080 --token-file token
  statehold import mosquitto --database mosquitto.db --sessions --host 127.0.0.1 --port 1884";
