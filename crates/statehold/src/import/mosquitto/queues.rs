//! Sessions with what waits in them, which no client can put there: the admin pages take them as they take those of a backup.
//!
//! Packet identifiers do not come along, since a server gives them when it sends. One matters: a client that may have a message of QoS 2 would take another one
//! with the same identifier for it, so that identifier is released first.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use client::protocol::packet::{PacketId, Publish, SubscriptionId};
use client::protocol::topic::SubscriptionFilter;
use client::protocol::{Text, TopicName};
use serde_json::Value;
use server::backup::{self, CarriedDelivery, CarriedSession, CarriedSubscription};
use server::{AdminClient, AdminClientError, clock};

use super::database::{Database, Queued, Record, Stage, Stored};
use super::{Session, Survey, left_of, message, options};
use crate::admin::hint;
use crate::import::args::ImportArgs;
use crate::import::carrier::{Carrier, PRESENT, SESSIONS};
use crate::import::file;

/// Whether and where.
#[derive(Debug, Args)]
pub(super) struct QueueArgs {
    /// Make durable sessions with the messages that wait for them and the identifiers of their subscriptions: by way of the admin pages, with
    /// a token of the scope `write`. Like --sessions else, and needs no listener without authentication
    #[arg(long, requires = "database", conflicts_with_all = ["sessions", "prefix"])]
    pub(super) queues: bool,
    /// The admin pages of the node that gets the sessions, for --queues
    #[arg(
        long,
        env = "STATEHOLD_ADMIN",
        default_value = hint::ADMIN,
        value_name = "URL",
        help_heading = "Admin pages"
    )]
    admin: String,
    /// Read the token for them from this file (`statehold admin-token`) [default: the variable STATEHOLD_ADMIN_TOKEN]
    #[arg(long, value_name = "FILE", requires = "queues", help_heading = "Admin pages")]
    token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file instead of the system's, for the admin pages
    #[arg(long, value_name = "FILE", requires = "queues", help_heading = "Admin pages")]
    admin_cafile: Option<PathBuf>,
}

/// The messages that wait, once each, and where their sessions go.
pub(super) struct Queues {
    messages: HashMap<u64, Held>,
    admin: Option<AdminClient>,
    url: String,
    if_absent: bool,
}

enum Held {
    /// Its payload is only here.
    Whole(Stored, Bytes),
    TooLarge,
}

/// Of payloads that are held at once; more than that is an error.
const HELD_BYTES_MAX: u64 = 1 << 30;

/// Times that a session is sent.
const ATTEMPTS_MAX: u32 = 8;

const ATTEMPT_EVERY: Duration = Duration::from_secs(1);

const WAITING: &str = "waiting messages";

const IN_DOUBT: &str = "a message of QoS 2 that was on its way: nobody knows whether its client has it";

impl Queues {
    /// Reads the messages that wait, and asks whether there is a server for the sessions, unless nothing is to be written.
    pub(super) async fn begin(
        args: &QueueArgs,
        import: &ImportArgs,
        (path, survey): (&Path, &Survey),
    ) -> anyhow::Result<Self> {
        let mut queues = Self {
            messages: held(path, survey, import.value_bytes_max)?,
            admin: None,
            url: args.admin.clone(),
            if_absent: import.if_absent,
        };
        if !import.dry_run {
            let admin = admin(args, import.server.timeout)?;
            let reached = admin.get("/api/backup").await;
            reached.map_err(|error| hint::completed(error.into(), &args.admin))?;
            queues.admin = Some(admin);
        }
        Ok(queues)
    }

