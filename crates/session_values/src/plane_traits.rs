//! Traits of the plane: its view of values and contents.
//!
//! The content of a queued message is stored once for all queues of a node. A will and a used
//! packet id have one entry each, so their records contain the content.

use std::time::Duration;

use bytes::Bytes;
use protocol::packet::QoS;
use session_plane::RecordValue;
use session_plane::delivering::{DeliveryQos, DeliveryValue, PacketDelivery};
use session_plane::expiring::{LifetimeValue, SessionExpiry};
use session_plane::plane::NumberedValue;
use session_plane::publishing::{PacketUse, WillNumber};
use session_plane::queue_limits::QueueValue;
use session_plane::transfer::{TransferBytes, TransferValue};
use session_plane::wills::{WillPart, WillValue};
use session_plane::wire::WireValue;

use crate::{Content, UsedPacketId, Value};

impl TransferBytes for Content {
    fn bytes(&self) -> usize {
        self.memory()
    }
}

impl WireValue for Content {
    fn to_bytes(&self) -> Bytes {
        self.encoded().clone()
    }

    fn from_bytes(bytes: Bytes) -> Option<Content> {
        Content::decode_part(&bytes).ok()
    }
}

impl RecordValue for Content {
    fn content(&self) -> Option<Bytes> {
        Some(self.encoded().clone())
    }

    fn to_record(&self) -> Bytes {
        Bytes::new()
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Content> {
        let content = content.filter(|_| record.is_empty())?;
        Content::decode(content).ok()
    }
}

impl TransferBytes for Value {
    fn bytes(&self) -> usize {
        self.memory()
    }
}

impl TransferValue for Value {
    fn append_digest(&self, bytes: &mut Vec<u8>) {
        Value::append_digest(self, bytes);
    }
}

impl WireValue for Value {
    fn to_bytes(&self) -> Bytes {
        self.encode()
    }

    fn from_bytes(bytes: Bytes) -> Option<Value> {
        Value::decode(bytes).ok()
    }
}

impl RecordValue for Value {
    fn content(&self) -> Option<Bytes> {
        match self {
            Value::Message(message) => Some(message.content().encoded().clone()),
            _ => None,
        }
    }

    fn to_record(&self) -> Bytes {
        self.encode_record()
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Value> {
        Value::decode_record(record, content).ok()
    }
}

impl NumberedValue<Content> for Value {
    fn of_use(packet_use: PacketUse, body: Option<Content>) -> Value {
        Value::Use(Box::new(UsedPacketId::new(packet_use, body)))
    }

    fn packet_use(&self) -> Option<PacketUse> {
        match self {
            Value::Use(used) => Some(used.packet_use()),
            _ => None,
        }
    }

    fn of_will_number(number: WillNumber) -> Value {
        Value::WillNumber(Box::new(number))
    }

    fn of_will_end(delay: Option<Duration>) -> Value {
        Value::WillEnd(delay)
    }

    fn body(&self) -> Option<Content> {
        match self {
            Value::Use(used) => used.content().cloned(),
            Value::Will(will) => Some(will.content().clone()),
            _ => None,
        }
    }
}

impl WillValue for Value {
    fn will_part(&self) -> Option<WillPart> {
        match self {
            Value::Will(will) => Some(WillPart::Text {
                content: will.content().id(),
                delay: will.delay(),
            }),
            Value::WillEnd(delay) => Some(WillPart::End { delay: *delay }),
            Value::WillNumber(number) => Some(WillPart::Number(**number)),
            _ => None,
        }
    }
}

impl LifetimeValue for Value {
    fn of_expiry(expiry: SessionExpiry) -> Value {
        Value::Expiry(expiry)
    }

    fn session_expiry(&self) -> Option<SessionExpiry> {
        match self {
            Value::Session(terms) => Some(SessionExpiry::of_seconds(terms.expiry())),
            Value::Expiry(expiry) => Some(*expiry),
            _ => None,
        }
    }
}

impl QueueValue for Value {
    fn queue_bytes(&self) -> u64 {
        match self {
            Value::Message(message) => message.content().queue_bytes(),
            _ => 0,
        }
    }

    fn expires_at(&self) -> Option<u64> {
        match self {
            Value::Message(message) => message.content().expires_at(),
            _ => None,
        }
    }
}

impl DeliveryValue for Value {
    fn of_delivery(delivery: PacketDelivery) -> Value {
        Value::Delivery(delivery)
    }

    fn packet_delivery(&self) -> Option<PacketDelivery> {
        match self {
            Value::Delivery(delivery) => Some(*delivery),
            _ => None,
        }
    }

    fn delivery_qos(&self) -> Option<DeliveryQos> {
        let Value::Message(message) = self else {
            return None;
        };
        match message.qos() {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce => Some(DeliveryQos::AtLeastOnce),
            QoS::ExactlyOnce => Some(DeliveryQos::ExactlyOnce),
        }
    }

    fn of_member(&self, member: &Value) -> Value {
        match (self, member) {
            (Value::Message(message), Value::Subscription(terms)) => Value::Message(message.of_member(terms)),
            _ => self.clone(),
        }
    }
}
