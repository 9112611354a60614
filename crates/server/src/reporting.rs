//! The node's reports as log lines; what of them belongs into the audit log is in `audited.rs`.
//!
//! Each negative reason code that a client is sent has one line of level `info`: `verb object: reason`, with the client id, its address, and the topic or filter.

mod audited;

use std::sync::Arc;

use broker::{CopyNews, Denied, EndedBy, Report};
use cluster::control::CONTROL;
use cluster::replica::Missing;
use cluster::session_plane::lifecycle::{NodeState, StateChange};
use cluster::{GroupId, NodeId};
use mqtt::authorization::Right;
use mqtt::ids::ConnectionId;
use mqtt::memory::MemoryLevel;
use protocol::ReasonCode;
use tracing::field::{DisplayValue, display};

pub(crate) use self::audited::audit;
use crate::client_address::ClientAddress;
use crate::config::ListenAddress;
use crate::listener::Origin;

/// Place of a connection's client.
#[derive(Debug)]
pub(crate) struct Place {
    /// Address of the client.
    pub(crate) peer: ClientAddress,
    /// Listener that accepted the client.
    pub(crate) origin: Arc<Origin>,
}

/// Fields of a line that say where a client is.
#[derive(Default)]
pub(crate) struct Whereabouts<'a> {
    pub(crate) peer: Option<DisplayValue<&'a ClientAddress>>,
    listener: Option<DisplayValue<&'a ListenAddress>>,
}

impl<'a> Whereabouts<'a> {
    pub(crate) fn of(place: Option<&'a Place>) -> Self {
        Self {
            peer: place.map(|place| display(&place.peer)),
            listener: place.map(|place| display(&place.origin.listener)),
        }
    }
}

/// Writes one report to the log; `place` is where the client of its connection is.
pub(crate) fn report(report: &Report, place: Option<&Place>) {
    let at = Whereabouts::of(place);
    match report {
        Report::Connected { .. } | Report::Ended { .. } | Report::Disconnected { .. } => {
            connection(report, &at);
        }
        Report::Refused { .. }
        | Report::PublishRefused { .. }
        | Report::FiltersRefused { .. }
        | Report::PacketIdUnknown { .. }
        | Report::ClockAhead { .. } => refusal(report, &at),
        Report::Denied(what) => denied(what, &at),
        Report::MemoryLevel {
            before,
            level,
            used,
            memory_max,
        } => memory_level(*before, *level, *used, *memory_max),
        Report::Leader { group, leader, term } => {
            // The line of a lost leader names the voters that are not reached.
            if let Some(leader) = leader {
                tracing::info!(%group, %leader, %term, "a group has another leader");
            }
        }
        // The condition has the line.
        Report::Leaving => {}
        Report::LogTooShort { group, node, missing } => log_too_short(*group, *node, *missing),
        Report::PeerMessageDropped { from, why } => {
            tracing::warn!(node = %from, %why, "dropped what another node sent");
        }
        Report::ReplicationEnded { why } => {
            tracing::error!(%why, "the session plane cannot go on, and this node stops: start it anew");
        }
        Report::Relay { node, by } => relay(*node, *by),
        Report::Copy { group, news } => copy(*group, *news),
        Report::NodeState(change) => node_state(*change),
        Report::DiskHeldUp { group, to } => tracing::warn!(
            group = shown_group(*group),
            node = %to,
            "this node's disk takes too long for what other nodes have on theirs: another one is to lead"
        ),
        Report::TimeReckoned { group, by: Some(by) } => tracing::info!(
            group = shown_group(*group),
            seconds = by.as_secs_f64(),
            "the group stood still: leases went on by the wall clock since its last log entry"
        ),
        Report::TimeReckoned { group, by: None } => tracing::warn!(
            group = shown_group(*group),
            "the group stood still, and the clocks of its nodes do not agree: leases last longer by the stop; check NTP"
        ),
        // It has a log of its own, which knows what else took long.
        Report::Slow(_) => {}
    }
}

/// A reason code as operators find it in the specification: `0x8E Session taken over`.
fn code(reason: ReasonCode) -> String {
    format!("{:#04X} {reason}", reason as u8).replacen("0X", "0x", 1)
}

/// How connections begin and end. What one client does again and again is limited where lines are written.
fn connection(report: &Report, at: &Whereabouts<'_>) {
    let Whereabouts { peer, listener } = at;
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
            principal,
            reason,
            why,
            topic,
            ..
        } => {
            let principal = principal.as_ref().map(|principal| display(&principal.name));
            let (topic, reason) = (topic.as_deref(), code(*reason));
            tracing::info!(
                %client_id,
                peer,
                listener,
                principal,
                topic,
                reason,
                "closed connection: {why}"
            );
        }
        Report::Ended { client_id, by, .. } => ended(client_id, *by, at),
        _ => {}
    }
}

/// Ends of connections that this node has not decided.
fn ended(client_id: &str, by: EndedBy, Whereabouts { peer, listener, .. }: &Whereabouts<'_>) {
    let why = match by {
        EndedBy::Client => "the client sent DISCONNECT",
        EndedBy::Loss => "it was lost",
    };
    tracing::debug!(client_id, peer, listener, "closed connection: {why}");
}

