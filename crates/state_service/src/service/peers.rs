//! What the store planes of two nodes say to each other, as bytes.
//!
//! Version 1, numbers big endian:
//!
//! ```text
//! version u8 | group u32 | kind u8 | ...
//!   1 raft      | a message of the group's replicas (cluster/src/replica/message.rs)
//!   2 commands  | needs disk u8 (0, 1) | a log entry without a clock (store/src/entry.rs): append these commands
//!   3 read      | number u64                 from which index on does a read see everything?
//!   4 read at   | number u64 | index u64 | time u64  from this one on, and it is so late (group_time.rs)
//!   5 office    |                            the sender leads, and takes commands and reads
//!   6 offer     | number u64 | index u64 | term u64 | log start u64 | a record of members (cluster/src/replica/record.rs)
//!   7 pull      | number u64 | position u64  give me this chunk of the snapshot that you offered
//!   8 chunk     | number u64 | position u64 | digest u64 | data      xxh3 of the data, with the position as its seed
//!   9 end       | number u64 | chunks u64 | digest u64               of all chunks: each one's xxh3 with the one before as its seed
//!  10 gone      | number u64                 this snapshot is not here any more
//!  11 state     | index u64 | digest u64     of the sender's store behind this entry (store/src/digest.rs), which the leader names first
//!  12 wanted    |                            the sender has no state that it can trust, and needs a snapshot
//!  13 unfit     |                            the sender had better not lead: it has no state, or its disk is slow
//!  14 traces    | incarnation u32 | request u64, trace 16 bytes, span 8 bytes, flags u8: for each of the sender's commands that is traced
//! ```
//!  15 time      | time u64                   the sender leads, and it is so late (group_time.rs)
//!  16 asked     |                            the sender leads, and does not know what time it is
//!  17 told      | known u8 (0, 1) | time u64 the answer: known, or reckoned by the log and the wall clock
//!
//! Everything may come twice, and what is not answered is asked again; so nothing here is confirmed.

use bytes::{BufMut, Bytes, BytesMut};
use cluster::peer_header::{self, HEADER_LENGTH, PeerError};
use cluster::replica::Members;
use cluster::replica::record::{self, LogPoint};
use cluster::{GroupId, Index, Outbound, Term};
use protocol::trace_context::{SpanId, TraceContext, TraceId};
use store::WALL_MAX;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::group_time::Told;
use super::traced::TRACED_MAX;

/// Places above this are refused, so that others can be reckoned from them.
const NUMBER_MAX: u64 = 1 << 62;

/// A message between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PeerMessage {
    Raft(Bytes),
    Commands {
        needs_disk: bool,
        entry: Bytes,
    },
    Read {
        number: u64,
    },
    ReadAt {
        number: u64,
        index: Index,
        /// Group time when the leader answered, in milliseconds.
        time: u64,
    },
    Office,
    Offer(Offer),
    Pull {
        number: u64,
        position: u64,
    },
    Chunk(Chunk),
    End {
        number: u64,
        chunks: u64,
        digest: u64,
    },
    Gone {
        number: u64,
    },
    State {
        index: Index,
        digest: u64,
    },
    Wanted,
    Unfit,
    /// Commands of the sender, by request.
    Traces {
        incarnation: u32,
        traced: Vec<(u64, TraceContext)>,
    },
    Time {
        time: u64,
    },
    TimeAsked,
    TimeTold(Told),
}

/// A snapshot that can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    /// Which of the sender's.
    pub(super) number: u64,
    pub(super) point: LogPoint,
    /// Where the sender's log begins: a snapshot that ends before is of no use to it.
    pub(super) log_start: Index,
    pub(super) members: Members,
}

/// A piece of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) number: u64,
    pub(super) position: u64,
    pub(super) data: Bytes,
}

