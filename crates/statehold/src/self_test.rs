//! `statehold self-test`: what the self-test of a server does, from outside.

use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, QoS, SetOptions, SetOutcome, StateStore};
use server::clock;

use crate::exit::{self, Exit};
use crate::output::{self, Json};
use crate::runtime::block_on;
use crate::server::ServerArgs;
use crate::table::{table, terminal_width};

/// Do what clients do, once, and say whether it works and how long it takes.
///
/// Connects, subscribes, publishes and receives a message, and sets, gets and deletes a key, both below `statehold-self-test/`.
/// Exit code 2: something did not go as it should; 4: no connection. A server does the same by itself if its setting
/// self_test.interval is set.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SelfTest {
    /// Print a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// One step that was tried.
struct Tried {
    step: &'static str,
    took: Duration,
    /// Why it did not go as it should.
    why: Option<String>,
}

/// Steps as they are tried, one after the other.
struct Trial {
    timeout: Duration,
    tried: Vec<Tried>,
}

impl SelfTest {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let tried = block_on(self.try_all())?;
        let is_ok = tried.iter().all(|tried| tried.why.is_none());
        if self.json {
            let steps = tried.iter().map(|tried| {
                serde_json::json!({
                    "step": tried.step,
                    "ok": tried.why.is_none(),
                    "took_ms": millis(tried.took),
                    "why": tried.why,
                })
            });
            Json::new()
                .with("ok", is_ok)
                .with("steps", steps.collect::<Vec<_>>())
                .print()?;
        } else {
            output::raw(shown(&tried).as_bytes())?;
        }
        if !is_ok {
            exit::note(
                "the server does not do what it should: its log and /metrics say more (docs/observability.md)",
            );
        }
        Ok(if is_ok { Exit::Done } else { Exit::Refused })
    }

    /// Without a connection there is nothing to be tried, and the error says so.
    async fn try_all(&self) -> anyhow::Result<Vec<Tried>> {
        let mut trial = Trial {
            timeout: self.server.timeout,
            tried: Vec::new(),
        };
        let began = clock::instant();
        let client = Client::connect(self.server.options()?).await?;
        trial.note("connect", began, None);
        // Of this run alone, whoever else runs at the same time.
        let own = format!("statehold-self-test/{}", client.client_id());
        let payload = format!("{own} {:?}", client.client_id().as_bytes());
        // Messages and keys each on their own: one may work without the other. What becomes of each is in the trial.
        let _ = trial.messages(&client, &own, &payload).await;
        let _ = trial.keys(&client.state_store(), &own, &payload).await;
        client.disconnect().await;
        Ok(trial.tried)
    }
}

impl Trial {
    async fn messages(&mut self, client: &Client, topic: &str, payload: &str) -> Option<()> {
        let began = clock::instant();
        let subscribed = client.subscribe(topic, QoS::AtLeastOnce).await;
        let mut subscription = self.done("subscribe", began, subscribed)?;
        let began = clock::instant();
        let published = client.publish_to(topic, payload.to_owned()).await;
        self.done("publish", began, published)?;
        let received = tokio::time::timeout(self.timeout, subscription.recv()).await;
        let why = match received {
            Err(_) => Some("the message did not come in time"),
            Ok(None) => Some("the connection ended"),
            Ok(Some(message)) if message.payload != payload => Some("the message has another payload"),
            Ok(Some(_)) => None,
        };
        self.note("receive", began, why.map(str::to_owned));
        why.is_none().then_some(())
    }

    async fn keys(&mut self, store: &StateStore, key: &str, value: &str) -> Option<()> {
        let began = clock::instant();
        let options = SetOptions::new().expires_in(KEY_EXPIRES_IN);
        let set = store.set(key.to_owned(), value.to_owned(), options).await;
        let version = match self.done("set", began, set)? {
            SetOutcome::Stored { version } => Some(version),
            SetOutcome::NotApplied { .. } => None,
        };
        let began = clock::instant();
        let got = store.get(key.to_owned()).await;
        let why = match &got {
            Err(error) => Some(error.to_string()),
            Ok(None) => Some("the key is not there".to_owned()),
            Ok(Some(entry)) if entry.value != value => Some("the key has another value".to_owned()),
            Ok(Some(entry)) if Some(&entry.version) != version.as_ref() => {
                Some("the key has another version".to_owned())
            }
            Ok(Some(_)) => None,
        };
        self.note("get", began, why);
        let began = clock::instant();
        let deleted = store.del(key.to_owned(), None).await;
        self.done("delete", began, deleted).map(|_| ())
    }

    fn done<T, E: std::error::Error>(
        &mut self,
        step: &'static str,
        began: Instant,
        result: Result<T, E>,
    ) -> Option<T> {
        self.note(step, began, result.as_ref().err().map(ToString::to_string));
        result.ok()
    }

    fn note(&mut self, step: &'static str, began: Instant, why: Option<String>) {
        let took = clock::instant() - began;
        self.tried.push(Tried { step, took, why });
    }
}

fn shown(tried: &[Tried]) -> String {
    let mut rows = vec![["STEP", "RESULT", "MS"].map(str::to_owned).to_vec()];
    for tried in tried {
        let result = tried.why.clone().unwrap_or_else(|| "ok".to_owned());
        rows.push(vec![
            tried.step.to_owned(),
            result,
            format!("{:.2}", millis(tried.took)),
        ]);
    }
    table(&rows, terminal_width())
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1_000.0
}

/// In case it cannot be deleted.
const KEY_EXPIRES_IN: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  statehold self-test
  statehold self-test --host broker.example --tls --username me --password-file secret --json";
