//! Raft's messages between the replicas of a group, as bytes behind the header of all messages between nodes.
//!
//! Version 1, numbers big endian:
//!
//! ```text
//! version u8 | type u8 | flags u8 (1: reject) | group u32 | from u64 | to u64 | term u64 | log term u64 | index u64
//! | commit u64 | commit term u64 | reject hint u64 | context length u8, context | entries: (term u64, length u32, data)*
//! ```
//!
//! Version 2 says of each entry what it is for: `(term u64, kind u8, length u32, data)`. It is used where a change of members is among
//! the entries.
//!
//! The reject hint of a leader's append or heartbeat is the last committed entry that the receiver has acknowledged (`missing.rs`).
//!
//! The entries of an append follow `index` without a gap, so their indexes are not sent. What does not decode, and
//! what no correct replica would send, is a [`MessageError`]: the bytes of a peer never reach one of Raft's assertions.

use bytes::{BufMut, Bytes};
use raft::eraftpb::{Entry as RaftEntry, Message, MessageType};

use super::log::{content, set_content};
use super::members::decode_changes;
use super::record::EntryKind;
use crate::outbound::TAIL_MIN;
use crate::{GroupId, NodeId, Outbound, peer_header};

/// Version of the messages in this file whose entries all hold data.
const VERSION: u8 = 1;

/// Version of the messages that say what each entry is for.
const VERSION_KINDS: u8 = 2;

const HEADER_LEN: usize = 3 + 4 + 9 * 8;

/// Numbers above this are refused, so that Raft can add to any of them.
const NUMBER_MAX: u64 = 1 << 62;

const FLAG_REJECT: u8 = 1;

/// Why a message of a peer was dropped. The replica's state did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It ends too early, or a length in it points past its end.
    #[error("the message is cut short")]
    Truncated,
    /// It was written by a version of the program that this one does not know.
    #[error("the message has version {found}, this node knows up to 2")]
    Version { found: u8 },
    /// Its type or a flag is not one that replicas send to each other.
    #[error("the message has an unknown type or flag")]
    Type,
    /// It is for another group or node, or does not come from the node that delivered it.
    #[error("the message is misdirected")]
    Misdirected,
    /// Its sender takes no part in this group.
    #[error("the sender is not a member of the group")]
    Stranger,
    /// A number in it is out of range, or it contradicts what this replica knows to be decided.
    #[error("the message contradicts the group's state")]
    Impossible,
}

/// What was learned from reading a message's fixed part: for whom it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) group: GroupId,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
}

/// The message between nodes that carries what Raft wants sent: with the header of all such messages. Large data of the last entry
/// is not copied: it is the same for each follower.
pub(super) fn encode(group: GroupId, message: &Message) -> Outbound {
    let contents = || message.entries.iter().map(content);
    let version = if contents().all(|(kind, _)| kind == EntryKind::Data) {
        VERSION
    } else {
        VERSION_KINDS
    };
    let last = contents().next_back();
    let tail = last.map_or_else(Bytes::new, |(_, held)| Outbound::tail_of(held));
    let entries: usize = contents().map(|(_, held)| 13 + held.len()).sum();
    let entries = entries - tail.len();
    let room = HEADER_LEN + 1 + message.context.len() + entries;
    let mut bytes = peer_header::begin(group, room);
    bytes.put_u8(peer_header::RAFT);
    bytes.put_u8(version);
    bytes.put_u8(type_code(message.msg_type()).expect("Raft only sends messages of known types"));
    bytes.put_u8(if message.reject { FLAG_REJECT } else { 0 });
    bytes.put_u32(group.0);
    for number in [
        message.from,
        message.to,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ] {
        bytes.put_u64(number);
    }
    bytes.put_u8(u8::try_from(message.context.len()).expect("contexts are a few bytes long"));
    bytes.put_slice(&message.context);
    let copied = message.entries.len() - usize::from(!tail.is_empty());
    for (position, (entry, (kind, held))) in message.entries.iter().zip(contents()).enumerate() {
        bytes.put_u64(entry.term);
        if version == VERSION_KINDS {
            bytes.put_u8(kind.code());
        }
        bytes.put_u32(u32::try_from(held.len()).expect("an entry is less than 4 GiB long"));
        if position < copied {
            bytes.put_slice(held);
        }
    }
    Outbound::in_two(bytes.freeze(), tail)
}

