//! Spans of this node: of the messages and requests of its clients, and of the messages that other nodes send it.
//!
//! Spans of messages of other nodes are below the client's span, as is that of the node where they were published: a message's
//! user properties travel as they came [MQTT-3.3.2-17], so they cannot say more. A trace that a node itself begins is seen there only.

use std::collections::VecDeque;
use std::time::Instant;

use cluster::NodeId;
use mqtt::ids::ConnectionId;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::origin::{Origin, Position};
use mqtt::traces::{MessageTrace, OpenSpan, Span, SpanKind, SpanOf, shown, shown_bytes};
use protocol::packet::{Publish, QoS};
use protocol::properties::UserProperties;
use protocol::trace_context::{Found, TraceContext};
use protocol::{Text, TopicName};
use state_service::{Answer, RequestTrace};

use crate::node::{Action, Node};
use crate::waiting::Waiter;

/// Messages of other nodes that are traced and not on disk yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    waiting: VecDeque<Arrival>,
}

#[derive(Debug)]
struct Arrival {
    from: NodeId,
    position: Position,
    span: OpenSpan,
    topic: Text,
}

/// More than this are not traced.
const ARRIVALS_MAX: usize = 1_024;

impl Arrivals {
    /// A message came from another node, and is told from others of it by its position.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        own: NodeId,
        (from, position): (NodeId, Position),
        (topic, properties): (&TopicName, &UserProperties),
    ) {
        let Found::Context(context, state) = TraceContext::find(properties) else {
            return;
        };
        if !context.is_sampled() || self.waiting.len() >= ARRIVALS_MAX {
            return;
        }
        // What a client publishes below one of its own spans is of one context, however much it is.
        let which = [from.0, position.incarnation.into(), position.number];
        let mut span = OpenSpan::of_several_below(context, SpanKind::Arrival, own, &which, now);
        span.state = state;
        self.waiting.push_back(Arrival {
            from,
            position,
            span,
            topic: shown(topic.as_str()),
        });
    }

    /// What that node sent up to there is on disk. Of another run of it nothing comes any more.
    pub(crate) fn written(&mut self, now: Instant, node: NodeId, up_to: Position) -> Vec<Span> {
        let is_written = |arrival: &Arrival| {
            arrival.from == node
                && (arrival.position.incarnation != up_to.incarnation
                    || arrival.position.number <= up_to.number)
        };
        let (written, waiting): (VecDeque<_>, _) = self.waiting.drain(..).partition(is_written);
        self.waiting = waiting;
        let end = |arrival: Arrival| {
            let (from, topic) = (arrival.from, arrival.topic);
            arrival.span.end(now, SpanOf::Arrival { from, topic })
        };
        written.into_iter().map(end).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Node {
    /// Another node sent a message.
    #[inline]
    pub(crate) fn note_arrival(&mut self, now: Now, from: NodeId, message: &Message) {
        if !self.tracer.is_on() || message.properties.user_properties.is_empty() {
            return;
        }
        if let Origin::Node { position, .. } = message.origin {
            let what = (&message.topic, &message.properties.user_properties);
            let own = self.groups.node();
            self.arrivals.note(now.instant, own, (from, position), what);
        }
    }

    /// What another node sent up to there is on disk.
    #[inline]
    pub(crate) fn arrivals_written(
        &mut self,
        now: Now,
        (node, up_to): (NodeId, Position),
        actions: &mut Vec<Action>,
    ) {
        let arrivals = &mut self.arrivals;
        if !arrivals.is_empty() {
            let spans = arrivals.written(now.instant, node, up_to);
            actions.extend((!spans.is_empty()).then_some(Action::Traced(spans)));
        }
    }

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
            Waiter::Received { then, .. } | Waiter::Replicated { then, .. } => then,
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
    fn client_id_of(&self, id: ConnectionId) -> Text {
        let connection = self.connections.get(id);
        let session = connection.and_then(|connection| connection.session());
        let entry = session.and_then(|session| self.sessions.get(session));
        entry.map_or_else(Text::default, |entry| entry.session.client_id.clone())
    }

    /// A client's request is answered.
    pub(crate) fn end_request_trace(
        &mut self,
        now: Now,
        trace: RequestTrace,
        answer: &Answer,
        actions: &mut Vec<Action>,
    ) {
        let client_id = self.client_id_of(answer.asking.connection);
        let asked = (answer.verb, answer.key.as_deref().map(shown_bytes));
        let error = answer.is_error.then(|| answer.payload.clone());
        let spans = trace.end(now.instant, self.groups.node(), client_id, asked, error);
        actions.push(Action::Traced(spans));
    }
}
