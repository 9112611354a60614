//! A key with everything that is stored under it, as snapshots, backups and the log have it.
//!
//! ```text
//! key = flags key value version [deadline] [fencing]      flags: bit 0 deadline, 1 fencing
//! ```
//!
//! The deadline is group time in snapshots. In backups and in the log it is wall time: the group that takes it has another time.

use bytes::{BufMut, Bytes, BytesMut};
use protocol::Hlc;

use crate::codec::{self, Damaged, Source};
use crate::key::Key;
use crate::stamp::Stamp;
use crate::store::Stored;
use crate::version::Version;

/// A key with everything that is stored under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// The key; not empty.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
    /// The version at which it was written.
    pub version: Version,
    /// When it expires, in milliseconds since the Unix epoch.
    pub deadline: Option<u64>,
    /// The fencing token that is stored with it.
    pub fencing: Option<Hlc>,
}

/// Bytes are no such record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record of a key is damaged")]
pub struct KeyRecordDamaged;

impl KeyRecord {
    pub(crate) fn of(key: &Key, stored: &Stored, stamp: Stamp) -> Self {
        Self {
            key: key.to_bytes(),
            value: stored.value.clone(),
            version: stored.version,
            deadline: stored.deadline.map(|deadline| stamp.wall_of(deadline)),
            fencing: stored.fencing.as_deref().cloned(),
        }
    }

    /// The record as bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.key.len() + self.value.len() + ROOM);
        self.put(&mut out);
        out.freeze()
    }

    /// Reads a record; key and value share the memory of the bytes.
    ///
    /// # Errors
    /// If it is none, or is not all that is there.
    pub fn decode(mut bytes: Bytes) -> Result<Self, KeyRecordDamaged> {
        let record = Self::read(&mut bytes).map_err(|Damaged| KeyRecordDamaged)?;
        if bytes.is_empty() {
            Ok(record)
        } else {
            Err(KeyRecordDamaged)
        }
    }

    pub(crate) fn put(&self, out: &mut BytesMut) {
        let rest = (self.deadline, self.fencing.as_ref());
        put_fields(out, &self.key, &self.value, self.version, rest);
    }

    pub(crate) fn read(source: &mut impl Source) -> Result<Self, Damaged> {
        let flags = source.byte()?;
        if flags & !(FLAG_DEADLINE | FLAG_FENCING) != 0 {
            return Err(Damaged);
        }
        let (key, value) = (codec::key(source)?, codec::bytes(source)?);
        let version = codec::version(source)?;
        let mut deadline = None;
        if flags & FLAG_DEADLINE != 0 {
            deadline = Some(codec::number(source)?);
        }
        let mut fencing = None;
        if flags & FLAG_FENCING != 0 {
            fencing = Some(codec::hlc(source)?);
        }
        Ok(Self {
            key,
            value,
            version,
            deadline,
            fencing,
        })
    }
}

pub(crate) fn put_fields(
    out: &mut BytesMut,
    key: &[u8],
    value: &[u8],
    version: Version,
    (deadline, fencing): (Option<u64>, Option<&Hlc>),
) {
    let deadline_flag = deadline.map_or(0, |_| FLAG_DEADLINE);
    let fencing_flag = fencing.map_or(0, |_| FLAG_FENCING);
    out.put_u8(deadline_flag | fencing_flag);
    codec::put_bytes(out, key);
    codec::put_bytes(out, value);
    codec::put_version(out, version);
    if let Some(deadline) = deadline {
        codec::put_number(out, deadline);
    }
    if let Some(fencing) = fencing {
        codec::put_hlc(out, fencing);
    }
}

/// For the small fields.
const ROOM: usize = 64;

pub(crate) const FLAG_DEADLINE: u8 = 0b01;
pub(crate) const FLAG_FENCING: u8 = 0b10;
