//! The node's reports as log lines.

use broker::{ConnectionId, Report};

use crate::client_address::ClientAddress;

/// Writes one report to the log; `peer` finds the address of a connection.
pub(crate) fn report(report: &Report, peer: impl Fn(ConnectionId) -> Option<ClientAddress>) {
    let address = |connection: &ConnectionId| peer(*connection).map(tracing::field::display);
    match report {
        Report::Connected {
            connection,
            client_id,
            session_present,
        } => {
            tracing::debug!(%client_id, peer = address(connection), session_present, "connected");
        }
        Report::Refused {
            connection,
            reason,
            why,
        } => {
            tracing::info!(peer = address(connection), %reason, %why, "refused a CONNECT");
        }
        Report::Disconnected {
            connection,
            client_id,
            reason,
            why,
        } => {
            tracing::info!(%client_id, peer = address(connection), %reason, %why, "disconnected a client");
        }
        Report::Ended {
            connection,
            client_id,
            is_graceful,
        } => {
            tracing::debug!(%client_id, peer = address(connection), is_graceful, "connection ended");
        }
        Report::PublishRefused {
            connection,
            client_id,
            reason,
            why,
        } => {
            tracing::info!(%client_id, peer = address(connection), %reason, %why, "refused a PUBLISH");
        }
        Report::MemoryLevel {
            before,
            level,
            used,
            memory_max,
        } => {
            let level_name = level.name();
            if level > before {
                tracing::warn!(level = level_name, used, memory_max, "memory has become scarcer");
            } else {
                tracing::info!(
                    level = level_name,
                    used,
                    memory_max,
                    "memory has become less scarce"
                );
            }
        }
        Report::ClockAhead {
            connection,
            client_id,
            ahead_ms,
        } => {
            tracing::warn!(
                %client_id,
                peer = address(connection),
                ahead_ms,
                "refused a state store request whose timestamp is ahead; synchronize the clocks"
            );
        }
    }
}
