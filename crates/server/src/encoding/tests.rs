//! What is copied must be what would have been encoded.

use mqtt::message::{Delivery, DeliveryKind};
use protocol::packet::{PacketId, SubscriptionId};
use protocol::properties::MessageProperties;
use protocol::{Text, TopicName};

use super::*;
use crate::clock;

fn message() -> Arc<Message> {
    let properties = MessageProperties {
        content_type: Some(Text::new("text/plain").unwrap()),
        ..MessageProperties::default()
    };
    let topic = TopicName::parse(Text::new("plant/line-1/temperature").unwrap()).unwrap();
    Arc::new(Message {
        properties,
        qos: QoS::ExactlyOnce,
        ..Message::of_server(topic, "21.5".into(), clock::now())
    })
}

fn publish(message: &Arc<Message>, qos: QoS, packet_id: u16) -> OutgoingPublish {
    OutgoingPublish {
        delivery: Delivery {
            message: Arc::clone(message),
            qos,
            retain: false,
            subscription_ids: std::iter::empty().collect(),
            kind: DeliveryKind::Message,
            dup: false,
        },
        packet_id: (qos != QoS::AtMostOnce).then(|| PacketId::new(packet_id).unwrap()),
        topic_alias: None,
        is_topic_omitted: false,
        message_expiry: None,
    }
}

fn encoded(encoder: &mut Encoder, publish: &OutgoingPublish, version: ProtocolVersion) -> BytesMut {
    let mut out = BytesMut::from("before");
    encoder.encode(publish, version, &mut out);
    out.split_off("before".len())
}

#[test]
fn a_message_to_ten_thousand_is_encoded_once() {
    let (message, mut encoder) = (message(), Encoder::default());
    let receivers: Vec<_> = (1..=10_000)
        .map(|id| publish(&message, QoS::AtLeastOnce, id))
        .collect();
    let mut first = encoded(&mut encoder, &receivers[0], ProtocolVersion::V5);
    // Whoever encodes the message again does not know of this mark.
    let last = first.len() - 1;
    first[last] ^= 0xFF;
    encoder.last.as_mut().unwrap().head[last] ^= 0xFF;
    let id_at = encoder.last.as_ref().unwrap().packet_id_at.unwrap();
    for receiver in &receivers[1..] {
        let id = receiver.packet_id.unwrap().get();
        first[id_at..id_at + 2].copy_from_slice(&id.to_be_bytes());
        assert_eq!(encoded(&mut encoder, receiver, ProtocolVersion::V5), first);
    }
}

#[test]
fn a_copy_has_the_bytes_of_a_packet_of_its_own() {
    let messages = [message(), message()];
    let mut encoder = Encoder::default();
    for number in 0..2_000_u16 {
        let bit = |bit: u16| (number.wrapping_mul(40_503) >> bit) & 1 == 1;
        let qos = match number % 3 {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        };
        let mut publish = publish(&messages[usize::from(bit(14))], qos, number + 1);
        publish.delivery.retain = bit(13) && bit(12);
        publish.delivery.dup = bit(11) && bit(10) && qos != QoS::AtMostOnce;
        publish.message_expiry = bit(9).then_some(60);
        if bit(8) && bit(7) && bit(6) {
            publish
                .delivery
                .subscription_ids
                .push(SubscriptionId::new(7).unwrap());
        }
        let version = if bit(5) {
            ProtocolVersion::V5
        } else {
            ProtocolVersion::V311
        };
        let alone = encoded(&mut Encoder::default(), &publish, version);
        assert_eq!(encoded(&mut encoder, &publish, version), alone, "{publish:?}");
    }
}

#[test]
fn what_one_receiver_gets_is_not_kept() {
    let mut encoder = Encoder::default();
    let publish = publish(&message(), QoS::AtLeastOnce, 1);
    encoded(&mut encoder, &publish, ProtocolVersion::V5);
    assert!(encoder.last.is_none());
}
