//! Reading of the records of a disk, in one pass in the order of their keys.
//!
//! *Invariant*: what a record names was read before it. So each record is checked where it is read,
//! and only what concerns a whole copy is checked at the end.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::session_plane::Hlc;

use super::copy_form::CopyForm;
use super::key::{ClientHash, CohortId, RecordKey, RecordKind};
use super::topic::TopicEntry;
use super::{ContentUses, RECORD_VERSION, RecordError, RecordValue};
use crate::progress::Progress;
use crate::wire::{Field, Reader, Subject, WireError};
use crate::{ClientDot, ClientEntry, ClientId, Dot, Entry, EntryId, Pending, PendingMessage, Slot};

/// Records that were read so far.
#[derive(Debug)]
pub struct RecordsReader<V, M> {
    last_key: Bytes,
    contents: BTreeMap<Dot, Bytes>,
    read: ReadRecords<V, M>,
}

/// Everything that a disk has.
#[derive(Debug)]
pub(crate) struct ReadRecords<V, M> {
    pub(crate) clock: Hlc,
    pub(crate) shared: Option<Progress>,
    pub(crate) cohorts: BTreeMap<CohortId, Progress>,
    pub(crate) copies: BTreeMap<Slot, ReadCopy<V, M>>,
    pub(crate) uses: ContentUses,
}

/// Records of one copy.
#[derive(Debug)]
pub(crate) struct ReadCopy<V, M> {
    pub(crate) place: Place,
    pub(crate) entries: Vec<ClientEntry<V>>,
    pub(crate) single: Vec<ClientDot>,
    pub(crate) pending: Vec<PendingMessage<M>>,
}

/// Where the sets of events of a copy are.
#[derive(Debug)]
pub(crate) enum Place {
    Cohort(CohortId),
    /// In the record of shared sets, of a disk without cohorts.
    Shared,
    /// In its own record, of a disk without cohorts.
    Own(Progress),
}

impl<V, M> Default for RecordsReader<V, M> {
    /// No record: the first start of a node.
    fn default() -> RecordsReader<V, M> {
        RecordsReader {
            last_key: Bytes::new(),
            contents: BTreeMap::new(),
            read: ReadRecords {
                clock: Hlc::ZERO,
                shared: None,
                cohorts: BTreeMap::new(),
                copies: BTreeMap::new(),
                uses: ContentUses::default(),
            },
        }
    }
}

impl<V: RecordValue, M: RecordValue> RecordsReader<V, M> {
    /// Reads the next record.
    ///
    /// # Errors
    ///
    /// [`RecordError`] where it is none, or does not go with those before.
    pub fn read(&mut self, key: Bytes, value: &Bytes) -> Result<(), RecordError> {
        let of = RecordKey::decode(&key).map_err(|error| RecordError::Key {
            key: key.to_vec(),
            error,
        })?;
        let kind = of.kind();
        if key <= self.last_key {
            return Err(RecordError::NotAscending { kind });
        }
        self.last_key = key;
        match value.first() {
            Some(&RECORD_VERSION) => self.add(of, value.slice(1..)),
            found => {
                let found = found.copied().unwrap_or(0);
                Err(RecordError::OtherVersion { kind, found })
            }
        }
    }

    /// Ends the reading.
    pub(crate) fn finish(self) -> ReadRecords<V, M> {
        self.read
    }

    fn add(&mut self, key: RecordKey, fields: Bytes) -> Result<(), RecordError> {
        let kind = key.kind();
        let mut value = Value {
            kind,
            reader: Reader::new(Subject::Record, fields.clone()),
        };
        match key {
            RecordKey::Content(dot) => {
                self.contents.insert(dot, fields);
                return Ok(());
            }
            RecordKey::Clock => self.read.clock = value.take("clock")?,
            RecordKey::Shared => self.read.shared = Some(value.sets()?),
            RecordKey::Cohort(id) => {
                let sets = value.sets()?;
                self.read.cohorts.insert(id, sets);
            }
            RecordKey::Copy(slot) => {
                let copy = value.copy()?;
                self.read.copies.insert(slot, copy);
            }
            RecordKey::Entry(slot, client, id) => {
                let entry = self.entry(&mut value, client, id)?;
                self.copy(kind, slot)?.entries.push(entry);
            }
            RecordKey::Single(slot, client, dot) => {
                let client = value.client(client)?;
                self.copy(kind, slot)?.single.push(ClientDot { client, dot });
            }
            RecordKey::Pending(slot, dot) => {
                let message = self.pending(&mut value, dot)?;
                self.copy(kind, slot)?.pending.push(message);
            }
            RecordKey::Topic(slot, topic) => {
                let entries = value.topic(topic)?;
                self.copy(kind, slot)?.entries.extend(entries);
            }
        }
        value.end()
    }