impl PeerMessage {
    /// Message with its header. A large entry is not copied.
    pub(super) fn encode(&self, group: GroupId) -> Outbound {
        let tail = match self {
            Self::Commands { entry, .. } => Outbound::tail_of(entry),
            _ => Bytes::new(),
        };
        let body = match self {
            Self::Raft(message) => return message.clone().into(),
            Self::Commands { entry, .. } => 1 + entry.len() - tail.len(),
            Self::Read { .. } => 8,
            Self::ReadAt { .. } => 24,
            Self::Office | Self::Wanted | Self::Unfit | Self::TimeAsked => 0,
            Self::Time { .. } => 8,
            Self::TimeTold(_) => 9,
            Self::Offer(_) => 256,
            Self::Pull { .. } | Self::State { .. } => 16,
            Self::Chunk(chunk) => 24 + chunk.data.len(),
            Self::End { .. } => 24,
            Self::Gone { .. } => 8,
            Self::Traces { traced, .. } => 4 + TRACED * traced.len(),
        };
        let mut bytes = peer_header::begin(group, body);
        match self {
            Self::Commands { needs_disk, entry } => {
                bytes.put_u8(2);
                bytes.put_u8(u8::from(*needs_disk));
                if tail.is_empty() {
                    bytes.put_slice(entry);
                }
            }
            Self::Read { number } => {
                bytes.put_u8(3);
                bytes.put_u64(*number);
            }
            Self::ReadAt { number, index, time } => {
                bytes.put_u8(4);
                bytes.put_u64(*number);
                bytes.put_u64(index.0);
                bytes.put_u64(*time);
            }
            Self::Office => bytes.put_u8(5),
            Self::Traces { incarnation, traced } => encode_traces(*incarnation, traced, &mut bytes),
            Self::Time { time } => {
                bytes.put_u8(15);
                bytes.put_u64(*time);
            }
            Self::TimeAsked => bytes.put_u8(16),
            Self::TimeTold(told) => {
                bytes.put_u8(17);
                bytes.put_u8(u8::from(told.is_known));
                bytes.put_u64(told.time);
            }
            _ => self.encode_snapshot(group, &mut bytes),
        }
        Outbound::in_two(bytes.freeze(), tail)
    }

    /// What has to do with snapshots.
    fn encode_snapshot(&self, group: GroupId, bytes: &mut BytesMut) {
        let (kind, numbers, rest) = match self {
            Self::Offer(offer) => {
                let LogPoint { index, term } = offer.point;
                let numbers = vec![offer.number, index.0, term.0, offer.log_start.0];
                (6, numbers, record::encode_members(group, &offer.members))
            }
            Self::Pull { number, position } => (7, vec![*number, *position], Bytes::new()),
            Self::Chunk(chunk) => {
                let numbers = vec![chunk.number, chunk.position, chunk.digest()];
                (8, numbers, chunk.data.clone())
            }
            Self::End {
                number,
                chunks,
                digest,
            } => (9, vec![*number, *chunks, *digest], Bytes::new()),
            Self::Gone { number } => (10, vec![*number], Bytes::new()),
            Self::State { index, digest } => (11, vec![index.0, *digest], Bytes::new()),
            Self::Wanted => (12, Vec::new(), Bytes::new()),
            Self::Unfit => (13, Vec::new(), Bytes::new()),
            Self::Raft(_)
            | Self::Commands { .. }
            | Self::Read { .. }
            | Self::ReadAt { .. }
            | Self::Traces { .. }
            | Self::Time { .. }
            | Self::TimeAsked
            | Self::TimeTold(_)
            | Self::Office => {
                return;
            }
        };
        bytes.put_u8(kind);
        for number in numbers {
            bytes.put_u64(number);
        }
        bytes.put_slice(&rest);
    }

    pub(super) fn decode(bytes: &Bytes, expected: GroupId) -> Result<Self, PeerError> {
        let group = peer_header::group_of(bytes)?;
        if group != expected {
            return Err(PeerError::Group { group });
        }
        let (head, body) = bytes.split_at(HEADER_LENGTH);
        match (head[HEADER_LENGTH - 1], body) {
            (peer_header::RAFT, _) => Ok(Self::Raft(bytes.clone())),
            (2, [needs_disk @ (0 | 1), ..]) => Ok(Self::Commands {
                needs_disk: *needs_disk == 1,
                entry: bytes.slice(HEADER_LENGTH + 1..),
            }),
            (3, body) if body.len() == 8 => Ok(Self::Read {
                number: number(body)?,
            }),
            (4, body) if body.len() == 24 => Ok(Self::ReadAt {
                number: number(body)?,
                index: Index(number(&body[8..])?),
                time: time(&body[16..])?,
            }),
            (5, []) => Ok(Self::Office),
            (14, body) => decode_traces(body),
            (15, body) if body.len() == 8 => Ok(Self::Time { time: time(body)? }),
            (16, []) => Ok(Self::TimeAsked),
            (17, [is_known @ (0 | 1), rest @ ..]) if rest.len() == 8 => Ok(Self::TimeTold(Told {
                is_known: *is_known == 1,
                time: time(rest)?,
            })),
            (kind, _) => Self::decode_snapshot(kind, group, &bytes.slice(HEADER_LENGTH..)),
        }
    }

