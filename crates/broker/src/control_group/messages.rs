//! What the control groups of two nodes say to each other, as bytes.
//!
//! The header is that of all (`cluster/src/peer_header.rs`), with the control group's number. Numbers big endian:
//!
//! ```text
//! version u8 (1) | group u32 (ffffffff) | kind u8 | ...
//!    1 raft    | a message of the group's replicas (cluster/src/replica/message.rs)
//!   16 report  | sessions of the sender that lack a copy u64 | count u16, for each group that the sender fetches: group u32
//!                | count u16, for each group that the sender leads: group u32 | term u64 | last u64 | count u8,
//!                for each other member: node u64 | matched u64 | active u8 (0, 1) | rolled back u8 (0, 1)
//!   17 ask     | number u64 | what u8 (1 add, 2 remove, 3 transfer) | node u64
//!                | of 1: address to the end; of 2: forced u8 (0, 1); of 3: group u32
//!   18 answer  | number u64 | refused u8 (0, 1) | text to the end
//!   19 state   | length u32, the state as its record (cluster/src/control/record.rs) | the members as their record, to the end
//!   20 unfit   |                            the sender had better not lead: its disk is slow
//! ```
//!
//! Nothing is confirmed: who asks gives up after a while and says that it does not know.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cluster::control::{CONTROL, Control, decode_state, encode_state};
use cluster::forming::Founder;
use cluster::peer_header::{self, HEADER_LENGTH};
use cluster::replica::Members;
use cluster::replica::record::{LogPoint, decode_members, encode_members};
use cluster::{GroupId, Index, NodeId, Term};

use super::questions::{ClusterChange, CopyReport, GroupReport, MemberReport};

const TEXT_BYTES_MAX: usize = 1_000;

const REPORT: u8 = 16;
const ASK: u8 = 17;
const ANSWER: u8 = 18;
const STATE: u8 = 19;
const UNFIT: u8 = 20;

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const TRANSFER: u8 = 3;

/// A message between the control groups of two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ControlMessage {
    Raft(Bytes),
    Report {
        groups: Vec<GroupReport>,
        copies: CopyReport,
    },
    Ask {
        number: u64,
        change: ClusterChange,
    },
    Answer {
        number: u64,
        answer: Result<String, String>,
    },
    /// For a replica that lacks what is not in the log any more.
    State {
        point: LogPoint,
        control: Control,
        members: Members,
    },
    /// The sender had better not lead.
    Unfit,
}

impl ControlMessage {
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = peer_header::begin(CONTROL, 0);
        match self {
            Self::Raft(message) => return message.clone(),
            Self::Report { groups, copies } => {
                bytes.put_u8(REPORT);
                put_copies(copies, &mut bytes);
                bytes.put_u16(u16::try_from(groups.len()).expect("few groups"));
                groups.iter().for_each(|group| put_group(group, &mut bytes));
            }
            Self::Ask { number, change } => {
                bytes.put_u8(ASK);
                bytes.put_u64(*number);
                put_change(change, &mut bytes);
            }
            Self::Answer { number, answer } => {
                bytes.put_u8(ANSWER);
                bytes.put_u64(*number);
                bytes.put_u8(u8::from(answer.is_err()));
                let (Ok(text) | Err(text)) = answer;
                let mut end = text.len().min(TEXT_BYTES_MAX);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                bytes.put_slice(&text.as_bytes()[..end]);
            }
            Self::State {
                point,
                control,
                members,
            } => {
                let state = encode_state(*point, control);
                bytes.put_u8(STATE);
                bytes.put_u32(u32::try_from(state.len()).expect("nodes are bounded"));
                bytes.put_slice(&state);
                bytes.put_slice(&encode_members(CONTROL, members));
            }
            Self::Unfit => bytes.put_u8(UNFIT),
        }
        bytes.freeze()
    }

    /// The message in these bytes, whose header was looked at; `None`: it is none.
    pub(super) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut body = bytes.get(HEADER_LENGTH..)?;
        let body = &mut body;
        let message = match bytes[HEADER_LENGTH - 1] {
            peer_header::RAFT => return Some(Self::Raft(bytes.clone())),
            REPORT => Self::Report {
                copies: copies(body)?,
                groups: groups(body)?,
            },
            ASK => Self::Ask {
                number: body.try_get_u64().ok()?,
                change: change(body)?,
            },
            ANSWER => {
                let number = body.try_get_u64().ok()?;
                let is_refused = flag(body)?;
                let text = text_to_end(body)?;
                let answer = if is_refused { Err(text) } else { Ok(text) };
                Self::Answer { number, answer }
            }
            STATE => {
                let length = usize::try_from(body.try_get_u32().ok()?).ok()?;
                let (state, members) = body.split_at_checked(length)?;
                let (point, control) = decode_state(state).ok()?;
                let members = decode_members(CONTROL, members).ok()?;
                return Some(Self::State {
                    point,
                    control,
                    members,
                });
            }
            UNFIT => Self::Unfit,
            _ => return None,
        };
        body.is_empty().then_some(message)
    }
}

