//! PUBACK, PUBREC, PUBREL, PUBCOMP, DISCONNECT and AUTH (MQTT 5.0 sections 3.4 to 3.7, 3.14 and 3.15): a reason
//! code and a few properties, either of which may be left out.

use bytes::Bytes;

use super::Sender;
use super::error::Violation;
use super::properties::{self, PropertyReader};
use super::reader::Reader;
use crate::packet::{Ack, Auth, Disconnect, PacketType, PropertyId, ProtocolVersion};
use crate::properties::Explanation;
use crate::reason_code::ReasonCode;

/// The body of an acknowledgement of at most this many bytes has no property.
pub(super) const ACK_WITHOUT_PROPERTIES_MAX: usize = 3;

/// Decodes any of the four acknowledgements of a PUBLISH.
#[inline]
pub(super) fn ack(
    packet_type: PacketType,
    mut packet: Reader<'_>,
    version: ProtocolVersion,
) -> Result<Ack, Violation> {
    let packet_id = packet.packet_id()?;
    if version == ProtocolVersion::V311 || packet.is_empty() {
        packet.end()?;
        return Ok(Ack::new(packet_id, ReasonCode::Success));
    }
    let code = packet.u8("reason code")?;
    let is_allowed = match packet_type {
        // [MQTT-3.4.2-1] [MQTT-3.5.2-1]
        PacketType::PubAck | PacketType::PubRec => {
            matches!(code, 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99)
        }
        // [MQTT-3.6.2-1] [MQTT-3.7.2-1]
        _ => matches!(code, 0x00 | 0x92),
    };
    let reason = reason_code(code, is_allowed)?;
    if packet.is_empty() {
        return Ok(Ack::new(packet_id, reason));
    }
    let explanation = properties::explanation(&mut packet)?;
    packet.end()?;
    let explanation = if explanation == Explanation::default() {
        None
    } else {
        Some(Box::new(explanation))
    };
    Ok(Ack {
        packet_id,
        reason,
        explanation,
    })
}

/// Decodes a DISCONNECT.
pub(super) fn disconnect(
    body: &Bytes,
    version: ProtocolVersion,
    sender: Sender,
) -> Result<Disconnect, Violation> {
    let mut packet = Reader::new(body);
    if version == ProtocolVersion::V311 || packet.is_empty() {
        packet.end()?;
        return Ok(Disconnect::new(ReasonCode::Success));
    }
    let code = packet.u8("reason code")?;
    let mut disconnect = Disconnect::new(reason_code(code, is_disconnect_code(code, sender))?);
    if packet.is_empty() {
        return Ok(disconnect);
    }
    let mut properties = PropertyReader::new(&mut packet)?;
    while let Some(property) = properties.next_id()? {
        match (property, sender) {
            // [MQTT-3.14.2-2], and a Server Reference is where the server sends the client to.
            (PropertyId::SessionExpiryInterval, Sender::Server)
            | (PropertyId::ServerReference, Sender::Client) => {
                return Err(Violation::PropertyFromWrongSide { property });
            }
            (PropertyId::SessionExpiryInterval, Sender::Client) => {
                disconnect.session_expiry = Some(properties.u32(property.name())?);
            }
            (PropertyId::ServerReference, Sender::Server) => {
                disconnect.server_reference = Some(properties.text(property.name())?);
            }
            (PropertyId::ReasonString, _) => {
                disconnect.explanation.reason_string = Some(properties.text(property.name())?);
            }
            _ => return Err(Violation::MisplacedProperty { property }),
        }
    }
    disconnect.explanation.user_properties = properties.into_user_properties();
    packet.end()?;
    Ok(disconnect)
}

/// Decodes an AUTH, which only version 5 has.
pub(super) fn auth(body: &Bytes, sender: Sender) -> Result<Auth, Violation> {
    let mut packet = Reader::new(body);
    let is_short = packet.is_empty();
    let code = if is_short { 0x00 } else { packet.u8("reason code")? };
    // [MQTT-3.15.2-1]
    let is_allowed = match sender {
        Sender::Client => matches!(code, 0x18 | 0x19),
        Sender::Server => matches!(code, 0x00 | 0x18),
    };
    let reason = reason_code(code, is_allowed)?;
    let mut auth = Auth {
        reason,
        method: None,
        data: None,
        explanation: Explanation::default(),
    };
    if is_short {
        return Ok(auth);
    }
    let mut properties = PropertyReader::new(&mut packet)?;
    while let Some(property) = properties.next_id()? {
        match property {
            PropertyId::AuthenticationMethod => auth.method = Some(properties.text(property.name())?),
            PropertyId::AuthenticationData => auth.data = Some(properties.binary(property.name())?),
            PropertyId::ReasonString => {
                auth.explanation.reason_string = Some(properties.text(property.name())?);
            }
            _ => return Err(Violation::MisplacedProperty { property }),
        }
    }
    auth.explanation.user_properties = properties.into_user_properties();
    packet.end()?;
    if auth.method.is_none() {
        return Err(Violation::AuthenticationMethodMissing);
    }
    Ok(auth)
}

/// [MQTT-3.14.2-1]. A server's 0x00 is let pass although the specification gives that code to clients only:
/// some servers end a connection with it, and it means no more than that.
fn is_disconnect_code(code: u8, sender: Sender) -> bool {
    let is_for_both = matches!(code, 0x00 | 0x80..=0x83 | 0x90 | 0x93..=0x99);
    let is_for_sender = match sender {
        Sender::Client => code == 0x04,
        Sender::Server => matches!(code, 0x87 | 0x89 | 0x8B | 0x8D..=0x8F | 0x9A..=0xA2),
    };
    is_for_both || is_for_sender
}

fn reason_code(code: u8, is_allowed: bool) -> Result<ReasonCode, Violation> {
    if !is_allowed {
        return Err(Violation::ReasonCode { code });
    }
    ReasonCode::try_from(code).map_err(|_| Violation::ReasonCode { code })
}
