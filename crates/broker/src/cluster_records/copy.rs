//! What a node has on disk of a session besides the session, where there are copies of it at other nodes.
//!
//! ```text
//! key    00, session number (8)
//! value  version (1) = 1, flags (1): bit 0 it stands by, 1 it was taken over, clock (4 + n)
//!        [0: holder: node (8), incarnation (4), session number there (8)] [1: from node (8), incarnation (4)]
//! value, of a session that may have gone on at another node as well
//!        version (1) = 2, the same, and flags bit 2: marks
//! marks  count (1), of each its node (8), session number there or 0 (8), next sequence (8);
//!        flags (1): bit 0 a client was here, 1 the filters are not all, 2 begun with Clean Start; count (2) of filters that were subscribed to, (2 + n) each;
//!        the same of those that were unsubscribed from
//! ```
//!
//! It stands before all client ids, which have no 0 in them: so a restart knows which sessions stand by before it reads them. The clock of a copy
//! that has not come whole is empty.
//!
//! With copies comes up to where their holder had taken what others sent: what of it is not in a copy is behind that.
//!
//! ```text
//! key    ff (8), node (8), 00
//! value  version (1) = 1, for each other node: node (8), incarnation (4), number (8)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes};
use cluster::session_plane::encoding::{decode_clock, encode_clock};
use cluster::session_plane::{Actor, VectorClock};
use cluster::write::{Keyspace, Write};
use cluster::{Incarnation, NodeId};
use mqtt::ids::SessionNumber;
use mqtt::origin::Position;
use mqtt::records::encoding::{Reader, put_long, put_short};
use mqtt::records::{BEHIND_SESSIONS, RecordError};

/// Which of a session's changes are here, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRecord {
    /// The changes.
    pub clock: VectorClock,
    /// Another node holds it, under this number. `None`: this node does.
    pub holder: Option<(Actor, SessionNumber)>,
    /// This node has taken it over from there.
    pub taken_from: Option<Actor>,
    /// From where on it may have gone on at another node as well.
    pub marks: Option<Marks>,
}

/// What has become of a session here since it may have gone on at another node as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// The nodes.
    pub nodes: Vec<Mark>,
    /// A client has had it.
    pub had_client: bool,
    /// Filters were changed of which it is not known any more.
    pub is_incomplete: bool,
    /// Its client has begun it anew (Clean Start) while these nodes were away: what they have of another one is over.
    pub is_clean: bool,
    /// Filters that were subscribed to, as they end the keys of subscriptions.
    pub subscribed: BTreeSet<Bytes>,
    /// Filters that were unsubscribed from.
    pub unsubscribed: BTreeSet<Bytes>,
}

/// Since when a session may have gone on at another node as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The node.
    pub node: NodeId,
    /// The session's number there; `None`: that node is one of those that had a copy.
    pub number: Option<SessionNumber>,
    /// The other node does not have the deliveries from here on.
    pub next_sequence: u64,
}

/// Stores what is known of a session.
pub fn put(number: SessionNumber, record: &CopyRecord) -> Write {
    let mut value = Vec::with_capacity(64);
    value.put_u8(record.marks.as_ref().map_or(VERSION, |_| VERSION_MARKED));
    let flag = |is_set: bool, bit: u8| u8::from(is_set) << bit;
    let flags = flag(record.holder.is_some(), 0) | flag(record.taken_from.is_some(), 1);
    value.put_u8(flags | flag(record.marks.is_some(), 2));
    put_long(&mut value, &encode_clock(&record.clock));
    if let Some((actor, number)) = record.holder {
        put_actor(&mut value, actor);
        value.put_u64(number.0);
    }
    if let Some(actor) = record.taken_from {
        put_actor(&mut value, actor);
    }
    if let Some(marks) = &record.marks {
        put_marks(&mut value, marks);
    }
    Write::Put {
        keyspace: Keyspace::Sessions,
        key: key(number),
        value: value.into(),
    }
}

/// Removes it, with the session.
pub fn remove(number: SessionNumber) -> Write {
    Write::Remove {
        keyspace: Keyspace::Sessions,
        key: key(number),
    }
}

/// Whether a key is that of such a record, and not of a session.
pub fn is_copy(key: &[u8]) -> bool {
    key.first() == Some(&BEFORE_SESSIONS)
}

