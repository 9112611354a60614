//! Identity of a node: an id made once, and its starts.
//!
//! Key `identity` in the meta keyspace; value: version u8, node u64, starts (cluster/src/peers/starts.rs), CRC32C u32 over key and
//! value, big endian. Version 1 has the number of the last start (u32) in place of the starts.

mod known_starts;
mod membership;
mod rolled_back;

use std::ops::ControlFlow;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use cluster::peers::{Start, Starts};
use cluster::{Incarnation, Keyspace, NodeId, Write};

pub use self::known_starts::KnownStarts;
pub use self::membership::{is_blank, read_membership, write_membership};
pub use self::rolled_back::RolledBack;
use crate::{RecoveryError, Storage};

/// Identity of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Made at the first start.
    pub node: NodeId,
    /// Starts up to the present one.
    pub starts: Starts,
}

const KEY: &[u8] = b"identity";
const VERSION: u8 = 2;
/// Version of a record without nonces.
const VERSION_NUMBER_ONLY: u8 = 1;

/// What a node that starts has drawn.
#[derive(Debug, Clone, Copy)]
pub struct Drawn {
    /// Id of the node if it has none yet: not zero.
    pub node: NodeId,
    /// For this start.
    pub nonce: u64,
}

impl Identity {
    /// Records a start and syncs it. A node that has no id takes the one that was drawn.
    ///
    /// # Errors
    /// There is data and no identity: it would be a different node with this one's past. The record is damaged, or the disk fails.
    pub fn take(storage: &mut impl Storage, drawn: Drawn) -> Result<Identity, RecoveryError> {
        assert!(drawn.node.0 != 0, "a node id is not zero");
        let identity = match storage.get(Keyspace::Meta, KEY)? {
            Some(record) => decode(&record)
                .and_then(|before| before.started(drawn.nonce))
                .ok_or(RecoveryError::IdentityDamaged)?,
            None if is_empty(storage)? => Identity {
                node: drawn.node,
                starts: Starts::first(drawn.nonce),
            },
            None => return Err(RecoveryError::IdentityMissing),
        };
        storage.write(&[Write::Put {
            keyspace: Keyspace::Meta,
            key: Bytes::from_static(KEY),
            value: encode(&identity),
        }])?;
        storage.sync()?;
        Ok(identity)
    }

    /// Number of the present start.
    pub fn incarnation(&self) -> Incarnation {
        self.starts.newest().incarnation
    }

    /// `None`: there is no higher number.
    fn started(self, nonce: u64) -> Option<Self> {
        let starts = self.starts.with_next(nonce)?;
        Some(Self { starts, ..self })
    }
}

/// Whether nothing was ever written to any keyspace, or all of it was removed.
fn is_empty(storage: &impl Storage) -> Result<bool, RecoveryError> {
    let mut empty = true;
    for keyspace in Keyspace::ALL {
        storage.scan(keyspace, &[], &mut |_, _| {
            empty = false;
            ControlFlow::Break(())
        })?;
    }
    Ok(empty)
}

fn encode(identity: &Identity) -> Bytes {
    let mut record = BytesMut::new();
    record.put_u8(VERSION);
    record.put_u64(identity.node.0);
    identity.starts.encode(&mut record);
    sealed(KEY, record)
}

fn decode(record: &[u8]) -> Option<Identity> {
    let mut body = unsealed(KEY, record)?;
    let version = body.try_get_u8().ok()?;
    let node = NodeId(body.try_get_u64().ok()?);
    let starts = match version {
        VERSION_NUMBER_ONLY => {
            let incarnation = Incarnation(body.try_get_u32().ok()?);
            // Nobody knows a nonce of such a start.
            Starts::only(Start {
                incarnation,
                nonce: 0,
            })
        }
        VERSION => Starts::decode(&mut body)?,
        _ => return None,
    };
    (node.0 != 0 && body.is_empty()).then_some(Identity { node, starts })
}

/// A record with its checksum.
pub(crate) fn sealed(key: &[u8], mut record: BytesMut) -> Bytes {
    record.put_u32(checksum_of(key, &record));
    record.freeze()
}

/// A record without its checksum. `None`: it is damaged.
pub(crate) fn unsealed<'a>(key: &[u8], record: &'a [u8]) -> Option<&'a [u8]> {
    let (body, crc) = record.split_last_chunk::<4>()?;
    (checksum_of(key, body) == u32::from_be_bytes(*crc)).then_some(body)
}

/// Of a record and its key.
fn checksum_of(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimulatedDisk;

    const NODE: NodeId = NodeId(0x1234);

    fn drawn(node: NodeId, nonce: u64) -> Drawn {
        Drawn { node, nonce }
    }

    #[test]
    fn the_node_stays_and_its_starts_are_kept_even_after_a_crash() {
        let mut disk = SimulatedDisk::new(1);
        let mut starts = Starts::first(101);
        for number in 1..5 {
            let fresh = NodeId(NODE.0 * number);
            let identity = Identity::take(&mut disk, drawn(fresh, 100 + number)).unwrap();
            assert_eq!((identity.node, &identity.starts), (NODE, &starts));
            assert_eq!(u64::from(identity.incarnation().0), number);
            starts = starts.with_next(101 + number).unwrap();
            disk.crash();
        }
    }

    #[test]
    fn a_node_with_data_but_no_identity_is_refused() {
        let mut disk = SimulatedDisk::new(1);
        let (key, value) = (b"topic".as_slice().into(), b"message".as_slice().into());
        disk.write(&[Write::Put {
            keyspace: Keyspace::Retained,
            key,
            value,
        }])
        .unwrap();
        assert!(matches!(
            Identity::take(&mut disk, drawn(NODE, 1)),
            Err(RecoveryError::IdentityMissing)
        ));
    }

    /// Bytes that version 2 writes. A change of this file is a change of the format: it needs a new version instead.
    #[test]
    fn a_record_of_version_2_is_written_as_ever() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/identity.record");
        let starts = Starts::first(5).with_next(6).unwrap();
        let record = encode(&Identity { node: NODE, starts });
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &record).unwrap();
        }
        assert_eq!(record, std::fs::read(path).unwrap());
    }

    #[test]
    fn a_record_of_version_1_is_read() {
        let mut record = BytesMut::new();
        record.put_u8(1);
        record.put_u64(NODE.0);
        record.put_u32(7);
        let before = decode(&sealed(KEY, record)).unwrap();
        let incarnation = Incarnation(8);
        let identity = before.started(9).unwrap();
        assert_eq!((identity.node, identity.incarnation()), (NODE, incarnation));
        assert!(identity.starts.include(Start {
            incarnation,
            nonce: 9
        }));
    }

    #[test]
    fn a_flipped_byte_is_noticed() {
        let record = encode(&Identity {
            node: NODE,
            starts: Starts::first(7),
        });
        for position in 0..record.len() {
            let mut damaged = record.to_vec();
            damaged[position] ^= 0x20;
            let mut disk = SimulatedDisk::new(1);
            let write = Write::Put {
                keyspace: Keyspace::Meta,
                key: KEY.into(),
                value: damaged.into(),
            };
            disk.write(&[write]).unwrap();
            assert!(
                matches!(
                    Identity::take(&mut disk, drawn(NODE, 1)),
                    Err(RecoveryError::IdentityDamaged)
                ),
                "{position}"
            );
        }
    }
}
