//! Deliveries of QoS 1 and 2 to durable sessions.
//!
//! ```text
//! key                 session number (8), sequence (8)
//! value, waiting      version (1) = 1, 0 (1), QoS and RETAIN << 2 (1),
//!                     count (2) and subscription identifiers (4 each), message
//! value, waiting, of a shared subscription
//!                     version (1) = 2, 0 (1), QoS and RETAIN << 2 (1),
//!                     count (2) and subscription identifiers (4 each), $share/name/filter (2 + n), message
//! value, waiting, in flight since another session of the client gave way to this one
//!                     version (1) = 3, 0 (1), QoS and RETAIN << 2 (1),
//!                     count (2) and subscription identifiers (4 each), $share/name/filter or nothing (2 + n), message
//! value, waiting, of a message that has an id
//!                     version (1) = 4, 0 (1), QoS and RETAIN << 2 and in flight as version 3 << 3 (1),
//!                     count (2) and subscription identifiers (4 each), $share/name/filter or nothing (2 + n), message
//! value, released     version (1) = 1, 1 (1), packet id (2)
//! ```
//!
//! Versions 2 to 4 are written only where they say more: everything else stays as builds before shared subscriptions, before splits, and before ids, read it.
//!
//! The records of a data directory without a session plane, and of backups. A waiting record stands for a delivery
//! that was sent or was not.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use cluster::write::{Keyspace, Write};
use protocol::Text;
use protocol::packet::{PacketId, QoS, SubscriptionId};
use protocol::topic::SubscriptionFilter;
use smallvec::SmallVec;

use super::RecordError;
use super::encoding::{Reader, put_short};
use super::message;
use crate::ids::{QueueSequence, SessionNumber};
use crate::message::Message;
use crate::now::Now;

/// Delivery that was sent or was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRecord {
    /// Message that is delivered.
    pub message: Arc<Message>,
    /// QoS to deliver with.
    pub qos: QoS,
    /// RETAIN flag to send.
    pub retain: bool,
    /// Identifiers of the subscriptions that matched.
    pub subscription_ids: SmallVec<[SubscriptionId; 1]>,
    /// Shared subscription that it is for.
    pub share: Option<Arc<SubscriptionFilter>>,
}

/// What is stored of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueRecord {
    /// It may or may not have been sent.
    Waiting(WaitingRecord),
    /// Its PUBREC has come.
    Released {
        /// What the PUBREL names.
        packet_id: PacketId,
    },
}

/// Value that stores a delivery.
fn value(delivery: &WaitingRecord, now: Now) -> Bytes {
    assert!(delivery.qos != QoS::AtMostOnce, "QoS 0 is not stored");
    let mut out = Vec::with_capacity(delivery.message.size());
    out.put_u8(delivery.share.as_ref().map_or(VERSION, |_| VERSION_SHARED));
    out.put_u8(WAITING);
    out.put_u8(delivery.qos as u8 | u8::from(delivery.retain) << 2);
    out.put_u16(u16::try_from(delivery.subscription_ids.len()).unwrap_or(u16::MAX));
    for id in delivery.subscription_ids.iter().take(usize::from(u16::MAX)) {
        out.put_u32(id.get());
    }
    if let Some(share) = &delivery.share {
        put_short(&mut out, share.to_string().as_bytes());
    }
    message::put_message(&mut out, &delivery.message, now);
    out.into()
}

fn put(number: SessionNumber, sequence: QueueSequence, value: Bytes) -> Write {
    Write::Put {
        keyspace: Keyspace::Queue,
        key: key(number, sequence),
        value,
    }
}

/// Stores a delivery as it is.
pub fn put_record(number: SessionNumber, sequence: QueueSequence, record: &QueueRecord, now: Now) -> Write {
    let value = match record {
        QueueRecord::Waiting(delivery) => value(delivery, now),
        QueueRecord::Released { packet_id } => released(*packet_id),
    };
    put(number, sequence, value)
}

fn released(packet_id: PacketId) -> Bytes {
    let id = packet_id.get().to_be_bytes();
    Bytes::copy_from_slice(&[VERSION, RELEASED, id[0], id[1]])
}

/// Reads a record.
pub fn decode(
    key: &[u8],
    value: Bytes,
    now: Now,
) -> Result<(SessionNumber, QueueSequence, QueueRecord), RecordError> {
    let (number, sequence) = decode_key(key)?;
    Ok((number, sequence, read(value, now)?))
}

fn read(value: Bytes, now: Now) -> Result<QueueRecord, RecordError> {
    let (mut reader, version) = Reader::of_versions(
        value,
        RECORD,
        &[VERSION, VERSION_SHARED, VERSION_RESUMED, VERSION_ID],
    )?;
    let record = match reader.u8()? {
        WAITING => QueueRecord::Waiting(delivery(&mut reader, version, now)?),
        RELEASED if version == VERSION => {
            let packet_id = PacketId::new(reader.u16()?);
            QueueRecord::Released {
                packet_id: reader.require(packet_id, "a packet id is 0")?,
            }
        }
        _ => return Err(reader.damaged("neither waiting nor released")),
    };
    reader.end()?;
    Ok(record)
}

fn decode_key(key: &[u8]) -> Result<(SessionNumber, QueueSequence), RecordError> {
    let mut reader = Reader::of_key(key, RECORD);
    let number = SessionNumber(reader.u64()?);
    let sequence = QueueSequence(reader.sequence()?);
    reader.end()?;
    Ok((number, sequence))
}

fn delivery(reader: &mut Reader, version: u8, now: Now) -> Result<WaitingRecord, RecordError> {
    let flags = reader.u8()?;
    let qos = message::qos(reader, u16::from(flags & 0b11))?;
    let known: u8 = if version == VERSION_ID { 0b1111 } else { 0b111 };
    if flags & !known != 0 || qos == QoS::AtMostOnce {
        return Err(reader.damaged("unknown flags of a delivery"));
    }
    let mut subscription_ids = SmallVec::new();
    for _ in 0..reader.u16()? {
        let id = reader.subscription_id()?;
        subscription_ids.push(reader.require(id, "a subscription identifier is 0")?);
    }
    let share = match version {
        VERSION => None,
        VERSION_SHARED => Some(share(reader.text()?, reader)?),
        _ => {
            let text = reader.text()?;
            (!text.is_empty()).then(|| share(text, reader)).transpose()?
        }
    };
    let (message, has_number) = message::message_with_number(reader, now)?;
    if (version == VERSION_ID) != has_number {
        return Err(reader.damaged("a message has an id where none is to be, or none"));
    }
    let retain = flags & 0b100 != 0;
    Ok(WaitingRecord {
        message: Arc::new(message),
        qos,
        retain,
        subscription_ids,
        share,
    })
}

fn share(text: Text, reader: &Reader) -> Result<Arc<SubscriptionFilter>, RecordError> {
    let filter = SubscriptionFilter::parse(text);
    let filter = reader.parse(filter, "a filter is not valid")?;
    if filter.share.is_none() {
        return Err(reader.damaged("a share has no name"));
    }
    Ok(Arc::new(filter))
}

/// What a delivery is stored under.
fn key(number: SessionNumber, sequence: QueueSequence) -> Bytes {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.0.to_be_bytes());
    key[8..].copy_from_slice(&sequence.0.to_be_bytes());
    Bytes::copy_from_slice(&key)
}

const VERSION: u8 = 1;
const VERSION_SHARED: u8 = 2;
const VERSION_RESUMED: u8 = 3;
const VERSION_ID: u8 = 4;
const RECORD: &str = "queue";
const WAITING: u8 = 0;
const RELEASED: u8 = 1;
