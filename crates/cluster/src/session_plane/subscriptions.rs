//! The subscriptions of a session: filters, each with options.
//!
//! An observed-remove set. An unsubscribe takes away what it has seen: the other side does not bring it back, and a subscribe that it has not seen
//! stays. Of two subscribes to one filter on two sides the later one counts, until the next write to that filter removes both.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Dot;
use super::encoding::{put_bytes, take_bytes};
use super::record::{Delta, Entry, Kind, Record, Value, Writer};
use super::vector_clock::ClockFull;

/// One subscription.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subscription {
    /// As subscribed, with the share's name if it is shared. Opaque here.
    pub filter: Bytes,
    /// Opaque here.
    pub options: Bytes,
}

impl Record<Subscription> {
    /// Subscribes, instead of earlier ones to the same filter.
    pub fn subscribe(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        subscription: Subscription,
    ) -> Result<Delta<Subscription>, ClockFull> {
        let seen = self.dots_of(&subscription.filter);
        self.write(writer, wall, seen, vec![subscription])
    }

    /// Unsubscribes; `None`: there is no such subscription, and nothing was written.
    pub fn unsubscribe(
        &mut self,
        writer: &mut Writer,
        wall: u64,
        filter: &[u8],
    ) -> Result<Option<Delta<Subscription>>, ClockFull> {
        let seen = self.dots_of(filter);
        if seen.is_empty() {
            return Ok(None);
        }
        self.write(writer, wall, seen, Vec::new()).map(Some)
    }

    /// Each filter with the subscription that counts.
    pub fn subscriptions(&self) -> BTreeMap<&Bytes, &Entry<Subscription>> {
        let mut latest: BTreeMap<&Bytes, &Entry<Subscription>> = BTreeMap::new();
        for entry in self.entries() {
            let known = latest.entry(&entry.value.filter).or_insert(entry);
            if (known.hlc, known.dot) < (entry.hlc, entry.dot) {
                *known = entry;
            }
        }
        latest
    }

    fn dots_of(&self, filter: &[u8]) -> Vec<Dot> {
        let of_filter = self.entries().filter(|entry| entry.value.filter == filter);
        of_filter.map(|entry| entry.dot).collect()
    }
}

impl Value for Subscription {
    const KIND: Kind = Kind::Subscriptions;

    fn encode(&self, bytes: &mut Vec<u8>) {
        put_bytes(&self.filter, bytes);
        put_bytes(&self.options, bytes);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Subscription> {
        Some(Subscription {
            filter: take_bytes(bytes)?,
            options: take_bytes(bytes)?,
        })
    }
}
