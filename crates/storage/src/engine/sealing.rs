//! What tables hold when they are encrypted: neither keys nor values can be read.
//!
//! A key is stored as a name of 16 bytes that is made from it (HMAC-SHA256, cut), so that it is found again, and is encrypted
//! together with its value. Keys that begin with the number of a session keep it in front: it tells nothing about who that is,
//! and what belongs to a session stays together. Everything else has no order on disk, and is sorted when a range is
//! read. That is done at a start.
//!
//! ```text
//! ENCRYPTION       | "STHDTBLE" | crc u32 | version 1 u32 | stamp (28) | tag (16) |
//! key              | name (16) |
//! key of a session | its first 8 bytes, with zeros if there are fewer | how many there are, at most 8 | name (16) |
//! value            | version 1 | series (16) | number u64 | encrypted: key length u16 | key | value | tag (16) |
//! ```
//!
//! A series is what was written to tables at one checkpoint: it has a random name and a key of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::hmac;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use cluster::Keyspace;

use super::tables::Item;
use crate::OpenError;
use crate::data_dir;
use crate::encryption::{Encryption, EncryptionError, FileCipher, FileKeys, KeyId, Stamp, TAG_LEN};
use crate::fault::{Doing, Fault};

/// How tables of one database are encrypted.
pub(super) struct Sealing {
    stamp: Stamp,
    keys: FileKeys,
    names: hmac::Key,
    /// Ciphers of series that were read.
    series: Mutex<BTreeMap<Series, Arc<FileCipher>>>,
}

type Series = [u8; SERIES_LEN];

const FILE: &str = "ENCRYPTION";
const MAGIC: [u8; 8] = *b"STHDTBLE";
const FILE_VERSION: u32 = 1;
const FILE_LEN: usize = 8 + 4 + 4 + Stamp::LEN + TAG_LEN;
const CHECKED_FROM: usize = 12;

const VALUE_VERSION: u8 = 1;
const SERIES_LEN: usize = 16;
const NAME_LEN: usize = 16;

/// Bytes of a session's number.
const NUMBER_LEN: usize = 8;

/// Ciphers that are kept: a compaction mixes what was written at different checkpoints.
const SERIES_MAX: usize = 64;

impl Sealing {
    /// Notes in the directory of a new database how it is encrypted, if it is to be.
    pub(super) fn make(dir: &Path, encryption: &Encryption) -> io::Result<()> {
        let Some((stamp, keys)) = encryption.new_file() else {
            return Ok(());
        };
        let mut file = File::create(dir.join(FILE))?;
        file.write_all(&encode(stamp, &keys))?;
        file.sync_all()?;
        data_dir::sync_dir(dir)
    }

    /// How the database in this directory is encrypted; none: it is plain.
    pub(super) fn open(dir: &Path, encryption: &Encryption) -> Result<Option<Sealing>, OpenError> {
        let path = dir.join(FILE);
        let stamp = read_stamp(dir)?;
        let keys = encryption.open_file(&path, stamp)?;
        let (Some(stamp), Some(keys)) = (stamp, keys) else {
            return Ok(None);
        };
        let (names, series) = (keys.names("statehold table names"), Mutex::default());
        let found = fs::read(&path).map_err(|error| Fault::from_io(Doing::Opening, error))?;
        if encode(stamp, &keys)[..] != found {
            let error = EncryptionError::NotAuthentic {
                file: path,
                offset: 0,
                key: stamp.key,
            };
            return Err(error.into());
        }
        Ok(Some(Sealing {
            stamp,
            keys,
            names,
            series,
        }))
    }

    pub(super) fn key(&self) -> KeyId {
        self.stamp.key
    }

