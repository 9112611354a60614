//! Fields that several forms of values have: clocks, events, flags.
//!
//! *Invariant*: each field has one encoding. Numbers are big endian and of fixed length.

use bytes::BufMut;
use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use mqtt::records::RecordError;
use mqtt::records::encoding::Reader;
use session_plane::publishing::PacketId;
use session_plane::{Dot, Run};

/// Appends a flag: 0 or 1.
pub(crate) fn put_flag(out: &mut Vec<u8>, is_set: bool) {
    out.put_u8(u8::from(is_set));
}

/// Reads a flag.
pub(crate) fn take_flag(reader: &mut Reader) -> Result<bool, RecordError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.damaged("a flag is not 0 or 1")),
    }
}

/// Appends a clock (8).
pub(crate) fn put_clock(out: &mut Vec<u8>, clock: Hlc) {
    out.put_u64(clock.to_bits());
}

/// Reads a clock.
pub(crate) fn take_clock(reader: &mut Reader) -> Result<Hlc, RecordError> {
    let clock = Hlc::from_bits(reader.u64()?);
    reader.require(clock, "a clock is too late")
}

/// Appends a flag, and the clock where there is one.
pub(crate) fn put_optional_clock(out: &mut Vec<u8>, clock: Option<Hlc>) {
    put_flag(out, clock.is_some());
    if let Some(clock) = clock {
        put_clock(out, clock);
    }
}

/// Reads a clock that may be absent.
pub(crate) fn take_optional_clock(reader: &mut Reader) -> Result<Option<Hlc>, RecordError> {
    let has_clock = take_flag(reader)?;
    has_clock.then(|| take_clock(reader)).transpose()
}

/// Appends an event: node (8), incarnation (4), number (8).
pub(crate) fn put_dot(out: &mut Vec<u8>, dot: Dot) {
    out.put_u64(dot.run.node.0);
    out.put_u32(dot.run.incarnation.0);
    out.put_u64(dot.number);
}

/// Reads an event. No event has the number 0.
pub(crate) fn take_dot(reader: &mut Reader) -> Result<Dot, RecordError> {
    let run = Run {
        node: NodeId(reader.u64()?),
        incarnation: Incarnation(reader.u32()?),
    };
    match reader.u64()? {
        0 => Err(reader.damaged("an event has the number 0")),
        number => Ok(Dot { run, number }),
    }
}

/// Appends a packet id (2).
pub(crate) fn put_packet_id(out: &mut Vec<u8>, id: PacketId) {
    out.put_u16(id.0.get());
}

/// Reads a packet id.
pub(crate) fn take_packet_id(reader: &mut Reader) -> Result<PacketId, RecordError> {
    let id = reader.u16()?.try_into();
    reader.parse(id, "a packet id is 0").map(PacketId)
}