    fn decode_snapshot(kind: u8, group: GroupId, body: &Bytes) -> Result<Self, PeerError> {
        let (numbers, rest) = body.as_chunks::<8>();
        let is_whole = rest.is_empty();
        let is_possible = |number: &&u64| **number <= NUMBER_MAX;
        let numbers: Vec<u64> = numbers
            .iter()
            .take(4)
            .map(|bytes| u64::from_be_bytes(*bytes))
            .collect();
        match (kind, &numbers[..]) {
            (6, [number, index, term, log_start]) if [index, term, log_start].iter().all(is_possible) => {
                let members =
                    record::decode_members(group, &body[4 * 8..]).map_err(|_| PeerError::Damaged)?;
                let (index, term) = (Index(*index), Term(*term));
                Ok(Self::Offer(Offer {
                    number: *number,
                    point: LogPoint { index, term },
                    log_start: Index(*log_start),
                    members,
                }))
            }
            (7, [number, position]) if is_whole && is_possible(&position) => Ok(Self::Pull {
                number: *number,
                position: *position,
            }),
            (8, [number, position, digest, ..]) if is_possible(&position) => {
                let chunk = Chunk {
                    number: *number,
                    position: *position,
                    data: body.slice(3 * 8..),
                };
                let is_intact = chunk.digest() == *digest;
                is_intact.then_some(Self::Chunk(chunk)).ok_or(PeerError::Damaged)
            }
            (9, [number, chunks, digest]) if is_whole => Ok(Self::End {
                number: *number,
                chunks: *chunks,
                digest: *digest,
            }),
            (10, [number]) if is_whole => Ok(Self::Gone { number: *number }),
            (11, [index, digest]) if is_whole => Ok(Self::State {
                index: Index(*index),
                digest: *digest,
            }),
            (12, []) if is_whole => Ok(Self::Wanted),
            (13, []) if is_whole => Ok(Self::Unfit),
            _ => Err(PeerError::Damaged),
        }
    }
}

impl Chunk {
    fn digest(&self) -> u64 {
        xxh3_64_with_seed(&self.data, self.position)
    }
}

/// The digest of all chunks up to this one.
pub(super) fn digest_after(before: u64, chunk: &[u8]) -> u64 {
    xxh3_64_with_seed(chunk, before)
}

/// Bytes of each command of [`PeerMessage::Traces`].
const TRACED: usize = 8 + 16 + 8 + 1;

fn encode_traces(incarnation: u32, traced: &[(u64, TraceContext)], bytes: &mut BytesMut) {
    bytes.put_u8(14);
    bytes.put_u32(incarnation);
    for (request, context) in traced {
        bytes.put_u64(*request);
        bytes.put_slice(&context.trace.bytes());
        bytes.put_slice(&context.span.bytes());
        bytes.put_u8(context.flags);
    }
}

fn decode_traces(body: &[u8]) -> Result<PeerMessage, PeerError> {
    let (incarnation, rest) = body.split_first_chunk().ok_or(PeerError::Damaged)?;
    let (traced, rest) = rest.as_chunks::<TRACED>();
    if !rest.is_empty() || !(1..=TRACED_MAX).contains(&traced.len()) {
        return Err(PeerError::Damaged);
    }
    let read = |traced: &[u8; TRACED]| {
        let (request, rest) = traced.split_first_chunk()?;
        let (trace, rest) = rest.split_first_chunk()?;
        let (span, flags) = rest.split_first_chunk()?;
        let context = TraceContext {
            trace: TraceId::new(*trace)?,
            span: SpanId::new(*span)?,
            flags: *flags.first()?,
        };
        Some((u64::from_be_bytes(*request), context))
    };
    let traced: Option<_> = traced.iter().map(read).collect();
    Ok(PeerMessage::Traces {
        incarnation: u32::from_be_bytes(*incarnation),
        traced: traced.ok_or(PeerError::Damaged)?,
    })
}

/// A group time that an entry may be stamped with.
fn time(bytes: &[u8]) -> Result<u64, PeerError> {
    number(bytes).and_then(|time| {
        if time <= WALL_MAX {
            Ok(time)
        } else {
            Err(PeerError::Damaged)
        }
    })
}

