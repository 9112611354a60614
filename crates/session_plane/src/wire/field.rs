//! Fields that messages of several modules have: numbers, dots, clocks, sets of events and slots.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::reader::Reader;
use super::writer::Writer;
use super::{Fault, WireError};
use crate::stream::NumberRange;
use crate::transfer::RunPosition;
use crate::version_vector::INTERVALS_MAX;
use crate::{ClientId, Dot, Interval, Run, Slot, SlotSet, VectorFull, VersionVector};

/// Type with one encoding. What is read is a value of the type, with its invariants.
///
/// Differences of numbers wrap when they are written. A difference that wraps is refused when it is
/// read, so a value that breaks its own order never becomes another value.
pub(crate) trait Field: Sized {
    /// Bytes of a value at least; at least 1. Bounds what a list reserves.
    const BYTES_MIN: usize;

    fn put(&self, writer: &mut Writer);

    fn take(reader: &mut Reader) -> Result<Self, WireError>;
}

impl Writer {
    pub(crate) fn put<T: Field>(&mut self, value: &T) {
        value.put(self);
    }

    /// Appends a list: the number of its items, then each of them.
    pub(crate) fn put_list<'a, T: Field + 'a>(&mut self, items: impl ExactSizeIterator<Item = &'a T>) {
        self.put_number(items.len() as u64);
        for item in items {
            item.put(self);
        }
    }

    /// Appends what may be absent: a 0; or a 1 and the value.
    pub(super) fn put_optional<T: Field>(&mut self, value: Option<&T>) {
        self.put(&value.is_some());
        if let Some(value) = value {
            self.put(value);
        }
    }
}

impl Reader {
    /// Reads a field; errors name it, or a field that it has.
    pub(crate) fn take<T: Field>(&mut self, field: &'static str) -> Result<T, WireError> {
        let outer = self.enter(field);
        let value = T::take(self)?;
        self.enter(outer);
        Ok(value)
    }

    /// Reads a list. It reserves memory once, for items that the message has bytes for.
    pub(crate) fn list<T: Field>(&mut self) -> Result<Vec<T>, WireError> {
        let count = self.count(T::BYTES_MIN)?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(T::take(self)?);
        }
        Ok(items)
    }
}

impl<T: Field> Field for Option<T> {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_optional(self.as_ref());
    }

    fn take(reader: &mut Reader) -> Result<Option<T>, WireError> {
        let is_some = bool::take(reader)?;
        is_some.then(|| T::take(reader)).transpose()
    }
}

impl<T: Field> Field for Vec<T> {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_list(self.iter());
    }

    fn take(reader: &mut Reader) -> Result<Vec<T>, WireError> {
        reader.list()
    }
}

/// Items in ascending order, each once.
impl<T: Field + Ord> Field for BTreeSet<T> {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_list(self.iter());
    }

    fn take(reader: &mut Reader) -> Result<BTreeSet<T>, WireError> {
        let items: Vec<T> = reader.list()?;
        if !items.is_sorted_by(|one, other| one < other) {
            return Err(reader.error(Fault::NotAscending));
        }
        Ok(items.into_iter().collect())
    }
}

impl Field for bool {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_byte(u8::from(*self));
    }

    fn take(reader: &mut Reader) -> Result<bool, WireError> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(reader.error(Fault::UnknownForm { found })),
        }
    }
}

impl Field for u64 {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(*self);
    }

    fn take(reader: &mut Reader) -> Result<u64, WireError> {
        reader.number()
    }
}

/// Number that counts from 1.
#[derive(Debug)]
pub(super) struct Positive(pub(super) u64);

impl Field for Positive {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.0);
    }

    fn take(reader: &mut Reader) -> Result<Positive, WireError> {
        reader.positive().map(Positive)
    }
}

/// Eight bytes, big endian: ids are drawn at random, so a shorter form of them is rare.
impl Field for NodeId {
    const BYTES_MIN: usize = 8;

    fn put(&self, writer: &mut Writer) {
        writer.put_fixed(&self.0.to_be_bytes());
    }

    fn take(reader: &mut Reader) -> Result<NodeId, WireError> {
        reader.node()
    }
}

/// Eight bytes, big endian: the milliseconds of this century are in the upper ones.
impl Field for Hlc {
    const BYTES_MIN: usize = 8;

    fn put(&self, writer: &mut Writer) {
        writer.put_fixed(&self.to_bits().to_be_bytes());
    }

    fn take(reader: &mut Reader) -> Result<Hlc, WireError> {
        let bits = u64::from_be_bytes(reader.fixed()?);
        Hlc::from_bits(bits).ok_or(reader.error(Fault::InvalidClock))
    }
}

impl Field for Run {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_run(*self);
    }

    fn take(reader: &mut Reader) -> Result<Run, WireError> {
        reader.run()
    }
}

impl Field for Dot {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        writer.put_run(self.run);
        writer.put_number(self.number);
    }

    fn take(reader: &mut Reader) -> Result<Dot, WireError> {
        Ok(Dot {
            run: reader.run()?,
            number: reader.positive()?,
        })
    }
}

