//! CONNECT and CONNACK (MQTT 5.0 sections 3.1 and 3.2).

use super::publish::{check_message_properties, write_message_properties};
use super::sink::{Counter, Sink};
use super::{Detail, EncodeError, check_binary};
use crate::packet::{
    ConnAck, ConnAckProperties, Connect, ConnectProperties, PropertyId, ProtocolVersion, QoS, Will,
};

/// Refuses what has no form on the wire.
pub(super) fn check(connect: &Connect) -> Result<(), EncodeError> {
    check_binary("password", connect.password.as_deref())?;
    check_binary(
        "authentication data",
        connect.properties.authentication_data.as_deref(),
    )?;
    if let Some(will) = &connect.will {
        check_binary("will payload", Some(&will.payload))?;
        check_message_properties(&will.properties)?;
    }
    Ok(())
}

pub(super) fn connect(connect: &Connect, out: &mut impl Sink) {
    out.prefixed(b"MQTT");
    out.u8(match connect.version {
        ProtocolVersion::V311 if connect.is_bridge => 0x84,
        ProtocolVersion::V311 => 4,
        ProtocolVersion::V5 => 5,
    });
    out.u8(flags(connect));
    out.u16(connect.keep_alive);
    let is_v5 = connect.version == ProtocolVersion::V5;
    if is_v5 {
        let mut counter = Counter::default();
        connect_properties(&connect.properties, &mut counter);
        out.variable_byte_integer(counter.count());
        connect_properties(&connect.properties, out);
    }
    // [MQTT-3.1.3-1]
    out.text(&connect.client_id);
    if let Some(will) = &connect.will {
        if is_v5 {
            let mut counter = Counter::default();
            will_properties(will, &mut counter);
            out.variable_byte_integer(counter.count());
            will_properties(will, out);
        }
        out.text(will.topic.text());
        out.prefixed(&will.payload);
    }
    if let Some(username) = &connect.username {
        out.text(username);
    }
    if let Some(password) = &connect.password {
        out.prefixed(password);
    }
}

pub(super) fn connack(connack: &ConnAck, version: ProtocolVersion, detail: Detail, out: &mut impl Sink) {
    // [MQTT-3.2.2-6]
    out.u8(u8::from(connack.session_present && !connack.reason.is_error()));
    if version == ProtocolVersion::V311 {
        out.u8(connack.reason.to_v311_connack());
        return;
    }
    out.u8(connack.reason as u8);
    let mut counter = Counter::default();
    connack_properties(&connack.properties, detail, &mut counter);
    out.variable_byte_integer(counter.count());
    connack_properties(&connack.properties, detail, out);
}

fn flags(connect: &Connect) -> u8 {
    let will = connect.will.as_ref().map_or(0, |will| {
        0b0000_0100 | (will.qos as u8) << 3 | u8::from(will.retain) << 5
    });
    u8::from(connect.clean_start) << 1
        | will
        | u8::from(connect.password.is_some()) << 6
        | u8::from(connect.username.is_some()) << 7
}

fn connect_properties(properties: &ConnectProperties, out: &mut impl Sink) {
    out.u32_property(PropertyId::SessionExpiryInterval, properties.session_expiry);
    out.u16_property(PropertyId::ReceiveMaximum, properties.receive_maximum);
    out.u32_property(PropertyId::MaximumPacketSize, properties.packet_size_max);
    out.u16_property(PropertyId::TopicAliasMaximum, properties.topic_alias_maximum);
    out.boolean_property(
        PropertyId::RequestResponseInformation,
        properties.request_response_information,
    );
    out.boolean_property(
        PropertyId::RequestProblemInformation,
        properties.request_problem_information,
    );
    out.text_property(
        PropertyId::AuthenticationMethod,
        properties.authentication_method.as_ref(),
    );
    out.binary_property(
        PropertyId::AuthenticationData,
        properties.authentication_data.as_deref(),
    );
    out.bytes(properties.user_properties.encoded());
}

fn will_properties(will: &Will, out: &mut impl Sink) {
    out.u32_property(PropertyId::WillDelayInterval, will.delay);
    write_message_properties(&will.properties, out);
}

fn connack_properties(properties: &ConnAckProperties, detail: Detail, out: &mut impl Sink) {
    out.u32_property(PropertyId::SessionExpiryInterval, properties.session_expiry);
    out.u16_property(PropertyId::ReceiveMaximum, properties.receive_maximum);
    // A server that offers QoS 2 says so by leaving the property out.
    let qos_max = properties.qos_max.filter(|qos| *qos != QoS::ExactlyOnce);
    out.u8_property(PropertyId::MaximumQos, qos_max.map(|qos| qos as u8));
    out.boolean_property(PropertyId::RetainAvailable, properties.retain_available);
    out.u32_property(PropertyId::MaximumPacketSize, properties.packet_size_max);
    out.text_property(
        PropertyId::AssignedClientIdentifier,
        properties.assigned_client_id.as_ref(),
    );
    out.u16_property(PropertyId::TopicAliasMaximum, properties.topic_alias_maximum);
    out.boolean_property(
        PropertyId::WildcardSubscriptionAvailable,
        properties.wildcard_subscription_available,
    );
    out.boolean_property(
        PropertyId::SubscriptionIdentifiersAvailable,
        properties.subscription_identifiers_available,
    );
    out.boolean_property(
        PropertyId::SharedSubscriptionAvailable,
        properties.shared_subscription_available,
    );
    out.u16_property(PropertyId::ServerKeepAlive, properties.server_keep_alive);
    out.text_property(
        PropertyId::ResponseInformation,
        properties.response_information.as_ref(),
    );
    out.text_property(PropertyId::ServerReference, properties.server_reference.as_ref());
    out.text_property(
        PropertyId::AuthenticationMethod,
        properties.authentication_method.as_ref(),
    );
    out.binary_property(
        PropertyId::AuthenticationData,
        properties.authentication_data.as_deref(),
    );
    detail.write(&properties.explanation, out);
}
