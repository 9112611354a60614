//! Encodings of the values of a history.

use std::time::Duration;

use bytes::Bytes;
use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use session_plane::delivering::{DeliveryQos, DeliveryStage, DeliveryValue, PacketDelivery};
use session_plane::expiring::{LifetimeValue, SessionExpiry};
use session_plane::plane::NumberedValue;
use session_plane::publishing::{ContentId, NumberedMessage, PacketId, PacketUse, WillNumber};
use session_plane::queue_limits::QueueValue;
use session_plane::transfer::{TransferBytes, TransferValue};
use session_plane::wills::{WillPart, WillValue};
use session_plane::wire::WireValue;
use session_plane::{Dot, RecordValue, Run};

use super::machine::{Body, Value};

impl TransferBytes for Body {
    fn bytes(&self) -> usize {
        20
    }
}

impl TransferBytes for Value {
    fn bytes(&self) -> usize {
        20
    }
}

impl TransferValue for Value {
    fn append_digest(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_bytes());
    }
}

impl NumberedValue<Body> for Value {
    fn of_use(packet_use: PacketUse, body: Option<Body>) -> Value {
        Value::Use(packet_use, body)
    }

    fn packet_use(&self) -> Option<PacketUse> {
        match self {
            Value::Use(packet_use, _) => Some(*packet_use),
            _ => None,
        }
    }

    fn of_will_number(number: WillNumber) -> Value {
        Value::WillNumber(number)
    }

    fn of_will_end(delay: Option<Duration>) -> Value {
        Value::WillEnd(delay.map(|delay| u64::try_from(delay.as_millis()).expect("short")))
    }

    fn body(&self) -> Option<Body> {
        match self {
            Value::Use(_, body) => *body,
            Value::Will(body, _) => Some(*body),
            _ => None,
        }
    }
}

impl WillValue for Value {
    fn will_part(&self) -> Option<WillPart> {
        let millis = Duration::from_millis;
        match *self {
            Value::Will(Body(body), delay) => Some(WillPart::Text {
                content: ContentId(u128::from(body)),
                delay: millis(delay),
            }),
            Value::WillEnd(delay) => Some(WillPart::End {
                delay: delay.map(millis),
            }),
            Value::WillNumber(number) => Some(WillPart::Number(number)),
            _ => None,
        }
    }
}

impl Value {
    /// Value of the expiry of a session.
    pub(super) fn expiring(expiry: SessionExpiry) -> Value {
        Value::Expiry(expiry.seconds())
    }
}

/// Bodies count differently, and some have more than a limited queue may have. Some expire in the storm.
impl QueueValue for Value {
    fn queue_bytes(&self) -> u64 {
        match self {
            Value::Message(Body(body)) if body % 11 == 0 => 200,
            Value::Message(Body(body)) => 10 + u64::from(body % 4) * 10,
            _ => 0,
        }
    }

    fn expires_at(&self) -> Option<u64> {
        match self {
            Value::Message(Body(body)) if body % 5 == 0 => Some(1_005_000),
            _ => None,
        }
    }
}

/// Clients that change their sessions without a connection have sessions that do not expire.
impl LifetimeValue for Value {
    fn of_expiry(expiry: SessionExpiry) -> Value {
        Value::expiring(expiry)
    }

