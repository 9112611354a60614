//! CONNECT and CONNACK (MQTT 5.0 sections 3.1 and 3.2).

use bytes::Bytes;

use super::{ProtocolVersion, QoS};
use crate::properties::{Explanation, MessageProperties, UserProperties};
use crate::reason_code::ReasonCode;
use crate::text::Text;
use crate::topic::TopicName;

/// CONNECT.
#[derive(Clone, PartialEq, Eq)]
pub struct Connect {
    /// The protocol the connection will speak.
    pub version: ProtocolVersion,
    /// The client is another server's bridge: its subscriptions are meant with No Local and Retain As Published, which 3.1.1 cannot say.
    /// Mosquitto adds 128 to the protocol level for that. Only in 3.1.1.
    pub is_bridge: bool,
    /// What the client calls itself; empty: the server shall choose.
    pub client_id: Text,
    /// Start without the state of an earlier session. Version 3.1.1: Clean Session.
    pub clean_start: bool,
    /// Keep Alive in seconds; 0 turns it off.
    pub keep_alive: u16,
    /// The message to publish if the connection ends abnormally.
    pub will: Option<Will>,
    /// User Name.
    pub username: Option<Text>,
    /// Password. Never shown by `Debug`.
    pub password: Option<Bytes>,
    /// Properties; empty for 3.1.1.
    pub properties: ConnectProperties,
}

/// Properties of a CONNECT.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectProperties {
    /// Session Expiry Interval in seconds; absent is 0; `u32::MAX` is never.
    pub session_expiry: Option<u32>,
    /// Receive Maximum, not 0; absent is 65,535.
    pub receive_maximum: Option<u16>,
    /// Maximum Packet Size in bytes, not 0; absent is no limit.
    pub packet_size_max: Option<u32>,
    /// Topic Alias Maximum; absent is 0.
    pub topic_alias_maximum: Option<u16>,
    /// Request Response Information; absent is false.
    pub request_response_information: Option<bool>,
    /// Request Problem Information; absent is true.
    pub request_problem_information: Option<bool>,
    /// User properties.
    pub user_properties: UserProperties,
    /// Authentication Method.
    pub authentication_method: Option<Text>,
    /// Authentication Data. Never shown by `Debug`.
    pub authentication_data: Option<Bytes>,
}

/// The will of a CONNECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Will {
    /// Where it goes.
    pub topic: TopicName,
    /// What it says.
    pub payload: Bytes,
    /// Its quality of service.
    pub qos: QoS,
    /// Whether it becomes the retained message of its topic.
    pub retain: bool,
    /// Will Delay Interval in seconds.
    pub delay: Option<u32>,
    /// Properties of the message.
    pub properties: MessageProperties,
}

/// CONNACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnAck {
    /// The server has state for this session.
    pub session_present: bool,
    /// Success or why not.
    pub reason: ReasonCode,
    /// Properties; not sent to 3.1.1.
    pub properties: ConnAckProperties,
}

/// Properties of a CONNACK. Absent ones have the defaults of section 3.2.2.3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct ConnAckProperties {
    pub session_expiry: Option<u32>,
    pub receive_maximum: Option<u16>,
    pub qos_max: Option<QoS>,
    pub retain_available: Option<bool>,
    pub packet_size_max: Option<u32>,
    pub assigned_client_id: Option<Text>,
    pub topic_alias_maximum: Option<u16>,
    pub wildcard_subscription_available: Option<bool>,
    pub subscription_identifiers_available: Option<bool>,
    pub shared_subscription_available: Option<bool>,
    pub server_keep_alive: Option<u16>,
    pub response_information: Option<Text>,
    pub server_reference: Option<Text>,
    pub authentication_method: Option<Text>,
    pub authentication_data: Option<Bytes>,
    pub explanation: Explanation,
}

impl Connect {
    /// CONNECT of version 5 with a clean start, and without a Keep Alive, a will, credentials and properties.
    pub fn new(client_id: Text) -> Self {
        Self {
            version: ProtocolVersion::V5,
            is_bridge: false,
            client_id,
            clean_start: true,
            keep_alive: 0,
            will: None,
            username: None,
            password: None,
            properties: ConnectProperties::default(),
        }
    }
}

impl std::fmt::Debug for Connect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connect")
            .field("version", &self.version)
            .field("is_bridge", &self.is_bridge)
            .field("client_id", &self.client_id)
            .field("clean_start", &self.clean_start)
            .field("keep_alive", &self.keep_alive)
            .field("will", &self.will)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "(secret)"))
            .field("properties", &self.properties)
            .finish()
    }
}

impl std::fmt::Debug for ConnectProperties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectProperties")
            .field("session_expiry", &self.session_expiry)
            .field("receive_maximum", &self.receive_maximum)
            .field("packet_size_max", &self.packet_size_max)
            .field("topic_alias_maximum", &self.topic_alias_maximum)
            .field("request_response_information", &self.request_response_information)
            .field("request_problem_information", &self.request_problem_information)
            .field("user_properties", &self.user_properties)
            .field("authentication_method", &self.authentication_method)
            .field(
                "authentication_data",
                &self.authentication_data.as_ref().map(|_| "(secret)"),
            )
            .finish()
    }
}