/// The number may be 0: a run that has no event has that position.
impl Field for RunPosition {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        writer.put_run(self.run);
        writer.put_number(self.number);
    }

    fn take(reader: &mut Reader) -> Result<RunPosition, WireError> {
        Ok(RunPosition {
            run: reader.run()?,
            number: reader.number()?,
        })
    }
}

/// The first number, then how much the last one is above it.
impl Field for NumberRange {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.first);
        writer.put_number(self.last.wrapping_sub(self.first));
    }

    fn take(reader: &mut Reader) -> Result<NumberRange, WireError> {
        let (first, more) = (reader.positive()?, reader.number()?);
        let last = first.checked_add(more);
        let last = last.ok_or(reader.error(Fault::NotAscending))?;
        Ok(NumberRange { first, last })
    }
}

/// Each interval is its run, the numbers left out before it, the starts above its run, and its last
/// number. Where it ends in its run the last is how many numbers are above the first. So the numbers
/// from 1 on cost two bytes more than the last of them and the run.
impl Field for VersionVector {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.intervals().len() as u64);
        let mut before = None;
        for interval in self.intervals() {
            let (first, last) = (interval.first(), interval.last());
            writer.put_run(first.run);
            let from = end_in_run(before, first.run).wrapping_add(1);
            writer.put_number(first.number.wrapping_sub(from));
            let starts = last.run.incarnation.0 - first.run.incarnation.0;
            writer.put_number(u64::from(starts));
            writer.put_number(match starts {
                0 => last.number - first.number,
                _ => last.number - 1,
            });
            before = Some(*interval);
        }
    }

    fn take(reader: &mut Reader) -> Result<VersionVector, WireError> {
        let count = reader.count(INTERVAL_BYTES_MIN)?;
        if count > INTERVALS_MAX {
            return Err(reader.error(VectorFull));
        }
        let mut vector = VersionVector::default();
        for _ in 0..count {
            let interval = take_interval(reader, vector.intervals().last().copied())?;
            vector.insert(interval).map_err(|full| reader.error(full))?;
        }
        Ok(vector)
    }
}

/// Reads the interval behind `before`, with a gap between them.
fn take_interval(reader: &mut Reader, before: Option<Interval>) -> Result<Interval, WireError> {
    let (run, gap) = (reader.run()?, reader.number()?);
    let (starts, more) = (reader.small_number()?, reader.number()?);
    let first = end_in_run(before, run)
        .checked_add(1)
        .and_then(|from| from.checked_add(gap))
        .map(|number| Dot { run, number });
    let interval = first.and_then(|first| Interval::between(first, last_of(first, starts, more)?));
    let is_apart = |interval: &Interval| before.is_none_or(|before| before.is_apart_before(interval));
    interval.filter(is_apart).ok_or(reader.error(Fault::NotAscending))
}

/// Last event of an interval that ends `starts` runs behind that of its first.
fn last_of(first: Dot, starts: u32, more: u64) -> Option<Dot> {
    let incarnation = Incarnation(first.run.incarnation.0.checked_add(starts)?);
    let from = if starts == 0 { first.number } else { 1 };
    let number = from.checked_add(more)?;
    let run = Run {
        incarnation,
        ..first.run
    };
    Some(Dot { run, number })
}

/// Last number of the interval `before`, if it ends in the same run; otherwise 0.
fn end_in_run(before: Option<Interval>, run: Run) -> u64 {
    before
        .map(|before| before.last())
        .filter(|last| last.run == run)
        .map_or(0, |last| last.number)
}

impl Field for Slot {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(u64::from(self.number()));
    }

    fn take(reader: &mut Reader) -> Result<Slot, WireError> {
        let number = reader.number()?;
        slot_of(reader, number)
    }
}

fn slot_of(reader: &Reader, found: u64) -> Result<Slot, WireError> {
    let max = u64::from(Slot::COUNT - 1);
    let number = u16::try_from(found).map_err(|_| reader.error(Fault::TooHigh { found, max }))?;
    Slot::new(number).map_err(|error| reader.error(error))
}

/// Each slot is the number of slots left out before it.
impl Field for SlotSet {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.len() as u64);
        let mut next = 0;
        for slot in self.iter() {
            writer.put_number(u64::from(slot.number() - next));
            next = slot.number() + 1;
        }
    }

    fn take(reader: &mut Reader) -> Result<SlotSet, WireError> {
        let count = reader.count(1)?;
        let mut set = SlotSet::default();
        let mut next: u64 = 0;
        for _ in 0..count {
            let number = next.saturating_add(reader.number()?);
            let slot = slot_of(reader, number)?;
            set.insert(slot);
            next = number + 1;
        }
        Ok(set)
    }
}

impl Field for ClientId {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_bytes(self.as_bytes());
    }

    fn take(reader: &mut Reader) -> Result<ClientId, WireError> {
        let bytes = reader.bytes()?;
        ClientId::new(&bytes).map_err(|error| reader.error(error))
    }
}

/// Bytes of an interval at least: its run and three numbers.
const INTERVAL_BYTES_MIN: usize = 4;
