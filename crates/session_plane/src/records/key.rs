//! Keys of records: fixed lengths and big endian, so that their order is that of their fields.

use bytes::Bytes;

use cluster::{Incarnation, NodeId};

use super::KeyError;
use crate::{ClientId, Dot, EntryId, EntryKind, Run, Slot};

/// Kind of a record; the order is that of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[repr(u8)]
pub enum RecordKind {
    /// Latest moment.
    #[error("clock")]
    Clock = 1,
    /// Sets of events of many copies, as they were written before there were cohorts.
    #[error("shared sets")]
    Shared = 2,
    /// Content of a message.
    #[error("content")]
    Content = 3,
    /// Copy of a slot.
    #[error("copy")]
    Copy = 4,
    /// Entry of a copy.
    #[error("entry")]
    Entry = 5,
    /// Single covered dot of a copy.
    #[error("single dot")]
    Single = 6,
    /// Pending message of a copy.
    #[error("pending message")]
    Pending = 7,
    /// Entries of a topic in a copy.
    #[error("topic")]
    Topic = 8,
    /// Sets of events of the copies of a cohort.
    #[error("cohort")]
    Cohort = 9,
}

impl RecordKind {
    const ALL: [RecordKind; 9] = [
        RecordKind::Clock,
        RecordKind::Shared,
        RecordKind::Content,
        RecordKind::Copy,
        RecordKind::Entry,
        RecordKind::Single,
        RecordKind::Pending,
        RecordKind::Topic,
        RecordKind::Cohort,
    ];

    /// First byte of a key.
    pub(super) fn number(self) -> u8 {
        self as u8
    }
}

/// Cohort of copies, which have the same sets of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CohortId(pub(crate) u64);

/// Key of a record, as it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKey {
    Clock,
    Shared,
    Content(Dot),
    Copy(Slot),
    Entry(Slot, ClientHash, EntryId),
    Single(Slot, ClientHash, Dot),
    Pending(Slot, Dot),
    Topic(Slot, ClientHash),
    Cohort(CohortId),
}

/// Bytes of the longest key, which is that of an entry.
const KEY_BYTES_MAX: usize = 1 + 2 + ClientHash::BYTES + 1 + (8 + 4 + 8);

/// Client id or topic in a key: a part of its BLAKE3 hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientHash([u8; ClientHash::BYTES]);

impl ClientHash {
    /// Two of 2^32 clients of a slot have the same hash with a probability of 2^-65.
    const BYTES: usize = 16;

    pub(super) fn of(client: &ClientId) -> ClientHash {
        let hash = blake3::hash(client.as_bytes());
        let mut short = [0; ClientHash::BYTES];
        short.copy_from_slice(&hash.as_bytes()[..ClientHash::BYTES]);
        ClientHash(short)
    }
}

