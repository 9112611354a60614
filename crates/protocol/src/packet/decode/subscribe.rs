//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (MQTT 5.0 sections 3.8 to 3.11).

use bytes::Bytes;

use super::error::Violation;
use super::properties::{self, PropertyReader};
use super::publish::subscription_id;
use super::reader::Reader;
use crate::packet::{
    PropertyId, ProtocolVersion, QoS, RetainHandling, SubAck, Subscribe, SubscribeFilter,
    SubscriptionOptions, UnsubAck, Unsubscribe,
};
use crate::properties::{Explanation, UserProperties};
use crate::reason_code::ReasonCode;

pub(super) fn subscribe(
    body: &Bytes,
    version: ProtocolVersion,
    filters_max: usize,
) -> Result<Subscribe, Violation> {
    let mut packet = Reader::new(body);
    let packet_id = packet.packet_id()?;
    let mut subscribe = Subscribe {
        packet_id,
        subscription_id: None,
        user_properties: UserProperties::EMPTY,
        filters: Vec::new(),
    };
    if version == ProtocolVersion::V5 {
        let mut properties = PropertyReader::new(&mut packet)?;
        while let Some(property) = properties.next_id()? {
            match property {
                PropertyId::SubscriptionIdentifier => {
                    subscribe.subscription_id = Some(subscription_id(&mut properties)?);
                }
                _ => return Err(Violation::MisplacedProperty { property }),
            }
        }
        subscribe.user_properties = properties.into_user_properties();
    }
    while !packet.is_empty() {
        if subscribe.filters.len() == filters_max {
            return Err(Violation::TooManyFilters { limit: filters_max });
        }
        let filter = packet.text(TOPIC_FILTER)?;
        let options = subscription_options(packet.u8("subscription options")?, version)?;
        if options.no_local && filter.starts_with("$share/") {
            return Err(Violation::NoLocalShared);
        }
        subscribe.filters.push(SubscribeFilter { filter, options });
    }
    if subscribe.filters.is_empty() {
        return Err(Violation::NoTopicFilter);
    }
    Ok(subscribe)
}

pub(super) fn suback(body: &Bytes, version: ProtocolVersion) -> Result<SubAck, Violation> {
    let mut packet = Reader::new(body);
    let packet_id = packet.packet_id()?;
    let explanation = match version {
        ProtocolVersion::V5 => properties::explanation(&mut packet)?,
        ProtocolVersion::V311 => Explanation::default(),
    };
    let reasons = reason_codes(&packet, |code| match version {
        // [MQTT-3.9.3-2]
        ProtocolVersion::V5 => {
            matches!(
                code,
                0x00..=0x02 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91 | 0x97 | 0x9E | 0xA1 | 0xA2
            )
        }
        ProtocolVersion::V311 => matches!(code, 0x00..=0x02 | 0x80),
    })?;
    Ok(SubAck {
        packet_id,
        explanation,
        reasons,
    })
}

pub(super) fn unsubscribe(
    body: &Bytes,
    version: ProtocolVersion,
    filters_max: usize,
) -> Result<Unsubscribe, Violation> {
    let mut packet = Reader::new(body);
    let packet_id = packet.packet_id()?;
    let user_properties = match version {
        ProtocolVersion::V5 => properties::user_properties(&mut packet)?,
        ProtocolVersion::V311 => UserProperties::EMPTY,
    };
    let mut filters = Vec::new();
    while !packet.is_empty() {
        if filters.len() == filters_max {
            return Err(Violation::TooManyFilters { limit: filters_max });
        }
        filters.push(packet.text(TOPIC_FILTER)?);
    }
    if filters.is_empty() {
        return Err(Violation::NoTopicFilter);
    }
    Ok(Unsubscribe {
        packet_id,
        user_properties,
        filters,
    })
}

pub(super) fn unsuback(body: &Bytes, version: ProtocolVersion) -> Result<UnsubAck, Violation> {
    let mut packet = Reader::new(body);
    let packet_id = packet.packet_id()?;
    if version == ProtocolVersion::V311 {
        packet.end()?;
        return Ok(UnsubAck {
            packet_id,
            explanation: Explanation::default(),
            reasons: Vec::new(),
        });
    }
    let explanation = properties::explanation(&mut packet)?;
    // [MQTT-3.11.3-2]
    let reasons = reason_codes(&packet, |code| {
        matches!(code, 0x00 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91)
    })?;
    Ok(UnsubAck {
        packet_id,
        explanation,
        reasons,
    })
}

fn subscription_options(byte: u8, version: ProtocolVersion) -> Result<SubscriptionOptions, Violation> {
    let reserved = match version {
        ProtocolVersion::V5 => 0b1100_0000,
        ProtocolVersion::V311 => 0b1111_1100,
    };
    if byte & reserved != 0 {
        return Err(Violation::ReservedSubscriptionOptions);
    }
    let qos3 = match version {
        ProtocolVersion::V5 => Violation::SubscriptionQos3,
        ProtocolVersion::V311 => Violation::ReservedSubscriptionOptions,
    };
    Ok(SubscriptionOptions {
        qos: QoS::from_u8(byte & 0b11).ok_or(qos3)?,
        no_local: byte & 0b0100 != 0,
        retain_as_published: byte & 0b1000 != 0,
        retain_handling: match byte >> 4 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DoNotSend,
            _ => return Err(Violation::RetainHandling3),
        },
    })
}

/// What is left of `packet`, one reason code each.
fn reason_codes(packet: &Reader<'_>, is_allowed: impl Fn(u8) -> bool) -> Result<Vec<ReasonCode>, Violation> {
    if packet.is_empty() {
        return Err(Violation::NoReasonCode);
    }
    let reason_code = |&code: &u8| match ReasonCode::try_from(code) {
        Ok(reason) if is_allowed(code) => Ok(reason),
        _ => Err(Violation::ReasonCode { code }),
    };
    packet.rest().iter().map(reason_code).collect()
}

const TOPIC_FILTER: &str = "topic filter";