fn number(bytes: &[u8]) -> Result<u64, PeerError> {
    let first = bytes.first_chunk().ok_or(PeerError::Damaged)?;
    Ok(u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use cluster::NodeId;
    use cluster::outbound::TAIL_MIN;

    use super::*;

    const GROUP: GroupId = GroupId(7);

    fn all() -> Vec<(PeerMessage, &'static [u8])> {
        let raft = PeerMessage::Raft(Bytes::from_static(b"\x01\0\0\0\x07\x01raft"));
        let commands = PeerMessage::Commands {
            needs_disk: true,
            entry: Bytes::from_static(b"entry"),
        };
        let read_at = PeerMessage::ReadAt {
            number: 3,
            index: Index(0x0102),
            time: 9,
        };
        let others: [(PeerMessage, &'static [u8]); 5] = [
            (raft, b"\x01\0\0\0\x07\x01raft"),
            (commands, b"\x01\0\0\0\x07\x02\x01entry"),
            (
                PeerMessage::Read { number: 3 },
                b"\x01\0\0\0\x07\x03\0\0\0\0\0\0\0\x03",
            ),
            (
                read_at,
                b"\x01\0\0\0\x07\x04\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x09",
            ),
            (PeerMessage::Office, b"\x01\0\0\0\x07\x05"),
        ];
        let traces = (
            traces(),
            &b"\x01\0\0\0\x07\x0e\0\0\0\x02\0\0\0\0\0\0\0\x03aaaaaaaaaaaaaaaabbbbbbbb\x01"[..],
        );
        let others = others.into_iter().chain(of_snapshots()).chain([traces]);
        others.chain(of_time()).collect()
    }

    fn of_time() -> [(PeerMessage, &'static [u8]); 3] {
        let told = Told {
            is_known: true,
            time: 9,
        };
        [
            (
                PeerMessage::Time { time: 9 },
                b"\x01\0\0\0\x07\x0f\0\0\0\0\0\0\0\x09",
            ),
            (PeerMessage::TimeAsked, b"\x01\0\0\0\x07\x10"),
            (
                PeerMessage::TimeTold(told),
                b"\x01\0\0\0\x07\x11\x01\0\0\0\0\0\0\0\x09",
            ),
        ]
    }

    fn traces() -> PeerMessage {
        let context = TraceContext {
            trace: TraceId::new([b'a'; 16]).expect("not zero"),
            span: SpanId::new([b'b'; 8]).expect("not zero"),
            flags: 1,
        };
        PeerMessage::Traces {
            incarnation: 2,
            traced: vec![(3, context)],
        }
    }

    fn of_snapshots() -> [(PeerMessage, &'static [u8]); 8] {
        let offer = Offer {
            number: 3,
            point: LogPoint {
                index: Index(0x0102),
                term: Term(4),
            },
            log_start: Index(5),
            members: Members::founders([NodeId(1), NodeId(2)]),
        };
        let chunk = Chunk {
            number: 3,
            position: 1,
            data: Bytes::from_static(b"some data"),
        };
        let end = PeerMessage::End {
            number: 3,
            chunks: 2,
            digest: 9,
        };
        let pull = PeerMessage::Pull {
            number: 3,
            position: 1,
        };
        let state = PeerMessage::State {
            index: Index(3),
            digest: 9,
        };
        [
            (PeerMessage::Offer(offer), b"\x01\0\0\0\x07\x06\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x17\x8e\xe9\xf1"),
            (pull, b"\x01\0\0\0\x07\x07\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01"),
            (PeerMessage::Chunk(chunk), b"\x01\0\0\0\x07\x08\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x013zDrlt\x8dNsome data"),
            (
                end,
                b"\x01\0\0\0\x07\x09\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x09",
            ),
            (
                PeerMessage::Gone { number: 3 },
                b"\x01\0\0\0\x07\x0a\0\0\0\0\0\0\0\x03",
            ),
            (state, b"\x01\0\0\0\x07\x0b\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x09"),
            (PeerMessage::Wanted, b"\x01\0\0\0\x07\x0c"),
            (PeerMessage::Unfit, b"\x01\0\0\0\x07\x0d"),
        ]
    }

    /// Bytes that version 1 sends. Another form needs another version.
    #[test]
    fn messages_of_version_1_are_written_as_ever() {
        for (message, bytes) in all() {
            assert_eq!(message.encode(GROUP).into_bytes(), bytes);
            assert_eq!(
                PeerMessage::decode(&Bytes::from_static(bytes), GROUP),
                Ok(message)
            );
        }
    }

    #[test]
    fn a_large_entry_is_shared() {
        let entry = Bytes::from(vec![7; TAIL_MIN]);
        let commands = PeerMessage::Commands {
            needs_disk: true,
            entry: entry.clone(),
        };
        let outbound = commands.encode(GROUP);
        assert_eq!(outbound.pieces()[1].as_ptr(), entry.as_ptr());
        assert_eq!(PeerMessage::decode(&outbound.into_bytes(), GROUP), Ok(commands));
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
            b"\x01\0\0\0\x07\x0e",
            b"\x01\0\0\0\x07\x0e\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0bbbbbbbb\x01",
            b"\x01\0\0\0\x07\x0f\xff\0\0\0\0\0\0\0",
            b"\x01\0\0\0\x07\x10\0",
            b"\x01\0\0\0\x07\x11\x02\0\0\0\0\0\0\0\x09",
            b"\x01\0\0\0\x07\x12",
            b"\x01\0\0\0\x07\x07\0\0\0\0\0\0\0\x03\xff\0\0\0\0\0\0\x01",
        ] {
            let decoded = PeerMessage::decode(&Bytes::copy_from_slice(bytes), GROUP);
            assert_eq!(decoded, Err(PeerError::Damaged));
        }
    }
}