impl RecordKey {
    pub(super) fn kind(&self) -> RecordKind {
        match self {
            RecordKey::Clock => RecordKind::Clock,
            RecordKey::Shared => RecordKind::Shared,
            RecordKey::Cohort(_) => RecordKind::Cohort,
            RecordKey::Content(_) => RecordKind::Content,
            RecordKey::Copy(_) => RecordKind::Copy,
            RecordKey::Entry(..) => RecordKind::Entry,
            RecordKey::Single(..) => RecordKind::Single,
            RecordKey::Pending(..) => RecordKind::Pending,
            RecordKey::Topic(..) => RecordKind::Topic,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(KEY_BYTES_MAX);
        bytes.push(self.kind().number());
        match self {
            RecordKey::Clock | RecordKey::Shared => {}
            RecordKey::Cohort(id) => bytes.extend(id.0.to_be_bytes()),
            RecordKey::Content(dot) => put_dot(&mut bytes, *dot),
            RecordKey::Copy(slot) => put_slot(&mut bytes, *slot),
            RecordKey::Entry(slot, client, id) => {
                put_slot(&mut bytes, *slot);
                bytes.extend(client.0);
                bytes.push(id.kind.number());
                put_dot(&mut bytes, id.dot);
            }
            RecordKey::Single(slot, client, dot) => {
                put_slot(&mut bytes, *slot);
                bytes.extend(client.0);
                put_dot(&mut bytes, *dot);
            }
            RecordKey::Pending(slot, dot) => {
                put_slot(&mut bytes, *slot);
                put_dot(&mut bytes, *dot);
            }
            RecordKey::Topic(slot, topic) => {
                put_slot(&mut bytes, *slot);
                bytes.extend(topic.0);
            }
        }
        Bytes::from(bytes)
    }

    pub(super) fn decode(key: &[u8]) -> Result<RecordKey, KeyError> {
        let mut fields = Fields { rest: key };
        let [number] = fields.fixed()?;
        let kind = RecordKind::ALL.into_iter().find(|kind| kind.number() == number);
        let kind = kind.ok_or(KeyError::UnknownKind { number })?;
        let key = match kind {
            RecordKind::Clock => RecordKey::Clock,
            RecordKind::Shared => RecordKey::Shared,
            RecordKind::Cohort => RecordKey::Cohort(CohortId(u64::from_be_bytes(fields.fixed()?))),
            RecordKind::Content => RecordKey::Content(fields.dot()?),
            RecordKind::Copy => RecordKey::Copy(fields.slot()?),
            RecordKind::Entry => RecordKey::Entry(fields.slot()?, fields.client()?, fields.entry_id()?),
            RecordKind::Single => RecordKey::Single(fields.slot()?, fields.client()?, fields.dot()?),
            RecordKind::Pending => RecordKey::Pending(fields.slot()?, fields.dot()?),
            RecordKind::Topic => RecordKey::Topic(fields.slot()?, fields.client()?),
        };
        if fields.rest.is_empty() {
            Ok(key)
        } else {
            Err(KeyError::Length)
        }
    }
}

/// First key of a kind in a slot.
pub(super) fn first_of(kind: RecordKind, slot: Slot) -> Bytes {
    boundary(kind, slot.number())
}

/// Key behind the last one of a kind in a slot.
pub(super) fn behind(kind: RecordKind, slot: Slot) -> Bytes {
    boundary(kind, slot.number() + 1)
}

fn boundary(kind: RecordKind, slot: u16) -> Bytes {
    let mut bytes = vec![kind.number()];
    bytes.extend(slot.to_be_bytes());
    Bytes::from(bytes)
}

fn put_slot(bytes: &mut Vec<u8>, slot: Slot) {
    bytes.extend(slot.number().to_be_bytes());
}

fn put_dot(bytes: &mut Vec<u8>, dot: Dot) {
    bytes.extend(dot.run.node.0.to_be_bytes());
    bytes.extend(dot.run.incarnation.0.to_be_bytes());
    bytes.extend(dot.number.to_be_bytes());
}

/// Fields of a key that is being read.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], KeyError> {
        let (field, rest) = self.rest.split_first_chunk().ok_or(KeyError::Length)?;
        self.rest = rest;
        Ok(*field)
    }

    fn slot(&mut self) -> Result<Slot, KeyError> {
        Ok(Slot::new(u16::from_be_bytes(self.fixed()?))?)
    }

    fn client(&mut self) -> Result<ClientHash, KeyError> {
        Ok(ClientHash(self.fixed()?))
    }

    fn entry_id(&mut self) -> Result<EntryId, KeyError> {
        let [number] = self.fixed()?;
        let kind = EntryKind::of_number(number).filter(|kind| !kind.is_of_topic());
        let kind = kind.ok_or(KeyError::UnknownEntry { number })?;
        let dot = self.dot()?;
        Ok(EntryId { kind, dot })
    }

    fn dot(&mut self) -> Result<Dot, KeyError> {
        let node = NodeId(u64::from_be_bytes(self.fixed()?));
        let incarnation = Incarnation(u32::from_be_bytes(self.fixed()?));
        let number = u64::from_be_bytes(self.fixed()?);
        if node.0 == 0 || number == 0 {
            return Err(KeyError::NoEvent);
        }
        let run = Run { node, incarnation };
        Ok(Dot { run, number })
    }
}
