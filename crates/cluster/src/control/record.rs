//! Commands of the control group and its state, as bytes. All numbers big endian.
//!
//! ```text
//! entry   | version u8 (1) | wall clock u64 | kind u8 | node u64 | of 1 and 6: length of the address u16, address;
//!           of 5: group u32. Kinds: 1 add, 2 remove, 3 joined, 4 left, 5 lead, 6 moved
//! state   | version u8 (1) | index u64 | term u64 | cluster u64 | groups u32 | voters wanted u8 | count u16, nodes ... |
//!           count u16, removed node u64 ... | count u16, for each group that somebody is to lead: group u32, node u64 | crc u32
//! node    | node u64 | stage u8 (1 joining, 2 member, 3 leaving) | since u64 | length of the address u16, address
//! ```
//!
//! The state stands in the meta keyspace under `control`; its checksum covers the key and the bytes before it.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{ClusterNode, Command, Control, NodeStage};
use crate::forming::Founder;
use crate::peers::PeerAddress;
use crate::replica::record::LogPoint;
use crate::{ClusterId, GroupId, Index, NodeId, Term};

const KEY: &[u8] = b"control";
const VERSION: u8 = 1;
const CRC_LEN: usize = 4;

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const JOINED: u8 = 3;
const LEFT: u8 = 4;
const LEAD: u8 = 5;
const MOVED: u8 = 6;

/// Bytes that are no command or state of the control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ControlRecordError {
    /// Written by a version of the program that this one does not know.
    #[error("the control group's record has version {found}, this program knows up to {VERSION}")]
    Version { found: u8 },
    /// Its checksum does not fit its bytes.
    #[error("the checksum of the control group's record does not match")]
    Checksum,
    /// It does not follow its own form.
    #[error("the control group's record is malformed")]
    Malformed,
}

/// The key of the state in the meta keyspace.
pub fn control_key() -> Bytes {
    Bytes::from_static(KEY)
}

/// The data of the log entry with a command, decided at this time.
pub fn encode_command(at: u64, command: &Command) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(VERSION);
    bytes.put_u64(at);
    let (kind, node) = match command {
        Command::Add(founder) => (ADD, founder.node),
        Command::Remove(node) => (REMOVE, *node),
        Command::Joined(node) => (JOINED, *node),
        Command::Left(node) => (LEFT, *node),
        Command::Lead { node, .. } => (LEAD, *node),
        Command::Moved(founder) => (MOVED, founder.node),
    };
    bytes.put_u8(kind);
    bytes.put_u64(node.0);
    match command {
        Command::Add(founder) | Command::Moved(founder) => put_address(&founder.address, &mut bytes),
        Command::Lead { group, .. } => bytes.put_u32(group.0),
        Command::Remove(_) | Command::Joined(_) | Command::Left(_) => {}
    }
    bytes.freeze()
}

/// When a command was decided, and the command.
pub fn decode_command(mut bytes: &[u8]) -> Result<(u64, Command), ControlRecordError> {
    let found = bytes.try_get_u8().map_err(|_| ControlRecordError::Malformed)?;
    if found != VERSION {
        return Err(ControlRecordError::Version { found });
    }
    command(&mut bytes)
        .filter(|_| bytes.is_empty())
        .ok_or(ControlRecordError::Malformed)
}

/// The record of the state as of a point of the log.
pub fn encode_state(point: LogPoint, control: &Control) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(VERSION);
    bytes.put_u64(point.index.0);
    bytes.put_u64(point.term.0);
    bytes.put_u64(control.cluster.0);
    bytes.put_u32(control.groups);
    bytes.put_u8(u8::try_from(control.voters_wanted).expect("few voters"));
    bytes.put_u16(u16::try_from(control.nodes.len()).expect("nodes are bounded"));
    for (id, node) in &control.nodes {
        bytes.put_u64(id.0);
        bytes.put_u8(stage_code(node.stage));
        bytes.put_u64(node.since);
        put_address(&node.address, &mut bytes);
    }
    bytes.put_u16(u16::try_from(control.removed.len()).expect("removed nodes are bounded"));
    control.removed.iter().for_each(|node| bytes.put_u64(node.0));
    bytes.put_u16(u16::try_from(control.leads.len()).expect("few groups"));
    for (group, node) in &control.leads {
        bytes.put_u32(group.0);
        bytes.put_u64(node.0);
    }
    bytes.put_u32(checksum(&bytes));
    bytes.freeze()
}