/// The message in `bytes`, checked by itself; what it says about the log is checked by the replica. The owner has looked at the
/// header. Small entries have memory of their own; a large one shares that of the message until the log has its record.
pub(super) fn decode(bytes: &Bytes, expected: Route) -> Result<Message, MessageError> {
    let mut fields = Fields(bytes);
    fields.take(peer_header::HEADER_LENGTH)?;
    let version = fields.u8()?;
    if version != VERSION && version != VERSION_KINDS {
        return Err(MessageError::Version { found: version });
    }
    let msg_type = type_from_code(fields.u8()?).ok_or(MessageError::Type)?;
    let flags = fields.u8()?;
    if flags & !FLAG_REJECT != 0 {
        return Err(MessageError::Type);
    }
    let group = GroupId(fields.u32()?);
    let route = Route {
        group,
        from: NodeId(fields.u64()?),
        to: NodeId(fields.u64()?),
    };
    if route != expected {
        return Err(MessageError::Misdirected);
    }
    let mut message = Message {
        from: route.from.0,
        to: route.to.0,
        ..Message::default()
    };
    message.set_msg_type(msg_type);
    message.reject = flags & FLAG_REJECT != 0;
    message.term = fields.number()?;
    message.log_term = fields.number()?;
    message.index = fields.number()?;
    message.commit = fields.number()?;
    message.commit_term = fields.number()?;
    message.reject_hint = fields.number()?;
    if message.term == 0 {
        return Err(MessageError::Impossible);
    }
    let context_len = usize::from(fields.u8()?);
    message.context = fields.take(context_len)?.to_vec();
    message.entries = entries(bytes, &mut fields, version, &message)?;
    Ok(message)
}

fn entries(
    bytes: &Bytes,
    fields: &mut Fields<'_>,
    version: u8,
    message: &Message,
) -> Result<Vec<RaftEntry>, MessageError> {
    let mut entries = Vec::new();
    let mut last = (message.index, message.log_term);
    while !fields.0.is_empty() {
        if message.msg_type() != MessageType::MsgAppend {
            return Err(MessageError::Impossible);
        }
        let term = fields.number()?;
        let kind = if version == VERSION_KINDS {
            EntryKind::from_code(fields.u8()?).ok_or(MessageError::Type)?
        } else {
            EntryKind::Data
        };
        let len = usize::try_from(fields.u32()?).map_err(|_| MessageError::Truncated)?;
        let held = held(bytes, fields.take(len)?);
        if kind == EntryKind::Members && decode_changes(&held).is_none() {
            return Err(MessageError::Impossible);
        }
        if term < last.1 || term > message.term || last.0 >= NUMBER_MAX {
            return Err(MessageError::Impossible);
        }
        last = (last.0 + 1, term);
        let mut entry = RaftEntry {
            term,
            index: last.0,
            ..RaftEntry::default()
        };
        set_content(&mut entry, kind, held);
        entries.push(entry);
    }
    Ok(entries)
}

/// Data of an entry. The message lies in a buffer of its connection, which small data would hold as a whole. Large data is copied once
/// in any case, into its record; from there on the log holds that.
fn held(message: &Bytes, data: &[u8]) -> Bytes {
    if data.len() >= TAIL_MIN {
        message.slice_ref(data)
    } else {
        Bytes::copy_from_slice(data)
    }
}

/// Types that replicas send to each other. Proposals and reads are not forwarded, and snapshots travel elsewhere.
const TYPES: [MessageType; 9] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTimeoutNow,
];

fn type_code(msg_type: MessageType) -> Option<u8> {
    TYPES
        .iter()
        .position(|known| *known == msg_type)
        .map(|position| position as u8 + 1)
}

fn type_from_code(code: u8) -> Option<MessageType> {
    TYPES.get(usize::from(code).checked_sub(1)?).copied()
}

