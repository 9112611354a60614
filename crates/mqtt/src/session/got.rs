//! Which messages a session has got of late, so that it does not take one a second time that comes to it by another way.
//!
//! Messages are counted where they are published, so what a session gets from one node are often numbers in a row: ranges of them are kept.

use bytes::{Buf, BufMut, Bytes};
use cluster::NodeId;

use super::{Dropped, Session};
use crate::memory::footprint::{block, places};
use crate::message::Delivery;
use crate::origin::MessageId;

/// Ranges of a session, of 16 bytes each. Of more the earliest are forgotten: what is among them may be taken a second time.
pub const RANGES_MAX: usize = 256;

/// Messages that a session has got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Got {
    /// In the order of the nodes and their runs.
    runs: Vec<Run>,
}

/// What was published at one node in one of its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    of: (NodeId, u32),
    /// The first and the last number of each, in their order, with numbers missing between them; there is one at least.
    ranges: Vec<(u64, u64)>,
}

impl Got {
    /// By what a delivery is known again: not one of a shared subscription, which is for one of many, and not a retained message, which is sent anew to who subscribes anew.
    pub fn id_of(delivery: &Delivery) -> Option<MessageId> {
        let id = delivery.message.id;
        id.filter(|_| delivery.share.is_none() && !delivery.retain)
    }

    /// Its memory, with that of the struct.
    pub(crate) fn memory(&self) -> u64 {
        let ranges = self
            .runs
            .iter()
            .map(|run| places::<(u64, u64)>(run.ranges.capacity()));
        block(size_of::<Self>()) + places::<Run>(self.runs.capacity()) + ranges.sum::<u64>()
    }

    /// Whether the message of a delivery is among them.
    pub fn has(&self, delivery: &Delivery) -> bool {
        Self::id_of(delivery).is_some_and(|id| self.contains(id))
    }

    pub(crate) fn contains(&self, id: MessageId) -> bool {
        let run = self.find((id.node, id.run));
        run.is_ok_and(|run| self.runs[run].range_of(id.number.get()).is_some())
    }

    /// Takes a message in; at most so many ranges are left.
    pub fn insert(&mut self, id: MessageId, ranges_max: usize) {
        let number = id.number.get();
        self.insert_range((id.node, id.run), (number, number));
        self.forget_earliest(ranges_max);
    }

    /// Takes a message out: it is not with the client, and does not wait for it.
    pub(crate) fn remove(&mut self, id: MessageId) {
        let Ok(run) = self.find((id.node, id.run)) else {
            return;
        };
        let number = id.number.get();
        let Some(range) = self.runs[run].range_of(number) else {
            return;
        };
        let ranges = &mut self.runs[run].ranges;
        let (first, last) = ranges[range];
        let before = (first < number).then(|| (first, number - 1));
        let behind = (number < last).then(|| (number + 1, last));
        ranges.splice(range..=range, before.into_iter().chain(behind));
        if ranges.is_empty() {
            self.runs.remove(run);
        }
        self.forget_earliest(RANGES_MAX);
    }

