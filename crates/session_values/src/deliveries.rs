//! Packet id of a message to a client, and its stage.
//!
//! ```text
//! packet id (2), clock of the connection (8), order (8), stage (1)
//! stage   1 sent with QoS 1, 2 sent with QoS 2, 3 released, 4 freeing
//! ```

use bytes::BufMut;
use mqtt::records::RecordError;
use mqtt::records::encoding::Reader;
use session_plane::delivering::{DeliveryQos, DeliveryStage, PacketDelivery};

use crate::fields::{put_clock, put_packet_id, take_clock, take_packet_id};

/// Appends a packet id and its stage.
pub(crate) fn put_delivery(out: &mut Vec<u8>, delivery: &PacketDelivery) {
    put_packet_id(out, delivery.packet_id);
    put_clock(out, delivery.connection_clock);
    out.put_u64(delivery.order);
    out.put_u8(match delivery.stage {
        DeliveryStage::Sent(DeliveryQos::AtLeastOnce) => SENT_AT_LEAST_ONCE,
        DeliveryStage::Sent(DeliveryQos::ExactlyOnce) => SENT_EXACTLY_ONCE,
        DeliveryStage::Released => RELEASED,
        DeliveryStage::Freeing => FREEING,
    });
}

/// Reads a packet id and its stage.
pub(crate) fn take_delivery(reader: &mut Reader) -> Result<PacketDelivery, RecordError> {
    Ok(PacketDelivery {
        packet_id: take_packet_id(reader)?,
        connection_clock: take_clock(reader)?,
        order: reader.u64()?,
        stage: match reader.u8()? {
            SENT_AT_LEAST_ONCE => DeliveryStage::Sent(DeliveryQos::AtLeastOnce),
            SENT_EXACTLY_ONCE => DeliveryStage::Sent(DeliveryQos::ExactlyOnce),
            RELEASED => DeliveryStage::Released,
            FREEING => DeliveryStage::Freeing,
            _ => return Err(reader.damaged("a stage is unknown")),
        },
    })
}

const SENT_AT_LEAST_ONCE: u8 = 1;
const SENT_EXACTLY_ONCE: u8 = 2;
const RELEASED: u8 = 3;
const FREEING: u8 = 4;
