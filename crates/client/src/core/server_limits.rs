//! What the server's CONNACK allows.

use std::time::Duration;

use protocol::packet::{ConnAck, QoS};

/// The limits of one connection, with the defaults of MQTT 5.0 section 3.2.2.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// How many QoS 1 and 2 messages may be inflight to the server.
    pub receive_maximum: u16,
    /// The largest packet it takes, in bytes; `None`: no limit.
    pub packet_size_max: Option<u32>,
    /// The greatest quality of service it takes.
    pub qos_max: QoS,
    /// It keeps retained messages.
    pub retain_available: bool,
    /// It knows subscription identifiers.
    pub subscription_identifiers_available: bool,
    /// The keep alive in force, the server's if it set one [MQTT-3.2.2-21]; zero: off.
    pub keep_alive: Duration,
}

impl ServerLimits {
    pub(super) fn of(connack: &ConnAck, keep_alive: u16) -> Self {
        let properties = &connack.properties;
        Self {
            receive_maximum: properties.receive_maximum.unwrap_or(u16::MAX),
            packet_size_max: properties.packet_size_max,
            qos_max: properties.qos_max.unwrap_or(QoS::ExactlyOnce),
            retain_available: properties.retain_available.unwrap_or(true),
            subscription_identifiers_available: properties.subscription_identifiers_available.unwrap_or(true),
            keep_alive: Duration::from_secs(properties.server_keep_alive.unwrap_or(keep_alive).into()),
        }
    }
}
