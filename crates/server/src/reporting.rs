//! The node's reports as log lines.

use std::sync::Arc;

use broker::{ConnectionId, CopyNews, Denied, MemoryLevel, Report, Right};
use cluster::GroupId;
use cluster::control::CONTROL;
use cluster::session_plane::lifecycle::NodeState;
use cluster::session_plane::nodes::StateChange;
use protocol::ReasonCode;
use tracing::field::display;

use crate::audit::{Audit, Happened, Source};
use crate::client_address::ClientAddress;
use crate::listener::Origin;

/// Characters of a client's text that a line shows at most.
const SHOWN_MAX: usize = 256;

/// Where a connection is from: its client's address, and the listener that accepted it.
pub(crate) type Place = (ClientAddress, Arc<Origin>);

/// Writes one report to the log; `find` knows where a connection is from.
pub(crate) fn report(report: &Report, find: impl Fn(ConnectionId) -> Option<Place>) {
    let place = connection_of(report).and_then(find);
    let peer = place.as_ref().map(|(peer, _)| display(peer));
    let listener = place.as_ref().map(|(_, origin)| display(&origin.listener));
    match report {
        Report::Connected {
            client_id,
            principal,
            session_present,
            ..
        } => {
            let principal = principal.as_ref().map(|principal| display(&principal.name));
            tracing::debug!(%client_id, peer, listener, principal, session_present, "connected");
        }
        Report::Disconnected {
            client_id,
            reason,
            why,
            ..
        } => {
            tracing::info!(%client_id, peer, listener, %reason, %why, "disconnected a client");
        }
        Report::Ended {
            client_id,
            is_graceful,
            ..
        } => {
            tracing::debug!(%client_id, peer, listener, is_graceful, "connection ended");
        }
        Report::MemoryLevel {
            before,
            level,
            used,
            memory_max,
        } => memory_level(*before, *level, *used, *memory_max),
        Report::Leader { group, leader, term } => match leader {
            Some(leader) => tracing::info!(%group, %leader, %term, "a group has another leader"),
            None => {
                tracing::warn!(%group, %term, "a group has no leader: requests about its keys are refused");
            }
        },
        Report::PeerMessageDropped { from, why } => {
            tracing::warn!(node = %from, %why, "dropped what another node sent");
        }
        Report::Copy { group, news } => copy(*group, *news),
        Report::NodeState(change) => node_state(*change),
        Report::DiskHeldUp { group, to } => tracing::warn!(
            group = shown_group(*group),
            node = %to,
            "this node's disk takes too long for what other nodes have on theirs: another one is to lead"
        ),
        Report::Refused { .. }
        | Report::PublishRefused { .. }
        | Report::SubscriptionRefused { .. }
        | Report::ClockAhead { .. } => refusal(report, place.as_ref()),
        // It has a log of its own, which knows what else took long.
        Report::Slow(_) => {}
        Report::Denied(what) => denied(what, place.as_ref()),
    }
}

/// Tells the audit log what a report is about, if that belongs there.
pub(crate) fn audit(report: &Report, find: impl Fn(ConnectionId) -> Option<Place>, audit: &Audit) {
    let happened = match report {
        Report::Connected {
            client_id,
            principal,
            session_present,
            ..
        } => Happened::Connected {
            client_id: client_id.to_string(),
            principal: principal.as_ref().map(|principal| principal.name.to_string()),
            session_present: *session_present,
        },
        Report::Refused {
            client_id,
            reason,
            why,
            ..
        } => Happened::Refused {
            client_id: client_id.as_ref().map(ToString::to_string),
            reason: reason.to_string(),
            why: why.clone(),
        },
        Report::Disconnected {
            client_id,
            reason,
            why,
            ..
        } => Happened::Disconnected {
            client_id: client_id.to_string(),
            reason: reason.to_string(),
            why: why.clone(),
        },
        Report::Denied(denied) => Happened::Denied(denied.clone()),
        Report::Ended { .. }
        | Report::MemoryLevel { .. }
        | Report::Leader { .. }
        | Report::PeerMessageDropped { .. }
        | Report::Copy { .. }
        | Report::NodeState(_)
        | Report::DiskHeldUp { .. }
        | Report::PublishRefused { .. }
        | Report::SubscriptionRefused { .. }
        | Report::ClockAhead { .. }
        | Report::Slow(_) => return,
    };
    let place = connection_of(report).and_then(find);
    let source = place.map(|(peer, origin)| Source {
        peer: peer.to_string(),
        ip: peer.ip(),
        listener: origin.listener.to_string(),
    });
    audit.tell(happened, source);
}

