//! Why a server does not start, or stops.

use broker::recovery::RecordsError;
use cluster::replica::ReplicaError;
use storage::{Fault, KeyFileError, OpenError, RecoveryError};
use store::RestoreError;
use thiserror::Error;

use crate::admin::AdminError;
use crate::audit::AuditError;
use crate::authentication::AuthenticationError;
use crate::authorization::AuthorizationError;
use crate::config::{ConfigError, ListenAddress};
use crate::exposure::Exposure;
use crate::logging::LoggingError;
use crate::tls::TlsError;
use crate::traces::TracesError;

/// Why a server does not start, or stops.
#[derive(Debug, Error)]
pub enum RunError {
    /// The settings do not make sense together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The settings would let anybody in.
    #[error(transparent)]
    Exposed(#[from] Exposure),
    /// The data directory cannot be used. Nothing in it was changed.
    #[error("{0}{advice}", advice = advice(.0.is_damage()))]
    Open(#[from] OpenError),
    /// The keys of the data directory cannot be had. Nothing in it was changed.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// What is in the data directory cannot be read. Nothing in it was removed.
    #[error("{0}{advice}", advice = advice(!matches!(.0, RecoveryError::Fault(_))))]
    Recovery(#[from] RecoveryError),
    /// The snapshot of the state store cannot be read. Nothing was removed.
    #[error("the snapshot of the state store cannot be read: {0}{RESTORE}")]
    Restore(#[from] RestoreError),
    /// The log does not belong to this node.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// A record of a session, a queue or a retained message cannot be read. Nothing was removed.
    #[error("keyspace {keyspace}: {error}{RESTORE}")]
    Record {
        /// Where it is.
        keyspace: &'static str,
        /// What is wrong with it.
        error: RecordsError,
    },
    /// The disk failed while the server ran. What was acknowledged before is safe.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The address of a listener is in use, not one of this machine, or a path that cannot be used.
    #[error("cannot listen on {address} (listeners.address): {error}")]
    Bind {
        /// As in the settings.
        address: ListenAddress,
        /// Why.
        error: std::io::Error,
    },
    /// The address where other nodes connect is in use, or not one of this machine.
    #[error("cannot listen on {address} (cluster.peer_listen): {error}")]
    BindPeers {
        /// As in the settings.
        address: std::net::SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// A node of a cluster was started as if there were none.
    #[error(
        "the data directory {} belongs to node {node} of cluster {cluster}, and there are no settings of a cluster:          start it as before, with cluster.peer_listen, cluster.join and cluster.size (--peer-listen, --join, --cluster-size)",
        .directory.display()
    )]
    NeedsCluster {
        /// The data directory.
        directory: std::path::PathBuf,
        /// Whose it is.
        node: cluster::NodeId,
        /// Of which cluster.
        cluster: cluster::ClusterId,
    },
    /// A server that was on its own was started as a node of a cluster.
    #[error(
        "the data directory {} was used by a server without a cluster, and a node of a cluster begins with nothing:          name an empty directory (data_dir, --data-dir), or leave out cluster.peer_listen (--peer-listen) to go on without a cluster",
        .directory.display()
    )]
    NotEmpty {
        /// The data directory.
        directory: std::path::PathBuf,
    },
    /// More than one thing is wrong; one line for each.
    #[error("{}", lines(_0))]
    Several(Vec<RunError>),
    /// The log cannot be written as the settings say.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// A file of a listener's TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What clients are authenticated by cannot be used.
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    /// A policy cannot be used.
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    /// The audit log cannot be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The admin pages cannot be served.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// Traces cannot be sent.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// The system does not give a thread or a poll.
    #[error("cannot start: {0}")]
    System(std::io::Error),
}

/// What an operator does about damage.
const RESTORE: &str = "; nothing was changed: restore the data directory from a copy or a backup, or replace the node of a cluster \
                       (docs/storage.md, When something fails)";

fn advice(is_damage: bool) -> &'static str {
    if is_damage { RESTORE } else { "" }
}

fn lines(problems: &[RunError]) -> String {
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
