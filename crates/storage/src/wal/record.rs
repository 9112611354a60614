//! One record of the write-ahead log: an atomic batch of writes, or the note that everything up to some record lies in
//! tables. `docs/storage.md` draws the bytes; `tests/golden` holds them. All numbers are big endian.
//!
//! ```text
//! magic "STHR" | crc u32 | version u8 | kind u8 | zero u16 | length u32 | segment u64 | sequence u64 | durable u64 |
//! payload (length bytes) | zeros up to a multiple of 8 |
//! ```
//!
//! The checksum (CRC32C) is over everything after it, the padding included. The number of the segment and the sequence
//! tell a record from one that a recycled file held before; `durable` tells a torn tail from damage, see
//! [`super::recovery`].
//!
//! In an encrypted segment records have version 2, and the payload is encrypted and ends with its tag. The checksum is over
//! what is on disk: what is torn or damaged is told without a key, and whoever has none, or a wrong one, takes nothing for a
//! torn tail.

use bytes::{Buf, BufMut as _, Bytes};
use cluster::{Keyspace, Write};

use crate::encryption::{FileCipher, TAG_LEN};

const PLAIN: u8 = 1;
const ENCRYPTED: u8 = 2;

pub(super) const MAGIC: [u8; 4] = *b"STHR";

/// Bytes before the payload.
pub(super) const HEADER_LEN: usize = 40;

/// Records begin at multiples of it, so that a search for records need not try every byte.
pub(super) const ALIGNMENT: usize = 8;

/// The checksum covers what follows it.
const CHECKED_FROM: usize = 8;

const KIND_BATCH: u8 = 1;
const KIND_CHECKPOINT: u8 = 2;

const PUT: u8 = 1;
const REMOVE: u8 = 2;
const REMOVE_ONCE: u8 = 3;
const REMOVE_RANGE: u8 = 4;
const REMOVE_RANGE_ONCE: u8 = 5;

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of its segment.
    pub(crate) segment: u64,
    /// Its own number: one more than that of the record before it, from 1 on.
    pub(crate) sequence: u64,
    /// Every record up to this one was durable when this one was written.
    pub(crate) durable: u64,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Writes that take effect together.
    Batch(Vec<Write>),
    /// What the records up to this one wrote lies in tables, except for log entries.
    Checkpoint { through: u64 },
}

/// A record whose checksum fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) place: Place,
    kind: u8,
    version: u8,
    /// The header from where the checksum begins.
    associated: &'a [u8],
    payload: &'a [u8],
    /// Bytes of the record with its padding.
    pub(super) len: usize,
}

/// A whole record whose content is not to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Another program wrote it.
    Unknown,
    /// It was not written here with this key.
    NotAuthentic,
}

/// The bytes of a record of these writes.
pub(super) fn batch_len(writes: &[Write], is_encrypted: bool) -> usize {
    record_len(writes.iter().map(write_len).sum(), is_encrypted)
}

/// The bytes of a checkpoint.
pub(super) fn checkpoint_len(is_encrypted: bool) -> usize {
    record_len(8, is_encrypted)
}

/// Appends the record of a batch.
pub(super) fn encode_batch(
    buffer: &mut Vec<u8>,
    place: Place,
    cipher: Option<&FileCipher>,
    writes: &[Write],
) {
    let start = begin(buffer, batch_len(writes, cipher.is_some()));
    writes.iter().for_each(|write| encode_write(buffer, write));
    finish(buffer, start, (KIND_BATCH, place), cipher);
}

/// Appends the record of a checkpoint.
pub(super) fn encode_checkpoint(
    buffer: &mut Vec<u8>,
    place: Place,
    cipher: Option<&FileCipher>,
    through: u64,
) {
    let start = begin(buffer, checkpoint_len(cipher.is_some()));
    buffer.put_u64(through);
    finish(buffer, start, (KIND_CHECKPOINT, place), cipher);
}

fn begin(buffer: &mut Vec<u8>, len: usize) -> usize {
    let start = buffer.len();
    buffer.reserve(len);
    buffer.put_bytes(0, HEADER_LEN);
    start
}

