//! Carries over what sources read: many requests under way at once, and each of them ends as one line of the report.

mod look;
mod request;
mod session;

use std::borrow::Cow;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use client::{Client, Message};
use server::clock;
use tokio::task::JoinSet;

use self::look::Look;
pub(super) use self::request::PRESENT;
use self::request::{Ended, Set};
pub(super) use self::session::{DurableSession, SESSIONS};
use super::args::ImportArgs;
use super::names::{Named, Names};
use super::progress::Progress;
use super::report::Report;
use crate::exit::Exit;
use crate::server::ServerArgs;

/// What sources give things to.
#[derive(Debug)]
pub(super) struct Carrier {
    names: Names,
    value_bytes_max: u64,
    if_absent: bool,
    /// `None`: nothing is written.
    client: Option<Client>,
    /// Retained messages that are there stay.
    look: Option<Arc<Look>>,
    /// Each with the bytes that it counts for.
    under_way: JoinSet<(u64, Ended)>,
    under_way_max: usize,
    bytes_under_way: u64,
    pub(super) report: Report,
    progress: Progress,
    is_json: bool,
}

/// What is to be read, as its source knows it before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// Which program had it, as in "redis".
    pub(super) source: &'static str,
    /// In the plural, as in "keys".
    pub(super) what: &'static str,
    /// How many, if it is known.
    pub(super) total: Option<u64>,
    /// Something may come twice.
    pub(super) may_repeat: bool,
}

/// A key as a source has it.
#[derive(Debug)]
pub(super) struct SourceKey {
    pub(super) name: Bytes,
    pub(super) value: Bytes,
    /// Milliseconds since the Unix epoch.
    pub(super) expires_at: Option<u64>,
}

impl Carrier {
    /// Connects, unless nothing is to be written.
    pub(super) async fn begin(args: &ImportArgs, expected: Expected) -> anyhow::Result<Self> {
        let client = match args.dry_run {
            true => None,
            false => Some(Client::connect(args.server.lasting_options()?).await?),
        };
        Ok(Self {
            names: Names::new(&args.prefix, &args.only, expected.may_repeat),
            value_bytes_max: args.value_bytes_max,
            if_absent: args.if_absent,
            client,
            look: None,
            under_way: JoinSet::new(),
            under_way_max: args.inflight.into(),
            bytes_under_way: 0,
            report: Report::new(expected.source, args.dry_run, args.report.as_deref())?,
            progress: Progress::new(expected.what, expected.total, args.quiet),
            is_json: args.json,
        })
    }

    /// From here on retained messages that are there stay as they are. Nobody looks where nothing is written.
    pub(super) async fn look_first(&mut self, server: &ServerArgs) -> anyhow::Result<()> {
        if self.client.is_some() {
            self.look = Some(Arc::new(Look::begin(server).await?));
        }
        Ok(())
    }

    /// Whether anything comes of a thing of this name; one that is not wanted needs no more of it.
    pub(super) fn wants(&mut self, name: &[u8]) -> bool {
        let is_wanted = self.names.is_wanted(name);
        if !is_wanted {
            self.passed_over(OUTSIDE);
        }
        is_wanted
    }

    /// Carries a key over. What comes of it is in the report; an error ends the import.
    pub(super) async fn key(&mut self, key: SourceKey) -> anyhow::Result<()> {
        let Some(name) = self.name(&key.name)? else {
            return Ok(());
        };
        if key.expires_at.is_some_and(|at| at <= clock::wall()) {
            self.passed_over(request::EXPIRED);
            return Ok(());
        }
        let bytes = key.value.len() as u64;
        if bytes > self.value_bytes_max {
            return self.left_out(&key.name, too_large(self.value_bytes_max));
        }
        if name.is_empty() {
            return self.left_out(
                &key.name,
                "a key of no bytes, which the state store does not take",
            );
        }
        let Some(client) = &self.client else {
            self.report.carried_over("keys", bytes + name.len() as u64);
            self.progress.advance(self.report.left_out_count());
            return Ok(());
        };
        let set = Set {
            store: client.state_store(),
            source: key.name,
            key: name,
            value: key.value,
            expires_at: key.expires_at,
            if_absent: self.if_absent,
        };
        self.start(bytes + set.key.len() as u64, set.run()).await
    }

