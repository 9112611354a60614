//! PUBLISH (MQTT 5.0 section 3.3), and the properties that it shares with wills.

use super::sink::{Counter, Sink, variable_byte_integer_length};
use super::{EncodeError, check_binary};
use crate::packet::{PacketType, PropertyId, ProtocolVersion, Publish, QoS};
use crate::properties::MessageProperties;

/// Refuses what has no form on the wire.
pub(super) fn check(publish: &Publish, version: ProtocolVersion) -> Result<(), EncodeError> {
    if version == ProtocolVersion::V311 && publish.topic.is_empty() {
        return Err(EncodeError::NotInVersion);
    }
    check_message_properties(&publish.properties)
}

pub(super) fn first_byte(publish: &Publish) -> u8 {
    // [MQTT-3.3.1-2]
    let dup = publish.dup && publish.qos != QoS::AtMostOnce;
    (PacketType::Publish as u8) << 4
        | u8::from(dup) << 3
        | (publish.qos as u8) << 1
        | u8::from(publish.retain)
}

/// Of what comes between the fixed header and the payload, in bytes.
pub(super) fn head_length(publish: &Publish, version: ProtocolVersion, properties_length: usize) -> usize {
    let packet_id_length = if publish.qos == QoS::AtMostOnce { 0 } else { 2 };
    let section_length = match version {
        ProtocolVersion::V5 => variable_byte_integer_length(properties_length) + properties_length,
        ProtocolVersion::V311 => 0,
    };
    2 + publish.topic.len() + packet_id_length + section_length
}

/// Of the properties without the length in front of them, in bytes.
pub(super) fn properties_length(publish: &Publish, version: ProtocolVersion) -> usize {
    let mut counter = Counter::default();
    if version == ProtocolVersion::V5 {
        write_properties(publish, &mut counter);
    }
    counter.count()
}

/// Writes what comes between the fixed header and the payload.
pub(super) fn write(
    publish: &Publish,
    version: ProtocolVersion,
    properties_length: usize,
    out: &mut impl Sink,
) {
    out.text(&publish.topic);
    // [MQTT-2.2.1-2]
    if publish.qos != QoS::AtMostOnce {
        out.u16(
            publish
                .packet_id
                .expect("a PUBLISH of QoS 1 or 2 has a packet identifier")
                .get(),
        );
    }
    if version == ProtocolVersion::V5 {
        out.variable_byte_integer(properties_length);
        write_properties(publish, out);
    }
}

fn write_properties(publish: &Publish, out: &mut impl Sink) {
    out.u16_property(
        PropertyId::TopicAlias,
        publish.topic_alias.map(|alias| alias.get()),
    );
    for id in &publish.subscription_ids {
        out.u8(PropertyId::SubscriptionIdentifier as u8);
        out.variable_byte_integer(id.get() as usize);
    }
    write_message_properties(&publish.properties, out);
}

pub(super) fn write_message_properties(properties: &MessageProperties, out: &mut impl Sink) {
    out.boolean_property(PropertyId::PayloadFormatIndicator, properties.payload_is_utf8);
    out.u32_property(PropertyId::MessageExpiryInterval, properties.message_expiry);
    out.text_property(PropertyId::ContentType, properties.content_type.as_ref());
    out.text_property(PropertyId::ResponseTopic, properties.response_topic.as_ref());
    out.binary_property(
        PropertyId::CorrelationData,
        properties.correlation_data.as_deref(),
    );
    out.bytes(properties.user_properties.encoded());
}

pub(super) fn check_message_properties(properties: &MessageProperties) -> Result<(), EncodeError> {
    check_binary("correlation data", properties.correlation_data.as_deref())
}
