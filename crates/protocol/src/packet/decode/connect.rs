//! CONNECT (MQTT 5.0 section 3.1).

use bytes::Bytes;

use super::error::{DecodeError, ProtocolName, Violation};
use super::properties::PropertyReader;
use super::reader::Reader;
use crate::packet::{Connect, ConnectProperties, PacketType, PropertyId, ProtocolVersion, QoS, Will};
use crate::properties::MessageProperties;
use crate::text::Text;
use crate::topic::TopicName;

/// Decodes a CONNECT; `is_minimal` says that its remaining length used no byte too many.
pub(super) fn connect(body: &Bytes, is_minimal: bool) -> Result<Connect, DecodeError> {
    let fail = |violation, version| DecodeError {
        packet: Some(PacketType::Connect),
        violation,
        connack_version: version,
    };
    let mut packet = Reader::new(body);
    let (version, is_bridge) =
        protocol_version(&mut packet).map_err(|(violation, answer)| fail(violation, answer))?;
    if version == ProtocolVersion::V5 && !is_minimal {
        let violation = Violation::VariableByteIntegerNotMinimal {
            field: super::REMAINING_LENGTH,
        };
        return Err(fail(violation, Some(version)));
    }
    match after_version(packet, version) {
        Ok(connect) => Ok(Connect { is_bridge, ..connect }),
        Err(violation) => {
            let answer = answer_version(version, &violation);
            Err(fail(violation, answer))
        }
    }
}

/// The version that the CONNECT starting with `body` asks for, if it is one in which too large a packet is answered.
pub(super) fn peek_version(body: &[u8]) -> Option<ProtocolVersion> {
    let level = body.strip_prefix(b"\x00\x04MQTT")?.first()?;
    (*level == LEVEL_V5).then_some(ProtocolVersion::V5)
}

/// 3.1.1 has no return code for malformed packets; the connection is closed without a CONNACK.
fn answer_version(version: ProtocolVersion, violation: &Violation) -> Option<ProtocolVersion> {
    (version == ProtocolVersion::V5 || *violation == Violation::ClientIdEmpty).then_some(version)
}

/// The version, and whether it is that of a bridge. [MQTT-3.1.2-1] [MQTT-3.1.2-2]: a failure comes with the version in which to
/// answer it.
fn protocol_version(
    packet: &mut Reader<'_>,
) -> Result<(ProtocolVersion, bool), (Violation, Option<ProtocolVersion>)> {
    let name = packet
        .text("protocol name")
        .map_err(|violation| (violation, None))?;
    let level = packet
        .u8("protocol version")
        .map_err(|violation| (violation, None))?;
    let name = match name.as_str() {
        "MQTT" => ProtocolName::Mqtt,
        "MQIsdp" => ProtocolName::MqIsdp,
        _ => ProtocolName::Other,
    };
    let answer = match (name, level) {
        (ProtocolName::Mqtt, LEVEL_V5) => return Ok((ProtocolVersion::V5, false)),
        (ProtocolName::Mqtt, LEVEL_V311) => return Ok((ProtocolVersion::V311, false)),
        (ProtocolName::Mqtt, LEVEL_V311_BRIDGE) => return Ok((ProtocolVersion::V311, true)),
        (ProtocolName::Mqtt, level) if level & !BRIDGE >= LEVEL_V5 => Some(ProtocolVersion::V5),
        (ProtocolName::Mqtt | ProtocolName::MqIsdp, _) => Some(ProtocolVersion::V311),
        (ProtocolName::Other, _) => None,
    };
    Err((Violation::UnsupportedVersion { name, level }, answer))
}

fn after_version(mut packet: Reader<'_>, version: ProtocolVersion) -> Result<Connect, Violation> {
    let flags = ConnectFlags::read(&mut packet, version)?;
    let keep_alive = packet.u16("keep alive")?;
    let properties = match version {
        ProtocolVersion::V5 => properties(&mut packet)?,
        ProtocolVersion::V311 => ConnectProperties::default(),
    };
    let client_id = packet.text("client identifier")?;
    if version == ProtocolVersion::V311 && client_id.is_empty() && !flags.has(CLEAN_START) {
        return Err(Violation::ClientIdEmpty);
    }
    let will = if flags.has(WILL) {
        Some(will(&mut packet, flags, version)?)
    } else {
        None
    };
    let username: Option<Text> = if flags.has(USER_NAME) {
        Some(packet.text("user name")?)
    } else {
        None
    };
    let password = if flags.has(PASSWORD) {
        Some(packet.binary("password")?)
    } else {
        None
    };
    packet.end()?;
    let clean_start = flags.has(CLEAN_START);
    Ok(Connect {
        version,
        is_bridge: false,
        client_id,
        clean_start,
        keep_alive,
        will,
        username,
        password,
        properties,
    })
}