/// The part of a message that was not yet read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u8(&mut self) -> Result<u8, MessageError> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(MessageError::Truncated)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*first))
    }

    fn u64(&mut self) -> Result<u64, MessageError> {
        let (first, rest) = self.0.split_first_chunk().ok_or(MessageError::Truncated)?;
        self.0 = rest;
        Ok(u64::from_be_bytes(*first))
    }

    /// A number that Raft may calculate with.
    fn number(&mut self) -> Result<u64, MessageError> {
        let number = self.u64()?;
        if number > NUMBER_MAX {
            Err(MessageError::Impossible)
        } else {
            Ok(number)
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], MessageError> {
        if len > self.0.len() {
            return Err(MessageError::Truncated);
        }
        let (first, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use bytes::Bytes;
    use raft::eraftpb::{Entry, Message, MessageType};

    use super::{EntryKind, MessageError, Route, TYPES, decode, set_content};
    use crate::outbound::TAIL_MIN;
    use crate::peer_header::HEADER_LENGTH;
    use crate::random::Random;
    use crate::replica::members::{MemberChange, encode_changes};
    use crate::{GroupId, NodeId};

    const ROUTE: Route = Route {
        group: GroupId(7),
        from: NodeId(2),
        to: NodeId(3),
    };

    fn encode(group: GroupId, message: &Message) -> Bytes {
        super::encode(group, message).into_bytes()
    }

    fn append() -> Message {
        let entry = |index, data: &[u8]| Entry {
            term: 4,
            index,
            data: Bytes::copy_from_slice(data),
            ..Entry::default()
        };
        let mut message = Message {
            from: 2,
            to: 3,
            term: 5,
            log_term: 4,
            index: 10,
            commit: 9,
            ..Message::default()
        };
        message.set_msg_type(MessageType::MsgAppend);
        message.entries = vec![entry(11, b"first"), entry(12, b"")];
        message
    }

    #[test]
    fn messages_of_all_types_are_read_as_they_were_written() {
        for msg_type in TYPES {
            let mut message = Message {
                from: 2,
                to: 3,
                term: 5,
                log_term: 1,
                index: 2,
                commit: 3,
                commit_term: 4,
                reject: true,
                reject_hint: 6,
                context: b"context".to_vec(),
                ..Message::default()
            };
            message.set_msg_type(msg_type);
            assert_eq!(decode(&encode(ROUTE.group, &message), ROUTE), Ok(message));
        }
        assert_eq!(decode(&encode(ROUTE.group, &append()), ROUTE), Ok(append()));
    }

    /// Large data is not copied when a message is written, nor when it is read.
    #[test]
    fn large_data_of_the_last_entry_is_shared() {
        let large = Bytes::from(vec![7; TAIL_MIN]);
        let mut message = append();
        message.entries[1].data = large.clone();
        let outbound = super::encode(ROUTE.group, &message);
        assert_eq!(outbound.pieces()[1].as_ptr(), large.as_ptr());

        let bytes = outbound.into_bytes();
        let read = decode(&bytes, ROUTE).unwrap();
        assert_eq!(read, message);
        let within = bytes.as_ptr_range();
        assert!(within.contains(&read.entries[1].data.as_ptr()));
        assert!(!within.contains(&read.entries[0].data.as_ptr()));

        message.entries.swap(0, 1);
        (message.entries[0].index, message.entries[1].index) = (11, 12);
        let outbound = super::encode(ROUTE.group, &message);
        assert!(outbound.pieces()[1].is_empty());
        assert_eq!(decode(&outbound.into_bytes(), ROUTE), Ok(message));
    }

    fn append_change() -> Message {
        let mut message = append();
        let mut entry = Entry {
            term: 5,
            index: 13,
            ..Entry::default()
        };
        let changes = [MemberChange::Vote(NodeId(4)), MemberChange::Leave(NodeId(2))];
        set_content(&mut entry, EntryKind::Members, encode_changes(&changes).into());
        message.entries.push(entry);
        message
    }

    /// The same for version 2.
    #[test]
    fn a_message_of_version_2_is_written_as_ever() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2/append.message");
        let bytes = encode(ROUTE.group, &append_change());
        let body = &bytes[HEADER_LENGTH..];
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, body).unwrap();
        }
        assert_eq!(body, fs::read(path).unwrap());
        assert_eq!(decode(&bytes, ROUTE), Ok(append_change()));
    }

    /// Bytes that version 1 sends. A change of this file is a change of the format: it needs a new version instead.
    #[test]
    fn a_message_of_version_1_is_written_as_ever() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/append.message");
        let bytes = encode(ROUTE.group, &append());
        let body = &bytes[HEADER_LENGTH..];
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, body).unwrap();
        }
        assert_eq!(body, fs::read(path).unwrap());
    }

    #[test]
    fn what_is_not_for_this_replica_is_refused() {
        let bytes = encode(ROUTE.group, &append());
        let others = [
            Route {
                group: GroupId(8),
                ..ROUTE
            },
            Route {
                from: NodeId(4),
                ..ROUTE
            },
            Route {
                to: NodeId(2),
                ..ROUTE
            },
        ];
        for other in others {
            assert_eq!(decode(&bytes, other), Err(MessageError::Misdirected));
        }
    }

    #[test]
    fn impossible_messages_are_refused() {
        let check = |change: fn(&mut Message), expected| {
            let mut message = append();
            change(&mut message);
            assert_eq!(decode(&encode(ROUTE.group, &message), ROUTE), Err(expected));
        };
        check(|message| message.term = 0, MessageError::Impossible);
        check(|message| message.term = u64::MAX, MessageError::Impossible);
        check(|message| message.index = u64::MAX, MessageError::Impossible);
        check(|message| message.term = 3, MessageError::Impossible);
        check(|message| message.entries[1].term = 3, MessageError::Impossible);
        check(
            |message| message.set_msg_type(MessageType::MsgHeartbeat),
            MessageError::Impossible,
        );
        let mut newer = encode(ROUTE.group, &append()).to_vec();
        newer[HEADER_LENGTH] = 3;
        assert_eq!(
            decode(&newer.into(), ROUTE),
            Err(MessageError::Version { found: 3 })
        );
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        let good = encode(ROUTE.group, &append());
        let with_change = encode(ROUTE.group, &append_change());
        for len in 0..good.len() {
            // An append may end after any entry, and nowhere else.
            let ends = [good.len(), good.len() - 12, good.len() - 29];
            assert_eq!(
                decode(&good.slice(..len), ROUTE).is_ok(),
                ends.contains(&len),
                "{len}"
            );
        }
        let mut random = Random::new(1);
        for round in 0..40_000 {
            let good = if round % 2 == 0 { &good } else { &with_change };
            let mut bytes: Vec<_> = (0..random.between(0, 120)).map(|_| random.next() as u8).collect();
            let head = random.between(0, good.len());
            bytes.splice(..head.min(bytes.len()), good[..head].iter().copied());
            let _ = decode(&Bytes::from(bytes), ROUTE);
        }
    }
}