/// The state, and the point of the log as of which it is.
pub fn decode_state(record: &[u8]) -> Result<(LogPoint, Control), ControlRecordError> {
    let (body, crc) = record
        .split_last_chunk::<CRC_LEN>()
        .ok_or(ControlRecordError::Malformed)?;
    if checksum(body) != u32::from_be_bytes(*crc) {
        return Err(ControlRecordError::Checksum);
    }
    match body.split_first() {
        Some((&VERSION, fields)) => state(fields).ok_or(ControlRecordError::Malformed),
        Some((&found, _)) => Err(ControlRecordError::Version { found }),
        None => Err(ControlRecordError::Malformed),
    }
}

fn command(bytes: &mut &[u8]) -> Option<(u64, Command)> {
    let at = bytes.try_get_u64().ok()?;
    let kind = bytes.try_get_u8().ok()?;
    let node = node(bytes)?;
    let command = match kind {
        ADD => Command::Add(Founder {
            node,
            address: address(bytes)?,
        }),
        REMOVE => Command::Remove(node),
        JOINED => Command::Joined(node),
        LEFT => Command::Left(node),
        LEAD => Command::Lead {
            node,
            group: GroupId(bytes.try_get_u32().ok()?),
        },
        MOVED => Command::Moved(Founder {
            node,
            address: address(bytes)?,
        }),
        _ => return None,
    };
    Some((at, command))
}

fn state(mut bytes: &[u8]) -> Option<(LogPoint, Control)> {
    let bytes = &mut bytes;
    let point = LogPoint {
        index: Index(bytes.try_get_u64().ok()?),
        term: Term(bytes.try_get_u64().ok()?),
    };
    let cluster = ClusterId(bytes.try_get_u64().ok()?);
    let groups = bytes.try_get_u32().ok()?;
    let voters_wanted = usize::from(bytes.try_get_u8().ok()?);
    let count = bytes.try_get_u16().ok()?;
    let nodes = (0..count).map(|_| {
        let id = node(bytes)?;
        let stage = stage_from_code(bytes.try_get_u8().ok()?)?;
        let since = bytes.try_get_u64().ok()?;
        let address = address(bytes)?;
        Some((
            id,
            ClusterNode {
                address,
                stage,
                since,
            },
        ))
    });
    let nodes = nodes.collect::<Option<_>>()?;
    let count = bytes.try_get_u16().ok()?;
    let removed = (0..count).map(|_| node(bytes)).collect::<Option<_>>()?;
    let count = bytes.try_get_u16().ok()?;
    let leads = (0..count).map(|_| Some((GroupId(bytes.try_get_u32().ok()?), node(bytes)?)));
    let leads = leads.collect::<Option<_>>()?;
    let control = Control {
        cluster,
        groups,
        voters_wanted,
        nodes,
        removed,
        leads,
    };
    (bytes.is_empty() && groups > 0 && voters_wanted > 0).then_some((point, control))
}

fn node(bytes: &mut &[u8]) -> Option<NodeId> {
    let node = NodeId(bytes.try_get_u64().ok()?);
    (node.0 != 0).then_some(node)
}

fn put_address(address: &PeerAddress, bytes: &mut BytesMut) {
    let address = address.as_str();
    bytes.put_u16(u16::try_from(address.len()).expect("an address is short"));
    bytes.put_slice(address.as_bytes());
}

fn address(bytes: &mut &[u8]) -> Option<PeerAddress> {
    let length = usize::from(bytes.try_get_u16().ok()?);
    let address = std::str::from_utf8(bytes.get(..length)?).ok()?.parse().ok()?;
    bytes.advance(length);
    Some(address)
}

fn stage_code(stage: NodeStage) -> u8 {
    match stage {
        NodeStage::Joining => 1,
        NodeStage::Member => 2,
        NodeStage::Leaving => 3,
    }
}

fn stage_from_code(code: u8) -> Option<NodeStage> {
    match code {
        1 => Some(NodeStage::Joining),
        2 => Some(NodeStage::Member),
        3 => Some(NodeStage::Leaving),
        _ => None,
    }
}

fn checksum(body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(KEY), body)
}