fn finish(buffer: &mut Vec<u8>, start: usize, (kind, place): (u8, Place), cipher: Option<&FileCipher>) {
    let content_len = buffer.len() - start - HEADER_LEN;
    let payload_len = content_len + cipher.map_or(0, |_| TAG_LEN);
    let len = u32::try_from(payload_len).expect("a batch is smaller than 4 GiB");
    buffer.resize(start + padded(HEADER_LEN + payload_len), 0);
    let record = &mut buffer[start..];
    record[..4].copy_from_slice(&MAGIC);
    record[8] = if cipher.is_some() { ENCRYPTED } else { PLAIN };
    record[9] = kind;
    record[12..16].copy_from_slice(&len.to_be_bytes());
    record[16..24].copy_from_slice(&place.segment.to_be_bytes());
    record[24..32].copy_from_slice(&place.sequence.to_be_bytes());
    record[32..40].copy_from_slice(&place.durable.to_be_bytes());
    if let Some(cipher) = cipher {
        let (header, payload) = record.split_at_mut(HEADER_LEN);
        let (content, rest) = payload.split_at_mut(content_len);
        let tag = cipher.seal(place.sequence, &header[CHECKED_FROM..], content);
        rest[..TAG_LEN].copy_from_slice(&tag);
    }
    let crc = crc32c::crc32c(&record[CHECKED_FROM..]);
    record[4..8].copy_from_slice(&crc.to_be_bytes());
}

/// The record with which `bytes` begin, if there is one of this segment.
pub(super) fn find(bytes: &[u8], segment: u64) -> Option<Found<'_>> {
    let (header, _) = bytes.split_first_chunk::<HEADER_LEN>()?;
    if header[..4] != MAGIC {
        return None;
    }
    let mut fields = &header[4..];
    let crc = fields.get_u32();
    let version = fields.get_u8();
    let kind = fields.get_u8();
    fields.advance(2);
    let payload_len = fields.get_u32() as usize;
    let place = Place {
        segment: fields.get_u64(),
        sequence: fields.get_u64(),
        durable: fields.get_u64(),
    };
    if place.segment != segment || !matches!(version, PLAIN | ENCRYPTED) {
        return None;
    }
    let len = padded(HEADER_LEN.checked_add(payload_len)?);
    let checked = bytes.get(CHECKED_FROM..len)?;
    (crc32c::crc32c(checked) == crc).then(|| Found {
        place,
        kind,
        version,
        associated: &header[CHECKED_FROM..],
        payload: &bytes[HEADER_LEN..HEADER_LEN + payload_len],
        len,
    })
}

impl Found<'_> {
    /// What it says; `cipher` is that of its segment. The checksum fits, so if it says nothing, another program wrote it, or
    /// it was written with another key, or elsewhere.
    pub(super) fn content(&self, cipher: Option<&FileCipher>) -> Result<Content, Unreadable> {
        match (self.version, cipher) {
            (PLAIN, None) => decode(self.kind, self.payload).ok_or(Unreadable::Unknown),
            (ENCRYPTED, Some(cipher)) => {
                let mut payload = self.payload.to_vec();
                let opened = cipher.open(self.place.sequence, self.associated, &mut payload);
                decode(self.kind, opened.ok_or(Unreadable::NotAuthentic)?).ok_or(Unreadable::Unknown)
            }
            _ => Err(Unreadable::NotAuthentic),
        }
    }
}

fn decode(kind: u8, mut payload: &[u8]) -> Option<Content> {
    let content = match kind {
        KIND_BATCH => {
            let mut writes = Vec::new();
            while !payload.is_empty() {
                writes.push(decode_write(&mut payload)?);
            }
            Content::Batch(writes)
        }
        KIND_CHECKPOINT => Content::Checkpoint {
            through: payload.try_get_u64().ok()?,
        },
        _ => return None,
    };
    payload.is_empty().then_some(content)
}

