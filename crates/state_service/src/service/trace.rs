//! Spans of state store requests: at the node of the client, and at the group's leader.

use std::time::Instant;

use bytes::Bytes;
use cluster::replica::Ticket;
use cluster::{GroupId, NodeId};
use mqtt::traces::{OpenSpan, Span, SpanKind, SpanOf};
use protocol::Text;
use protocol::state_store::Verb;
use protocol::trace_context::TraceContext;

/// A client's request that is traced.
#[derive(Debug)]
pub struct RequestTrace {
    span: OpenSpan,
    /// The group that takes it.
    pub(crate) group: Option<GroupId>,
    pub(crate) marks: Marks,
}

/// How far a request has come, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// It is in an entry of the log.
    proposed: Option<Instant>,
    /// Which the disk was given with this.
    ticket: Option<Ticket>,
    /// And has.
    synced: Option<Instant>,
    /// The leader was sent it.
    sent: Option<(NodeId, Instant)>,
    /// The leader was asked how much it has to see.
    asked: Option<Instant>,
}

impl Marks {
    /// The entry with it is proposed, unless it was in an earlier one.
    pub(crate) fn propose(&mut self, now: Instant) {
        self.proposed.get_or_insert(now);
    }

    /// The disk is given what was proposed.
    pub(crate) fn give_to_disk(&mut self, ticket: Ticket) {
        if self.proposed.is_some() {
            self.ticket.get_or_insert(ticket);
        }
    }

    /// The disk has everything up to there.
    pub(crate) fn sync(&mut self, now: Instant, up_to: Ticket) {
        if self.ticket.is_some_and(|ticket| ticket <= up_to) {
            self.synced.get_or_insert(now);
        }
    }

    /// It is sent to a leader. False: that one has been sent it before.
    pub(crate) fn send(&mut self, now: Instant, leader: NodeId) -> bool {
        let is_new = self.sent.is_none_or(|(to, _)| to != leader);
        if is_new {
            self.sent = Some((leader, now));
        }
        is_new
    }

    /// Its barrier is asked for.
    pub(crate) fn ask(&mut self, now: Instant) {
        self.asked.get_or_insert(now);
    }

    /// The spans below a request, at this node.
    fn spans(&self, request: &OpenSpan, own: NodeId, ended: Instant, spans: &mut Vec<Span>) {
        let below = |kind, began| OpenSpan::below(request.context, kind, own, began);
        let sent = self.sent.map(|(_, at)| at);
        let went_on = [self.proposed, sent, self.asked].into_iter().flatten().min();
        if let Some(went_on) = went_on.filter(|at| *at > request.began) {
            spans.push(below(SpanKind::Queued, request.began).end(went_on, SpanOf::Queued));
        }
        if let Some(asked) = self.asked {
            let until = [self.proposed, sent].into_iter().flatten().min().unwrap_or(ended);
            spans.push(below(SpanKind::Barrier, asked).end(until, SpanOf::Barrier));
        }
        if let Some((to, sent)) = self.sent {
            spans.push(below(SpanKind::Forwarded, sent).end(ended, SpanOf::Forwarded { to }));
        }
        if let Some(proposed) = self.proposed {
            let replicated = below(SpanKind::Replicated, proposed);
            if let Some(synced) = self.synced {
                let span = OpenSpan::below(replicated.context, SpanKind::Synced, own, proposed);
                spans.push(span.end(synced, SpanOf::Synced));
            }
            spans.push(replicated.end(ended, SpanOf::Replicated));
        }
    }
}

impl RequestTrace {
    /// Trace of a request that came now.
    pub fn new(span: OpenSpan) -> Self {
        Self {
            span,
            group: None,
            marks: Marks::default(),
        }
    }

    /// What the leader is told, so that what it does is below what this node waits for.
    pub(crate) fn at_leader(&self, own: NodeId) -> TraceContext {
        OpenSpan::below(self.span.context, SpanKind::Forwarded, own, self.span.began).context
    }

    /// It is answered.
    pub fn end(
        self,
        now: Instant,
        own: NodeId,
        client_id: Text,
        (verb, key): (Verb, Option<Bytes>),
        error: Option<Bytes>,
    ) -> Vec<Span> {
        let mut spans = Vec::new();
        self.marks.spans(&self.span, own, now, &mut spans);
        let what = SpanOf::Request {
            client_id,
            verb,
            key,
            group: self.group,
            error,
        };
        spans.push(self.span.end(now, what));
        spans
    }
}

/// The spans of a command of another node, which this one has proposed. `place`: of what that node waits for.
pub(crate) fn decided_for(
    (of, group): (NodeId, GroupId),
    place: TraceContext,
    own: NodeId,
    marks: &Marks,
    (began, ended): (Instant, Instant),
) -> Vec<Span> {
    let span = OpenSpan::below(place, SpanKind::Command, own, began);
    let mut spans = Vec::new();
    marks.spans(&span, own, ended, &mut spans);
    spans.push(span.end(ended, SpanOf::Command { of, group }));
    spans
}
