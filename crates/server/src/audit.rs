//! The audit log: who came in, who was denied what, and what decided about that and when it changed (`docs/audit.md`).
//!
//! A thread of its own writes it. Whoever tells it something never waits: there is a bounded channel, and what does not fit is
//! counted, and that is said in the log itself. What is too much of one client is left out before it takes room there. It is not the log of the server: it has its own file, one JSON object a line,
//! each with a number, and nothing in it is a secret.

mod file;
mod line;

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use mqtt::authorization::Right;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

pub use self::file::AuditError;
use self::file::AuditFile;
use self::line::Line;
pub(crate) use self::line::{Shown, time as rfc3339};
use crate::clock;
use crate::config;
use crate::line_rates::{LeftOutOf, LineRates, WINDOW, Who};

/// What happened. All text in it is [`Shown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    /// The server has begun to write this log.
    Started,
    /// A client was let in.
    Connected {
        client_id: Shown,
        principal: Option<Shown>,
        session_present: bool,
    },
    /// A CONNECT was refused.
    Refused {
        client_id: Option<Shown>,
        reason: Shown,
        why: Shown,
    },
    /// A client may not do something, or not any more.
    Denied {
        client_id: Shown,
        principal: Option<Shown>,
        right: Right,
        resource: Shown,
        is_withdrawn: bool,
    },
    /// The server has ended a client's connection.
    Disconnected {
        client_id: Shown,
        principal: Option<Shown>,
        reason: Shown,
        why: Shown,
        topic: Option<Shown>,
    },
    /// Files that decide who may come in, and what they may do, were read again.
    Reloaded {
        setting: Shown,
        before: Shown,
        after: Shown,
    },
    /// They were read again, and cannot be used: what was in use stays in use.
    NotReloaded {
        setting: Shown,
        error: Shown,
        digest: Shown,
    },
    /// A change was asked for at the admin pages, by whoever may.
    AdminChange { token: Option<Shown>, path: Shown },
    /// A request to the admin pages was refused.
    AdminRefused { path: Shown, cause: &'static str },
    /// The server stops.
    Stopped,
}

/// Place of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) peer: Shown,
    /// None: a process of this machine.
    pub(crate) ip: Option<IpAddr>,
    /// Listener that accepted it.
    pub(crate) listener: Shown,
}

#[derive(Debug)]
struct Record {
    /// Unix milliseconds.
    at: u64,
    happened: Happened,
    source: Option<Source>,
}

/// Where to tell what happened. Does nothing if there is no audit log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audit(Option<Arc<Teller>>);

#[derive(Debug)]
struct Teller {
    records: mpsc::Sender<Record>,
    /// Records that the channel had no room for.
    lost: Arc<AtomicU64>,
    rates: Arc<Mutex<LineRates>>,
}

/// The thread that writes the log. Dropped, it writes what it was told, and ends.
#[derive(Debug)]
pub(crate) struct AuditThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Records that may wait to be written: about 1 MiB.
const WAITING_MAX: usize = 4_096;

/// Records that are written with one call at most.
const TOGETHER_MAX: usize = 256;

thread_local! {
    static OF_THREAD: RefCell<Audit> = const { RefCell::new(Audit(None)) };
}

/// Whether the file of the settings could be opened.
pub(crate) fn check(settings: &config::Audit) -> Result<(), AuditError> {
    AuditFile::check(settings)
}

impl Audit {
    /// An audit log as the settings say, if they want one.
    pub(crate) fn start(settings: &config::Audit) -> Result<(Self, Option<AuditThread>), AuditError> {
        let Some(file) = AuditFile::open(settings)? else {
            return Ok((Self::default(), None));
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(AuditError::System)?;
        let (records, told) = mpsc::channel(WAITING_MAX);
        let (stop, stopped) = oneshot::channel();
        let hangup = {
            let _within = runtime.enter();
            signal(SignalKind::hangup()).map_err(AuditError::System)?
        };
        let lost = Arc::new(AtomicU64::new(0));
        let rates = Arc::new(Mutex::new(LineRates::new(settings.rate_max)));
        let writer = Writer {
            file,
            rates: Arc::clone(&rates),
            lost: Arc::clone(&lost),
            sequence: 0,
            text: String::new(),
        };
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || runtime.block_on(writer.run(told, hangup, stopped)))
            .map_err(AuditError::System)?;
        let audit = Self(Some(Arc::new(Teller { records, lost, rates })));
        audit.tell(Happened::Started, None);
        let thread = AuditThread {
            stop: Some(stop),
            thread: Some(thread),
        };
        Ok((audit, Some(thread)))
    }