    /// Carries a session over.
    pub(super) async fn carry(
        &self,
        name: &[u8],
        session: Session,
        carrier: &mut Carrier,
    ) -> anyhow::Result<()> {
        let Some(expiry) = session.expiry else {
            return Ok(());
        };
        let Some(expiry) = left_of(expiry) else {
            carrier.passed_over("had expired");
            return Ok(());
        };
        let subscriptions = session.subscriptions.iter().map(|subscribed| {
            Some(CarriedSubscription {
                filter: SubscriptionFilter::parse(text(&subscribed.filter)?).ok()?,
                options: options(subscribed),
                id: SubscriptionId::new(subscribed.identifier),
            })
        });
        let (Some(client_id), Some(subscriptions)) = (text(name), subscriptions.collect()) else {
            return carrier.left_out(name, "a session whose names are no text");
        };
        let mut deliveries = Vec::new();
        for queued in &session.queued {
            self.deliver(queued, &mut deliveries, carrier)?;
        }
        let waiting = deliveries.iter().filter_map(|delivery| match delivery {
            CarriedDelivery::Waiting(_, publish) => {
                Some((publish.topic.len() + publish.payload.len()) as u64)
            }
            CarriedDelivery::Released(_) => None,
        });
        let waiting: Vec<_> = waiting.collect();
        let carried = CarriedSession {
            client_id,
            expiry: u32::try_from(expiry.as_secs()).unwrap_or(u32::MAX),
            subscriptions,
            deliveries,
        };
        if self.put(name, carried, carrier).await? {
            carrier.carried_over(SESSIONS, name.len() as u64);
            waiting
                .into_iter()
                .for_each(|bytes| carrier.carried_over(WAITING, bytes));
        }
        Ok(())
    }

    /// What becomes of a message of a session.
    fn deliver(
        &self,
        queued: &Queued,
        deliveries: &mut Vec<CarriedDelivery>,
        carrier: &mut Carrier,
    ) -> anyhow::Result<()> {
        let name = &queued.client_id;
        let release = PacketId::new(queued.packet_id).map(CarriedDelivery::Released);
        match (queued.stage, queued.qos) {
            (Stage::FromClient, _) => {
                let why = "a message of QoS 2 that its client has sent and not released, so nobody has it";
                return carrier.left_out(name, why);
            }
            (Stage::Released, _) => {
                deliveries.extend(release);
                return Ok(());
            }
            (Stage::Sent, 2) => {
                deliveries.extend(release);
                return carrier.left_out(name, IN_DOUBT);
            }
            (_, 0) => return carrier.left_out(name, "a message of QoS 0 that waits"),
            (Stage::Waiting | Stage::Sent, _) => {}
        }
        let (stored, payload) = match self.messages.get(&queued.number) {
            Some(Held::Whole(stored, payload)) => (stored, payload),
            Some(Held::TooLarge) => return carrier.left_out(name, TOO_LARGE),
            None => return carrier.left_out(name, "a message that waits, and is not in the file"),
        };
        let now = clock::wall() / 1_000;
        if stored.expires_at.is_some_and(|at| at <= now) {
            carrier.passed_over("had expired");
            return Ok(());
        }
        match delivery(queued, (stored, payload), now) {
            Ok(delivery) => deliveries.push(delivery),
            Err(error) => carrier.left_out(name, format!("a message that waits, and is none: {error}"))?,
        }
        Ok(())
    }

    /// Whether it is there now, or would be.
    async fn put(&self, name: &[u8], session: CarriedSession, carrier: &mut Carrier) -> anyhow::Result<bool> {
        let Some(admin) = &self.admin else {
            return Ok(true);
        };
        let stream = match backup::carried(session) {
            Ok(stream) => stream,
            Err(problem) => {
                carrier.left_out(name, format!("a session that is too large: {problem}"))?;
                return Ok(false);
            }
        };
        let said = self.sent(admin, stream).await?;
        let is = |fate: &str| said[fate].as_u64().unwrap_or_default() > 0;
        if is("restored") {
            return Ok(true);
        }
        if is("there") && self.if_absent {
            carrier.passed_over(PRESENT);
        } else if is("there") {
            carrier.left_out(name, "a session that is here already, and is left as it is")?;
        } else if is("over") {
            carrier.passed_over("had expired");
        } else if is("refused") {
            carrier.left_out(
                name,
                "a session that finds no room (limits.sessions_max, limits.memory_max)",
            )?;
        } else {
            carrier.left_out(name, "a session that the server does not understand")?;
        }
        Ok(false)
    }

