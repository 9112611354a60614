//! A Redis server that runs: SCAN, and for each key what it has, many at once.

use std::io;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use server::{TlsFiles, clock};
use tokio::io::{AsyncWriteExt, BufReader};

use super::address::Address;
use super::resp::{self, Reply, RespError};
use super::transport::{self, Transport};
use crate::exit::Exit;
use crate::import::args::ImportArgs;
use crate::import::carrier::{Carrier, Expected, SourceKey, too_large};
use crate::import::report::shown;
use crate::import::tls;

/// Which server, and as whom.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) address: Address,
    /// Where there is TLS.
    pub(super) tls: Option<TlsFiles>,
    pub(super) password: Option<Vec<u8>>,
}

/// Carries over the strings of one database.
pub(super) async fn carry(place: Place, args: &ImportArgs) -> anyhow::Result<Exit> {
    let mut redis = Redis::connect(&place, args).await?;
    let total = match redis.ask(&[b"DBSIZE"]).await? {
        Reply::Number(count) => u64::try_from(count).ok(),
        _ => None,
    };
    let expected = Expected {
        source: "redis",
        what: "keys",
        total,
        // As SCAN does while keys come and go.
        may_repeat: true,
    };
    let mut carrier = Carrier::begin(args, expected).await?;
    for note in redis.notes(place.address.db).await? {
        carrier.report.note(note);
    }
    let mut cursor = b"0".to_vec();
    loop {
        let (next, mut keys) = redis.scan(&cursor).await?;
        keys.retain(|key| carrier.wants(key));
        redis
            .carry_page(&keys, args.value_bytes_max, &mut carrier)
            .await?;
        if next == b"0" {
            return carrier.finish().await;
        }
        cursor = next;
    }
}

/// A connection.
struct Redis {
    stream: BufReader<Box<dyn Transport>>,
    timeout: Duration,
    text_bytes_max: u64,
}

/// Keys that SCAN is asked for at once.
const PAGE_KEYS: &str = "500";

/// Bytes of values that are asked for at once; of larger ones, one at a time.
const PAGE_BYTES: u64 = 4 << 20;

/// Names are no longer in practice; Redis allows 512 MiB.
const NAME_BYTES_MAX: u64 = 1 << 20;

/// A string that is to be asked for.
#[derive(Debug)]
struct Found {
    key: Bytes,
    bytes: u64,
}

impl Redis {
    async fn connect(place: &Place, args: &ImportArgs) -> anyhow::Result<Self> {
        let Place { address, tls, .. } = place;
        let timeout = args.server.timeout;
        let connecting = tokio::time::timeout(timeout, transport::open(address, tls.as_ref())).await;
        let stream = connecting.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        let stream = stream
            .with_context(|| format!("cannot connect to Redis at {}:{}", address.host, address.port))?;
        let mut redis = Self {
            stream: BufReader::with_capacity(1 << 16, stream),
            timeout,
            text_bytes_max: args.value_bytes_max.max(NAME_BYTES_MAX),
        };
        match redis.enter(place).await {
            Ok(()) => Ok(redis),
            Err(error) if tls.is_none() && is_unspoken(&error) => {
                Err(error.context("this may be a port with TLS: write rediss:// then"))
            }
            Err(error) => Err(error),
        }
    }

    /// Says who asks, and for which database.
    async fn enter(&mut self, place: &Place) -> anyhow::Result<()> {
        if let Some(password) = &place.password {
            let username = place.address.username.as_deref().map(str::as_bytes);
            let words: Vec<&[u8]> = [Some(b"AUTH".as_slice()), username, Some(password)]
                .into_iter()
                .flatten()
                .collect();
            let let_in = self.expect_ok(&words).await;
            let_in.context("Redis does not let in with this password")?;
        }
        let db = place.address.db.to_string();
        let selected = self.expect_ok(&[b"SELECT", db.as_bytes()]).await;
        selected.with_context(|| format!("Redis does not give database {db}"))
    }

