//! Spans of messages at the nodes that other nodes send them to.
//!
//! They are below the client's span, as is that of the node where they were published: a message's user properties travel as they came
//! [MQTT-3.3.2-17], so they cannot say more. What a node itself begins to trace is seen there only.

use std::collections::VecDeque;
use std::time::Instant;

use cluster::NodeId;
use protocol::properties::UserProperties;
use protocol::trace_context::{Found, TraceContext};
use protocol::{Text, TopicName};

use super::{OpenSpan, Span, SpanKind, SpanOf, shown};
use crate::message::Message;
use crate::node::{Action, Node};
use crate::now::Now;
use crate::origin::Origin;
use crate::records::forwarded::Position;

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
            self.tracer
                .arrivals
                .note(now.instant, own, (from, position), what);
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
        let arrivals = &mut self.tracer.arrivals;
        if !arrivals.is_empty() {
            let spans = arrivals.written(now.instant, node, up_to);
            actions.extend((!spans.is_empty()).then_some(Action::Traced(spans)));
        }
    }
}
