//! Where clients are sent instead. (MQTT 5.0 section 4.11)

use mqtt::ids::ConnectionId;
use protocol::{ReasonCode, Text};

use crate::node::Node;

/// Another server that clients shall use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Server Reference, as in `b.example:1883`; several are separated by spaces.
    pub server: Text,
    /// For good: Server moved instead of Use another server.
    pub is_permanent: bool,
    /// Also who connects while the node runs, not only who is connected when it stops.
    pub is_for_new_clients: bool,
}

impl Redirect {
    pub(crate) fn reason(&self) -> ReasonCode {
        if self.is_permanent {
            ReasonCode::ServerMoved
        } else {
            ReasonCode::UseAnotherServer
        }
    }
}

impl Node {
    /// The reason for which nobody is let in, if there is one.
    pub(crate) fn sends_away(&self) -> Option<ReasonCode> {
        let redirect = self.config.redirect.as_ref();
        if self.ending.is_leaving {
            return Some(redirect.map_or(ReasonCode::ServerUnavailable, Redirect::reason));
        }
        redirect
            .filter(|redirect| redirect.is_for_new_clients)
            .map(Redirect::reason)
    }

    /// What clients are told when the node stops.
    pub(crate) fn farewell(&self) -> (ReasonCode, &'static str) {
        if self.ending.is_leaving && self.config.redirect.is_none() {
            return (
                ReasonCode::ServerShuttingDown,
                "the server leaves the cluster; use another one",
            );
        }
        match &self.config.redirect {
            Some(redirect) => (redirect.reason(), "the server is shutting down; use another one"),
            None => (ReasonCode::ServerShuttingDown, "the server is shutting down"),
        }
    }

    /// Server Reference of a CONNACK or DISCONNECT with this reason, if the client takes so large a packet.
    pub(crate) fn server_reference(&self, id: ConnectionId, reason: ReasonCode) -> Option<Text> {
        if !matches!(reason, ReasonCode::UseAnotherServer | ReasonCode::ServerMoved) {
            return None;
        }
        let server = &self.config.redirect.as_ref()?.server;
        let packet_size_max = self.connections.get(id)?.packet_size_max as usize;
        (server.len() + AROUND_SERVER_REFERENCE <= packet_size_max).then(|| server.clone())
    }
}

/// Bytes of a CONNACK or DISCONNECT with nothing but a Server Reference: at most 5 of the fixed header, 2 of flags and reason
/// code, 4 of the properties' length, 3 of the property's name and length.
const AROUND_SERVER_REFERENCE: usize = 14;
