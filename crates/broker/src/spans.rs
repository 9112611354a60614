//! Spans of this node: of the messages and requests of its clients.

use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use mqtt::traces::{MessageTrace, shown, shown_bytes};
use protocol::packet::{Publish, QoS};
use protocol::{Text, TopicName};
use state_service::{Answer, RequestTrace};

use crate::node::{Action, Node};

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

    /// Client id of a connection; empty if it has gone.
    fn client_id_of(&self, id: ConnectionId) -> Text {
        self.client_of(id).unwrap_or_default()
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
