//! Which cluster this node is bound to, if it is.
//!
//! Key `cluster` in the meta keyspace; value: version u8, step u8 (1 promised, 2 formed), founding (cluster/src/forming/founding.rs),
//! CRC32C u32 over key and value, big endian. A node without a cluster has no such record.

use std::ops::ControlFlow;

use bytes::{BufMut as _, Bytes, BytesMut};
use cluster::forming::{Founding, Stage, Step};
use cluster::{Keyspace, Write};

use super::{KEY as IDENTITY_KEY, sealed, unsealed};
use crate::clock_mark::KEY as CLOCK_KEY;
use crate::{RecoveryError, Storage};

const KEY: &[u8] = b"cluster";
const VERSION: u8 = 1;

/// How far this node is on its way into a cluster.
pub fn read_membership(storage: &impl Storage) -> Result<Stage, RecoveryError> {
    match storage.get(Keyspace::Meta, KEY)? {
        None => Ok(Stage::Waiting),
        Some(record) => decode(&record).ok_or(RecoveryError::MembershipDamaged),
    }
}

/// Makes it durable.
pub fn write_membership(storage: &mut impl Storage, stage: &Stage) -> Result<(), RecoveryError> {
    let Stage::Bound(step, founding) = stage else {
        return Ok(());
    };
    storage.write(&[Write::Put {
        keyspace: Keyspace::Meta,
        key: Bytes::from_static(KEY),
        value: encode(*step, founding),
    }])?;
    storage.sync()?;
    Ok(())
}

/// Whether the node has nothing but its name and its clock: only such a one can become a member of a cluster.
pub fn is_blank(storage: &impl Storage) -> Result<bool, RecoveryError> {
    let mut is_blank = true;
    for keyspace in Keyspace::ALL {
        storage.scan(keyspace, &[], &mut |key, _| {
            if keyspace == Keyspace::Meta && (key == IDENTITY_KEY || key == KEY || key == CLOCK_KEY) {
                return ControlFlow::Continue(());
            }
            is_blank = false;
            ControlFlow::Break(())
        })?;
    }
    Ok(is_blank)
}

fn encode(step: Step, founding: &Founding) -> Bytes {
    let mut record = BytesMut::new();
    record.put_u8(VERSION);
    record.put_u8(match step {
        Step::Promised => 1,
        Step::Formed => 2,
    });
    founding.encode(&mut record);
    sealed(KEY, record)
}

fn decode(record: &[u8]) -> Option<Stage> {
    let (&[version, step], mut founding) = unsealed(KEY, record)?.split_first_chunk::<2>()?;
    let step = match (version, step) {
        (VERSION, 1) => Step::Promised,
        (VERSION, 2) => Step::Formed,
        _ => return None,
    };
    let read = Founding::decode(&mut founding)?;
    founding.is_empty().then_some(Stage::Bound(step, read))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use cluster::NodeId;
    use cluster::forming::Founder;

    use super::*;
    use crate::{Drawn, Identity, SimulatedDisk};

    fn founding() -> Founding {
        let founder = |node, address: &str| Founder {
            node: NodeId(node),
            address: address.parse().unwrap(),
        };
        Founding::new(vec![founder(2, "a:7000"), founder(3, "10.0.0.3:7000")], 1).unwrap()
    }

    #[test]
    fn what_was_written_is_read_after_a_crash() {
        let mut disk = SimulatedDisk::new(1);
        assert_eq!(read_membership(&disk).unwrap(), Stage::Waiting);
        for step in [Step::Promised, Step::Formed] {
            let stage = Stage::Bound(step, founding());
            write_membership(&mut disk, &stage).unwrap();
            disk.crash();
            assert_eq!(read_membership(&disk).unwrap(), stage);
        }
    }

    /// Bytes that version 1 writes. A change of this file is a change of the format: it needs a new version instead.
    #[test]
    fn a_record_of_version_1_is_written_as_ever() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/cluster.record");
        let record = encode(Step::Formed, &founding());
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &record).unwrap();
        }
        assert_eq!(record, fs::read(path).unwrap());
    }

    #[test]
    fn a_flipped_byte_is_noticed() {
        let record = encode(Step::Promised, &founding());
        for position in 0..record.len() {
            let mut damaged = record.to_vec();
            damaged[position] ^= 0x20;
            assert_eq!(decode(&damaged), None, "{position}");
        }
    }

    #[test]
    fn a_node_that_has_only_its_name_is_blank() {
        let mut disk = SimulatedDisk::new(1);
        assert!(is_blank(&disk).unwrap());
        let drawn = Drawn {
            node: NodeId(2),
            nonce: 7,
        };
        Identity::take(&mut disk, drawn).unwrap();
        write_membership(&mut disk, &Stage::Bound(Step::Promised, founding())).unwrap();
        assert!(is_blank(&disk).unwrap());
        let write = Write::Put {
            keyspace: Keyspace::Retained,
            key: b"topic".as_slice().into(),
            value: b"message".as_slice().into(),
        };
        disk.write(&[write]).unwrap();
        assert!(!is_blank(&disk).unwrap());
    }
}
