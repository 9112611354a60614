//! Messages to bytes: a message that goes to many is encoded once.
//!
//! What the receivers of one message get differs in a few places: the packet identifier, and sometimes QoS, RETAIN,
//! aliases or subscription identifiers. Deliveries of one message follow each other, so keeping the last encoded one
//! is enough; a receiver whose packet has the same shape gets a copy with its own packet identifier.

use std::sync::Arc;

use broker::OutgoingPublish;
use bytes::{BufMut, BytesMut};
use mqtt::message::Message;
use protocol::packet::{ProtocolVersion, QoS};

/// Encodes messages, and remembers the last one.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    last: Option<Encoded>,
}

#[derive(Debug)]
struct Encoded {
    message: Arc<Message>,
    shape: Shape,
    /// Everything before the payload.
    head: Vec<u8>,
    /// Where the packet identifier is in `head`.
    packet_id_at: Option<usize>,
}

/// What must be equal for two packets of one message to differ in their packet identifier only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    version: ProtocolVersion,
    qos: QoS,
    dup: bool,
    retain: bool,
    message_expiry: Option<u32>,
}

impl Encoder {
    /// Appends everything of the packet but its payload to `out`.
    pub(crate) fn encode(&mut self, publish: &OutgoingPublish, version: ProtocolVersion, out: &mut BytesMut) {
        let delivery = &publish.delivery;
        if publish.topic_alias.is_some() || !delivery.subscription_ids.is_empty() {
            encode_head(publish, version, out);
            return;
        }
        let shape = Shape {
            version,
            qos: delivery.qos,
            dup: delivery.dup,
            retain: delivery.retain,
            message_expiry: publish.message_expiry,
        };
        let is_known = |last: &Encoded| Arc::ptr_eq(&last.message, &delivery.message) && last.shape == shape;
        if let Some(last) = self.last.as_ref().filter(|last| is_known(last)) {
            let start = out.len();
            out.put_slice(&last.head);
            if let (Some(at), Some(id)) = (last.packet_id_at, publish.packet_id) {
                out[start + at..start + at + 2].copy_from_slice(&id.get().to_be_bytes());
            }
            return;
        }
        let start = out.len();
        encode_head(publish, version, out);
        // One receiver needs no copy: remember only what somebody else still holds, or will get.
        if Arc::strong_count(&delivery.message) > SHARED_MIN {
            self.remember(publish, shape, &out[start..]);
        }
    }

    /// Forgets the last message, so that it does not stay in memory.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    fn remember(&mut self, publish: &OutgoingPublish, shape: Shape, head: &[u8]) {
        let mut reused = self.last.take().map(|last| last.head).unwrap_or_default();
        reused.clear();
        reused.extend_from_slice(head);
        let packet_id_at = publish.packet_id.and_then(|_| packet_id_at(&reused));
        self.last = Some(Encoded {
            message: Arc::clone(&publish.delivery.message),
            shape,
            head: reused,
            packet_id_at,
        });
    }
}

/// A message that nobody else holds is referred to by its delivery and by the session's inflight list.
const SHARED_MIN: usize = 2;

fn encode_head(publish: &OutgoingPublish, version: ProtocolVersion, out: &mut BytesMut) {
    // The node has checked the size (and drops what is too large before it comes here).
    let encoded = protocol::packet::encode_publish_head(&publish.to_packet(), version, u32::MAX, out);
    if let Err(error) = encoded {
        tracing::error!(%error, "a message cannot be encoded");
    }
}

/// Behind the fixed header (one byte and the Remaining Length) and the topic name.
fn packet_id_at(head: &[u8]) -> Option<usize> {
    let length_bytes = head.get(1..5)?.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let topic_at = 1 + length_bytes;
    let topic = usize::from(u16::from_be_bytes([
        *head.get(topic_at)?,
        *head.get(topic_at + 1)?,
    ]));
    Some(topic_at + 2 + topic)
}

#[cfg(test)]
mod tests;
