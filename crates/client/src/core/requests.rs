//! State store requests and the replies to them, matched by correlation data.
//!
//! A request that is sent again after a reconnect keeps its correlation data: the server answers one that it
//! has executed before from memory.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use protocol::hlc::Hlc;
use protocol::packet::Publish;
use protocol::properties::{MessageProperties, UserProperties};
use protocol::state_store::properties::{
    FENCING_TOKEN, PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE, STATUS, STATUS_OK, TIMESTAMP,
};
use protocol::state_store::topics::response_topic;
use protocol::state_store::{INVOKE_TOPIC, Reply, ReplyError, Request, RequestKind};
use protocol::{Text, TopicName};

use super::operation::{Message, OperationError, OperationId};

/// Names one request; travels in its correlation data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestId(u64);

/// Who wants the reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asker {
    Operation(OperationId),
    /// The registration of a watched key.
    Watch(Bytes),
    /// The end of one: nobody.
    Nobody,
}

/// A reply with its `__ts`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replied {
    pub(super) request: RequestId,
    pub(super) asker: Asker,
    pub(super) result: Result<(Reply, Option<Hlc>), OperationError>,
}

#[derive(Debug)]
pub(super) struct Requests {
    invoke_topic: TopicName,
    response_topic: Text,
    /// First half of the correlation data: tells this process from others with its client id.
    origin: u64,
    last: u64,
    pending: BTreeMap<RequestId, Pending>,
}

#[derive(Debug)]
struct Pending {
    asker: Asker,
    kind: RequestKind,
    message: Message,
    until: Instant,
}

/// A request that waits for its reply.
#[derive(Debug)]
pub(super) struct Unanswered<'a> {
    pub(super) request: RequestId,
    pub(super) message: &'a Message,
    pub(super) until: Instant,
}

/// What to send: see [`Requests::begin`].
#[derive(Debug)]
pub(super) struct NewRequest<'a> {
    pub(super) asker: Asker,
    pub(super) request: &'a Request,
    pub(super) timestamp: Hlc,
    pub(super) fencing: Option<Hlc>,
}

impl Requests {
    pub(super) fn new(client_id: &Text, origin: u64) -> Self {
        let response_topic = response_topic(client_id)
            .expect("the options checked the client id")
            .text()
            .clone();
        let invoke_topic = TopicName::parse(Text::from_static(INVOKE_TOPIC)).expect("it has no wildcard");
        Self {
            invoke_topic,
            response_topic,
            origin,
            last: 0,
            pending: BTreeMap::new(),
        }
    }

    pub(super) fn response_topic(&self) -> &Text {
        &self.response_topic
    }

    /// Makes the message of a request, which then waits for its reply until `until`.
    pub(super) fn begin(&mut self, until: Instant, new: NewRequest<'_>) -> (RequestId, Message) {
        self.last += 1;
        let id = RequestId(self.last);
        let message = Message {
            topic: self.invoke_topic.clone(),
            payload: new.request.encode(),
            qos: protocol::packet::QoS::AtLeastOnce,
            retain: false,
            dup: false,
            properties: MessageProperties {
                response_topic: Some(self.response_topic.clone()),
                correlation_data: Some(self.correlation_data(id)),
                user_properties: user_properties(&new.timestamp, new.fencing.as_ref()),
                ..MessageProperties::default()
            },
        };
        let kind = new.request.kind();
        self.pending.insert(
            id,
            Pending {
                asker: new.asker,
                kind,
                message: message.clone(),
                until,
            },
        );
        (id, message)
    }

    /// A PUBLISH to the response topic. `None` if no request waits for it.
    pub(super) fn replied(&mut self, publish: &Publish) -> Option<Replied> {
        let id = self.request_id(publish.properties.correlation_data.as_ref()?)?;
        let Pending { asker, kind, .. } = self.pending.remove(&id)?;
        Some(Replied {
            request: id,
            asker,
            result: read_reply(publish, kind),
        })
    }

    /// The request could not be delivered: who asked.
    pub(super) fn failed(&mut self, id: RequestId) -> Option<Asker> {
        self.pending.remove(&id).map(|pending| pending.asker)
    }

    /// The session was lost: messages of the requests that still wait, in their order.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = Unanswered<'_>> {
        self.pending.iter().map(|(id, pending)| Unanswered {
            request: *id,
            message: &pending.message,
            until: pending.until,
        })
    }

    /// Drops registrations under way, and their ends: those of a lost connection are worth nothing.
    pub(super) fn drop_watches(&mut self) -> Vec<RequestId> {
        let is_watch = |asker: &Asker| !matches!(asker, Asker::Operation(_));
        let dropped = self
            .pending
            .iter()
            .filter(|(_, pending)| is_watch(&pending.asker))
            .map(|(id, _)| *id)
            .collect();
        self.pending.retain(|_, pending| !is_watch(&pending.asker));
        dropped
    }

    /// Every request that waits for its reply.
    pub(super) fn all(&self) -> Vec<RequestId> {
        self.pending.keys().copied().collect()
    }

    fn correlation_data(&self, id: RequestId) -> Bytes {
        let mut data = BytesMut::with_capacity(16);
        data.put_u64(self.origin);
        data.put_u64(id.0);
        data.freeze()
    }

    fn request_id(&self, correlation_data: &Bytes) -> Option<RequestId> {
        let (origin, number) = correlation_data.split_first_chunk::<8>()?;
        let number: [u8; 8] = number.try_into().ok()?;
        (u64::from_be_bytes(*origin) == self.origin).then_some(RequestId(u64::from_be_bytes(number)))
    }
}

fn user_properties(timestamp: &Hlc, fencing: Option<&Hlc>) -> UserProperties {
    let timestamp = timestamp.to_string();
    let fencing = fencing.map(ToString::to_string);
    let pairs = [
        (TIMESTAMP, timestamp.as_str()),
        (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
    ];
    let fencing = fencing.as_deref().map(|token| (FENCING_TOKEN, token));
    UserProperties::from_pairs(pairs.into_iter().chain(fencing))
        .expect("timestamps are short and without U+0000")
}

fn read_reply(publish: &Publish, kind: RequestKind) -> Result<(Reply, Option<Hlc>), OperationError> {
    let properties = &publish.properties.user_properties;
    if let Some(status) = properties.find(STATUS)
        && status != STATUS_OK
    {
        let status = Text::new(status).map_err(|_| OperationError::MalformedReply)?;
        return Err(OperationError::Status { status });
    }
    let reply = Reply::parse(&publish.payload, kind).map_err(|error| match error {
        ReplyError::Malformed => OperationError::MalformedReply,
        ReplyError::Refused { text } => OperationError::RefusedByStore { text },
    })?;
    Ok((reply, version(properties)?))
}

/// `__ts` of a reply or a notification.
pub(super) fn version(properties: &UserProperties) -> Result<Option<Hlc>, OperationError> {
    let text = properties.find(TIMESTAMP);
    text.map(|text| Hlc::parse(text).map_err(|_| OperationError::MalformedReply))
        .transpose()
}
