//! How an event becomes a line: the one place where text of clients enters the log.
//!
//! Every field and every message of every part of the process passes [`Fields`], which escapes and cuts it ([`Escaped`]); a call site
//! cannot forget to, and cannot go around it. Lines about one client are limited here as well ([`LineRates`]): an event with a field
//! `principal`, `peer` or `client_id` is about a client, and its call site is its kind. What was left out is said when the window ends.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Escaped;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;
use crate::line_rates::{LeftOutOf, LineRates, Who};

/// Writes events as lines.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) format: LogFormat,
    pub(super) limit: Arc<Limit>,
}

/// What one client may write in a window, by kind of line.
#[derive(Debug)]
pub(super) struct Limit(Mutex<Limited>);

#[derive(Debug)]
struct Limited {
    rates: LineRates,
    /// How lines begin whose call sites have left some out.
    kinds: BTreeMap<&'static str, String>,
}

impl Limit {
    pub(super) fn new(rate_max: u32) -> Self {
        Self(Mutex::new(Limited {
            rates: LineRates::new(rate_max),
            kinds: BTreeMap::new(),
        }))
    }

    fn may_write(&self, metadata: &Metadata<'static>, fields: &Fields) -> bool {
        let Some(who) = fields.who() else { return true };
        let kind = metadata.name();
        let mut limited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let may_write = limited.rates.may_write(kind, &who);
        if !may_write && !limited.kinds.contains_key(kind) {
            let begins = fields.message.split(": ").next().unwrap_or_default();
            limited.kinds.insert(kind, Escaped::new(begins).to_string());
        }
        may_write
    }

    /// Says what was left out in the window that ends.
    pub(super) fn end_window(&self) {
        let (left_out, kinds) = {
            let mut limited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (limited.rates.next_window(), std::mem::take(&mut limited.kinds))
        };
        for one in left_out {
            let kind = kinds.get(one.kind).map_or(one.kind, String::as_str);
            let (left_out, many) = (one.count, "several that came later");
            let of = match &one.who {
                Some(LeftOutOf::Principal(of) | LeftOutOf::Address(of) | LeftOutOf::Named(of)) => of,
                None => many,
            };
            tracing::info!(kind, of, left_out, "left out lines: too many of one kind");
        }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // What writes nothing is no line.
        if !self.limit.may_write(event.metadata(), &fields) {
            return Ok(());
        }
        match self.format {
            LogFormat::Text => text(&fields, event.metadata(), &mut to),
            LogFormat::Json => json(fields, event.metadata(), &mut to),
        }
    }
}

/// The fields of one event as they were given.
#[derive(Debug, Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn take(&mut self, field: &Field, value: Value) {
        if field.name() == MESSAGE
            && let Value::String(message) = value
        {
            self.message = message;
        } else {
            self.others.push((field.name(), value));
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        let field = self.others.iter().find(|(field, _)| *field == name);
        field.and_then(|(_, value)| value.as_str())
    }

    /// Whom the event is about, if it is about a client.
    fn who(&self) -> Option<Who<'_>> {
        if let Some(principal) = self.text("principal") {
            return Some(Who::Principal(Cow::Borrowed(principal)));
        }
        let Some(peer) = self.text("peer") else {
            let client_id = self.text("client_id")?;
            return Some(Who::Named(Cow::Borrowed(client_id)));
        };
        let address = peer.parse::<SocketAddr>().map(|address| address.ip());
        Some(match address.or_else(|_| peer.parse::<IpAddr>()) {
            Ok(address) => Who::Address(address),
            // A process of this machine: each has another number, its user does not.
            Err(_) => Who::Named(Cow::Borrowed(peer.split(",pid=").next().unwrap_or(peer))),
        })
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.take(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}").into());
    }
}

/// A text of a field, as it is shown.
fn shown<'a>(name: &str, text: &'a str) -> Escaped<'a> {
    if SENTENCES.contains(&name) {
        Escaped::sentence(text)
    } else {
        Escaped::new(text)
    }
}

fn text(fields: &Fields, metadata: &Metadata<'_>, to: &mut Writer<'_>) -> fmt::Result {
    let (colour, dim, plain) = if to.has_ansi_escapes() {
        (colour(*metadata.level()), "\x1b[2m", "\x1b[0m")
    } else {
        ("", "", "")
    };
    to.write_str(dim)?;
    SystemTime.format_time(to)?;
    write!(to, "{plain} {colour}{:>5}{plain} ", metadata.level().as_str())?;
    write!(to, "{dim}{}:{plain} ", metadata.target())?;
    write!(to, "{}", shown(MESSAGE, &fields.message))?;
    for (name, value) in &fields.others {
        write!(to, " {dim}{name}={plain}")?;
        match value {
            Value::String(text) => write_quoted(to, &shown(name, text).to_string())?,
            other => write!(to, "{other}")?,
        }
    }
    to.write_char('\n')
}

/// Between quotes what is more than one word: nothing that is in a value looks like another field.
fn write_quoted(to: &mut Writer<'_>, text: &str) -> fmt::Result {
    let is_word = !text.is_empty() && !text.contains([' ', '"', '\\']);
    if is_word {
        return to.write_str(text);
    }
    write!(to, "\"{}\"", text.replace('"', "\\\""))
}

fn json(fields: Fields, metadata: &Metadata<'_>, to: &mut Writer<'_>) -> fmt::Result {
    to.write_str("{\"timestamp\":\"")?;
    SystemTime.format_time(to)?;
    write!(to, "\",\"level\":\"{}\"", metadata.level())?;
    let message = (MESSAGE, Value::from(fields.message));
    for (name, value) in std::iter::once(message).chain(fields.others) {
        let value = match value {
            Value::String(text) => shown(name, &text).to_string().into(),
            other => other,
        };
        write!(to, ",{}:{value}", Value::from(name))?;
    }
    writeln!(to, ",\"target\":{}}}", Value::from(metadata.target()))
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

const MESSAGE: &str = "message";

/// Fields with sentences of the server's own.
const SENTENCES: [&str; 3] = [MESSAGE, "error", "why"];

#[cfg(test)]
mod tests;