    /// Changes of a keyspace as they are stored, in the order in which they are stored.
    pub(super) fn seal<'a>(
        &'a self,
        keyspace: Keyspace,
        changes: impl Iterator<Item = (&'a Bytes, Option<&'a Bytes>)>,
    ) -> impl Iterator<Item = (Bytes, Option<Bytes>)> + 'a {
        let mut series = [0; SERIES_LEN];
        aws_lc_rs::rand::fill(&mut series).expect("the system has random numbers");
        let cipher = self.cipher(&series);
        let mut stored: Vec<_> = changes
            .map(|(key, value)| (self.stored_key(keyspace, key), key, value))
            .collect();
        stored.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        stored
            .into_iter()
            .zip(0..)
            .map(move |((stored, key, value), number)| {
                let value = value.map(|value| {
                    let mut sealed =
                        BytesMut::with_capacity(HEAD_LEN + 2 + key.len() + value.len() + TAG_LEN);
                    sealed.put_u8(VALUE_VERSION);
                    sealed.put_slice(&series);
                    sealed.put_u64(number);
                    sealed.put_u16(u16::try_from(key.len()).expect("a key is at most 65,535 bytes long"));
                    sealed.put_slice(key);
                    sealed.put_slice(value);
                    let tag = cipher.seal(number, &place(keyspace, &stored), &mut sealed[HEAD_LEN..]);
                    sealed.put_slice(&tag);
                    sealed.freeze()
                });
                (stored, value)
            })
    }

    /// Under what a key is stored.
    pub(super) fn stored_key(&self, keyspace: Keyspace, key: &[u8]) -> Bytes {
        let mut stored = BytesMut::with_capacity(NUMBER_LEN + 1 + NAME_LEN);
        if has_numbers(keyspace) {
            stored.put_slice(&number_of(key));
        }
        let mut name = hmac::Context::with_key(&self.names);
        name.update(&place(keyspace, key));
        stored.put_slice(&name.sign().as_ref()[..NAME_LEN]);
        stored.freeze()
    }

    /// The key and the value of what is stored.
    pub(super) fn open_value(&self, keyspace: Keyspace, stored: &[u8], value: &[u8]) -> Result<Item, Fault> {
        self.decrypt(keyspace, stored, value)
            .ok_or_else(|| damaged(keyspace))
    }

    fn decrypt(&self, keyspace: Keyspace, stored: &[u8], value: &[u8]) -> Option<Item> {
        let (mut head, sealed) = value.split_at_checked(HEAD_LEN)?;
        if head.get_u8() != VALUE_VERSION {
            return None;
        }
        let (series, number) = head.split_first_chunk()?;
        let cipher = self.cipher(series);
        let number = u64::from_be_bytes(number.try_into().ok()?);
        let mut sealed = sealed.to_vec();
        let len = cipher.open(number, &place(keyspace, stored), &mut sealed)?.len();
        sealed.truncate(len);
        let mut value = Bytes::from(sealed);
        let key_len = usize::from(value.try_get_u16().ok()?);
        if value.len() < key_len {
            return None;
        }
        Some((value.split_to(key_len), value))
    }

    fn cipher(&self, series: &Series) -> Arc<FileCipher> {
        let mut known = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= SERIES_MAX && !known.contains_key(series) {
            known.clear();
        }
        let cipher = || Arc::new(self.keys.cipher("statehold table values", series));
        known.entry(*series).or_insert_with(cipher).clone()
    }
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealing")
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

/// Bytes of a value before what is encrypted.
const HEAD_LEN: usize = 1 + SERIES_LEN + 8;

/// The file that says how an engine is encrypted.
pub(super) fn stamp_file(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// What an engine's directory says about how it is encrypted; none: it is plain.
pub(super) fn read_stamp(dir: &Path) -> Result<Option<Stamp>, Fault> {
    let path = stamp_file(dir);
    let bytes = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(|error| Fault::from_io(Doing::Opening, error))?,
    };
    let stamp = decode(&bytes).ok_or_else(|| Fault::Engine {
        doing: Doing::Opening,
        detail: format!("{} is damaged", path.display()),
    })?;
    Ok(Some(stamp))
}

/// Where what lies between two keys is stored.
pub(super) fn stored_range(keyspace: Keyspace, from: &[u8], to: Option<&[u8]>) -> (Vec<u8>, Option<Vec<u8>>) {
    if !has_numbers(keyspace) {
        return (Vec::new(), None);
    }
    let to = to.map(|to| {
        let mut end = number_of(to);
        // Shorter keys with the same number and zeros come before a number; what goes on after it does not.
        if to.len() > NUMBER_LEN {
            end[NUMBER_LEN] += 1;
        }
        end.to_vec()
    });
    (number_of(from).to_vec(), to)
}

