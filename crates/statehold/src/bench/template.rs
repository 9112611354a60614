//! A PUBLISH that is encoded once; each copy gets its own packet identifier, correlation data, time and key.

use bytes::{Bytes, BytesMut};
use client::protocol::packet::{Packet, PacketId, ProtocolVersion, Publish, QoS, encode};
use client::protocol::properties::{MessageProperties, UserProperties};
use client::protocol::state_store::properties::{PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE, TIMESTAMP};
use client::protocol::state_store::{Condition, INVOKE_TOPIC, Request};
use client::protocol::{Text, TopicName};

/// An encoded PUBLISH and where in it the changing parts are.
#[derive(Debug, Clone)]
pub(super) struct Template {
    encoded: Bytes,
    packet_id: usize,
    correlation_data: Option<usize>,
    wall: Option<usize>,
    key: Option<usize>,
}

/// The changing parts of one copy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parts {
    pub(super) packet_id: u16,
    pub(super) correlation_data: u64,
    pub(super) wall_ms: u64,
    pub(super) key: u64,
}

impl Template {
    /// A GET, or a SET of a value of this many bytes.
    pub(super) fn request(response_topic: &TopicName, value_size: Option<usize>) -> anyhow::Result<Self> {
        let key = Bytes::from(format!("{KEY_PREFIX}{KEY_MARKER}"));
        let request = match value_size {
            None => Request::Get { key },
            Some(size) => {
                let value = Bytes::from(vec![b'x'; size]);
                Request::Set {
                    key,
                    value,
                    condition: Condition::None,
                    expires_in: None,
                }
            }
        };
        let timestamp = format!("{WALL_MARKER}:0:bench");
        let pairs = [
            (TIMESTAMP, timestamp.as_str()),
            (PROTOCOL_VERSION, PROTOCOL_VERSION_VALUE),
        ];
        let properties = MessageProperties {
            response_topic: Some(response_topic.text().clone()),
            correlation_data: Some(Bytes::copy_from_slice(CORRELATION_MARKER)),
            user_properties: UserProperties::from_pairs(pairs)?,
            ..MessageProperties::default()
        };
        Self::new(INVOKE_TOPIC, QoS::AtLeastOnce, properties, request.encode())
    }

    /// A message whose payload begins with 8 bytes of [`Parts::correlation_data`].
    pub(super) fn message(topic: &str, qos: QoS, payload_size: usize) -> anyhow::Result<Self> {
        let mut payload = vec![b'x'; payload_size.max(CORRELATION_MARKER.len())];
        payload[..CORRELATION_MARKER.len()].copy_from_slice(CORRELATION_MARKER);
        Self::new(topic, qos, MessageProperties::default(), payload.into())
    }

    fn new(topic: &str, qos: QoS, properties: MessageProperties, payload: Bytes) -> anyhow::Result<Self> {
        let publish = Publish {
            dup: false,
            qos,
            retain: false,
            topic: Text::new(topic)?,
            packet_id: if qos == QoS::AtMostOnce {
                None
            } else {
                PacketId::new(1)
            },
            topic_alias: None,
            subscription_ids: Default::default(),
            properties,
            payload,
        };
        let mut encoded = BytesMut::new();
        encode(
            &Packet::Publish(Box::new(publish)),
            ProtocolVersion::V5,
            u32::MAX,
            &mut encoded,
        )?;
        let topic_at = find(&encoded, topic.as_bytes()).unwrap_or(0);
        Ok(Self {
            packet_id: if qos == QoS::AtMostOnce {
                0
            } else {
                topic_at + topic.len()
            },
            correlation_data: find(&encoded, CORRELATION_MARKER),
            wall: find(&encoded, WALL_MARKER.as_bytes()),
            key: find(&encoded, format!("{KEY_PREFIX}{KEY_MARKER}").as_bytes())
                .map(|at| at + KEY_PREFIX.len()),
            encoded: encoded.freeze(),
        })
    }

    /// Appends a copy.
    pub(super) fn write(&self, parts: Parts, out: &mut BytesMut) {
        let start = out.len();
        out.extend_from_slice(&self.encoded);
        let copy = &mut out[start..];
        if self.packet_id > 0 {
            copy[self.packet_id..self.packet_id + 2].copy_from_slice(&parts.packet_id.to_be_bytes());
        }
        if let Some(at) = self.correlation_data {
            copy[at..at + 8].copy_from_slice(&parts.correlation_data.to_be_bytes());
        }
        if let Some(at) = self.wall {
            write_decimal(parts.wall_ms, &mut copy[at..at + WALL_MARKER.len()]);
        }
        if let Some(at) = self.key {
            write_decimal(parts.key, &mut copy[at..at + KEY_MARKER.len()]);
        }
    }
}

fn write_decimal(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
}

fn find(encoded: &[u8], part: &[u8]) -> Option<usize> {
    encoded.windows(part.len()).position(|window| window == part)
}

const KEY_PREFIX: &str = "bench:";
/// Ten digits, which occur nowhere else.
const KEY_MARKER: &str = "9876543210";
/// As many digits as a time of this century has.
const WALL_MARKER: &str = "9753186420975";
const CORRELATION_MARKER: &[u8; 8] = b"\x01corr\xfe\xff\x02";

#[cfg(test)]
mod tests {
    use client::protocol::packet::Decoder;

    use super::*;

    fn decode(encoded: &mut BytesMut) -> Publish {
        let mut decoder = Decoder::new(u32::MAX);
        decoder.set_version(ProtocolVersion::V5);
        match decoder.decode(encoded) {
            Ok(Some(Packet::Publish(publish))) => *publish,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_patched_request_says_what_it_was_told_to() {
        let topic = TopicName::parse(Text::from_static("clients/c/response")).unwrap();
        for value_size in [None, Some(0), Some(3)] {
            let template = Template::request(&topic, value_size).unwrap();
            let parts = Parts {
                packet_id: 513,
                correlation_data: 7,
                wall_ms: 1_700_000_000_123,
                key: 42,
            };
            let mut out = BytesMut::from(&b""[..]);
            template.write(
                Parts {
                    packet_id: 1,
                    ..Parts::default()
                },
                &mut out,
            );
            template.write(parts, &mut out);
            decode(&mut out);
            let publish = decode(&mut out);
            assert_eq!(publish.packet_id.unwrap().get(), 513);
            assert_eq!(
                publish.properties.correlation_data.unwrap(),
                7_u64.to_be_bytes()[..]
            );
            assert_eq!(
                publish.properties.user_properties.find("__ts"),
                Some("1700000000123:0:bench")
            );
            let request = Request::parse(&publish.payload).unwrap();
            assert_eq!(request.key().unwrap(), "bench:0000000042");
        }
    }

    #[test]
    fn a_patched_message_keeps_its_size() {
        let template = Template::message("bench/1", QoS::AtMostOnce, 20).unwrap();
        let mut out = BytesMut::new();
        template.write(
            Parts {
                correlation_data: 5,
                ..Parts::default()
            },
            &mut out,
        );
        let publish = decode(&mut out);
        assert_eq!(publish.payload.len(), 20);
        assert_eq!(publish.payload[..8], 5_u64.to_be_bytes());
    }
}
