//! Values of entries, as far as delivering reads them.

use super::delivery::{DeliveryQos, PacketDelivery};

/// Value that may be that of a message, or of a packet id to a client.
pub trait DeliveryValue: Sized {
    /// Value of the entry of a packet id.
    fn of_delivery(delivery: PacketDelivery) -> Self;

    /// Packet id and its stage. None of other values.
    fn packet_delivery(&self) -> Option<PacketDelivery>;

    /// QoS under which the client receives the message. None where the value is of something else.
    fn delivery_qos(&self) -> Option<DeliveryQos>;

    /// Message of a shared group as one of its members gets it, by the value of the member's entry: with the lower
    /// QoS of both. It may be one that needs no packet id.
    #[must_use]
    fn of_member(&self, member: &Self) -> Self;
}