/// Reads such a record.
///
/// # Errors
/// If it is none.
pub fn decode(key: &[u8], value: Bytes) -> Result<(SessionNumber, CopyRecord), RecordError> {
    let mut reader = Reader::of_key(key, RECORD);
    reader.u8()?;
    let number = SessionNumber(reader.u64()?);
    reader.end()?;
    let (mut reader, version) = Reader::of_versions(value, RECORD, &[VERSION, VERSION_MARKED])?;
    let flags = reader.u8()?;
    if flags >> 3 != 0 || (flags >> 2 != 0) != (version == VERSION_MARKED) {
        return Err(reader.damaged("unknown flags of a copy"));
    }
    let clock = reader.long()?;
    let clock = reader.parse(decode_clock(&clock), "a clock is not valid")?;
    let holder = (flags & 1 != 0).then(|| Ok((actor(&mut reader)?, SessionNumber(reader.u64()?))));
    let holder = holder.transpose()?;
    let taken_from = (flags & 2 != 0).then(|| actor(&mut reader)).transpose()?;
    let marks = (flags & 4 != 0).then(|| marks(&mut reader)).transpose()?;
    reader.end()?;
    let record = CopyRecord {
        clock,
        holder,
        taken_from,
        marks,
    };
    Ok((number, record))
}

/// Stores up to where a holder had taken what others sent.
pub fn put_positions(holder: NodeId, positions: &BTreeMap<NodeId, Position>) -> Write {
    let mut value = Vec::with_capacity(1 + 20 * positions.len());
    value.put_u8(VERSION);
    for (node, position) in positions {
        value.put_u64(node.0);
        value.put_u32(position.incarnation);
        value.put_u64(position.number);
    }
    Write::Put {
        keyspace: Keyspace::Received,
        key: positions_key(holder),
        value: value.into(),
    }
}

/// Removes it: no copy here is that holder's any more.
pub fn remove_positions(holder: NodeId) -> Write {
    Write::Remove {
        keyspace: Keyspace::Received,
        key: positions_key(holder),
    }
}

/// Whether a key among the received packet ids is that of such a record.
pub fn is_positions(key: &[u8]) -> bool {
    key.len() == POSITIONS_KEY
}

/// Reads such a record.
///
/// # Errors
/// If it is none.
pub fn decode_positions(
    key: &[u8],
    value: Bytes,
) -> Result<(NodeId, BTreeMap<NodeId, Position>), RecordError> {
    let mut reader = Reader::of_key(key, POSITIONS);
    let prefix = reader.u64()?;
    let (holder, what) = (NodeId(reader.u64()?), reader.u8()?);
    if (prefix, what) != (BEHIND_SESSIONS, OF_COPIES) {
        return Err(reader.damaged("it is not behind the sessions"));
    }
    let mut reader = Reader::of_value(value, POSITIONS, VERSION)?;
    let mut positions = BTreeMap::new();
    while !reader.is_empty() {
        let node = NodeId(reader.u64()?);
        let (incarnation, number) = (reader.u32()?, reader.u64()?);
        positions.insert(node, Position { incarnation, number });
    }
    Ok((holder, positions))
}

fn put_actor(out: &mut Vec<u8>, actor: Actor) {
    out.put_u64(actor.node.0);
    out.put_u32(actor.incarnation.0);
}

fn actor(reader: &mut Reader) -> Result<Actor, RecordError> {
    let node = NodeId(reader.u64()?);
    if node.0 == 0 {
        return Err(reader.damaged("a node is 0"));
    }
    let incarnation = Incarnation(reader.u32()?);
    Ok(Actor { node, incarnation })
}

fn put_marks(out: &mut Vec<u8>, marks: &Marks) {
    out.put_u8(u8::try_from(marks.nodes.len()).expect("few nodes are marked"));
    for mark in &marks.nodes {
        out.put_u64(mark.node.0);
        out.put_u64(mark.number.map_or(0, |number| number.0));
        out.put_u64(mark.next_sequence);
    }
    let flags = [marks.had_client, marks.is_incomplete, marks.is_clean];
    let bits = flags
        .iter()
        .enumerate()
        .map(|(bit, is_set)| u8::from(*is_set) << bit);
    out.put_u8(bits.sum());
    for filters in [&marks.subscribed, &marks.unsubscribed] {
        out.put_u16(u16::try_from(filters.len()).expect("few filters are marked"));
        for filter in filters {
            put_short(out, filter);
        }
    }
}

