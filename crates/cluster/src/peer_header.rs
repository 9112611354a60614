//! Header of every message between nodes, whatever part of the node it is for.
//!
//! ```text
//! version u8 (1) | group u32, big endian | kind u8, as the part of the node has numbered it
//! ```

use bytes::{BufMut, Bytes, BytesMut};

use crate::GroupId;

/// Version of all messages between nodes.
const VERSION: u8 = 1;

/// Bytes before what belongs to the kind.
pub const HEADER_LENGTH: usize = 1 + 4 + 1;

/// Kind of what replicas say to each other, in every group.
pub const RAFT: u8 = 1;

/// Error of a message that is not understood. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It is of another version of the program.
    #[error("the message has version {found}, this node knows version 1")]
    Version {
        /// Version in the header.
        found: u8,
    },
    /// It is for a group that the node does not have.
    #[error("the message is for group {group}, which is not here")]
    Group {
        /// Group in the header.
        group: GroupId,
    },
    /// It does not fit the format.
    #[error("the message is damaged")]
    Damaged,
}

/// Begins a message, with room for so many bytes behind its header. The kind comes next.
pub fn begin(group: GroupId, room: usize) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(HEADER_LENGTH + room);
    bytes.put_u8(VERSION);
    bytes.put_u32(group.0);
    bytes
}

/// Group that a message is for.
///
/// # Errors
/// If it has no header, or one of another version.
pub fn group_of(bytes: &Bytes) -> Result<GroupId, PeerError> {
    let (head, _) = bytes
        .split_first_chunk::<HEADER_LENGTH>()
        .ok_or(PeerError::Damaged)?;
    let [version, group @ .., _] = *head;
    if version != VERSION {
        return Err(PeerError::Version { found: version });
    }
    Ok(GroupId(u32::from_be_bytes(group)))
}