fn put_copies(report: &CopyReport, bytes: &mut BytesMut) {
    bytes.put_u64(report.under_replicated);
    bytes.put_u16(u16::try_from(report.fetching.len()).expect("few groups"));
    report.fetching.iter().for_each(|group| bytes.put_u32(group.0));
}

fn copies(body: &mut &[u8]) -> Option<CopyReport> {
    let under_replicated = body.try_get_u64().ok()?;
    let count = body.try_get_u16().ok()?;
    let fetching = (0..count).map(|_| Some(GroupId(body.try_get_u32().ok()?)));
    Some(CopyReport {
        under_replicated,
        fetching: fetching.collect::<Option<_>>()?,
    })
}

fn groups(body: &mut &[u8]) -> Option<Vec<GroupReport>> {
    let count = body.try_get_u16().ok()?;
    (0..count).map(|_| group(body)).collect()
}

fn put_group(group: &GroupReport, bytes: &mut BytesMut) {
    bytes.put_u32(group.group.0);
    bytes.put_u64(group.term.0);
    bytes.put_u64(group.last.0);
    bytes.put_u8(u8::try_from(group.members.len()).expect("members are bounded"));
    for member in &group.members {
        bytes.put_u64(member.node.0);
        bytes.put_u64(member.matched.0);
        bytes.put_u8(u8::from(member.is_active));
        bytes.put_u8(u8::from(member.is_rolled_back));
    }
}

fn group(body: &mut &[u8]) -> Option<GroupReport> {
    let group = GroupId(body.try_get_u32().ok()?);
    let term = Term(body.try_get_u64().ok()?);
    let last = Index(body.try_get_u64().ok()?);
    let count = body.try_get_u8().ok()?;
    let members = (0..count).map(|_| {
        Some(MemberReport {
            node: node(body)?,
            matched: Index(body.try_get_u64().ok()?),
            is_active: flag(body)?,
            is_rolled_back: flag(body)?,
        })
    });
    Some(GroupReport {
        group,
        term,
        last,
        members: members.collect::<Option<_>>()?,
    })
}

fn put_change(change: &ClusterChange, bytes: &mut BytesMut) {
    match change {
        ClusterChange::Add(founder) => {
            bytes.put_u8(ADD);
            bytes.put_u64(founder.node.0);
            bytes.put_slice(founder.address.as_str().as_bytes());
        }
        ClusterChange::Remove { node, is_forced } => {
            bytes.put_u8(REMOVE);
            bytes.put_u64(node.0);
            bytes.put_u8(u8::from(*is_forced));
        }
        ClusterChange::Transfer { group, to } => {
            bytes.put_u8(TRANSFER);
            bytes.put_u64(to.0);
            bytes.put_u32(group.0);
        }
    }
}

fn change(body: &mut &[u8]) -> Option<ClusterChange> {
    let what = body.try_get_u8().ok()?;
    let node = node(body)?;
    match what {
        ADD => Some(ClusterChange::Add(Founder {
            node,
            address: text_to_end(body)?.parse().ok()?,
        })),
        REMOVE => Some(ClusterChange::Remove {
            node,
            is_forced: flag(body)?,
        }),
        TRANSFER => Some(ClusterChange::Transfer {
            to: node,
            group: GroupId(body.try_get_u32().ok()?),
        }),
        _ => None,
    }
}