    /// Publishes a retained message; its topic is what is named.
    pub(super) async fn retained(
        &mut self,
        topic: &Bytes,
        message: impl FnOnce(&str) -> anyhow::Result<Message>,
    ) -> anyhow::Result<()> {
        let Some(name) = self.name(topic)? else {
            return Ok(());
        };
        let message = str::from_utf8(&name)
            .map_err(anyhow::Error::from)
            .and_then(message);
        let message = match message {
            Ok(message) => message,
            Err(error) => return self.left_out(topic, format!("not a message: {error}")),
        };
        if self.look.is_some() && message.topic.as_str().starts_with(SHARED) {
            let why = "of a topic that nobody can subscribe to, so whether there is one already cannot be seen (--if-absent)";
            return self.left_out(topic, why);
        }
        let bytes = (message.payload.len() + message.topic.as_str().len()) as u64;
        match self.client.clone() {
            Some(client) => {
                let look = self.look.clone();
                self.start(bytes, request::publish(client, message, look)).await
            }
            None => {
                self.report.carried_over(request::RETAINED, bytes);
                self.progress.advance(self.report.left_out_count());
                Ok(())
            }
        }
    }

    /// Makes a session.
    pub(super) async fn session(&mut self, session: DurableSession) -> anyhow::Result<()> {
        if self.client.is_none() {
            self.report.carried_over(session::SESSIONS, 0);
            return Ok(());
        }
        self.start(SESSION_COUNTS_FOR, session.make()).await
    }

    /// Says that something is carried over, by whoever calls.
    pub(super) fn carried_over(&mut self, what: &'static str, bytes: u64) {
        self.report.carried_over(what, bytes);
        self.progress.advance(self.report.left_out_count());
    }

    /// Says that something is not carried over, although it was asked for.
    pub(super) fn left_out(&mut self, name: &[u8], why: impl Into<Cow<'static, str>>) -> anyhow::Result<()> {
        self.report.left_out(name, why)?;
        self.progress.advance(self.report.left_out_count());
        Ok(())
    }

    /// Says that something is not carried over, and is not wanted.
    pub(super) fn passed_over(&mut self, why: &'static str) {
        self.report.passed_over(why);
        self.progress.advance(self.report.left_out_count());
    }

    /// Waits for all that is under way.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        while !self.under_way.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    /// Waits for all that is under way, and shows the report.
    pub(super) async fn finish(mut self) -> anyhow::Result<Exit> {
        self.settle().await?;
        self.progress.end();
        if let Some(client) = &self.client {
            client.disconnect().await;
        }
        if let Some(look) = &self.look {
            look.end().await;
        }
        self.report.show(self.is_json)
    }

    /// What it is called here; `None`: nothing comes of it, which is counted.
    fn name(&mut self, from: &Bytes) -> anyhow::Result<Option<Bytes>> {
        match self.names.name(from) {
            Named::To(name) => return Ok(Some(name)),
            Named::Unwanted => self.passed_over(OUTSIDE),
            // It is counted already.
            Named::Again => {}
            Named::Taken(_) => {
                self.left_out(from, "another one gets the same name by --prefix")?;
            }
        }
        Ok(None)
    }

    /// Begins a request as soon as there is room for it. One that is larger than all the room goes alone.
    async fn start(
        &mut self,
        bytes: u64,
        request: impl Future<Output = Ended> + Send + 'static,
    ) -> anyhow::Result<()> {
        while !self.under_way.is_empty() && !self.has_room_for(bytes) {
            self.settle_one().await?;
        }
        self.bytes_under_way += bytes;
        self.under_way.spawn(async move { (bytes, request.await) });
        Ok(())
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        self.under_way.len() < self.under_way_max && self.bytes_under_way + bytes <= BYTES_UNDER_WAY_MAX
    }