    /// Whether anybody listens: what nobody reads need not be put together.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Tells what happened. Never waits.
    pub(crate) fn tell(&self, happened: Happened, source: Option<Source>) {
        let Some(teller) = &self.0 else {
            return;
        };
        let at = clock::wall();
        let record = Record { at, happened, source };
        let kind = line::kind(&record.happened);
        if !lock(&teller.rates).may_write(kind, &who(&record)) {
            return;
        }
        if teller.records.try_send(record).is_err() {
            teller.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// That of this thread.
    pub(crate) fn of_thread() -> Self {
        OF_THREAD.with_borrow(Self::clone)
    }

    /// What this thread, and those that it starts, read again from now on is told here, see [`reloaded`].
    pub(crate) fn adopt_thread(&self) {
        OF_THREAD.set(self.clone());
    }
}

/// Tells the audit log of this thread that files were read again, and what came of it: the digests of what was used before
/// and of what is used now, or why they cannot be used.
pub(crate) fn reloaded(setting: &str, before: &str, after: Result<&str, &dyn std::fmt::Display>) {
    let (setting, before) = (setting.into(), before.into());
    let happened = match after {
        Ok(after) => Happened::Reloaded {
            setting,
            before,
            after: after.into(),
        },
        Err(error) => Happened::NotReloaded {
            setting,
            error: Shown::sentence(&error.to_string()),
            digest: before,
        },
    };
    Audit::of_thread().tell(happened, None);
}

/// What tells one content of these files from another in the audit log of this thread. Empty if there is none: lists of revoked
/// certificates are large.
pub(crate) fn digest<'a>(files: impl IntoIterator<Item = &'a Path>) -> String {
    if Audit::of_thread().is_on() {
        sha256(files)
    } else {
        String::new()
    }
}

/// Of one file what `sha256sum` says. Empty if one cannot be read.
fn sha256<'a>(files: impl IntoIterator<Item = &'a Path>) -> String {
    let mut digest = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    for file in files {
        match std::fs::read(file) {
            Ok(bytes) => digest.update(&bytes),
            Err(_) => return String::new(),
        }
    }
    let bytes = digest.finish();
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Writer {
    file: AuditFile,
    rates: Arc<Mutex<LineRates>>,
    lost: Arc<AtomicU64>,
    /// Of the last line.
    sequence: u64,
    /// Lines that are about to be written.
    text: String,
}

impl Writer {
    async fn run(
        mut self,
        mut told: mpsc::Receiver<Record>,
        mut hangup: Signal,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let mut window = tokio::time::interval(WINDOW);
        let mut records = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                Some(()) = hangup.recv() => self.file.reopen(),
                _ = window.tick() => self.say_left_out(clock::wall()),
                _ = told.recv_many(&mut records, TOGETHER_MAX) => {
                    records.drain(..).for_each(|record| self.take(&record));
                }
            }
            self.write();
        }
        told.close();
        while let Some(record) = told.recv().await {
            self.take(&record);
        }
        self.say_left_out(clock::wall());
        self.line(clock::wall(), &Happened::Stopped, None);
        self.write();
    }

    fn take(&mut self, record: &Record) {
        self.line(record.at, &record.happened, record.source.as_ref());
    }

    /// One line for each kind and principal or address of which there was too much, and one for what the channel had no room for.
    fn say_left_out(&mut self, at: u64) {
        let left_out = lock(&self.rates).next_window();
        for one in left_out {
            let line = self.begin(at, "left_out").word("of", one.kind);
            let line = match &one.who {
                Some(LeftOutOf::Principal(name)) => line.word("principal", name),
                Some(LeftOutOf::Address(ip)) => line.word("ip", ip),
                Some(LeftOutOf::Named(name)) => line.word("peer", name),
                None => line,
            };
            line.number("count", one.count).end(&mut self.text);
        }
        let lost = self.lost.swap(0, Ordering::Relaxed) + self.file.take_lost();
        if lost > 0 {
            let line = self.begin(at, "left_out").word("of", "any");
            line.number("count", lost).end(&mut self.text);
        }
    }

    fn line(&mut self, at: u64, happened: &Happened, source: Option<&Source>) {
        let line = self.begin(at, line::kind(happened));
        line.happened(happened).source(source).end(&mut self.text);
    }

    fn begin(&mut self, at: u64, kind: &str) -> Line {
        self.sequence += 1;
        Line::begin(at, self.sequence, kind)
    }

    fn write(&mut self) {
        if !self.text.is_empty() {
            self.file.write(&self.text);
            self.text.clear();
        }
    }
}

fn lock(rates: &Mutex<LineRates>) -> std::sync::MutexGuard<'_, LineRates> {
    rates.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom a record is about.
fn who(record: &Record) -> Who<'_> {
    let (principal, client_id) = match &record.happened {
        Happened::Connected {
            principal, client_id, ..
        }
        | Happened::Disconnected {
            principal, client_id, ..
        }
        | Happened::Denied {
            principal, client_id, ..
        } => (principal.as_ref(), client_id.as_str()),
        Happened::AdminChange { token, .. } => (token.as_ref(), ""),
        _ => (None, ""),
    };
    if let Some(principal) = principal {
        return Who::Principal(Cow::Borrowed(principal.as_str()));
    }
    match &record.source {
        Some(Source { ip: Some(ip), .. }) => Who::Address(*ip),
        Some(Source { peer, .. }) => {
            let user = peer.as_str().split(",pid=").next();
            Who::Named(Cow::Borrowed(user.unwrap_or_default()))
        }
        None => Who::Named(Cow::Borrowed(client_id)),
    }
}

impl Drop for AuditThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
