//! The file with a line for each thing that happened. `crates/sim/src/history/recorded.rs` reads it, and says what is in a line.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use client::Hlc;
use client::protocol::state_store::{Condition, ErrorText, Reply, Request};
use serde_json::{Map, Value, json};

/// The file.
#[derive(Debug)]
pub(super) struct Log(BufWriter<File>);

/// A request, and what came of it.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) request: &'a Request,
    pub(super) token: Option<&'a Hlc>,
    /// Moments are in nanoseconds since the Unix epoch.
    pub(super) invoked: u64,
    pub(super) answered: Option<(u64, Answer)>,
}

/// A reply, and the version that came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) version: Option<Hlc>,
}

/// One registration, and what came of it.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) key: String,
    pub(super) registered: u64,
    /// Nothing if its connection was lost.
    pub(super) stopped: Option<u64>,
    pub(super) changes: Vec<Value>,
}

/// One time for which a client had a lock.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lock: String,
    pub(super) holder: String,
    pub(super) token: Hlc,
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Log {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(BufWriter::new(file)))
    }

    /// A request that the store had nothing to do with is left out.
    pub(super) fn asked(&mut self, asked: &Asked<'_>) -> anyhow::Result<()> {
        let mut line = call(asked.request);
        line.insert("kind".into(), "request".into());
        line.insert("invoked".into(), asked.invoked.into());
        line.insert("token".into(), asked.token.map(version).into());
        if let Some((at, answer)) = &asked.answered {
            line.insert("answered".into(), (*at).into());
            line.insert("outcome".into(), outcome(answer)?.into());
            line.insert("version".into(), answer.version.as_ref().map(version).into());
            if let Reply::Value(value) = &answer.reply {
                line.insert("found".into(), text(value));
            }
        }
        self.line(&line.into())
    }

    pub(super) fn watched(&mut self, watched: Watched) -> anyhow::Result<()> {
        let Watched {
            key,
            registered,
            stopped,
            changes,
        } = watched;
        self.line(&json!({
            "kind": "watch", "key": key, "registered": registered, "stopped": stopped, "changes": changes
        }))
    }

    pub(super) fn held(&mut self, held: &Held) -> anyhow::Result<()> {
        let Held {
            lock,
            holder,
            token,
            from,
            until,
        } = held;
        let token = version(token);
        self.line(&json!({
            "kind": "held", "lock": lock, "holder": holder, "token": token, "from": from, "until": until
        }))
    }

    /// Everything is in the file.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        Ok(self.0.flush()?)
    }

    fn line(&mut self, line: &Value) -> anyhow::Result<()> {
        Ok(writeln!(self.0, "{line}")?)
    }
}

/// A notification of a change; `None`: the key is gone.
pub(super) fn change(at: u64, value: Option<&[u8]>, version_told: &Hlc) -> Value {
    json!({ "at": at, "value": value.map(text), "version": version(version_told) })
}

fn call(request: &Request) -> Map<String, Value> {
    let mut line = Map::new();
    let mut put = |name: &str, value: Value| line.insert(name.into(), value);
    match request {
        Request::Set {
            key,
            value,
            condition,
            expires_in,
        } => {
            put("call", "set".into());
            put("key", text(key));
            put("value", text(value));
            put("lives", (*expires_in).into());
            let (condition, expected) = match condition {
                Condition::None => (None, None),
                Condition::NotExists => (Some("missing"), None),
                Condition::NotExistsOrEqual => (Some("missing_or"), Some(value)),
                Condition::NotExistsOrEqualTo(expected) => (Some("missing_or"), Some(expected)),
            };
            put("condition", condition.into());
            put("expected", expected.map(|value| text(value)).into());
        }
        Request::Del { key } => {
            put("call", "delete".into());
            put("key", text(key));
        }
        Request::VDel { key, value } => {
            put("call", "delete".into());
            put("key", text(key));
            put("only", text(value));
        }
        Request::Get { key } | Request::KeyNotify { key, .. } => {
            put("call", "get".into());
            put("key", text(key));
        }
        Request::Scan { .. } => {}
    }
    line
}

fn outcome(answer: &Answer) -> anyhow::Result<&'static str> {
    Ok(match &answer.reply {
        Reply::Value(_) => "found",
        Reply::Missing | Reply::Deleted(0) => "missing",
        Reply::Ok => "stored",
        Reply::Deleted(_) => "deleted",
        Reply::NotApplied | Reply::OtherValue => "not_met",
        Reply::Error(ErrorText::FencingTokenRequired | ErrorText::FencingTokenLower) => "fenced",
        other => anyhow::bail!("a request was answered {other:?}"),
    })
}

fn version(version: &Hlc) -> Value {
    json!([version.wall, version.counter])
}

/// All that is asked for here is text.
fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into()
}
