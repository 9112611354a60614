//! What every message between nodes begins with, whatever part of the node it is for.
//!
//! ```text
//! version u8 (1) | group u32, big endian | kind u8, as the part of the node has numbered it
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use cluster::GroupId;

use crate::state_store_service::PeerError;

/// Version of all messages between nodes.
const VERSION: u8 = 1;

/// Bytes before what belongs to the kind.
pub(crate) const HEADER_LENGTH: usize = 1 + 4 + 1;

/// Begins a message, with room for so many bytes behind its header. The kind comes next.
pub(crate) fn begin(group: GroupId, room: usize) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(HEADER_LENGTH + room);
    bytes.put_u8(VERSION);
    bytes.put_u32(group.0);
    bytes
}

/// For which group a message is.
pub(crate) fn group_of(bytes: &Bytes) -> Result<GroupId, PeerError> {
    let (head, _) = bytes
        .split_first_chunk::<HEADER_LENGTH>()
        .ok_or(PeerError::Damaged)?;
    let [version, group @ .., _] = *head;
    if version != VERSION {
        return Err(PeerError::Version { found: version });
    }
    Ok(GroupId(u32::from_be_bytes(group)))
}
