//! Spans of clients' messages, at the node where they are published.

use std::time::Instant;

use cluster::NodeId;
use protocol::packet::{Publish, QoS};
use protocol::{ReasonCode, Text, TopicName};

use super::{OpenSpan, Span, SpanKind, SpanOf, shown};
use crate::ids::ConnectionId;
use crate::node::{Action, Node};
use crate::now::Now;
use crate::waiting::Waiter;

/// A client's message that is traced, until it is acknowledged.
#[derive(Debug)]
pub(crate) struct MessageTrace {
    span: OpenSpan,
    topic: Text,
    qos: QoS,
    bytes: usize,
    /// What this node keeps of it is where it has to be, and others are waited for.
    kept: Option<Instant>,
    /// It is decided how it is acknowledged.
    decided: Option<(Instant, ReasonCode)>,
}

impl MessageTrace {
    pub(crate) fn new(span: OpenSpan, topic: Text, qos: QoS, bytes: usize) -> Self {
        Self {
            span,
            topic,
            qos,
            bytes,
            kept: None,
            decided: None,
        }
    }

    pub(crate) fn keep(&mut self, now: Instant) {
        self.kept.get_or_insert(now);
    }

    pub(crate) fn decide(&mut self, now: Instant, reason: ReasonCode) {
        self.decided.get_or_insert((now, reason));
    }

    /// It is acknowledged.
    pub(crate) fn end(self, now: Instant, own: NodeId, client_id: Text) -> Vec<Span> {
        let (decided, reason) = self.decided.unwrap_or((now, ReasonCode::Success));
        let kept = self.kept.unwrap_or(decided);
        let parts = [
            (SpanKind::Kept, self.span.began, kept, SpanOf::Kept),
            (SpanKind::Spread, kept, decided, SpanOf::Spread),
            (SpanKind::InOrder, decided, now, SpanOf::InOrder),
        ];
        let took_time = parts.into_iter().filter(|(_, began, ended, _)| ended > began);
        let below = |(kind, began, ended, what)| {
            OpenSpan::below(self.span.context, kind, own, began).end(ended, what)
        };
        let mut spans: Vec<Span> = took_time.map(below).collect();
        let what = SpanOf::Message {
            client_id,
            topic: self.topic,
            qos: self.qos,
            bytes: self.bytes,
            reason,
        };
        spans.push(self.span.end(now, what));
        spans
    }
}

impl Node {
    /// A PUBLISH came: the acknowledgement that the present step opens for it is traced, if it is to be.
    #[inline]
    pub(crate) fn begin_message_trace(&mut self, now: Now, topic: &TopicName, publish: &Publish) {
        if !self.tracer.is_on() || publish.qos == QoS::AtMostOnce {
            return;
        }
        let span = self
            .tracer
            .begin(now.instant, &publish.properties.user_properties);
        let trace = |span| MessageTrace::new(span, shown(topic.as_str()), publish.qos, publish.payload.len());
        self.tracer.message = span.map(trace).map(Box::new);
    }

    /// What this node keeps of a message is where it has to be, and others are waited for.
    #[inline]
    pub(crate) fn note_message_kept(&mut self, now: Now, then: &Waiter) {
        if !self.tracer.is_on() {
            return;
        }
        let waiter = match then {
            Waiter::Received { then, .. } => then,
            waiter => waiter,
        };
        if let Waiter::Ack {
            connection, sequence, ..
        } = waiter
            && let Some(connection) = self.connections.get_mut(*connection)
            && let Some(trace) = connection.acks.trace_of(*sequence)
        {
            trace.keep(now.instant);
        }
    }

    /// Messages of a client are acknowledged.
    #[inline]
    pub(crate) fn end_message_traces(
        &mut self,
        now: Now,
        id: ConnectionId,
        traced: Vec<MessageTrace>,
        actions: &mut Vec<Action>,
    ) {
        for trace in traced {
            let client_id = self.client_id_of(id);
            let spans = trace.end(now.instant, self.groups.node(), client_id);
            actions.push(Action::Traced(spans));
        }
    }

    /// What the client of a connection calls itself; nothing if it has gone.
    pub(super) fn client_id_of(&self, id: ConnectionId) -> Text {
        let connection = self.connections.get(id);
        let session = connection.and_then(|connection| connection.session());
        let entry = session.and_then(|session| self.sessions.get(session));
        entry.map_or_else(Text::default, |entry| entry.session.client_id.clone())
    }
}
