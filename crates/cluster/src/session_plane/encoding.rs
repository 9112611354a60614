//! Clocks, records and writes as bytes, on disk and between nodes. All numbers are big endian.
//!
//! ```text
//! clock    | version u8 (1) | runs
//! record   | version u8 (1) | kind u8 | runs | hlc u64 | count u32, for each entry: place u16, counter u64, hlc u64, value
//! delta    | version u8 (1) | kind u8 | runs of the base | last dot | hlc u64 | count u32, removed dot ... | count u32, added value ... |
//!            count u32, for each that is advanced: dot, value
//! outline  | version u8 (1) | kind u8 (3) | runs | hlc u64 | count u32, for each entry: place u16, counter u64
//! retained | version u8 (1) | kind u8 (5) | runs | hlc u64 | dot | message
//!
//! runs     | count u16, for each: actor, first u64, last u64; sorted, with a gap between two of one actor
//! actor    | node u64 | incarnation u32
//! dot      | actor | counter u64
//! place    where the run of an entry's dot stands
//! bytes    | length u32 | so many bytes
//! message  | 0 u8, or 1 u8 and bytes
//! ```
//!
//! | kind | | value |
//! |---|---|---|
//! | 1 | session | 0 disconnected, or 1 connected and connection; expiry u32; attributes as bytes |
//! | 2 | subscriptions | filter as bytes, options as bytes |
//! | 3 | queue | 0 and message as bytes, or 1 and packet id u16 |
//! | 4 | received | packet id u16 |
//! | 6 | will | connection; 1 armed, 2 firing, 3 cancelled, 4 fired |
//!
//! A connection is an actor and a number u64. What is read is checked: it may come from anywhere, never panics, and takes memory only for bytes that
//! are there.

use bytes::Bytes;

use super::queue::{Outline, Queued};
use super::record::Value;
use super::retained::Latest;
use super::vector_clock::Run;
use super::{Actor, Delta, Dot, Entry, Hlc, Kind, Record, Retained, VectorClock};
use crate::{Incarnation, NodeId};

/// Bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// Written by a version of the program that this one does not know.
    #[error("a record of the session plane has version {found}, this program knows {VERSION}")]
    Version {
        /// The first byte.
        found: u8,
    },
    /// They do not follow their own form, or are of another kind.
    #[error("a record of the session plane is malformed")]
    Malformed,
}

/// A clock.
pub fn encode_clock(clock: &VectorClock) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put_runs(clock, &mut bytes);
    bytes
}

/// Reads a clock.
pub fn decode_clock(bytes: &[u8]) -> Result<VectorClock, EncodingError> {
    decode(bytes, None, take_runs)
}

/// A copy of a record, which must not be absent.
pub fn encode_record<V: Value>(record: &Record<V>) -> Vec<u8> {
    assert!(!record.is_absent(), "what is not there is not written");
    let clock = record.clock();
    let mut bytes = vec![VERSION, kind_code(V::KIND)];
    put_runs(clock, &mut bytes);
    bytes.extend(record.hlc().to_bits().to_be_bytes());
    put_count(record.entries().len(), &mut bytes);
    for entry in record.entries() {
        put_place(clock, entry.dot, &mut bytes);
        bytes.extend(entry.hlc.to_bits().to_be_bytes());
        entry.value.encode(&mut bytes);
    }
    bytes
}

/// Reads a copy of a record.
pub fn decode_record<V: Value>(bytes: &[u8]) -> Result<Record<V>, EncodingError> {
    decode(bytes, Some(V::KIND), |bytes| {
        let clock = take_runs(bytes)?;
        let hlc = take_hlc(bytes)?;
        let entries = take_all(bytes, |bytes| {
            Some(Entry {
                dot: take_place(&clock, bytes)?,
                hlc: take_hlc(bytes)?,
                value: V::decode(bytes)?,
            })
        })?;
        let record = Record::from_parts(clock, hlc, entries)?;
        (!record.is_absent()).then_some(record)
    })
}

