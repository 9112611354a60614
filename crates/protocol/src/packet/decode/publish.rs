//! PUBLISH (MQTT 5.0 section 3.3).

use bytes::{Buf, Bytes};
use smallvec::SmallVec;

use super::Sender;
use super::error::Violation;
use super::properties::PropertyReader;
use super::reader::Reader;
use crate::byte_search;
use crate::packet::{PropertyId, ProtocolVersion, Publish, QoS, SubscriptionId, TopicAlias};
use crate::properties::MessageProperties;

/// Decodes a PUBLISH; `flags` are those of its fixed header.
#[inline]
pub(super) fn publish(
    mut body: Bytes,
    flags: u8,
    version: ProtocolVersion,
    sender: Sender,
) -> Result<Publish, Violation> {
    let qos = QoS::from_u8(flags >> 1 & 0b11).ok_or(Violation::Qos3)?;
    let mut packet = Reader::new(&body);
    let topic = packet.text("topic name")?;
    if byte_search::has_wildcard(topic.as_bytes()) {
        let field = "topic name";
        return Err(Violation::TopicNameWildcard { field, topic });
    }
    // [MQTT-2.2.1-2]
    let packet_id = if qos == QoS::AtMostOnce {
        None
    } else {
        Some(packet.packet_id()?)
    };
    let mut publish = Publish {
        dup: flags & 0b1000 != 0,
        qos,
        retain: flags & 0b0001 != 0,
        topic,
        packet_id,
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::new(),
    };
    if version == ProtocolVersion::V5 {
        properties(&mut packet, sender, &mut publish)?;
    }
    if publish.topic.is_empty() && publish.topic_alias.is_none() {
        return Err(Violation::TopicNameMissing);
    }
    let payload_length = packet.len();
    body.advance(body.len() - payload_length);
    publish.payload = body;
    Ok(publish)
}

fn properties(packet: &mut Reader<'_>, sender: Sender, publish: &mut Publish) -> Result<(), Violation> {
    let mut properties = PropertyReader::new(packet)?;
    while let Some(property) = properties.next_id()? {
        match property {
            PropertyId::TopicAlias => {
                let alias = TopicAlias::new(properties.u16(property.name())?);
                publish.topic_alias = Some(alias.ok_or(Violation::TopicAliasZero)?);
            }
            // [MQTT-3.3.4-6]
            PropertyId::SubscriptionIdentifier if sender == Sender::Client => {
                return Err(Violation::PropertyFromWrongSide { property });
            }
            PropertyId::SubscriptionIdentifier => {
                publish.subscription_ids.push(subscription_id(&mut properties)?);
                properties.may_repeat(property);
            }
            _ => properties.message_property(property, &mut publish.properties)?,
        }
    }
    publish.properties.user_properties = properties.into_user_properties();
    Ok(())
}

/// The value of a Subscription Identifier.
pub(super) fn subscription_id(properties: &mut PropertyReader<'_>) -> Result<SubscriptionId, Violation> {
    let property = PropertyId::SubscriptionIdentifier;
    let id = properties.variable_byte_integer(property.name())?;
    SubscriptionId::new(id).ok_or(Violation::PropertyValue { property, value: 0 })
}
