//! Last start that this node has met of each other member.
//!
//! A peer that comes with another past has an older copy of its directory (`cluster::peers::Starts`).
//!
//! Key `start` and node u64 in the meta keyspace; value: version u8, incarnation u32, nonce u64, CRC32C u32 over key and value, big
//! endian.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use cluster::peers::Start;
use cluster::{Incarnation, Keyspace, NodeId, Write};

use super::{sealed, unsealed};
use crate::{RecoveryError, Storage};

/// Last starts of other members that are on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownStarts(BTreeMap<NodeId, Start>);

const PREFIX: &[u8] = b"start";
const VERSION: u8 = 1;

impl KnownStarts {
    /// Reads all of them.
    ///
    /// # Errors
    /// A record is damaged, or the disk fails.
    pub fn read(storage: &impl Storage) -> Result<Self, RecoveryError> {
        let mut known = BTreeMap::new();
        let mut damaged = false;
        storage.scan(
            Keyspace::Meta,
            PREFIX,
            &mut |key, record| match decode(key, &record) {
                Some((node, start)) => {
                    known.insert(node, start);
                    ControlFlow::Continue(())
                }
                None => {
                    damaged = true;
                    ControlFlow::Break(())
                }
            },
        )?;
        if damaged {
            return Err(RecoveryError::KnownStartDamaged);
        }
        Ok(Self(known))
    }

    /// Takes over the starts of members, and forgets those of others. Returns what has to be written for that.
    pub fn replace(&mut self, starts: BTreeMap<NodeId, Start>) -> Vec<Write> {
        let gone = self.0.keys().filter(|node| !starts.contains_key(node));
        let gone = gone.map(|node| Write::Remove {
            keyspace: Keyspace::Meta,
            key: key_of(*node),
        });
        let new = starts
            .iter()
            .filter(|(node, start)| self.0.get(node) != Some(start));
        let new = new.map(|(node, start)| put(*node, *start));
        let writes = gone.chain(new).collect();
        self.0 = starts;
        writes
    }

    /// Each member with its last start.
    pub fn by_node(&self) -> &BTreeMap<NodeId, Start> {
        &self.0
    }
}

fn key_of(node: NodeId) -> Bytes {
    let mut key = BytesMut::from(PREFIX);
    key.put_u64(node.0);
    key.freeze()
}

fn put(node: NodeId, start: Start) -> Write {
    let key = key_of(node);
    let mut record = BytesMut::new();
    record.put_u8(VERSION);
    record.put_u32(start.incarnation.0);
    record.put_u64(start.nonce);
    let value = sealed(&key, record);
    Write::Put {
        keyspace: Keyspace::Meta,
        key,
        value,
    }
}

fn decode(key: &[u8], record: &[u8]) -> Option<(NodeId, Start)> {
    let node = key
        .strip_prefix(PREFIX)?
        .try_into()
        .ok()
        .map(u64::from_be_bytes)?;
    let mut body = unsealed(key, record)?;
    let version = body.try_get_u8().ok()?;
    let start = Start {
        incarnation: Incarnation(body.try_get_u32().ok()?),
        nonce: body.try_get_u64().ok()?,
    };
    (version == VERSION && body.is_empty()).then_some((NodeId(node), start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatedDisk;

    fn start(incarnation: u32, nonce: u64) -> Start {
        Start {
            incarnation: Incarnation(incarnation),
            nonce,
        }
    }

    fn replace(disk: &mut SimulatedDisk, starts: &[(u64, Start)]) -> usize {
        let mut known = KnownStarts::read(disk).unwrap();
        let starts = starts.iter().map(|(node, start)| (NodeId(*node), *start));
        let writes = known.replace(starts.collect());
        disk.write(&writes).unwrap();
        assert_eq!(KnownStarts::read(disk).unwrap(), known);
        writes.len()
    }

    #[test]
    fn what_changes_is_written_and_who_is_gone_is_forgotten() {
        let mut disk = SimulatedDisk::new(1);
        assert_eq!(replace(&mut disk, &[]), 0);
        assert_eq!(replace(&mut disk, &[(2, start(1, 7)), (3, start(4, 8))]), 2);
        assert_eq!(replace(&mut disk, &[(2, start(2, 9)), (3, start(4, 8))]), 1);
        assert_eq!(replace(&mut disk, &[(3, start(4, 8))]), 1);
        assert_eq!(KnownStarts::read(&disk).unwrap().by_node().len(), 1);
    }

    /// Bytes that version 1 writes. A change of this file is a change of the format: it needs a new version instead.
    #[test]
    fn a_record_of_version_1_is_written_as_ever() {
        let Write::Put { value, .. } = put(NodeId(2), start(3, 4)) else {
            panic!("it is put");
        };
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/start.record");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &value).unwrap();
        }
        assert_eq!(value, std::fs::read(path).unwrap());
    }

    #[test]
    fn a_flipped_byte_is_noticed() {
        let Write::Put { key, value, .. } = put(NodeId(2), start(3, 4)) else {
            panic!("it is put");
        };
        for position in 0..value.len() {
            let mut damaged = value.to_vec();
            damaged[position] ^= 0x20;
            assert_eq!(decode(&key, &damaged), None, "{position}");
        }
        assert_eq!(decode(&key_of(NodeId(3)), &value), None, "it is of another node");
    }
}
