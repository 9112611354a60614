//! Who this node is: an id made once, and an incarnation that rises at each start.
//!
//! Key `identity` in the meta keyspace; value: version u8, node u64, incarnation u32, CRC32C u32 over key and value, big
//! endian.

mod membership;

use std::ops::ControlFlow;

use bytes::{BufMut as _, Bytes, BytesMut};
use cluster::{Incarnation, Keyspace, NodeId, Write};

pub use self::membership::{is_blank, read_membership, write_membership};
use crate::{RecoveryError, Storage};

/// A node and its current incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Made at the first start.
    pub node: NodeId,
    /// Used for the first time now.
    pub incarnation: Incarnation,
}

const KEY: &[u8] = b"identity";
const VERSION: u8 = 1;
const RECORD_LEN: usize = 1 + 8 + 4 + 4;

impl Identity {
    /// Raises the incarnation and syncs it. `fresh` becomes the node's id if it has none: random, not zero.
    ///
    /// A node without an identity but with data is refused: it would be a different node with this one's past.
    pub fn take(storage: &mut impl Storage, fresh: NodeId) -> Result<Identity, RecoveryError> {
        assert!(fresh.0 != 0, "a node id is not zero");
        let identity = match storage.get(Keyspace::Meta, KEY)? {
            Some(record) => {
                let before = decode(&record).ok_or(RecoveryError::IdentityDamaged)?;
                let incarnation = before
                    .incarnation
                    .0
                    .checked_add(1)
                    .ok_or(RecoveryError::IdentityDamaged)?;
                Identity {
                    incarnation: Incarnation(incarnation),
                    ..before
                }
            }
            None if is_empty(storage)? => Identity {
                node: fresh,
                incarnation: Incarnation(1),
            },
            None => return Err(RecoveryError::IdentityMissing),
        };
        storage.write(&[Write::Put {
            keyspace: Keyspace::Meta,
            key: Bytes::from_static(KEY),
            value: encode(identity),
        }])?;
        storage.sync()?;
        Ok(identity)
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

fn encode(identity: Identity) -> Bytes {
    let mut record = BytesMut::with_capacity(RECORD_LEN);
    record.put_u8(VERSION);
    record.put_u64(identity.node.0);
    record.put_u32(identity.incarnation.0);
    record.put_u32(checksum(&record));
    record.freeze()
}

fn decode(record: &[u8]) -> Option<Identity> {
    let record: &[u8; RECORD_LEN] = record.try_into().ok()?;
    let (body, crc) = record.split_last_chunk::<4>()?;
    if checksum(body) != u32::from_be_bytes(*crc) || body[0] != VERSION {
        return None;
    }
    let (node, incarnation) = body[1..].split_first_chunk::<8>()?;
    let node = NodeId(u64::from_be_bytes(*node));
    let incarnation = Incarnation(u32::from_be_bytes(incarnation.try_into().ok()?));
    (node.0 != 0).then_some(Identity { node, incarnation })
}

fn checksum(body: &[u8]) -> u32 {
    checksum_of(KEY, body)
}

/// Of a record and its key.
pub(crate) fn checksum_of(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

#[cfg(test)]
mod tests {
    use cluster::{Incarnation, Keyspace, NodeId, Write};

    use super::{Identity, KEY, encode};
    use crate::{RecoveryError, SimulatedDisk, Storage as _};

    const NODE: NodeId = NodeId(0x1234);

    #[test]
    fn the_node_stays_and_the_incarnation_rises_even_after_a_crash() {
        let mut disk = SimulatedDisk::new(1);
        for incarnation in 1..5 {
            let fresh = NodeId(NODE.0 * incarnation);
            let identity = Identity::take(&mut disk, fresh).unwrap();
            assert_eq!(
                identity,
                Identity {
                    node: NODE,
                    incarnation: Incarnation(incarnation as u32)
                }
            );
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
            Identity::take(&mut disk, NODE),
            Err(RecoveryError::IdentityMissing)
        ));
    }

    #[test]
    fn a_flipped_byte_is_noticed() {
        let record = encode(Identity {
            node: NODE,
            incarnation: Incarnation(7),
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
                    Identity::take(&mut disk, NODE),
                    Err(RecoveryError::IdentityDamaged)
                ),
                "{position}"
            );
        }
    }
}