/// A write.
pub fn encode_delta<V: Value>(delta: &Delta<V>) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind_code(V::KIND)];
    put_runs(&delta.base, &mut bytes);
    put_dot(delta.last, &mut bytes);
    bytes.extend(delta.hlc.to_bits().to_be_bytes());
    put_count(delta.removed.len(), &mut bytes);
    for dot in &delta.removed {
        put_dot(*dot, &mut bytes);
    }
    put_count(delta.added.len(), &mut bytes);
    for value in &delta.added {
        value.encode(&mut bytes);
    }
    put_count(delta.advanced.len(), &mut bytes);
    for (dot, value) in &delta.advanced {
        put_dot(*dot, &mut bytes);
        value.encode(&mut bytes);
    }
    bytes
}

/// Reads a write.
pub fn decode_delta<V: Value>(bytes: &[u8]) -> Result<Delta<V>, EncodingError> {
    decode(bytes, Some(V::KIND), |bytes| {
        let delta = Delta {
            base: take_runs(bytes)?,
            last: take_dot(bytes)?,
            hlc: take_hlc(bytes)?,
            removed: take_all(bytes, take_dot)?,
            added: take_all(bytes, V::decode)?,
            advanced: take_all(bytes, |bytes| Some((take_dot(bytes)?, V::decode(bytes)?)))?,
        };
        let is_countable = delta.last.counter >= delta.added.len() as u64;
        (is_countable && !delta.base.contains(delta.last)).then_some(delta)
    })
}

/// A queue without what it holds, of a copy that must not be absent.
pub fn encode_outline(outline: &Outline) -> Vec<u8> {
    assert!(!outline.clock.is_empty(), "what is not there is not written");
    let mut bytes = vec![VERSION, kind_code(Queued::KIND)];
    put_runs(&outline.clock, &mut bytes);
    bytes.extend(outline.hlc.to_bits().to_be_bytes());
    put_count(outline.dots.len(), &mut bytes);
    for dot in &outline.dots {
        put_place(&outline.clock, *dot, &mut bytes);
    }
    bytes
}

/// Reads a queue without what it holds.
pub fn decode_outline(bytes: &[u8]) -> Result<Outline, EncodingError> {
    decode(bytes, Some(Queued::KIND), |bytes| {
        let clock = take_runs(bytes)?;
        let hlc = take_hlc(bytes)?;
        let dots = take_all(bytes, |bytes| take_place(&clock, bytes))?;
        let is_whole = dots.is_sorted_by(|one, next| one < next)
            && dots.iter().all(|dot| clock.contains(*dot))
            && !clock.is_empty();
        is_whole.then_some(Outline { clock, hlc, dots })
    })
}

/// A copy of a topic's record.
pub fn encode_retained(retained: &Retained) -> Vec<u8> {
    let latest = retained.latest();
    let mut bytes = vec![VERSION, kind_code(Kind::Retained)];
    put_runs(retained.clock(), &mut bytes);
    bytes.extend(latest.hlc.to_bits().to_be_bytes());
    put_dot(latest.dot, &mut bytes);
    bytes.push(u8::from(latest.message.is_some()));
    if let Some(message) = &latest.message {
        put_bytes(message, &mut bytes);
    }
    bytes
}

/// Reads a copy of a topic's record.
pub fn decode_retained(bytes: &[u8]) -> Result<Retained, EncodingError> {
    decode(bytes, Some(Kind::Retained), |bytes| {
        let clock = take_runs(bytes)?;
        let hlc = take_hlc(bytes)?;
        let dot = take_dot(bytes)?;
        let message = match take_array(bytes)? {
            [0] => None,
            [1] => Some(take_bytes(bytes)?),
            _ => return None,
        };
        let latest = Latest { hlc, dot, message };
        Retained::from_parts(clock, latest)
    })
}

fn decode<T>(
    mut bytes: &[u8],
    kind: Option<Kind>,
    take: impl FnOnce(&mut &[u8]) -> Option<T>,
) -> Result<T, EncodingError> {
    match take_array(&mut bytes) {
        Some([VERSION]) => {}
        Some([found]) => return Err(EncodingError::Version { found }),
        None => return Err(EncodingError::Malformed),
    }
    let is_kind = kind.is_none_or(|kind| take_array(&mut bytes) == Some([kind_code(kind)]));
    let taken = is_kind.then(|| take(&mut bytes)).flatten();
    taken.filter(|_| bytes.is_empty()).ok_or(EncodingError::Malformed)
}

