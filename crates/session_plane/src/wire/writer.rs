//! Writing of a message, or of a record for the disk: numbers, runs and byte strings.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Kind, VERSION, WireValue};
use crate::Run;

/// Message, value or record that is being written. Writing never fails: what a type allows has bytes.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// Runs that the message has spelled out, each with its place from 1 on.
    runs: BTreeMap<Run, u64>,
}

impl Writer {
    /// Begins a message with its frame.
    pub(super) fn new(kind: Kind) -> Writer {
        Writer::behind(vec![VERSION, kind.number()])
    }

    /// Begins a record with its version.
    pub(crate) fn of_record(version: u8) -> Writer {
        Writer::behind(vec![version])
    }

    fn behind(bytes: Vec<u8>) -> Writer {
        Writer {
            bytes,
            runs: BTreeMap::new(),
        }
    }

    /// Begins a value, which has no frame.
    pub(super) fn of_value() -> Writer {
        Writer::behind(Vec::new())
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
        if let Some(place) = self.runs.get(&run) {
            self.put_number(*place);
            return;
        }
        let place = self.runs.len() as u64 + 1;
        self.runs.insert(run, place);
        self.put_byte(0);
        self.put_fixed(&run.node.0.to_be_bytes());
        self.put_number(u64::from(run.incarnation.0));
    }
}