    fn entry(
        &mut self,
        value: &mut Value,
        client: ClientHash,
        id: EntryId,
    ) -> Result<ClientEntry<V>, RecordError> {
        let (kind, dot) = (value.kind, id.dot);
        let client = value.client(client)?;
        let content = self.content(dot, value.take("content of an entry")?)?;
        let stored: Entry<Bytes> = value.take("entry")?;
        if stored.fact.kind() != id.kind {
            return Err(RecordError::OtherKey { kind });
        }
        let entry = value.entry(stored, content)?;
        Ok(ClientEntry { client, dot, entry })
    }

    fn pending(&mut self, value: &mut Value, dot: Dot) -> Result<PendingMessage<M>, RecordError> {
        let kind = value.kind;
        let clock = value.take("clock of a pending message")?;
        let content = self.content(dot, value.take("content of a pending message")?)?;
        let stored = value.bytes()?;
        let message = M::from_record(stored, content).ok_or(RecordError::NoValue { kind })?;
        let pending = Pending { clock, message };
        Ok(PendingMessage { dot, pending })
    }

    /// Content that a record names, which is counted.
    fn content(&mut self, dot: Dot, is_named: bool) -> Result<Option<Bytes>, RecordError> {
        if !is_named {
            return Ok(None);
        }
        let content = self.contents.get(&dot).cloned();
        let content = content.ok_or(RecordError::NoContent { dot })?;
        self.read.uses.add(dot);
        Ok(Some(content))
    }

    fn copy(&mut self, kind: RecordKind, slot: Slot) -> Result<&mut ReadCopy<V, M>, RecordError> {
        let copy = self.read.copies.get_mut(&slot);
        copy.ok_or(RecordError::NoCopy { kind, slot })
    }
}

/// Value that is being read, behind its version.
struct Value {
    kind: RecordKind,
    reader: Reader,
}

impl Value {
    fn take<T: Field>(&mut self, field: &'static str) -> Result<T, RecordError> {
        let taken = self.reader.take(field);
        taken.map_err(|error| self.error(error))
    }

    fn bytes(&mut self) -> Result<Bytes, RecordError> {
        let bytes = self.reader.bytes();
        bytes.map_err(|error| self.error(error))
    }

    /// Client, which the key has the hash of.
    fn client(&mut self, hash: ClientHash) -> Result<ClientId, RecordError> {
        let client = self.take("client")?;
        if ClientHash::of(&client) == hash {
            Ok(client)
        } else {
            Err(RecordError::OtherKey { kind: self.kind })
        }
    }

    fn entry<V: RecordValue>(
        &self,
        stored: Entry<Bytes>,
        content: Option<Bytes>,
    ) -> Result<Entry<V>, RecordError> {
        let kind = self.kind;
        let value = V::from_record(stored.value, content).ok_or(RecordError::NoValue { kind })?;
        Ok(Entry {
            birth: stored.birth,
            clock: stored.clock,
            fact: stored.fact,
            value,
        })
    }

    /// Entries of a topic, which the key has the hash of.
    fn topic<V: RecordValue>(&mut self, hash: ClientHash) -> Result<Vec<ClientEntry<V>>, RecordError> {
        let client = self.client(hash)?;
        let stored: Vec<TopicEntry> = self.take("entries of a topic")?;
        let entries = stored.into_iter().map(|of| {
            if !of.entry.fact.kind().is_of_topic() {
                return Err(RecordError::OtherKey { kind: self.kind });
            }
            let (client, dot) = (client.clone(), of.dot);
            let entry = self.entry(of.entry, of.content)?;
            Ok(ClientEntry { client, dot, entry })
        });
        entries.collect()
    }

    fn sets(&mut self) -> Result<Progress, RecordError> {
        let covered = self.take("covered events")?;
        let taken = self.take("taken events")?;
        let holes = self.take("holes")?;
        let kind = self.kind;
        Progress::of_sets(covered, taken, holes).ok_or(RecordError::SetsOverlap { kind })
    }

    fn copy<V, M>(&mut self) -> Result<ReadCopy<V, M>, RecordError> {
        let place = match self.take("form of a copy")? {
            CopyForm::Shared => Place::Shared,
            CopyForm::Own => Place::Own(self.sets()?),
            CopyForm::OfCohort => Place::Cohort(CohortId(self.take("cohort of a copy")?)),
        };
        Ok(ReadCopy {
            place,
            entries: Vec::new(),
            single: Vec::new(),
            pending: Vec::new(),
        })
    }

    fn end(&self) -> Result<(), RecordError> {
        self.reader.end().map_err(|error| self.error(error))
    }

    fn error(&self, error: WireError) -> RecordError {
        let kind = self.kind;
        RecordError::Value { kind, error }
    }
}
