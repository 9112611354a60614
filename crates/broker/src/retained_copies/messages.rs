//! What nodes say to each other about retained messages, as the bytes of items (`routes/messages.rs`). Numbers big endian:
//!
//! ```text
//! version u8 (1) | kind u8 | ...
//!   1 set        | new u8 (0, 1) | topic | record (mqtt/src/records/retained.rs)   this counts now, if nothing later does
//!   2 compare    | round u64 | anew u8 (0, 1) | 256 digests u64           this is what I have
//!   3 same       | round u64                                              so have I
//!   4 differs    | round u64 | 256 digests u64                            I have that
//!   5 list       | ask u64 | buckets, 256 bits | place                    which editions do you have there, after this place?
//!   6 listed     | ask u64 | place, empty at the end | for each: topic | edition | bytes u32
//!   7 want       | ask u64 | for each: topic                              send me these
//!   8 given      | ask u64                                                they were sent
//!   9 done       | round u64                                              I have what you have
//!  10 confirm    | round u64 | nodes | for each: topic | edition          nothing is retained there; do you know? I ask these nodes
//!  11 confirmed  | round u64                                              it is on my disk, and nothing older on its way from me
//!  12 forget     | for each: topic | edition                              so does everybody
//!
//! topic: length u16 | bytes    place: length u32 | bytes    edition: HLC u64 | node u64 | incarnation u32
//! nodes: count u16 | for each: u64
//! ```
//!
//! A place is what the node that lists makes of it; the one that asks gives it back as it came.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, Bytes};
use cluster::NodeId;
use mqtt::records::retained::{append_edition, take_edition};
use mqtt::retained::Edition;
use protocol::{Text, TopicName};

use super::digests::{BUCKETS, Buckets, Digests};
use crate::peer_body::{flag, long, put_long, put_short, short};

/// One of them, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Set {
        /// It was written this moment, and not sent to this node as a message.
        is_new: bool,
        topic: TopicName,
        record: Bytes,
    },
    Compare {
        round: u64,
        /// The sender has not reached this node, or this run of it, before.
        is_anew: bool,
        digests: Digests,
    },
    Same {
        round: u64,
    },
    Differs {
        round: u64,
        digests: Digests,
    },
    List {
        ask: u64,
        buckets: Buckets,
        place: Bytes,
    },
    Listed {
        ask: u64,
        place: Bytes,
        topics: Vec<Listed>,
    },
    Want {
        ask: u64,
        topics: Vec<TopicName>,
    },
    Given {
        ask: u64,
    },
    Done {
        round: u64,
    },
    Confirm {
        round: u64,
        /// All that are asked, and the one that asks.
        nodes: BTreeSet<NodeId>,
        tombstones: Vec<(TopicName, Edition)>,
    },
    Confirmed {
        round: u64,
    },
    Forget {
        tombstones: Vec<(TopicName, Edition)>,
    },
}

/// What a node has of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) topic: TopicName,
    pub(super) edition: Edition,
    /// Of its message.
    pub(super) bytes: u32,
}

const VERSION: u8 = 1;

const SET: u8 = 1;
const COMPARE: u8 = 2;
const SAME: u8 = 3;
const DIFFERS: u8 = 4;
const LIST: u8 = 5;
const LISTED: u8 = 6;
const WANT: u8 = 7;
const GIVEN: u8 = 8;
const DONE: u8 = 9;
const CONFIRM: u8 = 10;
const CONFIRMED: u8 = 11;
const FORGET: u8 = 12;

/// Begins a `set`; the record follows.
pub(super) fn set(is_new: bool, topic: &TopicName, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + topic.as_str().len() + capacity);
    out.extend([VERSION, SET, u8::from(is_new)]);
    put_short(&mut out, topic.as_str().as_bytes());
    out
}

