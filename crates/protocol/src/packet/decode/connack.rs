//! CONNACK (MQTT 5.0 section 3.2).

use bytes::Bytes;

use super::error::Violation;
use super::properties::PropertyReader;
use super::reader::Reader;
use crate::packet::{ConnAck, ConnAckProperties, PropertyId, ProtocolVersion, QoS};
use crate::reason_code::ReasonCode;

pub(super) fn connack(body: &Bytes, version: ProtocolVersion) -> Result<ConnAck, Violation> {
    let mut packet = Reader::new(body);
    let flags = packet.u8("acknowledge flags")?;
    if flags & !SESSION_PRESENT != 0 {
        return Err(Violation::ReservedAcknowledgeFlags);
    }
    let session_present = flags & SESSION_PRESENT != 0;
    let code = packet.u8("reason code")?;
    // A server that knows only 3.1.1 refuses a newer CONNECT in its own way.
    let is_v311 =
        version == ProtocolVersion::V311 || (packet.is_empty() && code == V311_UNACCEPTABLE_VERSION);
    let reason = if is_v311 {
        ReasonCode::from_v311_connack(code).ok_or(Violation::ReasonCode { code })?
    } else {
        reason_code(code)?
    };
    if session_present && reason.is_error() {
        return Err(Violation::SessionPresentWithError);
    }
    let properties = if is_v311 {
        ConnAckProperties::default()
    } else {
        properties(&mut packet)?
    };
    packet.end()?;
    Ok(ConnAck {
        session_present,
        reason,
        properties,
    })
}

/// [MQTT-3.2.2-8]
fn reason_code(code: u8) -> Result<ReasonCode, Violation> {
    match code {
        0x00 | 0x80..=0x8A | 0x8C | 0x90 | 0x95 | 0x97 | 0x99..=0x9D | 0x9F => {
            ReasonCode::try_from(code).map_err(|_| Violation::ReasonCode { code })
        }
        _ => Err(Violation::ReasonCode { code }),
    }
}

fn properties(packet: &mut Reader<'_>) -> Result<ConnAckProperties, Violation> {
    let mut properties = PropertyReader::new(packet)?;
    let mut connack = ConnAckProperties::default();
    while let Some(property) = properties.next_id()? {
        let name = property.name();
        match property {
            PropertyId::SessionExpiryInterval => connack.session_expiry = Some(properties.u32(name)?),
            PropertyId::ReceiveMaximum => connack.receive_maximum = Some(properties.u16_not_zero(property)?),
            PropertyId::MaximumQos => connack.qos_max = Some(qos_max(&mut properties)?),
            PropertyId::RetainAvailable => connack.retain_available = Some(properties.boolean(property)?),
            PropertyId::MaximumPacketSize => {
                connack.packet_size_max = Some(properties.u32_not_zero(property)?);
            }
            PropertyId::AssignedClientIdentifier => connack.assigned_client_id = Some(properties.text(name)?),
            PropertyId::TopicAliasMaximum => connack.topic_alias_maximum = Some(properties.u16(name)?),
            PropertyId::ReasonString => connack.explanation.reason_string = Some(properties.text(name)?),
            PropertyId::WildcardSubscriptionAvailable => {
                connack.wildcard_subscription_available = Some(properties.boolean(property)?);
            }
            PropertyId::SubscriptionIdentifiersAvailable => {
                connack.subscription_identifiers_available = Some(properties.boolean(property)?);
            }
            PropertyId::SharedSubscriptionAvailable => {
                connack.shared_subscription_available = Some(properties.boolean(property)?);
            }
            PropertyId::ServerKeepAlive => connack.server_keep_alive = Some(properties.u16(name)?),
            PropertyId::ResponseInformation => connack.response_information = Some(properties.text(name)?),
            PropertyId::ServerReference => connack.server_reference = Some(properties.text(name)?),
            PropertyId::AuthenticationMethod => connack.authentication_method = Some(properties.text(name)?),
            PropertyId::AuthenticationData => connack.authentication_data = Some(properties.binary(name)?),
            _ => return Err(Violation::MisplacedProperty { property }),
        }
    }
    connack.explanation.user_properties = properties.into_user_properties();
    Ok(connack)
}

/// 0 or 1: a server that offers QoS 2 does not send it. Section 3.2.2.3.4.
fn qos_max(properties: &mut PropertyReader<'_>) -> Result<QoS, Violation> {
    Ok(if properties.boolean(PropertyId::MaximumQos)? {
        QoS::AtLeastOnce
    } else {
        QoS::AtMostOnce
    })
}

const SESSION_PRESENT: u8 = 0b0000_0001;
const V311_UNACCEPTABLE_VERSION: u8 = 1;