fn put_runs(clock: &VectorClock, bytes: &mut Vec<u8>) {
    let count = u16::try_from(clock.runs().len()).expect("runs of a clock are bounded");
    bytes.extend(count.to_be_bytes());
    for run in clock.runs() {
        put_actor(run.actor(), bytes);
        bytes.extend(run.first().to_be_bytes());
        bytes.extend(run.last().to_be_bytes());
    }
}

fn take_runs(bytes: &mut &[u8]) -> Option<VectorClock> {
    let count = u16::from_be_bytes(take_array(bytes)?);
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..count {
        let actor = take_actor(bytes)?;
        let first = u64::from_be_bytes(take_array(bytes)?);
        let last = u64::from_be_bytes(take_array(bytes)?);
        let is_run = 0 < first && first <= last;
        runs.push(is_run.then(|| Run::new(actor, first, last))?);
    }
    VectorClock::from_runs(runs)
}

/// Where the run of a dot stands in the clock, which contains it.
fn put_place(clock: &VectorClock, dot: Dot, bytes: &mut Vec<u8>) {
    let mut runs = clock.runs().iter();
    let place = runs.position(|run| run.actor() == dot.actor && dot.counter <= run.last());
    let place = place.expect("a clock contains the dots of its entries");
    let place = u16::try_from(place).expect("runs of a clock are bounded");
    bytes.extend(place.to_be_bytes());
    bytes.extend(dot.counter.to_be_bytes());
}

fn take_place(clock: &VectorClock, bytes: &mut &[u8]) -> Option<Dot> {
    let place = u16::from_be_bytes(take_array(bytes)?);
    let counter = u64::from_be_bytes(take_array(bytes)?);
    let run = clock.runs().get(usize::from(place))?;
    let actor = run.actor();
    (run.first() <= counter && counter <= run.last()).then_some(Dot { actor, counter })
}

fn put_dot(dot: Dot, bytes: &mut Vec<u8>) {
    put_actor(dot.actor, bytes);
    bytes.extend(dot.counter.to_be_bytes());
}

fn take_dot(bytes: &mut &[u8]) -> Option<Dot> {
    let actor = take_actor(bytes)?;
    let counter = u64::from_be_bytes(take_array(bytes)?);
    (counter > 0).then_some(Dot { actor, counter })
}

pub(super) fn put_actor(actor: Actor, bytes: &mut Vec<u8>) {
    bytes.extend(actor.node.0.to_be_bytes());
    bytes.extend(actor.incarnation.0.to_be_bytes());
}

pub(super) fn take_actor(bytes: &mut &[u8]) -> Option<Actor> {
    let node = NodeId(u64::from_be_bytes(take_array(bytes)?));
    let incarnation = Incarnation(u32::from_be_bytes(take_array(bytes)?));
    (node.0 != 0).then_some(Actor { node, incarnation })
}

pub(super) fn put_bytes(value: &[u8], bytes: &mut Vec<u8>) {
    put_count(value.len(), bytes);
    bytes.extend_from_slice(value);
}

pub(super) fn take_bytes(bytes: &mut &[u8]) -> Option<Bytes> {
    let length = u32::from_be_bytes(take_array(bytes)?);
    let taken = bytes.split_off(..usize::try_from(length).ok()?)?;
    Some(Bytes::copy_from_slice(taken))
}

pub(super) fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn take_hlc(bytes: &mut &[u8]) -> Option<Hlc> {
    Hlc::from_bits(u64::from_be_bytes(take_array(bytes)?))
}

fn put_count(count: usize, bytes: &mut Vec<u8>) {
    let count = u32::try_from(count).expect("less than 4 GiB");
    bytes.extend(count.to_be_bytes());
}

/// As many as are announced. Each takes at least a byte, so what is announced and not there ends it.
fn take_all<T>(bytes: &mut &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = u32::from_be_bytes(take_array(bytes)?);
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(take(bytes)?);
    }
    Some(all)
}

fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Session => 1,
        Kind::Subscriptions => 2,
        Kind::Queue => 3,
        Kind::Received => 4,
        Kind::Retained => 5,
        Kind::Will => 6,
    }
}

const VERSION: u8 = 1;
