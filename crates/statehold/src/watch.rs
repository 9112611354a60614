//! `statehold watch`

use clap::Args;
use client::{Client, Hlc, StateStore, WatchEvent};
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::output::{self, Json};
use crate::runtime::block_on;
use crate::server::ServerArgs;

/// Report every change of a key.
///
/// One line for each: `set KEY VERSION VALUE`, `deleted KEY VERSION`; also expired keys are `deleted`. When the
/// connection was lost, the key is watched again and `gap KEY` says that changes may have been missed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Watch {
    /// The keys
    #[arg(required = true)]
    keys: Vec<String>,
    /// First report the value that the key has
    #[arg(long)]
    initial: bool,
    /// End after this many reports
    #[arg(long, short = 'C', value_name = "N")]
    count: Option<u64>,
    /// Print a JSON object for each change
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// A key with what happened to it.
type Report = (String, WatchEvent);

impl Watch {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        block_on(async {
            let client = Client::connect(self.server.lasting_options()?).await?;
            let store = client.state_store();
            let (sender, mut reports) = mpsc::channel(1);
            for key in &self.keys {
                let watch = store.watch(key.clone()).await?;
                if self.initial {
                    self.show_initial(&store, key).await?;
                }
                tokio::spawn(forward(key.clone(), watch, sender.clone()));
            }
            drop(sender);
            let mut left = self.count.unwrap_or(u64::MAX);
            while left > 0 {
                let Some((key, event)) = reports.recv().await.transpose()? else {
                    break;
                };
                self.show(&key, &event)?;
                left -= 1;
            }
            client.disconnect().await;
            Ok(Exit::Done)
        })
    }

    async fn show_initial(&self, store: &StateStore, key: &str) -> anyhow::Result<()> {
        if let Some(entry) = store.get(key.to_owned()).await? {
            self.show(
                key,
                &WatchEvent::Set {
                    value: entry.value,
                    version: Some(entry.version),
                },
            )?;
        }
        Ok(())
    }

    fn show(&self, key: &str, event: &WatchEvent) -> std::io::Result<()> {
        let (name, value, version) = match event {
            WatchEvent::Set { value, version } => ("set", Some(value), version.as_ref()),
            WatchEvent::Deleted { version } => ("deleted", None, version.as_ref()),
            WatchEvent::Gap => ("gap", None, None),
        };
        if self.json {
            let mut json = Json::new()
                .with("event", name)
                .with("key", key)
                .with_version(version);
            if let Some(value) = value {
                json = json.with_bytes("value", value);
            }
            return json.print();
        }
        let mut text = format!("{name} {key}");
        if let Some(version) = version.map(Hlc::to_string) {
            text = format!("{text} {version}");
        }
        let mut bytes = text.into_bytes();
        if let Some(value) = value {
            bytes.push(b' ');
            bytes.extend_from_slice(value);
        }
        output::record(bytes)
    }
}

/// Hands on the changes of one key, and why they end.
async fn forward(
    key: String,
    mut watch: client::Watch,
    reports: mpsc::Sender<Result<Report, client::OperationError>>,
) {
    while let Some(event) = watch.recv().await {
        if reports.send(Ok((key.clone(), event))).await.is_err() {
            return;
        }
    }
    if let Some(error) = watch.end() {
        // Nobody listens any more if this fails.
        let _ = reports.send(Err(error.clone())).await;
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold watch setpoint
  statehold watch setpoint --initial --json
  statehold watch deploy/version --count 1 && ./redeploy.sh";