    /// What is there besides what is read.
    async fn notes(&mut self, db: u64) -> anyhow::Result<Vec<String>> {
        let mut notes = Vec::new();
        let info = |reply| match reply {
            Reply::Text(Some(text)) => String::from_utf8_lossy(&text).into_owned(),
            // Who may not ask is not told.
            _ => String::new(),
        };
        let cluster = info(self.ask(&[b"INFO", b"cluster"]).await?);
        if cluster.contains("cluster_enabled:1") {
            notes.push(
                "this is one node of a Redis Cluster, and has only its own part of the keys: import from each primary"
                    .to_owned(),
            );
        }
        let keyspace = info(self.ask(&[b"INFO", b"keyspace"]).await?);
        let others = keyspace.lines().filter_map(|line| {
            let (name, _) = line.split_once(':')?;
            let number = name.strip_prefix("db")?.parse::<u64>().ok()?;
            (number != db).then(|| number.to_string())
        });
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            notes.push(format!(
                "other databases have keys as well, which are not read: {} (the end of --from says which one is)",
                others.join(", ")
            ));
        }
        Ok(notes)
    }

    /// The next cursor, and keys.
    async fn scan(&mut self, cursor: &[u8]) -> anyhow::Result<(Vec<u8>, Vec<Bytes>)> {
        let reply = self
            .ask(&[b"SCAN", cursor, b"COUNT", PAGE_KEYS.as_bytes()])
            .await?;
        let mut parts = match reply {
            Reply::List(parts) => parts.into_iter(),
            other => bail!("Redis does not list its keys: {}", told(&other)),
        };
        let (Some(Reply::Text(Some(cursor))), Some(Reply::List(keys))) = (parts.next(), parts.next()) else {
            bail!("Redis does not list its keys as it should");
        };
        let keys = keys.into_iter().filter_map(|key| match key {
            Reply::Text(Some(key)) => Some(Bytes::from(key)),
            _ => None,
        });
        Ok((cursor, keys.collect()))
    }

    async fn carry_page(
        &mut self,
        keys: &[Bytes],
        value_bytes_max: u64,
        carrier: &mut Carrier,
    ) -> anyhow::Result<()> {
        let mut group = Vec::new();
        let mut bytes = 0;
        for found in self.strings(keys, value_bytes_max, carrier).await? {
            if bytes + found.bytes > PAGE_BYTES && !group.is_empty() {
                self.carry_group(std::mem::take(&mut group), carrier).await?;
                bytes = 0;
            }
            bytes += found.bytes;
            group.push(found);
        }
        self.carry_group(group, carrier).await
    }

    /// Those that are strings, and not too large.
    async fn strings(
        &mut self,
        keys: &[Bytes],
        value_bytes_max: u64,
        carrier: &mut Carrier,
    ) -> anyhow::Result<Vec<Found>> {
        let mut requests = Vec::new();
        for key in keys {
            resp::command(&mut requests, &[b"TYPE", key]);
            resp::command(&mut requests, &[b"STRLEN", key]);
        }
        self.send(&requests).await?;
        let mut strings = Vec::new();
        for key in keys {
            match (self.receive().await?, self.receive().await?) {
                (Reply::Word(kind), Reply::Number(bytes)) if kind == "string" => {
                    let bytes = u64::try_from(bytes).unwrap_or(0);
                    if bytes > value_bytes_max {
                        carrier.left_out(key, too_large(value_bytes_max))?;
                    } else {
                        strings.push(Found {
                            key: key.clone(),
                            bytes,
                        });
                    }
                }
                (Reply::Word(kind), _) => match kind_of(&kind) {
                    Some(kind) => carrier.left_out(key, kind)?,
                    None => carrier.passed_over(GONE),
                },
                (other, _) => carrier.left_out(key, format!("Redis says: {}", told(&other)))?,
            }
        }
        Ok(strings)
    }

    async fn carry_group(&mut self, group: Vec<Found>, carrier: &mut Carrier) -> anyhow::Result<()> {
        let mut requests = Vec::new();
        for found in &group {
            resp::command(&mut requests, &[b"GET", &found.key]);
            resp::command(&mut requests, &[b"PTTL", &found.key]);
        }
        let asked_at = clock::wall();
        self.send(&requests).await?;
        for Found { key, .. } in group {
            match (self.receive().await?, self.receive().await?) {
                // -1: it does not expire; -2: it is gone by now.
                (Reply::Text(Some(value)), Reply::Number(left)) if left != -2 => {
                    let left = u64::try_from(left).ok();
                    let key = SourceKey {
                        name: key,
                        value: value.into(),
                        expires_at: left.map(|left| asked_at + left),
                    };
                    carrier.key(key).await?;
                }
                (Reply::Text(_), Reply::Number(_)) => carrier.passed_over(GONE),
                (Reply::Error(why), _) | (_, Reply::Error(why)) => {
                    carrier.left_out(&key, format!("Redis says: {}", shown(why.as_bytes())))?;
                }
                _ => bail!("Redis answers GET with something else"),
            }
        }
        Ok(())
    }

    async fn expect_ok(&mut self, words: &[&[u8]]) -> anyhow::Result<()> {
        match self.ask(words).await? {
            Reply::Word(_) => Ok(()),
            other => bail!("{}", told(&other)),
        }
    }

    /// One command, and its answer.
    async fn ask(&mut self, words: &[&[u8]]) -> anyhow::Result<Reply> {
        let mut request = Vec::new();
        resp::command(&mut request, words);
        self.send(&request).await?;
        match self.receive().await? {
            Reply::Error(why) if why.starts_with("NOAUTH") => bail!(
                "Redis wants a password: give it with --from-password-file or the variable REDISCLI_AUTH"
            ),
            reply => Ok(reply),
        }
    }

    async fn send(&mut self, requests: &[u8]) -> anyhow::Result<()> {
        let sent = tokio::time::timeout(self.timeout, async {
            self.stream.write_all(requests).await?;
            // TLS may keep something back.
            self.stream.flush().await
        });
        let sent = sent.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        sent.map_err(|error| {
            let advice = tls::advice(&error);
            anyhow::Error::new(error).context(format!("Redis does not take requests any more{advice}"))
        })
    }

    async fn receive(&mut self) -> anyhow::Result<Reply> {
        let reply = resp::reply(&mut self.stream, self.text_bytes_max);
        match tokio::time::timeout(self.timeout, reply).await {
            Ok(Err(RespError::Io(error))) => {
                // Redis looks at certificates of clients after the handshake of TLS 1.3.
                let told = format!(
                    "the connection to Redis has failed: {error}{}",
                    tls::advice(&error)
                );
                Err(anyhow::Error::new(error).context(told))
            }
            Ok(reply) => Ok(reply?),
            Err(_) => bail!("Redis has not answered within {:?} (--timeout)", self.timeout),
        }
    }
}

/// Whether there was no answer, or none of Redis.
fn is_unspoken(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.is::<io::Error>() || cause.is::<RespError>())
}

/// What TYPE says, in words; `None`: there is nothing any more.
fn kind_of(kind: &str) -> Option<String> {
    Some(match kind {
        "none" => return None,
        "list" => "a list".to_owned(),
        "set" => "a set".to_owned(),
        "zset" => "a sorted set".to_owned(),
        "hash" => "a hash".to_owned(),
        "stream" => "a stream".to_owned(),
        _ => "of a module".to_owned(),
    })
}

fn told(reply: &Reply) -> String {
    match reply {
        Reply::Error(why) => shown(why.as_bytes()),
        _ => "something that was not asked for".to_owned(),
    }
}

const GONE: &str = "went away meanwhile";
