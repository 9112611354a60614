//! `statehold import redis`

mod address;
mod crc64;
mod live;
mod lzf;
mod rdb;
mod resp;
mod transport;

use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::Bytes;
use clap::Args;

use self::address::Address;
use self::rdb::{Content, Rdb, Record};
use super::args::ImportArgs;
use super::carrier::{Carrier, Expected, SourceKey, too_large};
use super::file::{self, Bounded};
use super::tls::FromTls;
use crate::exit::Exit;
use crate::runtime::block_on;

/// Carry over the strings of Redis or Valkey: from a running server, or from an RDB file.
///
/// Each string becomes a key with the same bytes, and expires when it would have expired there. Lists, hashes, sets, sorted sets,
/// streams and what modules have made have no counterpart: the report counts them and names some.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("origin").required(true).args(["from", "rdb"]))]
pub(super) struct Redis {
    /// Read from a server that runs, `redis://[USER@]HOST[:PORT][/DB]`, with TLS `rediss://...`; nothing is changed there
    #[arg(long, value_name = "URL", value_parser = Address::parse)]
    from: Option<Address>,
    /// Read the password of Redis from this file; a line break at its end does not count [default: the variable REDISCLI_AUTH]
    #[arg(long, value_name = "FILE", requires = "from")]
    from_password_file: Option<PathBuf>,
    #[command(flatten)]
    tls: FromTls,
    /// Read a file that Redis has saved (SAVE, BGSAVE, `redis-cli --rdb`)
    #[arg(long, value_name = "FILE")]
    rdb: Option<PathBuf>,
    /// The database [default: 0, and what the others have is reported as left out]
    #[arg(long, value_name = "NUMBER", conflicts_with = "from")]
    db: Option<u64>,
    #[command(flatten)]
    import: ImportArgs,
}

impl Redis {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if let Some(path) = &self.rdb {
            return self.carry_file(path);
        }
        let from = self.from.as_ref().context("neither --from nor --rdb")?;
        let password = address::password(self.from_password_file.as_deref())?;
        let tls = match from.is_tls {
            true => Some(self.tls.files()),
            false => {
                self.tls.refuse_files("rediss://")?;
                None
            }
        };
        let place = live::Place {
            address: from.clone(),
            tls,
            password,
        };
        block_on(live::carry(place, &self.import))
    }

    fn carry_file(&self, path: &Path) -> anyhow::Result<Exit> {
        let unusable = || format!("{} cannot be imported", path.display());
        let total = count(path).with_context(unusable)?;
        block_on(async {
            let expected = Expected {
                source: "redis",
                what: "keys",
                total: Some(total),
                may_repeat: false,
            };
            let mut carrier = Carrier::begin(&self.import, expected).await?;
            let mut rdb = Rdb::open(file::open(path)?, self.import.value_bytes_max).with_context(unusable)?;
            while let Some(record) = rdb.next().with_context(unusable)? {
                self.carry(record, &mut carrier).await?;
            }
            if rdb.libraries > 0 {
                let libraries = rdb.libraries;
                carrier.report.note(format!(
                    "libraries of functions (FUNCTION LOAD) are not carried over: {libraries}"
                ));
            }
            carrier.finish().await
        })
    }

    async fn carry(&self, record: Record, carrier: &mut Carrier) -> anyhow::Result<()> {
        let name = match record.key {
            Bounded::All(name) => Bytes::from(name),
            Bounded::TooMany { first, .. } => {
                return carrier.left_out(&first, "a key that is too long");
            }
        };
        if record.db != self.db.unwrap_or(0) {
            match self.db {
                Some(_) => carrier.passed_over("in other databases"),
                None => {
                    let db = record.db;
                    carrier.left_out(&name, format!("in database {db} (import it with --db {db})"))?;
                }
            }
            return Ok(());
        }
        if !carrier.wants(&name) {
            return Ok(());
        }
        match record.object {
            Content::Text(Bounded::All(value)) => {
                let key = SourceKey {
                    name,
                    value: value.into(),
                    expires_at: record.expires_at,
                };
                carrier.key(key).await
            }
            Content::Text(Bounded::TooMany { .. }) => {
                carrier.left_out(&name, too_large(self.import.value_bytes_max))
            }
            Content::Other(kind) => carrier.left_out(&name, kind.name()),
        }
    }
}

/// Reads a file to its end, which shows that it is whole; how many keys it has.
fn count(path: &Path) -> anyhow::Result<u64> {
    let mut rdb = Rdb::open(file::open(path)?, 0)?;
    let mut count = 0;
    while rdb.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

const EXAMPLES: &str = "\
Examples:
  statehold import redis --rdb dump.rdb --dry-run
  statehold import redis --rdb dump.rdb --prefix user:=users/ --prefix =redis/
  REDISCLI_AUTH=secret statehold import redis --from redis://cache.example:6379/0
  statehold import redis --from rediss://reader@cache.example --from-password-file secret --from-cafile ca.pem
  statehold import redis --rdb dump.rdb --only lock: --if-absent --report left-out.jsonl";
