//! What took longer than [`Limits::slow_operation`](mqtt::limits::Limits::slow_operation), for the operator.
//!
//! The time is what the client has waited for at this node: from the event with its packet to the step that answers it. Nothing is kept for it
//! but the moment when a packet came; the rest is put together when something was slow.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use protocol::Text;
use protocol::state_store::Verb;

use crate::node::{Action, Node};
use crate::report::Report;

/// Something that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowOperation {
    /// Of which connection.
    pub connection: ConnectionId,
    /// Whose.
    pub client_id: Text,
    /// What.
    pub kind: SlowKind,
    /// The key of a request about one.
    pub key: Option<Bytes>,
    /// From the client's packet to its answer.
    pub took: Duration,
}

/// What took long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowKind {
    /// A state store request, to its reply.
    Request(Verb),
    /// A PUBLISH of QoS 1 or 2, to its PUBACK or PUBREC. Of several that are acknowledged at once the one that has waited longest.
    Publish,
    /// CONNECT, from the claim of its session until the session is the connection's.
    Connect,
    /// SUBSCRIBE, to its SUBACK.
    Subscribe,
}

impl Node {
    /// Tells the operator of something that began at a moment and ends now, if that took long.
    pub(crate) fn note_slow(
        &self,
        now: Now,
        id: ConnectionId,
        (kind, began): (SlowKind, Instant),
        key: Option<Bytes>,
        actions: &mut Vec<Action>,
    ) {
        let took = now.instant.saturating_duration_since(began);
        if took < self.config.limits.slow_operation {
            return;
        }
        let session = self
            .connections
            .get(id)
            .and_then(|connection| connection.session());
        let entry = session.and_then(|session| self.sessions.get(session));
        let Some(entry) = entry else { return };
        actions.push(Action::Report(Report::Slow(Box::new(SlowOperation {
            connection: id,
            client_id: entry.client_id.clone(),
            kind,
            key,
            took,
        }))));
    }
}