fn record_len(content_len: usize, is_encrypted: bool) -> usize {
    let tag_len = if is_encrypted { TAG_LEN } else { 0 };
    padded(HEADER_LEN + content_len + tag_len)
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

fn write_len(write: &Write) -> usize {
    let bytes = match write {
        Write::Put { key, value, .. } => 2 + key.len() + 4 + value.len(),
        Write::Remove { key, .. } | Write::RemoveOnce { key, .. } => 2 + key.len(),
        Write::RemoveRange { from, to, .. } | Write::RemoveRangeOnce { from, to, .. } => {
            2 + from.len() + 2 + to.len()
        }
    };
    2 + bytes
}

fn encode_write(buffer: &mut Vec<u8>, write: &Write) {
    let (kind, keyspace) = match write {
        Write::Put { keyspace, .. } => (PUT, keyspace),
        Write::Remove { keyspace, .. } => (REMOVE, keyspace),
        Write::RemoveOnce { keyspace, .. } => (REMOVE_ONCE, keyspace),
        Write::RemoveRange { keyspace, .. } => (REMOVE_RANGE, keyspace),
        Write::RemoveRangeOnce { keyspace, .. } => (REMOVE_RANGE_ONCE, keyspace),
    };
    buffer.put_u8(kind);
    buffer.put_u8(keyspace_id(*keyspace));
    match write {
        Write::Put { key, value, .. } => {
            put_key(buffer, key);
            buffer.put_u32(u32::try_from(value.len()).expect("a value is smaller than 4 GiB"));
            buffer.put_slice(value);
        }
        Write::Remove { key, .. } | Write::RemoveOnce { key, .. } => put_key(buffer, key),
        Write::RemoveRange { from, to, .. } | Write::RemoveRangeOnce { from, to, .. } => {
            put_key(buffer, from);
            put_key(buffer, to);
        }
    }
}

fn put_key(buffer: &mut Vec<u8>, key: &[u8]) {
    buffer.put_u16(u16::try_from(key.len()).expect("a key is at most 65,535 bytes long"));
    buffer.put_slice(key);
}

/// The write with which the payload goes on. Keys and values are copied, so that they do not hold the whole segment.
fn decode_write(payload: &mut &[u8]) -> Option<Write> {
    let kind = payload.try_get_u8().ok()?;
    let keyspace = keyspace_of(payload.try_get_u8().ok()?)?;
    Some(match kind {
        PUT => {
            let key = take_key(payload)?;
            let len = payload.try_get_u32().ok()? as usize;
            let value = take(payload, len)?;
            Write::Put { keyspace, key, value }
        }
        REMOVE => Write::Remove {
            keyspace,
            key: take_key(payload)?,
        },
        REMOVE_ONCE => Write::RemoveOnce {
            keyspace,
            key: take_key(payload)?,
        },
        REMOVE_RANGE => {
            let (from, to) = (take_key(payload)?, take_key(payload)?);
            Write::RemoveRange { keyspace, from, to }
        }
        REMOVE_RANGE_ONCE => {
            let (from, to) = (take_key(payload)?, take_key(payload)?);
            Write::RemoveRangeOnce { keyspace, from, to }
        }
        _ => return None,
    })
}

fn take_key(payload: &mut &[u8]) -> Option<Bytes> {
    let len = usize::from(payload.try_get_u16().ok()?);
    take(payload, len)
}

fn take(payload: &mut &[u8], len: usize) -> Option<Bytes> {
    let taken = payload.split_off(..len)?;
    Some(Bytes::copy_from_slice(taken))
}

fn keyspace_id(keyspace: Keyspace) -> u8 {
    match keyspace {
        Keyspace::Meta => 1,
        Keyspace::Log => 2,
        Keyspace::Sessions => 3,
        Keyspace::Subscriptions => 4,
        Keyspace::Queue => 5,
        Keyspace::Received => 6,
        Keyspace::Retained => 7,
        Keyspace::Plane => 8,
    }
}

fn keyspace_of(id: u8) -> Option<Keyspace> {
    Keyspace::ALL
        .into_iter()
        .find(|keyspace| keyspace_id(*keyspace) == id)
}
