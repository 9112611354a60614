//! Packet identifiers of QoS 2 messages received from durable sessions and not yet released.
//!
//! ```text
//! key    session number (8), packet id (2)
//! value  version (1) = 1
//! ```

use bytes::Bytes;
use cluster::write::{Keyspace, Write};
use protocol::packet::PacketId;

use super::RecordError;
use super::encoding::Reader;
use crate::ids::SessionNumber;

/// Stores an identifier: in one batch with the message's deliveries, before PUBREC.
pub fn put(number: SessionNumber, packet_id: PacketId) -> Write {
    Write::Put {
        keyspace: Keyspace::Received,
        key: key(number, packet_id),
        value: Bytes::from_static(&[VERSION]),
    }
}

/// Removes an identifier: on disk before PUBCOMP.
pub fn remove(number: SessionNumber, packet_id: PacketId) -> Write {
    Write::Remove {
        keyspace: Keyspace::Received,
        key: key(number, packet_id),
    }
}

/// Reads a record.
pub fn decode(key: &[u8], value: Bytes) -> Result<(SessionNumber, PacketId), RecordError> {
    Reader::of_value(value, RECORD, VERSION)?.end()?;
    decode_key(key)
}

/// Which identifier a record is of.
pub fn packet_id_of(key: &[u8]) -> Result<PacketId, RecordError> {
    decode_key(key).map(|(_, packet_id)| packet_id)
}

fn decode_key(key: &[u8]) -> Result<(SessionNumber, PacketId), RecordError> {
    let mut reader = Reader::of_key(key, RECORD);
    let number = SessionNumber(reader.u64()?);
    let packet_id = PacketId::new(reader.u16()?);
    reader.end()?;
    Ok((number, reader.require(packet_id, "a packet id is 0")?))
}

fn key(number: SessionNumber, packet_id: PacketId) -> Bytes {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&number.0.to_be_bytes());
    key[8..].copy_from_slice(&packet_id.get().to_be_bytes());
    Bytes::copy_from_slice(&key)
}

const VERSION: u8 = 1;
const RECORD: &str = "received packet id";