fn properties(packet: &mut Reader<'_>) -> Result<ConnectProperties, Violation> {
    let mut properties = PropertyReader::new(packet)?;
    let mut connect = ConnectProperties::default();
    while let Some(property) = properties.next_id()? {
        match property {
            PropertyId::SessionExpiryInterval => {
                connect.session_expiry = Some(properties.u32(property.name())?);
            }
            PropertyId::ReceiveMaximum => connect.receive_maximum = Some(properties.u16_not_zero(property)?),
            PropertyId::MaximumPacketSize => {
                connect.packet_size_max = Some(properties.u32_not_zero(property)?);
            }
            PropertyId::TopicAliasMaximum => {
                connect.topic_alias_maximum = Some(properties.u16(property.name())?);
            }
            PropertyId::RequestResponseInformation => {
                connect.request_response_information = Some(properties.boolean(property)?);
            }
            PropertyId::RequestProblemInformation => {
                connect.request_problem_information = Some(properties.boolean(property)?);
            }
            PropertyId::AuthenticationMethod => {
                connect.authentication_method = Some(properties.text(property.name())?);
            }
            PropertyId::AuthenticationData => {
                connect.authentication_data = Some(properties.binary(property.name())?);
            }
            _ => return Err(Violation::MisplacedProperty { property }),
        }
    }
    connect.user_properties = properties.into_user_properties();
    if connect.authentication_data.is_some() && connect.authentication_method.is_none() {
        return Err(Violation::AuthenticationDataWithoutMethod);
    }
    Ok(connect)
}

fn will(packet: &mut Reader<'_>, flags: ConnectFlags, version: ProtocolVersion) -> Result<Will, Violation> {
    let mut delay = None;
    let mut message = MessageProperties::default();
    if version == ProtocolVersion::V5 {
        let mut properties = PropertyReader::new(packet)?;
        while let Some(property) = properties.next_id()? {
            match property {
                PropertyId::WillDelayInterval => delay = Some(properties.u32(property.name())?),
                _ => properties.message_property(property, &mut message)?,
            }
        }
        message.user_properties = properties.into_user_properties();
    }
    let topic = packet.topic_name(WILL_TOPIC)?;
    let topic = TopicName::parse(topic.clone()).map_err(|_| {
        let field = WILL_TOPIC;
        Violation::TopicNameWildcard { field, topic }
    })?;
    let payload = packet.binary("will payload")?;
    let qos = flags.will_qos().ok_or(Violation::WillQos3)?;
    Ok(Will {
        topic,
        payload,
        qos,
        retain: flags.has(WILL_RETAIN),
        delay,
        properties: message,
    })
}

/// The connect flags, checked against each other.
#[derive(Debug, Clone, Copy)]
struct ConnectFlags(u8);

impl ConnectFlags {
    fn read(packet: &mut Reader<'_>, version: ProtocolVersion) -> Result<Self, Violation> {
        let flags = Self(packet.u8("connect flags")?);
        if flags.has(RESERVED) {
            return Err(Violation::ReservedConnectFlag);
        }
        if flags.will_qos().is_none() {
            return Err(Violation::WillQos3);
        }
        if !flags.has(WILL) && flags.has(WILL_QOS | WILL_RETAIN) {
            return Err(Violation::WillFlagsWithoutWill);
        }
        if version == ProtocolVersion::V311 && flags.has(PASSWORD) && !flags.has(USER_NAME) {
            return Err(Violation::PasswordWithoutUserName);
        }
        Ok(flags)
    }

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    fn will_qos(self) -> Option<QoS> {
        QoS::from_u8((self.0 & WILL_QOS) >> 3)
    }
}

/// How many bytes of a CONNECT's body hold the protocol name and version.
pub(super) const VERSION_END: usize = 7;

const LEVEL_V311: u8 = 4;
const LEVEL_V5: u8 = 5;
/// Mosquitto adds this to the level when it connects to another server as a bridge (`try_private`).
const BRIDGE: u8 = 0b1000_0000;
const LEVEL_V311_BRIDGE: u8 = LEVEL_V311 | BRIDGE;

const RESERVED: u8 = 0b0000_0001;
const CLEAN_START: u8 = 0b0000_0010;
const WILL: u8 = 0b0000_0100;
const WILL_QOS: u8 = 0b0001_1000;
const WILL_RETAIN: u8 = 0b0010_0000;
const PASSWORD: u8 = 0b0100_0000;
const USER_NAME: u8 = 0b1000_0000;

const WILL_TOPIC: &str = "will topic";