/// What a client may not do. A PUBLISH and a SUBSCRIBE have lines of their own, which name the packet.
fn denied(denied: &Denied, Whereabouts { peer, listener }: &Whereabouts<'_>) {
    let (client_id, resource) = (&denied.client_id, denied.resource.as_str());
    let principal = denied
        .principal
        .as_ref()
        .map(|principal| display(&principal.name));
    let right = denied.right.name();
    if denied.is_withdrawn {
        tracing::info!(
            %client_id,
            peer,
            listener,
            principal,
            right,
            resource,
            "withdrew right: the policy does not allow it any more"
        );
        return;
    }
    match denied.right {
        Right::Publish | Right::Subscribe => {}
        Right::Will if denied.connection.is_none() => {
            tracing::info!(%client_id, principal, topic = resource, "dropped will: not authorized");
        }
        Right::Connect | Right::Session | Right::Will => {
            let topic = (denied.right == Right::Will).then_some(resource);
            let reason = code(ReasonCode::NotAuthorized);
            tracing::info!(
                %client_id,
                peer,
                listener,
                principal,
                right,
                topic,
                reason,
                "rejected CONNECT: not authorized"
            );
        }
        Right::Respond | Right::Read | Right::Write => tracing::info!(
            %client_id,
            peer,
            listener,
            principal,
            right,
            resource,
            "rejected request: not authorized"
        ),
    }
}

/// What a client wanted and did not get.
fn refusal(report: &Report, Whereabouts { peer, listener }: &Whereabouts<'_>) {
    match report {
        Report::Refused {
            client_id,
            reason,
            why,
            ..
        } => {
            let (client_id, reason) = (client_id.as_deref(), code(*reason));
            tracing::info!(client_id, peer, listener, reason, "rejected CONNECT: {why}");
        }
        Report::PublishRefused {
            client_id,
            topic,
            reason,
            why,
            ..
        } => {
            let reason = code(*reason);
            tracing::info!(%client_id, peer, listener, %topic, reason, "rejected PUBLISH: {why}");
        }
        Report::FiltersRefused {
            client_id,
            packet,
            filter,
            further,
            reason,
            why,
            ..
        } => {
            let (reason, further) = (code(*reason), Some(*further).filter(|further| *further > 0));
            tracing::info!(%client_id, peer, listener, %filter, further, reason, "rejected {packet}: {why}");
        }
        Report::PacketIdUnknown {
            client_id,
            packet,
            packet_id,
            ..
        } => {
            let reason = code(ReasonCode::PacketIdentifierNotFound);
            tracing::info!(
                %client_id,
                peer,
                listener,
                packet_id,
                reason,
                "rejected {packet}: the packet id is not known"
            );
        }
        Report::ClockAhead {
            client_id, ahead_ms, ..
        } => {
            tracing::warn!(
                %client_id,
                peer,
                listener,
                ahead_ms,
                "rejected request: its timestamp is ahead; synchronize the clocks"
            );
        }
        _ => {}
    }
}

/// The connection that a report is about, if it is about one.
pub(crate) fn connection_of(report: &Report) -> Option<ConnectionId> {
    match report {
        Report::Connected { connection, .. }
        | Report::Refused { connection, .. }
        | Report::Disconnected { connection, .. }
        | Report::Ended { connection, .. }
        | Report::PublishRefused { connection, .. }
        | Report::FiltersRefused { connection, .. }
        | Report::PacketIdUnknown { connection, .. }
        | Report::ClockAhead { connection, .. } => Some(*connection),
        Report::Denied(denied) => denied.connection,
        Report::Slow(slow) => Some(slow.connection),
        Report::MemoryLevel { .. }
        | Report::Leader { .. }
        | Report::Leaving
        | Report::LogTooShort { .. }
        | Report::PeerMessageDropped { .. }
        | Report::ReplicationEnded { .. }
        | Report::Relay { .. }
        | Report::Copy { .. }
        | Report::NodeState(_)
        | Report::DiskHeldUp { .. }
        | Report::TimeReckoned { .. } => None,
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

fn relay(node: NodeId, by: Option<NodeId>) {
    match by {
        Some(by) => {
            tracing::warn!(%node, %by, "messages go by another node: there is no connection to this one");
        }
        None => tracing::info!(%node, "messages go by no other node any more"),
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
        // The condition has the line.
        CopyNews::Fetched => {}
        CopyNews::Replaced => {
            tracing::info!(group, "the state store was taken over from another node");
        }
    }
}

/// A disk that is older than what was acknowledged: this node's, or another one's.
fn log_too_short(group: GroupId, node: Option<NodeId>, missing: Missing) {
    let (group, acknowledged, last) = (shown_group(group), missing.acknowledged.0, missing.last.0);
    match (node, missing.is_rolled_back) {
        (None, true) => tracing::error!(
            group,
            acknowledged,
            last,
            "this node is rolled back: its data directory is older than what it has acknowledged. It takes no part in the group; \
             start it with an empty directory, and replace it in the cluster"
        ),
        (Some(node), true) => tracing::error!(
            group,
            acknowledged,
            last,
            %node,
            "a node is rolled back: its data directory is older than what it has acknowledged. It takes no part in the group; \
             start it with an empty directory, and replace it in the cluster"
        ),
        (None, false) => tracing::warn!(
            group,
            acknowledged,
            last,
            "this node has lost the end of its log: it has no vote until the leader has sent it what is missing"
        ),
        (Some(node), false) => tracing::warn!(
            group,
            acknowledged,
            last,
            %node,
            "a node has lost the end of its log: it has no vote until it has what is missing"
        ),
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

fn memory_level(before: MemoryLevel, level: MemoryLevel, used: u64, memory_max: u64) {
    let is_scarcer = level > before;
    // Every line of JSON has a `level` of its own.
    let memory_level = level.name();
    if is_scarcer {
        tracing::warn!(memory_level, used, memory_max, "memory has become scarcer");
    } else {
        tracing::info!(memory_level, used, memory_max, "memory has become less scarce");
    }
}
