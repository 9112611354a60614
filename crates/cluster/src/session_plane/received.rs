//! Packet ids of QoS 2 messages that a client has sent and not released: what comes again with one of them is not a new message.
//!
//! A packet id is there from the message until its PUBREL. After a split it is the union of what neither side has seen released: a message
//! that one side has taken on is not taken on a second time by the other.

use std::collections::BTreeSet;

use super::Dot;
use super::encoding::take_array;
use super::record::{Delta, Kind, Record, Value, Writer};
use super::vector_clock::ClockFull;

/// A packet id that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReceivedId(pub u16);

impl Record<ReceivedId> {
    /// A message with this packet id was taken on; `None`: it was before.
    pub fn receive(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        id: ReceivedId,
    ) -> Result<Option<Delta<ReceivedId>>, ClockFull> {
        if !self.dots_of(id).is_empty() {
            return Ok(None);
        }
        self.write(writer, wall, Vec::new(), vec![id]).map(Some)
    }

    /// The PUBREL of a packet id has come; `None`: it was not there.
    pub fn release_id(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        id: ReceivedId,
    ) -> Result<Option<Delta<ReceivedId>>, ClockFull> {
        let seen = self.dots_of(id);
        if seen.is_empty() {
            return Ok(None);
        }
        self.write(writer, wall, seen, Vec::new()).map(Some)
    }

    /// The packet ids that are there.
    pub fn ids(&self) -> BTreeSet<ReceivedId> {
        self.entries().map(|entry| entry.value).collect()
    }

    fn dots_of(&self, id: ReceivedId) -> Vec<Dot> {
        let of_id = self.entries().filter(|entry| entry.value == id);
        of_id.map(|entry| entry.dot).collect()
    }
}

impl Value for ReceivedId {
    const KIND: Kind = Kind::Received;

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.0.to_be_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<ReceivedId> {
        Some(ReceivedId(u16::from_be_bytes(take_array(bytes)?)))
    }
}
