//! Clocks as bytes, on disk and between nodes. All numbers are big endian.
//!
//! ```text
//! clock | version u8 (1) | runs
//! runs  | count u16, for each: actor, first u64, last u64; sorted, with a gap between two of one actor
//! actor | node u64 | incarnation u32
//! ```
//!
//! *Invariant*: what is read is checked. It may come from anywhere, never panics, and takes memory only for bytes that are there.

use super::vector_clock::Run;
use super::{Actor, VectorClock};
use crate::{Incarnation, NodeId};

/// Bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// Written by a version of the program that this one does not know.
    #[error("a clock of the session plane has version {found}, this program knows {VERSION}")]
    Version {
        /// The first byte.
        found: u8,
    },
    /// They do not follow their own form.
    #[error("a clock of the session plane is malformed")]
    Malformed,
}

const VERSION: u8 = 1;

/// Writes a clock.
pub fn encode_clock(clock: &VectorClock) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put_runs(clock, &mut bytes);
    bytes
}

/// Reads a clock.
///
/// # Errors
///
/// [`EncodingError`] where the bytes are of another version, or no clock.
pub fn decode_clock(mut bytes: &[u8]) -> Result<VectorClock, EncodingError> {
    match take_array(&mut bytes) {
        Some([VERSION]) => {}
        Some([found]) => return Err(EncodingError::Version { found }),
        None => return Err(EncodingError::Malformed),
    }
    let clock = take_runs(&mut bytes);
    clock.filter(|_| bytes.is_empty()).ok_or(EncodingError::Malformed)
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

fn put_actor(actor: Actor, bytes: &mut Vec<u8>) {
    bytes.extend(actor.node.0.to_be_bytes());
    bytes.extend(actor.incarnation.0.to_be_bytes());
}

fn take_actor(bytes: &mut &[u8]) -> Option<Actor> {
    let node = NodeId(u64::from_be_bytes(take_array(bytes)?));
    let incarnation = Incarnation(u32::from_be_bytes(take_array(bytes)?));
    (node.0 != 0).then_some(Actor { node, incarnation })
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}
