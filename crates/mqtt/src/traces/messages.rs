//! Spans of clients' messages, at the node where they are published.

use std::time::Instant;

use cluster::NodeId;
use protocol::packet::QoS;
use protocol::{ReasonCode, Text};

use super::{OpenSpan, Span, SpanKind, SpanOf};

/// A client's message that is traced, until it is acknowledged.
#[derive(Debug)]
pub struct MessageTrace {
    span: OpenSpan,
    topic: Text,
    qos: QoS,
    bytes: usize,
    /// It is decided how it is acknowledged.
    decided: Option<(Instant, ReasonCode)>,
}

impl MessageTrace {
    /// Trace of a PUBLISH that came now.
    pub fn new(span: OpenSpan, topic: Text, qos: QoS, bytes: usize) -> Self {
        Self {
            span,
            topic,
            qos,
            bytes,
            decided: None,
        }
    }

    pub(crate) fn decide(&mut self, now: Instant, reason: ReasonCode) {
        self.decided.get_or_insert((now, reason));
    }

    /// It is acknowledged.
    pub fn end(self, now: Instant, own: NodeId, client_id: Text) -> Vec<Span> {
        let (decided, reason) = self.decided.unwrap_or((now, ReasonCode::Success));
        let parts = [
            (SpanKind::Stored, self.span.began, decided, SpanOf::Stored),
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