impl Said {
    /// As bytes.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            Self::Set {
                is_new,
                topic,
                record,
            } => {
                out = set(*is_new, topic, record.len());
                out.put_slice(record);
            }
            Self::Compare {
                round,
                is_anew,
                digests,
            } => {
                put_head(&mut out, COMPARE, *round);
                out.put_u8(u8::from(*is_anew));
                digests.iter().for_each(|digest| out.put_u64(digest));
            }
            Self::Same { round } => put_head(&mut out, SAME, *round),
            Self::Differs { round, digests } => {
                put_head(&mut out, DIFFERS, *round);
                digests.iter().for_each(|digest| out.put_u64(digest));
            }
            Self::List { ask, buckets, place } => {
                put_head(&mut out, LIST, *ask);
                buckets.words().iter().for_each(|word| out.put_u64(*word));
                put_long(&mut out, place);
            }
            Self::Listed { ask, place, topics } => {
                put_head(&mut out, LISTED, *ask);
                put_long(&mut out, place);
                for listed in topics {
                    put_tombstone(&mut out, &listed.topic, listed.edition);
                    out.put_u32(listed.bytes);
                }
            }
            Self::Want { ask, topics } => {
                put_head(&mut out, WANT, *ask);
                topics
                    .iter()
                    .for_each(|topic| put_short(&mut out, topic.as_str().as_bytes()));
            }
            Self::Given { ask } => put_head(&mut out, GIVEN, *ask),
            Self::Done { round } => put_head(&mut out, DONE, *round),
            Self::Confirm {
                round,
                nodes,
                tombstones,
            } => {
                put_head(&mut out, CONFIRM, *round);
                put_nodes(&mut out, nodes);
                put_tombstones(&mut out, tombstones);
            }
            Self::Confirmed { round } => put_head(&mut out, CONFIRMED, *round),
            Self::Forget { tombstones } => {
                out.put_u8(FORGET);
                put_tombstones(&mut out, tombstones);
            }
        }
        out.into()
    }

    /// From bytes; `None`: they are none of them.
    pub(super) fn decode(mut body: Bytes) -> Option<Self> {
        if body.try_get_u8().ok()? != VERSION {
            return None;
        }
        let kind = body.try_get_u8().ok()?;
        let body = &mut body;
        let said = match kind {
            SET => Self::Set {
                is_new: flag(body)?,
                topic: topic(body)?,
                record: std::mem::take(body),
            },
            COMPARE => Self::Compare {
                round: number(body)?,
                is_anew: flag(body)?,
                digests: digests(body)?,
            },
            SAME => Self::Same { round: number(body)? },
            DIFFERS => Self::Differs {
                round: number(body)?,
                digests: digests(body)?,
            },
            LIST => Self::List {
                ask: number(body)?,
                buckets: Buckets::of(words(body)?),
                place: long(body)?,
            },
            LISTED => Self::Listed {
                ask: number(body)?,
                place: long(body)?,
                topics: all(body, listed)?,
            },
            WANT => Self::Want {
                ask: number(body)?,
                topics: all(body, topic)?,
            },
            GIVEN => Self::Given { ask: number(body)? },
            DONE => Self::Done { round: number(body)? },
            CONFIRM => Self::Confirm {
                round: number(body)?,
                nodes: nodes(body)?,
                tombstones: all(body, tombstone)?,
            },
            CONFIRMED => Self::Confirmed { round: number(body)? },
            FORGET => Self::Forget {
                tombstones: all(body, tombstone)?,
            },
            _ => return None,
        };
        body.is_empty().then_some(said)
    }
}

fn put_head(out: &mut Vec<u8>, kind: u8, number: u64) {
    out.put_u8(kind);
    out.put_u64(number);
}

fn put_nodes(out: &mut Vec<u8>, nodes: &BTreeSet<NodeId>) {
    // A cluster has a handful of nodes.
    out.put_u16(u16::try_from(nodes.len()).unwrap_or(u16::MAX));
    for node in nodes.iter().take(usize::from(u16::MAX)) {
        out.put_u64(node.0);
    }
}

fn nodes(body: &mut Bytes) -> Option<BTreeSet<NodeId>> {
    let count = body.try_get_u16().ok()?;
    (0..count).map(|_| body.try_get_u64().ok().map(NodeId)).collect()
}

fn put_tombstone(out: &mut Vec<u8>, topic: &TopicName, edition: Edition) {
    put_short(out, topic.as_str().as_bytes());
    append_edition(out, edition);
}

fn put_tombstones(out: &mut Vec<u8>, tombstones: &[(TopicName, Edition)]) {
    for (topic, edition) in tombstones {
        put_tombstone(out, topic, *edition);
    }
}

fn number(body: &mut Bytes) -> Option<u64> {
    body.try_get_u64().ok()
}

fn words<const N: usize>(body: &mut Bytes) -> Option<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        *word = number(body)?;
    }
    Some(words)
}

fn digests(body: &mut Bytes) -> Option<Digests> {
    Some(Digests::of(Box::new(words::<BUCKETS>(body)?)))
}

fn topic(body: &mut Bytes) -> Option<TopicName> {
    TopicName::parse(Text::from_bytes(short(body)?).ok()?).ok()
}

fn tombstone(body: &mut Bytes) -> Option<(TopicName, Edition)> {
    Some((topic(body)?, take_edition(body)?))
}

fn listed(body: &mut Bytes) -> Option<Listed> {
    let (topic, edition) = tombstone(body)?;
    let bytes = body.try_get_u32().ok()?;
    Some(Listed {
        topic,
        edition,
        bytes,
    })
}

/// As many as there are.
fn all<T>(body: &mut Bytes, one: fn(&mut Bytes) -> Option<T>) -> Option<Vec<T>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        found.push(one(body)?);
    }
    Some(found)
}

#[cfg(test)]
mod tests;