    fn session_expiry(&self) -> Option<SessionExpiry> {
        match self {
            Value::Session(seconds) | Value::Expiry(seconds) => Some(SessionExpiry::of_seconds(*seconds)),
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

    /// Each third message has QoS 1.
    fn delivery_qos(&self) -> Option<DeliveryQos> {
        match self {
            Value::Message(Body(body)) if body % 3 == 0 => Some(DeliveryQos::AtLeastOnce),
            Value::Message(_) => Some(DeliveryQos::ExactlyOnce),
            _ => None,
        }
    }

    fn of_member(&self, _: &Value) -> Value {
        *self
    }
}

impl WireValue for Body {
    fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    fn from_bytes(bytes: Bytes) -> Option<Body> {
        bytes[..].try_into().ok().map(u32::from_be_bytes).map(Body)
    }
}

/// Words of a value, each of 16 bytes.
fn words(value: &Value) -> Vec<u128> {
    match value {
        Value::Plain(number) => vec![0, u128::from(*number)],
        Value::Message(Body(body)) => vec![1, u128::from(*body)],
        Value::Use(packet_use, body) => {
            let mut words = vec![2, u128::from(packet_use.packet_id.0.get())];
            words.push(u128::from(packet_use.connection_clock.to_bits()));
            let clock = packet_use.message_clock;
            words.push(clock.map_or(0, |clock| 1 + u128::from(clock.to_bits())));
            if let Some(NumberedMessage { number, content }) = packet_use.message {
                let Run { node, incarnation } = number.run;
                words.extend([
                    node.0.into(),
                    incarnation.0.into(),
                    number.number.into(),
                    content.0,
                ]);
            }
            words.extend(body.map(|body| u128::from(body.0)));
            words
        }
        Value::Will(Body(body), delay) => vec![3, u128::from(*body), u128::from(*delay)],
        Value::Session(seconds) => vec![7, u128::from(*seconds)],
        Value::Expiry(seconds) => vec![8, u128::from(*seconds)],
        Value::WillEnd(delay) => vec![4, delay.map_or(0, |delay| 1 + u128::from(delay))],
        Value::WillNumber(WillNumber {
            number,
            message_clock,
        }) => {
            let Run { node, incarnation } = number.run;
            let clock = message_clock.map_or(0, |clock| 1 + u128::from(clock.to_bits()));
            vec![
                5,
                node.0.into(),
                incarnation.0.into(),
                number.number.into(),
                clock,
            ]
        }
        Value::Delivery(delivery) => vec![
            6,
            delivery.packet_id.0.get().into(),
            delivery.connection_clock.to_bits().into(),
            delivery.order.into(),
            match delivery.stage {
                DeliveryStage::Sent(DeliveryQos::AtLeastOnce) => 0,
                DeliveryStage::Sent(DeliveryQos::ExactlyOnce) => 1,
                DeliveryStage::Released => 2,
                DeliveryStage::Freeing => 3,
            },
        ],
    }
}

/// Moment of a word; 0 is none.
fn moment(word: u128) -> Option<Option<Hlc>> {
    match word.checked_sub(1) {
        None => Some(None),
        Some(bits) => Hlc::from_bits(u64::try_from(bits).ok()?).map(Some),
    }
}

fn dot_of(node: u128, incarnation: u128, number: u128) -> Option<Dot> {
    let run = Run {
        node: NodeId(u64::try_from(node).ok()?),
        incarnation: Incarnation(u32::try_from(incarnation).ok()?),
    };
    let number = u64::try_from(number).ok()?;
    Some(Dot { run, number })
}

fn value_of(words: &[u128]) -> Option<Value> {
    let number = |word: u128| u64::try_from(word).ok();
    let body = |word: u128| u32::try_from(word).ok();
    Some(match *words {
        [0, plain] => Value::Plain(body(plain)?),
        [1, message] => Value::Message(Body(body(message)?)),
        [2, packet_id, clock, message_clock, ref rest @ ..] => {
            let message = match *rest {
                [node, incarnation, dot, content, _] => Some(NumberedMessage {
                    number: dot_of(node, incarnation, dot)?,
                    content: ContentId(content),
                }),
                _ => None,
            };
            let packet_use = PacketUse {
                packet_id: PacketId(u16::try_from(packet_id).ok()?.try_into().ok()?),
                connection_clock: Hlc::from_bits(number(clock)?)?,
                message,
                message_clock: moment(message_clock)?,
            };
            let last = rest.get(4).copied();
            Value::Use(packet_use, last.and_then(body).map(Body))
        }
        [3, of_body, delay] => Value::Will(Body(body(of_body)?), number(delay)?),
        [7, seconds] => Value::Session(body(seconds)?),
        [8, seconds] => Value::Expiry(body(seconds)?),
        [4, 0] => Value::WillEnd(None),
        [4, delay] => Value::WillEnd(Some(number(delay - 1)?)),
        [5, node, incarnation, dot, clock] => Value::WillNumber(WillNumber {
            number: dot_of(node, incarnation, dot)?,
            message_clock: moment(clock)?,
        }),
        [6, packet_id, clock, order, stage] => Value::Delivery(PacketDelivery {
            packet_id: PacketId(u16::try_from(packet_id).ok()?.try_into().ok()?),
            connection_clock: Hlc::from_bits(number(clock)?)?,
            order: number(order)?,
            stage: match stage {
                0 => DeliveryStage::Sent(DeliveryQos::AtLeastOnce),
                1 => DeliveryStage::Sent(DeliveryQos::ExactlyOnce),
                2 => DeliveryStage::Released,
                3 => DeliveryStage::Freeing,
                _ => return None,
            },
        }),
        _ => return None,
    })
}

impl WireValue for Value {
    fn to_bytes(&self) -> Bytes {
        words(self).into_iter().flat_map(u128::to_be_bytes).collect()
    }

    fn from_bytes(bytes: Bytes) -> Option<Value> {
        let (words, rest) = bytes.as_chunks::<16>();
        let words: Vec<u128> = words.iter().map(|word| u128::from_be_bytes(*word)).collect();
        rest.is_empty().then(|| value_of(&words)).flatten()
    }
}

/// Odd bodies are contents, which messages share.
impl RecordValue for Body {
    fn content(&self) -> Option<Bytes> {
        (self.0 % 2 == 1).then(|| self.to_bytes())
    }

    fn to_record(&self) -> Bytes {
        if self.0 % 2 == 1 {
            Bytes::new()
        } else {
            self.to_bytes()
        }
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Body> {
        Body::from_bytes(content.unwrap_or(record))
    }
}

/// A message shares the content of its body.
impl RecordValue for Value {
    fn content(&self) -> Option<Bytes> {
        match self {
            Value::Message(body) => body.content(),
            _ => None,
        }
    }

    fn to_record(&self) -> Bytes {
        if self.content().is_some() {
            Bytes::new()
        } else {
            self.to_bytes()
        }
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Value> {
        match content {
            Some(content) => Body::from_bytes(content).map(Value::Message),
            None => Value::from_bytes(record),
        }
    }
}