fn marks(reader: &mut Reader) -> Result<Marks, RecordError> {
    let nodes = (0..reader.u8()?).map(|_| {
        let node = NodeId(reader.u64()?);
        let number = reader.u64()?;
        Ok(Mark {
            node,
            number: (number != 0).then_some(SessionNumber(number)),
            next_sequence: reader.sequence()?,
        })
    });
    let nodes = nodes.collect::<Result<_, RecordError>>()?;
    let flags = reader.u8()?;
    if flags >> 3 != 0 {
        return Err(reader.damaged("unknown flags of marks"));
    }
    let mut filters = || -> Result<BTreeSet<Bytes>, RecordError> {
        let count = reader.u16()?;
        (0..count).map(|_| reader.short()).collect()
    };
    Ok(Marks {
        nodes,
        had_client: flags & 1 != 0,
        is_incomplete: flags & 2 != 0,
        is_clean: flags & 4 != 0,
        subscribed: filters()?,
        unsubscribed: filters()?,
    })
}

fn key(number: SessionNumber) -> Bytes {
    let mut key = [BEFORE_SESSIONS; 9];
    key[1..].copy_from_slice(&number.0.to_be_bytes());
    Bytes::copy_from_slice(&key)
}

fn positions_key(holder: NodeId) -> Bytes {
    let mut key = [OF_COPIES; POSITIONS_KEY];
    key[..8].copy_from_slice(&BEHIND_SESSIONS.to_be_bytes());
    key[8..16].copy_from_slice(&holder.0.to_be_bytes());
    Bytes::copy_from_slice(&key)
}

const VERSION: u8 = 1;
const VERSION_MARKED: u8 = 2;
const RECORD: &str = "copy of a session";
const POSITIONS: &str = "position of copies";
const POSITIONS_KEY: usize = 17;

/// Stands where a key has nothing that is the node's own.
const OF_COPIES: u8 = 0;

/// No client id begins with it.
const BEFORE_SESSIONS: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(node: u64, incarnation: u32) -> Actor {
        Actor {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        }
    }

    fn parts(write: Write) -> (Bytes, Bytes) {
        match write {
            Write::Put { key, value, .. } => (key, value),
            other => panic!("{other:?}"),
        }
    }

    /// Bytes of version 1. Another form needs another version.
    #[test]
    fn records_of_copies_are_written_as_ever() {
        let mut clock = VectorClock::new();
        clock.increment(actor(2, 1), 0).expect("there is room");
        let record = CopyRecord {
            clock,
            holder: Some((actor(2, 1), SessionNumber(9))),
            taken_from: Some(actor(3, 4)),
            marks: None,
        };
        let (key, value) = parts(put(SessionNumber(7), &record));
        assert_eq!(&key[..], b"\0\0\0\0\0\0\0\0\x07");
        assert_eq!(
            &value[..],
            b"\x01\x03\0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
              \0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x03\0\0\0\x04"
        );
        assert!(is_copy(&key));
        assert_eq!(decode(&key, value), Ok((SessionNumber(7), record.clone())));

        let mark = Mark {
            node: NodeId(5),
            number: Some(SessionNumber(6)),
            next_sequence: 7,
        };
        let marks = Marks {
            nodes: vec![mark],
            had_client: true,
            is_incomplete: false,
            is_clean: true,
            subscribed: BTreeSet::from([Bytes::from_static(b"a")]),
            unsubscribed: BTreeSet::new(),
        };
        let record = CopyRecord {
            holder: None,
            taken_from: None,
            marks: Some(marks),
            ..record
        };
        let (key, value) = parts(put(SessionNumber(7), &record));
        assert_eq!(
            &value[..],
            b"\x02\x04\0\0\0\x1f\x01\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
              \x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07\x05\0\x01\0\x01a\0\0"
        );
        assert_eq!(decode(&key, value), Ok((SessionNumber(7), record)));

        let position = Position {
            incarnation: 5,
            number: 6,
        };
        let positions = BTreeMap::from([(NodeId(1), position)]);
        let (key, value) = parts(put_positions(NodeId(2), &positions));
        assert_eq!(&key[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\x02\0");
        assert_eq!(&value[..], b"\x01\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\0\0\0\0\x06");
        assert!(is_positions(&key));
        assert_eq!(decode_positions(&key, value), Ok((NodeId(2), positions)));
    }
}
