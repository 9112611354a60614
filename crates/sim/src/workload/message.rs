//! What clients of a workload send, and what they learn.

use bytes::Bytes;
use protocol::Text;
use protocol::packet::{Publish, QoS};
use protocol::properties::MessageProperties;
use smallvec::SmallVec;

/// A numbered message of one publisher.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Numbered {
    pub(super) publisher: String,
    pub(super) number: u64,
    pub(super) is_exactly_once: bool,
}

/// A change of a topic's retained message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Retaining {
    /// There was none before, and nobody sets another.
    Set(String),
    /// The same, sent more than once: with another node it may have become a later write than the one that was acknowledged.
    SetAgain(String),
    /// For good.
    Clear(String),
}

/// What a publisher waits to have acknowledged.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    Message(Numbered),
    Retaining(Retaining),
    /// A request, which is answered by a message.
    Request,
}

/// What a client learned from what it was sent.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) is_anything: bool,
    /// Messages that the server did not take, because memory is scarce.
    pub(super) refused: u64,
    /// Messages that were sent again, because it is not known what became of them.
    pub(super) resent: Vec<Numbered>,
    pub(super) acknowledged: Vec<Numbered>,
    pub(super) retaining: Vec<Retaining>,
    pub(super) delivered: Vec<Numbered>,
    /// What is no numbered message: responses, and what is retained.
    pub(super) others: Vec<Publish>,
}

impl Sent {
    pub(super) fn note(self, heard: &mut Heard) {
        match self {
            Self::Message(message) => heard.acknowledged.push(message),
            Self::Retaining(retaining) => heard.retaining.push(retaining),
            Self::Request => {}
        }
    }
}

pub(super) fn publish(qos: QoS, topic: String, payload: String) -> Publish {
    Publish {
        dup: false,
        qos,
        retain: false,
        topic: Text::new(topic).expect("a short topic"),
        packet_id: None,
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::from(payload),
    }
}

/// Which message a delivered PUBLISH is, by its topic `t/<publisher>/<qos>`.
pub(super) fn numbered(publish: &Publish) -> Option<Numbered> {
    let mut levels = publish.topic.strip_prefix("t/")?.split('/');
    let publisher = levels.next()?.to_owned();
    let is_exactly_once = levels.next()? == "2";
    let number = std::str::from_utf8(&publish.payload).ok()?.parse().ok()?;
    Some(Numbered {
        publisher,
        number,
        is_exactly_once,
    })
}
