//! `statehold import etcd`

mod bolt;
mod live;
mod record;
mod snapshot;

use std::path::{Path, PathBuf};

use anyhow::Context;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use server::clock;

use self::snapshot::Snapshot;
use super::args::ImportArgs;
use super::carrier::{Carrier, Expected, SourceKey};
use super::tls::FromTls;
use crate::exit::Exit;
use crate::runtime::block_on;

/// Carry over the keys of etcd 3: from a running cluster, or from a snapshot.
///
/// Each key becomes one with the same bytes and the value that it has now; there is no history here. What a lease of etcd would end
/// expires. From a running cluster all keys are of one revision.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("origin").required(true).args(["from", "snapshot"]))]
pub(super) struct Etcd {
    /// Read from a cluster that runs, over its JSON gateway, as in `https://etcd.example:2379`; nothing is changed there
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Read a file that `etcdctl snapshot save` has written, or the `db` of a member that is stopped
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// What becomes of keys that have a lease
    #[arg(long, value_enum, default_value = "expire", value_name = "WHAT")]
    leased: Leased,
    /// The user name at etcd
    #[arg(long, value_name = "NAME", requires = "from")]
    from_username: Option<String>,
    /// Read the password at etcd from this file; a line break at its end does not count [default: the variable ETCDCTL_PASSWORD]
    #[arg(long, value_name = "FILE", requires = "from_username")]
    from_password_file: Option<PathBuf>,
    #[command(flatten)]
    tls: FromTls,
    /// Ask an etcd on another machine without TLS: what it says, and a password, can be read along
    #[arg(long, requires = "from")]
    from_http: bool,
    #[command(flatten)]
    import: ImportArgs,
}

/// What becomes of keys that have a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Leased {
    /// They expire after what the lease has left; a snapshot does not say since when, so it begins anew with the import
    Expire,
    /// They stay for ever
    Keep,
    /// They are not carried over, and not reported
    Skip,
}

const SKIPPED: &str = "had a lease (--leased skip)";

/// No snapshot and no answer has a lease for them.
const LEASE_GONE: &str = "of a lease that has ended";

impl Etcd {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match &self.snapshot {
            Some(path) => self.carry_snapshot(path),
            None => block_on(live::carry(&self)),
        }
    }

    fn carry_snapshot(&self, path: &Path) -> anyhow::Result<Exit> {
        let snapshot = Snapshot::open(path)?;
        // Of all leases alike.
        let begun_at = clock::wall();
        block_on(async {
            let mut carrier = Carrier::begin(&self.import, expected(Some(snapshot.len()))).await?;
            if !snapshot.is_checked {
                carrier.report.note(
                    "the file has no checksum, as that of a member; `etcdctl snapshot save` writes one",
                );
            }
            let mut entries = snapshot.entries()?;
            let unusable = || format!("{} cannot be imported", path.display());
            while let Some(entry) = entries.next().with_context(unusable)? {
                let name = Bytes::from(entry.key);
                if !carrier.wants(&name) {
                    continue;
                }
                let expires_at = match (entry.lease, self.leased) {
                    (0, _) | (_, Leased::Keep) => None,
                    (_, Leased::Skip) => {
                        carrier.passed_over(SKIPPED);
                        continue;
                    }
                    (id, Leased::Expire) => match snapshot.lease(id) {
                        Some(lease) => Some(begun_at.saturating_add(lease.left_ms())),
                        None => {
                            carrier.passed_over(LEASE_GONE);
                            continue;
                        }
                    },
                };
                let key = SourceKey {
                    name,
                    value: entry.value.into(),
                    expires_at,
                };
                carrier.key(key).await?;
            }
            carrier.finish().await
        })
    }
}

fn expected(total: Option<u64>) -> Expected {
    Expected {
        source: "etcd",
        what: "keys",
        total,
        may_repeat: false,
    }
}

const EXAMPLES: &str = "\
Examples:
  statehold import etcd --from http://127.0.0.1:2379 --dry-run
  statehold import etcd --from https://etcd.example:2379 --from-cafile ca.pem --only /config/ --prefix /config/=config/
  ETCDCTL_PASSWORD=secret statehold import etcd --from https://etcd.example:2379 --from-username reader
  statehold import etcd --snapshot backup.db --leased keep";
