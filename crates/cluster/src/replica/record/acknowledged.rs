//! Records of acknowledged entries: those that other nodes have, and those that this replica lacks.
//!
//! Both serve `missing.rs`, which notices a disk that is older than what its node has acknowledged.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{CRC_LEN, RecordError, VERSION, meta_key, open, seal};
use crate::{GroupId, Index, NodeId};

/// The key of the record of what other nodes have acknowledged.
pub fn acknowledged_key(group: GroupId) -> Bytes {
    meta_key(group, b'a')
}

/// The record of the last entries that other nodes have acknowledged.
pub fn encode_acknowledged(group: GroupId, acknowledged: &BTreeMap<NodeId, Index>) -> Bytes {
    let mut record = BytesMut::with_capacity(1 + 16 * acknowledged.len() + CRC_LEN);
    record.put_u8(VERSION);
    for (node, index) in acknowledged {
        record.put_u64(node.0);
        record.put_u64(index.0);
    }
    seal(&acknowledged_key(group), &mut record);
    record.freeze()
}

/// The last entries that other nodes have acknowledged to a replica of `group`.
pub fn decode_acknowledged(group: GroupId, record: &[u8]) -> Result<BTreeMap<NodeId, Index>, RecordError> {
    let mut fields = open(&acknowledged_key(group), record)?;
    let mut acknowledged = BTreeMap::new();
    while !fields.0.is_empty() {
        acknowledged.insert(NodeId(fields.u64()?), Index(fields.u64()?));
    }
    Ok(acknowledged)
}

/// The key of the record of acknowledged entries that a replica lacks.
pub fn missing_key(group: GroupId) -> Bytes {
    meta_key(group, b'm')
}

/// The record of the last acknowledged entry that a replica lacks.
pub fn encode_missing(group: GroupId, through: Index) -> Bytes {
    let mut record = BytesMut::with_capacity(1 + 8 + CRC_LEN);
    record.put_u8(VERSION);
    record.put_u64(through.0);
    seal(&missing_key(group), &mut record);
    record.freeze()
}

/// The last acknowledged entry that a replica of `group` lacks.
pub fn decode_missing(group: GroupId, record: &[u8]) -> Result<Index, RecordError> {
    let mut fields = open(&missing_key(group), record)?;
    let through = Index(fields.u64()?);
    fields.end()?;
    Ok(through)
}
