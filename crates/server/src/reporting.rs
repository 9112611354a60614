//! The node's reports as log lines.

use broker::{ConnectionId, MemoryLevel, Report};

use crate::client_address::ClientAddress;

/// Writes one report to the log; `peer` finds the address of a connection.
pub(crate) fn report(report: &Report, peer: impl Fn(ConnectionId) -> Option<ClientAddress>) {
    let address = |connection: &ConnectionId| peer(*connection).map(tracing::field::display);
    match report {
        Report::Connected {
            connection,
            client_id,
            principal,
            session_present,
        } => {
            let principal = principal
                .as_ref()
                .map(|principal| tracing::field::display(&principal.name));
            tracing::debug!(%client_id, peer = address(connection), principal, session_present, "connected");
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
        } => memory_level(*before, *level, *used, *memory_max),
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

fn memory_level(before: MemoryLevel, level: MemoryLevel, used: u64, memory_max: u64) {
    let is_scarcer = level > before;
    let level = level.name();
    if is_scarcer {
        tracing::warn!(level, used, memory_max, "memory has become scarcer");
    } else {
        tracing::info!(level, used, memory_max, "memory has become less scarce");
    }
}
