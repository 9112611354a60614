//! What the store planes of two nodes say to each other, as bytes.
//!
//! Version 1, numbers big endian:
//!
//! ```text
//! version u8 | group u32 | kind u8 | ...
//!   1 raft      | a message of the group's replicas (cluster/src/replica/message.rs)
//!   2 commands  | needs disk u8 (0, 1) | a log entry without a clock (store/src/entry.rs): append these commands
//!   3 read      | number u64                 from which index on does a read see everything?
//!   4 read at   | number u64 | index u64     from this one on
//!   5 office    |                            the sender leads, and takes commands and reads
//! ```
//!
//! Commands and reads may come twice, and what is not answered is asked again; so nothing here is confirmed.

use bytes::{BufMut, Bytes, BytesMut};
use cluster::{GroupId, Index};

/// Version of the messages in this file.
const VERSION: u8 = 1;

/// What comes before the body.
const HEADER_LENGTH: usize = 1 + 4 + 1;

/// A message between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PeerMessage {
    Raft(Bytes),
    Commands { needs_disk: bool, entry: Bytes },
    Read { number: u64 },
    ReadAt { number: u64, index: Index },
    Office,
}

/// Why a message was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("the message has version {found}, this node knows version 1")]
    Version { found: u8 },
    #[error("the message is for group {group}, which is not here")]
    Group { group: GroupId },
    #[error("the message is damaged")]
    Damaged,
}

impl PeerMessage {
    pub(super) fn encode(&self, group: GroupId) -> Bytes {
        let body = match self {
            Self::Raft(bytes) => bytes.len(),
            Self::Commands { entry, .. } => 1 + entry.len(),
            Self::Read { .. } => 8,
            Self::ReadAt { .. } => 16,
            Self::Office => 0,
        };
        let mut bytes = BytesMut::with_capacity(HEADER_LENGTH + body);
        bytes.put_u8(VERSION);
        bytes.put_u32(group.0);
        match self {
            Self::Raft(message) => {
                bytes.put_u8(1);
                bytes.put_slice(message);
            }
            Self::Commands { needs_disk, entry } => {
                bytes.put_u8(2);
                bytes.put_u8(u8::from(*needs_disk));
                bytes.put_slice(entry);
            }
            Self::Read { number } => {
                bytes.put_u8(3);
                bytes.put_u64(*number);
            }
            Self::ReadAt { number, index } => {
                bytes.put_u8(4);
                bytes.put_u64(*number);
                bytes.put_u64(index.0);
            }
            Self::Office => bytes.put_u8(5),
        }
        bytes.freeze()
    }

    pub(super) fn decode(bytes: &Bytes, expected: GroupId) -> Result<Self, PeerError> {
        let group = group_of_message(bytes)?;
        if group != expected {
            return Err(PeerError::Group { group });
        }
        let (head, body) = bytes.split_at(HEADER_LENGTH);
        match (head[HEADER_LENGTH - 1], body) {
            (1, _) => Ok(Self::Raft(bytes.slice(HEADER_LENGTH..))),
            (2, [needs_disk @ (0 | 1), ..]) => Ok(Self::Commands {
                needs_disk: *needs_disk == 1,
                entry: bytes.slice(HEADER_LENGTH + 1..),
            }),
            (3, body) if body.len() == 8 => Ok(Self::Read {
                number: number(body)?,
            }),
            (4, body) if body.len() == 16 => Ok(Self::ReadAt {
                number: number(body)?,
                index: Index(number(&body[8..])?),
            }),
            (5, []) => Ok(Self::Office),
            _ => Err(PeerError::Damaged),
        }
    }
}

/// For which group a message is.
pub(crate) fn group_of_message(bytes: &Bytes) -> Result<GroupId, PeerError> {
    let (head, _) = bytes
        .split_first_chunk::<HEADER_LENGTH>()
        .ok_or(PeerError::Damaged)?;
    let [version, group @ .., _] = *head;
    if version != VERSION {
        return Err(PeerError::Version { found: version });
    }
    Ok(GroupId(u32::from_be_bytes(group)))
}

fn number(bytes: &[u8]) -> Result<u64, PeerError> {
    let first = bytes.first_chunk().ok_or(PeerError::Damaged)?;
    Ok(u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId(7);

    fn all() -> Vec<(PeerMessage, &'static [u8])> {
        let raft = PeerMessage::Raft(Bytes::from_static(b"raft"));
        let commands = PeerMessage::Commands {
            needs_disk: true,
            entry: Bytes::from_static(b"entry"),
        };
        let read_at = PeerMessage::ReadAt {
            number: 3,
            index: Index(0x0102),
        };
        vec![
            (raft, b"\x01\0\0\0\x07\x01raft"),
            (commands, b"\x01\0\0\0\x07\x02\x01entry"),
            (
                PeerMessage::Read { number: 3 },
                b"\x01\0\0\0\x07\x03\0\0\0\0\0\0\0\x03",
            ),
            (
                read_at,
                b"\x01\0\0\0\x07\x04\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x01\x02",
            ),
            (PeerMessage::Office, b"\x01\0\0\0\x07\x05"),
        ]
    }

    /// Bytes that version 1 sends. Another form needs another version.
    #[test]
    fn messages_of_version_1_are_written_as_ever() {
        for (message, bytes) in all() {
            assert_eq!(message.encode(GROUP), bytes);
            assert_eq!(
                PeerMessage::decode(&Bytes::from_static(bytes), GROUP),
                Ok(message)
            );
        }
    }

    #[test]
    fn what_is_cut_short_or_for_others_is_refused() {
        for (message, bytes) in all() {
            for length in 0..bytes.len() {
                let cut = PeerMessage::decode(&Bytes::copy_from_slice(&bytes[..length]), GROUP);
                let is_open_ended = matches!(message, PeerMessage::Raft(_) | PeerMessage::Commands { .. });
                assert!(cut.is_err() || is_open_ended, "{message:?} {length}");
            }
            let bytes = Bytes::from_static(bytes);
            let other = PeerMessage::decode(&bytes, GroupId(8));
            assert_eq!(other, Err(PeerError::Group { group: GROUP }));
        }
        let newer = Bytes::from_static(b"\x02\0\0\0\x07\x05");
        assert_eq!(
            PeerMessage::decode(&newer, GROUP),
            Err(PeerError::Version { found: 2 })
        );
        for bytes in [
            &b"\x01\0\0\0\x07\x06"[..],
            b"\x01\0\0\0\x07\x02\x02",
            b"\x01\0\0\0\x07\x05\0",
        ] {
            let decoded = PeerMessage::decode(&Bytes::copy_from_slice(bytes), GROUP);
            assert_eq!(decoded, Err(PeerError::Damaged));
        }
    }
}
