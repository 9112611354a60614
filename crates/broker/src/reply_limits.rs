//! Limits of replies: the Maximum Packet Size of the client that asked, and how many may wait for it.
//!
//! A client is not sent a packet that is larger than it takes [MQTT-3.1.2-25]. A reply is not left out for that: an error
//! that names the size takes its place, and a SCAN cuts its pages to fit. A request whose client has no room even for that
//! error is refused before it is executed.
//!
//! Replies that wait for a client have a place of their own in its queue. Requests of a client that does not take its
//! replies are refused, so that those of two full windows wait at most. Of values and pages only one may pass the bytes.
//!
//! Invariant: a request that is acknowledged with success is answered, as long as its connection is there.

use bytes::Bytes;
use mqtt::ids::SessionKey;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::response::Asking;
use protocol::Packet;
use protocol::packet::{PacketId, ProtocolVersion, Publish, QoS};
use protocol::state_store::{Dialect, ErrorText, REPLY_TOO_LARGE_BYTES_MAX, Reply, reply_too_large};
use state_service::properties;

use crate::node::Node;
use crate::routing::Route;

impl Node {
    /// Error in place of a response that is larger than the client that asked takes.
    pub(crate) fn refusal_of_response(
        &self,
        now: Now,
        message: &Message,
        asking: Asking,
        routes: &[Route],
    ) -> Option<Message> {
        let connection = self.connections.get(asking.connection)?;
        let asker = connection.session()?;
        let packet_size_max = connection.packet_size_max;
        let is_near = |route: &Route| {
            let size = message.size() + 5 * route.subscription_ids.len();
            size >= packet_size_max as usize
        };
        let route = routes.iter().find(|route| route.session == asker)?;
        if message.payload.len() > REPLY_TOO_LARGE_BYTES_MAX && self.lacks_bytes_for(asker, message) {
            let refused = Reply::Error(ErrorText::RepliesWait).encode(Dialect::Sdk);
            return Some(with_error(message, refused));
        }
        if !is_near(route) {
            return None;
        }
        let packet = packet(now, message, route);
        let packet_size = protocol::packet::encoded_len(&packet, ProtocolVersion::V5);
        (packet_size > packet_size_max as usize)
            .then(|| with_error(message, reply_too_large(packet_size, packet_size_max)))
    }

    /// Whether a client has to take some of its replies before it may ask again.
    pub(crate) fn has_too_many_replies(&self, asker: SessionKey) -> bool {
        let limits = &self.config.limits;
        let (count, bytes) = self.replies_of(asker);
        count >= usize::from(limits.receive_maximum) || bytes >= limits.queue_bytes_max
    }

    /// Whether a reply with a value or a page would wait behind others, and be too much with them.
    fn lacks_bytes_for(&self, asker: SessionKey, message: &Message) -> bool {
        let (count, bytes) = self.replies_of(asker);
        count > 0 && bytes + message.size() as u64 > self.config.limits.queue_bytes_max
    }

    fn replies_of(&self, asker: SessionKey) -> (usize, u64) {
        let entry = self.sessions.get(asker);
        entry.map_or((0, 0), |entry| entry.outbox.replies())
    }
}

/// Response to the same request with an error.
fn with_error(response: &Message, error: Bytes) -> Message {
    let mut refusal = response.clone();
    refusal.payload = error;
    refusal.properties.user_properties = properties::of_response(None, None);
    refusal
}

/// Packet in which a response goes on a route.
fn packet(now: Now, message: &Message, route: &Route) -> Packet {
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: route.qos,
        retain: false,
        topic: message.topic.text().clone(),
        packet_id: PacketId::new(1).filter(|_| route.qos != QoS::AtMostOnce),
        topic_alias: None,
        subscription_ids: route.subscription_ids.clone(),
        properties: message.properties_now(now),
        payload: message.payload.clone(),
    }))
}

/// What a client is told whose request is refused because it does not take its replies.
pub(crate) const REPLIES_WAIT: &str = "too many replies wait for the client, which has to take them first";
