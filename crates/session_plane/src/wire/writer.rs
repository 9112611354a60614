//! Writing of a message, or of a record for the disk: numbers, runs and byte strings.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Kind, VERSION, WireValue};
use crate::Run;

/// Bytes that most messages and values find room in.
const MESSAGE_BYTES: usize = 128;

/// Message, value or record that is being written. Writing never fails: what a type allows has bytes.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// Run that the message has spelled out first. Many have no other one.
    first: Option<Run>,
    /// The others, each with its place from 2 on.
    others: BTreeMap<Run, u64>,
}

impl Writer {
    /// Begins a message with its frame.
    pub(super) fn new(kind: Kind) -> Writer {
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
        bytes.extend([VERSION, kind.number()]);
        Writer::behind(bytes)
    }

    /// Begins a record with its version.
    pub(crate) fn of_record(version: u8) -> Writer {
        Writer::behind(vec![version])
    }

    /// As [`Writer::of_record`], with room for so many bytes.
    pub(crate) fn of_large_record(version: u8, room: usize) -> Writer {
        let mut bytes = Vec::with_capacity(1 + room);
        bytes.push(version);
        Writer::behind(bytes)
    }

    fn behind(bytes: Vec<u8>) -> Writer {
        Writer {
            bytes,
            first: None,
            others: BTreeMap::new(),
        }
    }

    /// Begins a value, which has no frame.
    pub(super) fn of_value() -> Writer {
        Writer::behind(Vec::with_capacity(MESSAGE_BYTES))
    }

    /// Ends what is written.
    pub(crate) fn finish(self) -> Bytes {
        Bytes::from(self.bytes)
    }

    pub(crate) fn put_byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Appends bytes whose number the reader knows.
    pub(crate) fn put_fixed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a number as LEB128: seven bits in each byte, the lowest first. All bytes but the last
    /// have the highest bit.
    pub(crate) fn put_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            let [lowest, ..] = number.to_le_bytes();
            self.bytes.push(lowest | 0x80);
            number >>= 7;
        }
        let [lowest, ..] = number.to_le_bytes();
        self.bytes.push(lowest);
    }

    /// Appends a byte string: its length, then the bytes.
    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_number(bytes.len() as u64);
        self.put_fixed(bytes);
    }

    pub(crate) fn put_value<T: WireValue>(&mut self, value: &T) {
        self.put_bytes(&value.to_bytes());
    }

    /// Appends a run: spelled out behind a 0 where it is new in the message, otherwise its place.
    pub(crate) fn put_run(&mut self, run: Run) {
        if let Some(place) = self.place(run) {
            return self.put_number(place);
        }
        if self.first.is_none() {
            self.first = Some(run);
        } else {
            let place = self.others.len() as u64 + 2;
            self.others.insert(run, place);
        }
        self.put_byte(0);
        self.put_fixed(&run.node.0.to_be_bytes());
        self.put_number(u64::from(run.incarnation.0));
    }

    /// Place of a run that the message has spelled out.
    fn place(&self, run: Run) -> Option<u64> {
        if self.first == Some(run) {
            return Some(1);
        }
        self.others.get(&run).copied()
    }
}