    /// Sends it until somebody has decided. What is put back twice is put back once.
    async fn sent(&self, admin: &AdminClient, stream: Bytes) -> anyhow::Result<Value> {
        for attempt in 0..ATTEMPTS_MAX {
            if attempt > 0 {
                tokio::time::sleep(ATTEMPT_EVERY).await;
            }
            match admin.post_bytes("/api/restore", stream.clone()).await {
                Ok(said) if said["in_doubt"].as_u64().unwrap_or_default() == 0 => return Ok(said),
                Ok(_) => {}
                Err(AdminClientError::Refused { status: 503, .. } | AdminClientError::NoAnswer { .. }) => {}
                Err(error) => return Err(hint::completed(error.into(), &self.url)),
            }
        }
        bail!(
            "the server has not taken a session in {ATTEMPTS_MAX} tries; run the import again, with --if-absent"
        )
    }
}

const TOO_LARGE: &str = "a message that waits, of more bytes than wanted (--value-bytes-max)";

/// Connects to nobody yet.
fn admin(args: &QueueArgs, timeout: Duration) -> anyhow::Result<AdminClient> {
    let token = match &args.token_file {
        Some(file) => {
            Some(std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?)
        }
        None => std::env::var("STATEHOLD_ADMIN_TOKEN").ok(),
    };
    let token = token.as_deref().map(str::trim);
    Ok(AdminClient::new(
        &args.admin,
        args.admin_cafile.as_deref(),
        token,
        timeout,
    )?)
}

/// Reads the messages that sessions wait for.
fn held(path: &Path, survey: &Survey, payload_bytes_max: u64) -> anyhow::Result<HashMap<u64, Held>> {
    let queued = survey.sessions.values().flat_map(|session| &session.queued);
    let wanted: HashSet<u64> = queued.map(|queued| queued.number).collect();
    let (mut messages, mut bytes) = (HashMap::new(), 0);
    let mut database = Database::open(file::open(path)?, payload_bytes_max)?;
    while let Some(record) = database.next()? {
        match record {
            Record::Message(mut stored) if wanted.contains(&stored.number) => {
                let payload = Bytes::from(std::mem::take(&mut stored.payload));
                if payload.len() as u64 > payload_bytes_max {
                    messages.insert(stored.number, Held::TooLarge);
                    continue;
                }
                bytes += payload.len() as u64;
                if bytes > HELD_BYTES_MAX {
                    bail!(
                        "the messages that wait have more than {HELD_BYTES_MAX} bytes: let clients empty their queues, or import with \
                         --sessions, without them"
                    );
                }
                messages.insert(stored.number, Held::Whole(stored, payload));
            }
            Record::TooLarge { number, .. } if wanted.contains(&number) => {
                messages.insert(number, Held::TooLarge);
            }
            _ => {}
        }
    }
    Ok(messages)
}

/// As it would be sent to its client.
fn delivery(
    queued: &Queued,
    (stored, payload): (&Stored, &Bytes),
    now: u64,
) -> anyhow::Result<CarriedDelivery> {
    let topic = str::from_utf8(&stored.topic)?;
    let publish = message::decoded(topic, &stored.properties, &[])?;
    let of_subscription = message::decoded("t", &queued.properties, &[])?;
    let mut properties = publish.properties;
    if let Some(at) = stored.expires_at {
        properties.message_expiry = Some(u32::try_from(at.saturating_sub(now)).unwrap_or(u32::MAX));
    }
    let topic = TopicName::parse(publish.topic.clone())?;
    let publish = Publish {
        dup: queued.stage == Stage::Sent,
        qos: message::qos(queued.qos),
        retain: queued.retain,
        topic: publish.topic,
        packet_id: None,
        topic_alias: None,
        subscription_ids: of_subscription.subscription_ids,
        properties,
        payload: payload.clone(),
    };
    Ok(CarriedDelivery::Waiting(topic, Box::new(publish)))
}

fn text(bytes: &[u8]) -> Option<Text> {
    Text::from_bytes(Bytes::copy_from_slice(bytes))
        .ok()
        .filter(|text| !text.is_empty())
}
