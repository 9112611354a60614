//! What a session has to be sent and has not acknowledged yet: waiting, inflight, or released by a PUBREC.
//!
//! A set of dots. After a split it is the union of what neither side has seen acknowledged, in the order of the moments at which it was queued.
//! Who delivers from a copy that it did not write itself, or that was merged, sets DUP: any of it may have been sent before.
//!
//! A message is a reference here, to bytes that are kept elsewhere. So a record is small, and [`Record::outline`], which is smaller still,
//! tells two owners which messages one of them lacks.

use bytes::Bytes;

use super::encoding::{put_bytes, take_array, take_bytes};
use super::record::{Delta, Entry, Kind, Record, Value, Writer};
use super::vector_clock::ClockFull;
use super::{Causality, Dot, Hlc, VectorClock};

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queued {
    /// A message that was or was not sent. What refers to it is opaque here.
    Message(Bytes),
    /// The PUBREC of a QoS 2 message has come; a PUBREL is to be sent, with this packet id, until it is answered.
    Released(u16),
}

/// A copy of a queue without what it holds: enough to find out what of it another copy lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    pub(super) clock: VectorClock,
    pub(super) hlc: Hlc,
    /// Sorted.
    pub(super) dots: Vec<Dot>,
}

/// Why the copy that an outline is of was not merged. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutlineNotTaken {
    /// Entries are missing, or do not belong to the outline.
    #[error("entries of the queue are missing")]
    Incomplete,
    /// See [`ClockFull`].
    #[error(transparent)]
    ClockFull(#[from] ClockFull),
}

impl Record<Queued> {
    /// Queues messages, in this order. At least one.
    pub fn enqueue(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        messages: impl IntoIterator<Item = Bytes>,
    ) -> Result<Delta<Queued>, ClockFull> {
        let messages: Vec<Queued> = messages.into_iter().map(Queued::Message).collect();
        assert!(!messages.is_empty(), "something is queued");
        self.write(writer, wall, Vec::new(), messages)
    }

    /// Removes what was acknowledged with PUBACK or PUBCOMP, has expired, or had to give way; `None`: nothing of it was there.
    pub fn acknowledge(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        dots: impl IntoIterator<Item = Dot>,
    ) -> Result<Option<Delta<Queued>>, ClockFull> {
        let there: Vec<Dot> = dots
            .into_iter()
            .filter(|dot| self.entry(*dot).is_some())
            .collect();
        if there.is_empty() {
            return Ok(None);
        }
        self.write(writer, wall, there, Vec::new()).map(Some)
    }

    /// The PUBREC of a message has come: it is not sent again, and its PUBREL is, after those that were due before. `None`: the message was not there.
    pub fn release(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        dot: Dot,
        packet_id: u16,
    ) -> Result<Option<Delta<Queued>>, ClockFull> {
        if self.entry(dot).is_none() {
            return Ok(None);
        }
        let released = vec![Queued::Released(packet_id)];
        self.write(writer, wall, vec![dot], released).map(Some)
    }

    /// All of it, in the order in which it is to be sent.
    pub fn in_order(&self) -> Vec<&Entry<Queued>> {
        let mut entries: Vec<&Entry<Queued>> = self.entries().collect();
        entries.sort_by_key(|entry| (entry.hlc, entry.dot));
        entries
    }

    /// The copy without its values.
    pub fn outline(&self) -> Outline {
        Outline {
            clock: self.clock().clone(),
            hlc: self.hlc(),
            dots: self.all_dots(),
        }
    }

    /// Which values are to be asked for before a copy with this outline can be merged.
    pub fn missing(&self, outline: &Outline) -> Vec<Dot> {
        let is_missing = |dot: &&Dot| !self.clock().contains(**dot);
        outline.dots.iter().filter(is_missing).copied().collect()
    }

    /// Merges the copy that an outline is of. `fetched` has the entries that were [`Record::missing`], by dot.
    pub fn merge_outline(
        &mut self,
        outline: &Outline,
        fetched: &[Entry<Queued>],
    ) -> Result<Causality, OutlineNotTaken> {
        let mut entries = Vec::new();
        for dot in &outline.dots {
            let found = fetched.binary_search_by_key(dot, |entry| entry.dot).ok();
            match found.map(|at| &fetched[at]).or_else(|| self.entry(*dot)) {
                Some(entry) => entries.push(entry.clone()),
                None if self.clock().contains(*dot) => {}
                None => return Err(OutlineNotTaken::Incomplete),
            }
        }
        let other = Record::from_parts(outline.clock.clone(), outline.hlc, entries);
        Ok(self.merge(&other.ok_or(OutlineNotTaken::Incomplete)?)?)
    }
}

impl Value for Queued {
    const KIND: Kind = Kind::Queue;

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Queued::Message(message) => {
                bytes.push(MESSAGE);
                put_bytes(message, bytes);
            }
            Queued::Released(packet_id) => {
                bytes.push(RELEASED);
                bytes.extend(packet_id.to_be_bytes());
            }
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Queued> {
        match take_array(bytes)? {
            [MESSAGE] => Some(Queued::Message(take_bytes(bytes)?)),
            [RELEASED] => Some(Queued::Released(u16::from_be_bytes(take_array(bytes)?))),
            _ => None,
        }
    }
}

const MESSAGE: u8 = 0;
const RELEASED: u8 = 1;
