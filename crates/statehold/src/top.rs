//! `statehold top`: what a node does at the moment, again and again.

mod frame;
mod sample;

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use server::{AdminClient, AdminClientError, clock};
use tokio::signal::unix::{SignalKind, signal};

use self::frame::Frame;
use self::sample::Sample;
use crate::admin::{AdminArgs, is_not_found};
use crate::duration;
use crate::exit::Exit;
use crate::output;
use crate::table::terminal_size;

/// Watch what a node does: messages, connections, requests, and how its cluster stands.
///
/// It asks the admin pages, and shows rates between two looks. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// How often to look
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration::parse_positive)]
    interval: Duration,
    /// Look twice, show what was between, and end
    #[arg(long)]
    once: bool,
    /// Print a JSON object for each look
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// A screen of its own without a cursor, and the one from before.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

impl Top {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.admin.run(async |client| self.watch(client).await)
    }

    async fn watch(&self, client: &AdminClient) -> anyhow::Result<Exit> {
        let is_screen = !self.once && !self.json && terminal_size().is_some();
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut terminated = signal(SignalKind::terminate())?;
        if is_screen {
            output::screen(ENTER)?;
        }
        let watched = tokio::select! {
            watched = self.look_again_and_again(client, is_screen) => watched,
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
        };
        if is_screen {
            output::screen(LEAVE)?;
        }
        watched.map(|()| Exit::Done)
    }

    async fn look_again_and_again(&self, client: &AdminClient, is_screen: bool) -> anyhow::Result<()> {
        let mut before = look(client).await?;
        loop {
            tokio::time::sleep(self.interval).await;
            let now = match look(client).await {
                Ok(now) => now,
                // It may be busy for a moment, or be started again.
                Err(AdminClientError::NoAnswer { .. } | AdminClientError::Refused { status: 503, .. })
                    if is_screen =>
                {
                    output::screen("\x1b[H\x1b[7m no answer \x1b[0m")?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let frame = Frame::between(&before, &now);
            if self.json {
                output::line(frame.json().to_string())?;
            } else if is_screen {
                output::screen(&screen(&frame))?;
            } else {
                output::raw(frame.text(None).as_bytes())?;
            }
            if self.once {
                return Ok(());
            }
            before = now;
        }
    }
}

/// A frame in the place of the one before: each line to its end, and nothing below.
fn screen(frame: &Frame<'_>) -> String {
    let (columns, lines) = terminal_size().unwrap_or((80, 24));
    let text = frame.text(Some(columns));
    let mut screen = "\x1b[H".to_owned();
    for line in text.lines().take(lines.saturating_sub(1)) {
        screen.extend(line.chars().take(columns));
        screen += "\x1b[K\n";
    }
    screen + "\x1b[J"
}

async fn look(client: &AdminClient) -> Result<Sample, AdminClientError> {
    let at = clock::instant();
    let metrics = client.text("/metrics").await?;
    let node = client.get("/api/node").await?;
    let cluster = match client.get("/cluster").await {
        Err(error) if is_not_found(&error) => Value::Null,
        cluster => cluster?,
    };
    Ok(Sample::new(
        at,
        &metrics,
        json!({ "node": node, "cluster": cluster }),
    ))
}

const EXAMPLES: &str = "\
Examples:
  statehold top
  statehold top --admin http://10.0.0.2:8080 --interval 5s
  statehold top --once --json                     for scripts";
