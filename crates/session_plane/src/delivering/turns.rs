//! Turns: the order in which packets leave.
//!
//! Packet ids of older connections go on in the order in which their packets were sent
//! [MQTT-4.4.0-1] [MQTT-4.6.0-1]. What is on its way to the owners leaves in the order in which it
//! was begun: PUBREL packets in that of PUBREC [MQTT-4.6.0-4], and PUBLISH packets of each QoS.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::delivery::DeliveryQos;
use crate::publishing::PacketId;

/// Turn of a packet id that an older connection has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    order: u64,
    packet_id: PacketId,
}

/// Packet ids of older connections that may go on.
#[derive(Debug, Default)]
pub(super) struct ResumingTurns {
    orders: BTreeMap<PacketId, u64>,
    /// With PUBREL.
    releases: BTreeSet<Turn>,
    /// With PUBLISH.
    resends: BTreeSet<Turn>,
}

impl ResumingTurns {
    pub(super) fn add_release(&mut self, packet_id: PacketId, order: u64) {
        self.orders.insert(packet_id, order);
        self.releases.insert(Turn { order, packet_id });
    }

    pub(super) fn add_resend(&mut self, packet_id: PacketId, order: u64) {
        self.orders.insert(packet_id, order);
        self.resends.insert(Turn { order, packet_id });
    }

    pub(super) fn remove(&mut self, packet_id: PacketId) {
        if let Some(order) = self.orders.remove(&packet_id) {
            let turn = Turn { order, packet_id };
            self.releases.remove(&turn);
            self.resends.remove(&turn);
        }
    }

    pub(super) fn next_release(&self) -> Option<PacketId> {
        self.releases.first().map(|turn| turn.packet_id)
    }

    pub(super) fn next_resend(&self) -> Option<PacketId> {
        self.resends.first().map(|turn| turn.packet_id)
    }
}

/// Packet ids whose packets leave when the owners have them.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    at_least_once: VecDeque<PacketId>,
    exactly_once: VecDeque<PacketId>,
    pub(super) pubrels: VecDeque<PacketId>,
}

impl Outgoing {
    /// PUBLISH packets of a QoS.
    pub(super) fn publishes(&mut self, qos: DeliveryQos) -> &mut VecDeque<PacketId> {
        match qos {
            DeliveryQos::AtLeastOnce => &mut self.at_least_once,
            DeliveryQos::ExactlyOnce => &mut self.exactly_once,
        }
    }
}