    /// Takes in all that another session has got; at most so many ranges are left.
    pub(crate) fn extend(&mut self, other: &Self, ranges_max: usize) {
        for run in &other.runs {
            run.ranges
                .iter()
                .for_each(|range| self.insert_range(run.of, *range));
        }
        self.forget_earliest(ranges_max);
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Appends it for another node:
    ///
    /// ```text
    /// count of runs u16, of each: node u64 | run u32 | count u16, of each range: first number u64, last number u64
    /// ```
    pub fn put(&self, out: &mut Vec<u8>) {
        put_count(out, self.runs.len());
        for Run { of, ranges } in &self.runs {
            out.put_u64(of.0.0);
            out.put_u32(of.1);
            put_count(out, ranges.len());
            for (first, last) in ranges {
                out.put_u64(*first);
                out.put_u64(*last);
            }
        }
    }

    /// `None`: it is nothing that [`Got::put`] writes.
    pub fn read(bytes: &mut Bytes) -> Option<Self> {
        let mut got = Self::default();
        let mut left = RANGES_MAX;
        for _ in 0..bytes.try_get_u16().ok()? {
            let of = (NodeId(bytes.try_get_u64().ok()?), bytes.try_get_u32().ok()?);
            let mut ranges = Vec::new();
            let mut free_from = 1;
            let count = usize::from(bytes.try_get_u16().ok()?);
            left = left.checked_sub(count)?;
            for _ in 0..count {
                let (first, last) = (bytes.try_get_u64().ok()?, bytes.try_get_u64().ok()?);
                if first < free_from || last < first {
                    return None;
                }
                // At least one number is missing before the next.
                free_from = last.saturating_add(2);
                ranges.push((first, last));
            }
            let is_next = got.runs.last().is_none_or(|before| before.of < of);
            if ranges.is_empty() || !is_next {
                return None;
            }
            got.runs.push(Run { of, ranges });
        }
        Some(got)
    }

    fn find(&self, of: (NodeId, u32)) -> Result<usize, usize> {
        self.runs.binary_search_by_key(&of, |run| run.of)
    }

    fn insert_range(&mut self, of: (NodeId, u32), (mut first, mut last): (u64, u64)) {
        let run = self.find(of).unwrap_or_else(|place| {
            let ranges = Vec::new();
            self.runs.insert(place, Run { of, ranges });
            place
        });
        let ranges = &mut self.runs[run].ranges;
        // Those that it touches are one with it.
        let from = ranges.partition_point(|(_, end)| end.saturating_add(1) < first);
        let to = ranges.partition_point(|(begin, _)| *begin <= last.saturating_add(1));
        if from < to {
            first = first.min(ranges[from].0);
            last = last.max(ranges[to - 1].1);
        }
        ranges.splice(from..to, [(first, last)]);
    }

    /// Of the run that has the most ranges first.
    fn forget_earliest(&mut self, ranges_max: usize) {
        let count: usize = self.runs.iter().map(|run| run.ranges.len()).sum();
        let mut excess = count.saturating_sub(ranges_max);
        while excess > 0 {
            // Of runs with as many that of the earlier node.
            let most = (0..self.runs.len())
                .rev()
                .max_by_key(|run| self.runs[*run].ranges.len());
            let Some(run) = most else { return };
            let ranges = &mut self.runs[run].ranges;
            let forgotten = excess.min(ranges.len());
            ranges.drain(..forgotten);
            excess -= forgotten;
            if ranges.is_empty() {
                self.runs.remove(run);
            }
        }
    }
}

impl Run {
    /// Which of the ranges has a number.
    fn range_of(&self, number: u64) -> Option<usize> {
        let behind = self.ranges.partition_point(|(first, _)| *first <= number);
        behind
            .checked_sub(1)
            .filter(|range| number <= self.ranges[*range].1)
    }
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_u16(u16::try_from(count).expect("there are few"));
}

impl Session {
    /// Takes note that it has got a message.
    pub fn note_got(&mut self, id: MessageId, ranges_max: usize) {
        self.got.get_or_insert_default().insert(id, ranges_max);
    }

    /// The same of all that another session of the client has got.
    pub fn note_all_got(&mut self, got: &Got, ranges_max: usize) {
        self.got.get_or_insert_default().extend(got, ranges_max);
    }

    /// Whether it is known to have got a message, which is delivered as this.
    pub fn has_got(&self, delivery: &Delivery) -> bool {
        self.got.as_ref().is_some_and(|got| got.has(delivery))
    }

    /// Whether it has taken note of any.
    pub fn has_noted(&self) -> bool {
        self.got.is_some()
    }

    /// What it has got is not known any more.
    pub fn forget_got(&mut self) {
        self.got = None;
    }

    /// It did not find room for a message, or had none for it any more.
    pub(super) fn note_not_got(&mut self, dropped: &[Dropped]) {
        if let Some(got) = &mut self.got {
            dropped
                .iter()
                .filter_map(|dropped| dropped.id)
                .for_each(|id| got.remove(id));
        }
    }

    /// What it is known to have got and has no more: the client has it.
    pub fn acknowledged(&self) -> Got {
        let mut got = self.got.as_deref().cloned().unwrap_or_default();
        if !got.is_empty() {
            let waiting = self.inflight.published().chain(self.queue.iter());
            waiting.filter_map(Got::id_of).for_each(|id| got.remove(id));
        }
        got
    }
}

#[cfg(test)]
mod tests;
