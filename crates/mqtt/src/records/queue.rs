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
//! A waiting record stands for a delivery that was or was not sent: see [`crate::session`]. It is written once and
//! removed once, unless it is replaced by a released one in between.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use cluster::write::{Keyspace, Write};
use protocol::Text;
use protocol::packet::{PacketId, QoS};
use protocol::topic::SubscriptionFilter;
use smallvec::SmallVec;

use super::RecordError;
use super::encoding::{Reader, put_short};
use super::message;
use crate::ids::{QueueSequence, SessionNumber};
use crate::message::{Delivery, DeliveryKind};
use crate::now::Now;
use crate::session::Change;

/// What is stored of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueRecord {
    /// It may or may not have been sent.
    Waiting(Delivery),
    /// Its PUBREC has come.
    Released {
        /// What the PUBREL names.
        packet_id: PacketId,
    },
}

/// The value that stores a delivery. It has nothing of the session in it: receivers with the same QoS, RETAIN flag and
/// subscription identifiers can share it.
pub fn value(delivery: &Delivery, now: Now) -> Bytes {
    assert!(delivery.qos != QoS::AtMostOnce, "QoS 0 is not stored");
    let mut out = Vec::with_capacity(delivery.message.size());
    let version = match &delivery.share {
        _ if delivery.message.id.is_some() => VERSION_ID,
        _ if delivery.is_resumed => VERSION_RESUMED,
        Some(_) => VERSION_SHARED,
        None => VERSION,
    };
    let is_resumed = version == VERSION_ID && delivery.is_resumed;
    out.put_u8(version);
    out.put_u8(WAITING);
    out.put_u8(delivery.qos as u8 | u8::from(delivery.retain) << 2 | u8::from(is_resumed) << 3);
    out.put_u16(u16::try_from(delivery.subscription_ids.len()).unwrap_or(u16::MAX));
    for id in delivery.subscription_ids.iter().take(usize::from(u16::MAX)) {
        out.put_u32(id.get());
    }
    match &delivery.share {
        Some(share) => put_short(&mut out, share.to_string().as_bytes()),
        None if version >= VERSION_RESUMED => put_short(&mut out, &[]),
        None => {}
    }
    message::put_message(&mut out, &delivery.message, delivery.message.id, now);
    out.into()
}

/// The value that stores a delivery, with a message that has no id.
pub fn without_id(value: Bytes, now: Now) -> Result<Bytes, RecordError> {
    if value.first() != Some(&VERSION_ID) {
        return Ok(value);
    }
    let QueueRecord::Waiting(mut delivery) = read(value, QueueSequence(0), now)? else {
        return Err(RecordError::Damaged {
            record: RECORD,
            what: "not waiting",
        });
    };
    Arc::make_mut(&mut delivery.message).id = None;
    Ok(self::value(&delivery, now))
}

/// Stores a delivery: `value` under a sequence.
pub fn put(number: SessionNumber, sequence: QueueSequence, value: Bytes) -> Write {
    Write::Put {
        keyspace: Keyspace::Queue,
        key: key(number, sequence),
        value,
    }
}

/// Removes a delivery that was not sent, or acknowledged with PUBACK: its record was written once.
pub fn remove_once(number: SessionNumber, sequence: QueueSequence) -> Write {
    Write::RemoveOnce {
        keyspace: Keyspace::Queue,
        key: key(number, sequence),
    }
}

/// What an acknowledgement changes, if anything.
pub fn change(number: SessionNumber, change: Change) -> Option<Write> {
    match change {
        Change::Nothing => None,
        Change::Remove {
            sequence,
            is_written_once: true,
        } => Some(remove_once(number, sequence)),
        Change::Remove {
            sequence,
            is_written_once: false,
        } => Some(Write::Remove {
            keyspace: Keyspace::Queue,
            key: key(number, sequence),
        }),
        Change::Release { sequence, packet_id } => Some(put(number, sequence, released(packet_id))),
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
    Ok((number, sequence, read(value, sequence, now)?))
}

fn read(value: Bytes, sequence: QueueSequence, now: Now) -> Result<QueueRecord, RecordError> {
    let (mut reader, version) = Reader::of_versions(
        value,
        RECORD,
        &[VERSION, VERSION_SHARED, VERSION_RESUMED, VERSION_ID],
    )?;
    let record = match reader.u8()? {
        WAITING => QueueRecord::Waiting(delivery(&mut reader, sequence, version, now)?),
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

/// Which delivery a record is of.
pub fn sequence_of(key: &[u8]) -> Result<QueueSequence, RecordError> {
    decode_key(key).map(|(_, sequence)| sequence)
}

fn decode_key(key: &[u8]) -> Result<(SessionNumber, QueueSequence), RecordError> {
    let mut reader = Reader::of_key(key, RECORD);
    let number = SessionNumber(reader.u64()?);
    let sequence = QueueSequence(reader.sequence()?);
    reader.end()?;
    Ok((number, sequence))
}

fn delivery(
    reader: &mut Reader,
    sequence: QueueSequence,
    version: u8,
    now: Now,
) -> Result<Delivery, RecordError> {
    let flags = reader.u8()?;
    let qos = message::qos(reader, u16::from(flags & 0b11))?;
    let is_resumed = version == VERSION_RESUMED || (version == VERSION_ID && flags & 0b1000 != 0);
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
    let message = Arc::new(message::message(reader, now)?);
    if (version == VERSION_ID) != message.id.is_some() {
        return Err(reader.damaged("a message has an id where none is to be, or none"));
    }
    let retain = flags & 0b100 != 0;
    Ok(Delivery {
        message,
        qos,
        retain,
        subscription_ids,
        share,
        durable: Some(sequence),
        kind: DeliveryKind::Message,
        dup: false,
        is_resumed,
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
pub fn key(number: SessionNumber, sequence: QueueSequence) -> Bytes {
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