fn node(body: &mut &[u8]) -> Option<NodeId> {
    let node = NodeId(body.try_get_u64().ok()?);
    (node.0 != 0).then_some(node)
}

fn flag(body: &mut &[u8]) -> Option<bool> {
    match body.try_get_u8().ok()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

/// Text of a peer, which is escaped where operators read it.
fn text_to_end(body: &mut &[u8]) -> Option<String> {
    let text = std::mem::take(body);
    let text = std::str::from_utf8(text.get(..text.len().min(TEXT_BYTES_MAX))?).ok()?;
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(ControlMessage, &'static [u8])> {
        let report = GroupReport {
            group: GroupId(1),
            term: Term(2),
            last: Index(3),
            members: vec![MemberReport {
                node: NodeId(4),
                matched: Index(5),
                is_active: true,
                is_rolled_back: false,
            }],
        };
        let ask = |change| ControlMessage::Ask { number: 7, change };
        let founder = Founder {
            node: NodeId(4),
            address: "n4:1".parse().expect("an address"),
        };
        vec![
            (
                ControlMessage::Raft(Bytes::from_static(b"\x01\xff\xff\xff\xff\x01raft")),
                b"\x01\xff\xff\xff\xff\x01raft",
            ),
            (
                ControlMessage::Report {
                    groups: vec![report],
                    copies: CopyReport {
                        under_replicated: 5,
                        fetching: [GroupId(1)].into(),
                    },
                },
                b"\x01\xff\xff\xff\xff\x10\0\0\0\0\0\0\0\x05\0\x01\0\0\0\x01\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\x01\
                  \0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\x01\0",
            ),
            (
                ask(ClusterChange::Add(founder)),
                b"\x01\xff\xff\xff\xff\x11\0\0\0\0\0\0\0\x07\x01\0\0\0\0\0\0\0\x04n4:1",
            ),
            (
                ask(ClusterChange::Remove {
                    node: NodeId(4),
                    is_forced: true,
                }),
                b"\x01\xff\xff\xff\xff\x11\0\0\0\0\0\0\0\x07\x02\0\0\0\0\0\0\0\x04\x01",
            ),
            (
                ask(ClusterChange::Transfer {
                    group: GroupId(1),
                    to: NodeId(4),
                }),
                b"\x01\xff\xff\xff\xff\x11\0\0\0\0\0\0\0\x07\x03\0\0\0\0\0\0\0\x04\0\0\0\x01",
            ),
            (
                ControlMessage::Answer {
                    number: 7,
                    answer: Err("no".to_owned()),
                },
                b"\x01\xff\xff\xff\xff\x12\0\0\0\0\0\0\0\x07\x01no",
            ),
            (ControlMessage::Unfit, b"\x01\xff\xff\xff\xff\x14"),
        ]
    }

    /// Bytes that version 1 sends. Another form needs another version.
    #[test]
    fn messages_of_version_1_are_written_as_ever_and_read() {
        for (message, golden) in all() {
            assert_eq!(message.encode(), golden, "{message:?}");
            assert_eq!(ControlMessage::decode(&Bytes::from_static(golden)), Some(message));
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let founder = Founder {
            node: NodeId(4),
            address: "n4:1".parse().expect("an address"),
        };
        let founding = cluster::forming::Founding::new(vec![founder], 2).expect("possible");
        let message = ControlMessage::State {
            point: LogPoint {
                index: Index(7),
                term: Term(2),
            },
            control: Control::new(&founding),
            members: Members::founders([NodeId(4)]),
        };
        let bytes = message.encode();
        assert_eq!(ControlMessage::decode(&bytes), Some(message));
        for length in HEADER_LENGTH..bytes.len() {
            assert_eq!(ControlMessage::decode(&bytes.slice(..length)), None);
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_are_refused() {
        let mut random = cluster::random::Random::new(1);
        for round in 0..20_000 {
            let all = all();
            let (_, golden) = &all[round % all.len()];
            let mut bytes = golden.to_vec();
            for _ in 0..random.between(1, 4) {
                let place = random.between(HEADER_LENGTH - 1, bytes.len());
                bytes[place] = random.next() as u8;
            }
            bytes.truncate(random.between(0, bytes.len() + 1));
            let _ = ControlMessage::decode(&bytes.into());
        }
    }
}