/// Sorts what is stored without an order: keys with the same number, or all of them.
pub(super) fn in_order(
    keyspace: Keyspace,
    items: impl Iterator<Item = Result<Item, Fault>>,
) -> impl Iterator<Item = Result<Item, Fault>> {
    InOrder {
        has_numbers: has_numbers(keyspace),
        items: items.peekable(),
        sorted: Vec::new().into_iter(),
    }
}

struct InOrder<I: Iterator> {
    has_numbers: bool,
    items: Peekable<I>,
    sorted: std::vec::IntoIter<Item>,
}

impl<I: Iterator<Item = Result<Item, Fault>>> Iterator for InOrder<I> {
    type Item = Result<Item, Fault>;

    fn next(&mut self) -> Option<Result<Item, Fault>> {
        if let Some(item) = self.sorted.next() {
            return Some(Ok(item));
        }
        let first = match self.items.next()? {
            Ok(item) => item,
            Err(fault) => return Some(Err(fault)),
        };
        let (number, has_numbers) = (number_of(&first.0), self.has_numbers);
        let mut together = vec![first];
        let is_beside = |item: &Result<Item, Fault>| match item {
            Ok((key, _)) => !has_numbers || number_of(key) == number,
            Err(_) => false,
        };
        while let Some(Ok(item)) = self.items.next_if(is_beside) {
            together.push(item);
        }
        together.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.sorted = together.into_iter();
        self.sorted.next().map(Ok)
    }
}

/// Whether keys begin with the number of a session.
fn has_numbers(keyspace: Keyspace) -> bool {
    match keyspace {
        Keyspace::Subscriptions | Keyspace::Queue | Keyspace::Received => true,
        Keyspace::Meta | Keyspace::Log | Keyspace::Sessions | Keyspace::Retained | Keyspace::Plane => false,
    }
}

/// The first bytes of a key and how many they are: in the order of keys, as far as it goes.
fn number_of(key: &[u8]) -> [u8; NUMBER_LEN + 1] {
    let mut number = [0; NUMBER_LEN + 1];
    let len = key.len().min(NUMBER_LEN);
    number[..len].copy_from_slice(&key[..len]);
    number[NUMBER_LEN] = len as u8;
    number
}

/// What is encrypted belongs there.
fn place(keyspace: Keyspace, key: &[u8]) -> Vec<u8> {
    [keyspace.name().as_bytes(), &[0], key].concat()
}

fn encode(stamp: Stamp, keys: &FileKeys) -> [u8; FILE_LEN] {
    let mut bytes = [0; FILE_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[12..16].copy_from_slice(&FILE_VERSION.to_be_bytes());
    bytes[16..16 + Stamp::LEN].copy_from_slice(&stamp.encode());
    let (head, tag) = bytes.split_at_mut(FILE_LEN - TAG_LEN);
    let cipher = keys.cipher("statehold tables", &[]);
    tag.copy_from_slice(&cipher.seal(0, &head[CHECKED_FROM..], &mut []));
    let crc = crc32c::crc32c(&bytes[CHECKED_FROM..]);
    bytes[8..12].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Stamp> {
    let bytes: &[u8; FILE_LEN] = bytes.try_into().ok()?;
    let mut fields = bytes.strip_prefix(&MAGIC)?;
    if fields.get_u32() != crc32c::crc32c(fields) || fields.get_u32() != FILE_VERSION {
        return None;
    }
    fields.first_chunk().map(Stamp::decode)
}

pub(super) fn damaged(keyspace: Keyspace) -> Fault {
    Fault::Engine {
        doing: Doing::Reading,
        detail: format!(
            "a record of the tables of {} was not written with the key of these tables, which ENCRYPTION beside them names",
            keyspace.name()
        ),
    }
}

#[cfg(test)]
mod tests;