/// What a client may not do. Whoever has no right to something can ask for it again and again: only what ends something is
/// told at a level that is on without being asked for; the audit log has the rest.
fn denied(denied: &Denied, place: Option<&Place>) {
    let peer = place.map(|(peer, _)| display(peer));
    let listener = place.map(|(_, origin)| display(&origin.listener));
    let client_id = shown(&denied.client_id);
    let principal = denied
        .principal
        .as_ref()
        .map(|principal| display(&principal.name));
    let (right, resource) = (denied.right.name(), shown(&denied.resource));
    if denied.is_withdrawn {
        tracing::info!(
            client_id,
            peer,
            listener,
            principal,
            right,
            resource,
            "took from a client what it may not have any more"
        );
    } else if matches!(denied.right, Right::Connect | Right::Session) {
        tracing::info!(client_id, peer, listener, principal, right, "denied a CONNECT");
    } else {
        tracing::debug!(
            client_id,
            peer,
            listener,
            principal,
            right,
            resource,
            "denied a client"
        );
    }
}

/// What a client wanted and did not get.
fn refusal(report: &Report, place: Option<&Place>) {
    let peer = place.map(|(peer, _)| display(peer));
    let listener = place.map(|(_, origin)| display(&origin.listener));
    match report {
        Report::Refused {
            client_id,
            reason,
            why,
            ..
        } => {
            let client_id = client_id.as_deref().map(shown).map(display);
            if matches!(
                *reason,
                ReasonCode::ConnectionRateExceeded | ReasonCode::ServerBusy
            ) {
                // There may be thousands of them each second, and each line takes the node's time. Metrics count them, and of an
                // address that fails too often the operator was told once.
                tracing::debug!(client_id, peer, listener, %reason, %why, "refused a CONNECT");
            } else {
                tracing::info!(client_id, peer, listener, %reason, %why, "refused a CONNECT");
            }
        }
        Report::PublishRefused {
            client_id,
            reason,
            why,
            ..
        } => {
            tracing::info!(%client_id, peer, listener, %reason, %why, "refused a PUBLISH");
        }
        Report::SubscriptionRefused {
            client_id,
            filter,
            reason,
            ..
        } => {
            let filter = shown(filter);
            tracing::info!(%client_id, peer, listener, filter, %reason, "refused a subscription");
        }
        Report::ClockAhead {
            client_id, ahead_ms, ..
        } => {
            tracing::warn!(
                %client_id,
                peer,
                listener,
                ahead_ms,
                "refused a state store request whose timestamp is ahead; synchronize the clocks"
            );
        }
        _ => {}
    }
}

/// The connection that a report is about, if it is about one.
fn connection_of(report: &Report) -> Option<ConnectionId> {
    match report {
        Report::Connected { connection, .. }
        | Report::Refused { connection, .. }
        | Report::Disconnected { connection, .. }
        | Report::Ended { connection, .. }
        | Report::PublishRefused { connection, .. }
        | Report::SubscriptionRefused { connection, .. }
        | Report::ClockAhead { connection, .. } => Some(*connection),
        Report::Denied(denied) => denied.connection,
        Report::Slow(slow) => Some(slow.connection),
        Report::MemoryLevel { .. }
        | Report::Leader { .. }
        | Report::PeerMessageDropped { .. }
        | Report::Copy { .. }
        | Report::NodeState(_)
        | Report::DiskHeldUp { .. } => None,
    }
}

fn node_state(change: StateChange) {
    let StateChange {
        node,
        from,
        to,
        reason,
    } = change;
    match to {
        NodeState::Dead => tracing::warn!(%node, %from, %to, why = %reason, "a node is in another state"),
        _ => tracing::info!(%node, %from, %to, why = %reason, "a node is in another state"),
    }
}

fn copy(group: GroupId, news: CopyNews) {
    let group = group.0;
    match news {
        CopyNews::Differs { index } => tracing::error!(
            group,
            entry = index.0,
            "this node's copy of the state store differs from that of the majority: it serves nothing, and is fetched anew"
        ),
        CopyNews::Undecided { index } => tracing::error!(
            group,
            entry = index.0,
            "copies of the state store differ, and no majority of the nodes has the same: which one is right is not known, and nothing is done about it"
        ),
        CopyNews::SnapshotUnreadable => {
            tracing::warn!(
                group,
                "the snapshot that another node sent cannot be read; it is fetched again"
            );
        }
        CopyNews::Replaced => {
            tracing::info!(group, "the state store was taken over from another node");
        }
    }
}

/// As operators call it.
fn shown_group(group: GroupId) -> String {
    if group == CONTROL {
        "control".to_owned()
    } else {
        group.to_string()
    }
}

/// Its beginning, if it is long.
pub(crate) fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_MAX)]
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