    /// Waits for one of those that are under way; there is one.
    async fn settle_one(&mut self) -> anyhow::Result<()> {
        let ended = self.under_way.join_next().await;
        let (bytes, ended) = ended
            .context("nothing is under way")?
            .context("a request has not ended")?;
        self.bytes_under_way -= bytes;
        self.count(ended)
    }

    /// How far it is when it does not go on.
    fn stopped(&self) -> String {
        let carried_over = self.report.carried_over_count();
        format!("the import has stopped after {carried_over} were carried over, and can be run again")
    }

    fn count(&mut self, ended: Ended) -> anyhow::Result<()> {
        match ended {
            Ended::CarriedOver { what, bytes } => {
                self.report.carried_over(what, bytes);
                self.progress.advance(self.report.left_out_count());
            }
            Ended::PassedOver(why) => self.passed_over(why),
            Ended::LeftOut { name, why } => self.left_out(&name, why)?,
            Ended::Stopped(error) => {
                self.progress.end();
                return Err(error.context(self.stopped()));
            }
        }
        Ok(())
    }
}

/// Why a value is left out that has more bytes than wanted.
pub(super) fn too_large(bytes_max: u64) -> String {
    format!("of more than {bytes_max} bytes (--value-bytes-max)")
}

/// Of names and values under way at once, whatever `--inflight` allows: what a client and a server have to hold for it is a few times that.
const BYTES_UNDER_WAY_MAX: u64 = 8 << 20;

/// A session under way is a connection, not only a request: 64 of them take all the room.
const SESSION_COUNTS_FOR: u64 = BYTES_UNDER_WAY_MAX / 64;

/// A subscription to it is a shared one.
const SHARED: &str = "$share/";

const OUTSIDE: &str = "outside of --only";

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use clap::Parser;
    use tokio::sync::oneshot;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        import: ImportArgs,
    }

    async fn carrier(line: &str) -> Carrier {
        let args = Only::parse_from(line.split(' ')).import;
        let expected = Expected {
            source: "redis",
            what: "keys",
            total: None,
            may_repeat: false,
        };
        Carrier::begin(&args, expected)
            .await
            .expect("nothing to connect to")
    }

    /// Begins a request that waits, and then one more: whether that had to wait as well.
    async fn waits(line: &str, first: u64, second: u64) -> bool {
        let mut carrier = carrier(line).await;
        let (end, ended) = oneshot::channel();
        let waiting = async move {
            ended.await.expect("it is told to end");
            Ended::PassedOver(OUTSIDE)
        };
        carrier.start(first, waiting).await.expect("there is room");
        let has_waited = {
            let mut starting = Box::pin(carrier.start(second, async { Ended::PassedOver(OUTSIDE) }));
            let has_waited = poll_fn(|cx| Poll::Ready(starting.as_mut().poll(cx).is_pending())).await;
            end.send(()).expect("it waits");
            if has_waited {
                starting.await.expect("there is room now");
            }
            has_waited
        };
        carrier.settle().await.expect("both end");
        assert_eq!(carrier.bytes_under_way, 0);
        has_waited
    }

    #[tokio::test]
    async fn requests_wait_for_room_in_number_and_in_bytes() {
        let line = "x --dry-run --quiet";
        let half = BYTES_UNDER_WAY_MAX / 2;
        assert!(!waits(line, half, half).await);
        assert!(waits(line, half, half + 1).await);
        // One that is larger than all the room goes, alone.
        assert!(waits(line, 2 * BYTES_UNDER_WAY_MAX, 1).await);
        assert!(waits("x --dry-run --quiet --inflight 1", 1, 1).await);
    }
}
