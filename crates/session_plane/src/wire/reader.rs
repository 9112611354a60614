//! Reading of a message that a peer sent, or of a record of the disk, without trust.
//!
//! *Invariants*: a list reserves memory for no more items than the bytes behind it can hold. Byte
//! strings share the memory of the message. Nothing recurses: a type is never a part of itself.

use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use cluster::{Incarnation, NodeId};

use super::{Fault, Subject, WireError, WireValue};
use crate::Run;

/// Message or record that is being read.
#[derive(Debug)]
pub(crate) struct Reader {
    rest: Bytes,
    of: Subject,
    /// Field that is being read, for errors.
    field: &'static str,
    /// Runs that the message has spelled out, in their order.
    runs: Vec<Run>,
    /// The same, to find one that comes twice.
    spelled_out: BTreeSet<Run>,
}

impl Reader {
    /// Begins behind the frame of a message or the version of a record, or with the first byte of a
    /// value.
    pub(crate) fn new(of: Subject, rest: Bytes) -> Reader {
        Reader {
            rest,
            of,
            field: "",
            runs: Vec::new(),
            spelled_out: BTreeSet::new(),
        }
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), WireError> {
        let (of, bytes) = (self.of, self.rest.len());
        if bytes == 0 {
            Ok(())
        } else {
            Err(WireError::LeftOver { of, bytes })
        }
    }

    /// Begins a field: errors name it from here on. Gives the field before.
    pub(crate) fn enter(&mut self, field: &'static str) -> &'static str {
        std::mem::replace(&mut self.field, field)
    }

    /// Reads a value of the node.
    pub(crate) fn value<T: WireValue>(&mut self, field: &'static str) -> Result<T, WireError> {
        let outer = self.enter(field);
        let bytes = self.bytes()?;
        let length = bytes.len();
        let value = T::from_bytes(bytes).ok_or(self.error(Fault::Value { bytes: length }))?;
        self.enter(outer);
        Ok(value)
    }

    /// Reads the number of items of a list, each of which has at least `bytes_min` bytes.
    pub(crate) fn count(&mut self, bytes_min: usize) -> Result<usize, WireError> {
        let (count, bytes) = (self.number()?, self.rest.len());
        let fits = usize::try_from(count)
            .ok()
            .filter(|count| *count <= bytes / bytes_min);
        fits.ok_or(self.error(Fault::TooMany { count, bytes }))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, WireError> {
        let [byte] = self.fixed()?;
        Ok(byte)
    }

    /// Reads bytes whose number the type says.
    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let taken = self.rest.first_chunk::<N>().copied();
        let taken = taken.ok_or(self.error(Fault::TooShort))?;
        self.rest.advance(N);
        Ok(taken)
    }

    /// Reads a number: LEB128 in its shortest form.
    pub(crate) fn number(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                let is_shortest = byte != 0 || shift == 0;
                return is_shortest
                    .then_some(number)
                    .ok_or(self.error(Fault::InvalidNumber));
            }
        }
        Err(self.error(Fault::InvalidNumber))
    }

    /// Reads a number of 32 bits.
    pub(crate) fn small_number(&mut self) -> Result<u32, WireError> {
        let (found, max) = (self.number()?, u64::from(u32::MAX));
        u32::try_from(found).map_err(|_| self.error(Fault::TooHigh { found, max }))
    }

    /// Reads a number that counts from 1.
    pub(crate) fn positive(&mut self) -> Result<u64, WireError> {
        match self.number()? {
            0 => Err(self.error(Fault::Zero)),
            number => Ok(number),
        }
    }

    /// Reads a byte string: its length, then the bytes.
    pub(crate) fn bytes(&mut self) -> Result<Bytes, WireError> {
        let length = self.number()?;
        match usize::try_from(length) {
            Ok(length) => self.slice(length),
            Err(_) => Err(self.error(Fault::TooShort)),
        }
    }

    /// Reads the id of a node: eight bytes.
    pub(crate) fn node(&mut self) -> Result<NodeId, WireError> {
        match u64::from_be_bytes(self.fixed()?) {
            0 => Err(self.error(Fault::Zero)),
            node => Ok(NodeId(node)),
        }
    }

    /// Reads a run: spelled out, or by its place among those before it.
    pub(crate) fn run(&mut self) -> Result<Run, WireError> {
        let found = self.number()?;
        let Some(index) = found.checked_sub(1) else {
            return self.spelled_out_run();
        };
        let index = usize::try_from(index).ok();
        let run = index.and_then(|index| self.runs.get(index)).copied();
        let known = self.runs.len();
        run.ok_or(self.error(Fault::UnknownRun { found, known }))
    }

    /// Error of the field that is being read.
    pub(crate) fn error(&self, fault: impl Into<Fault>) -> WireError {
        WireError::Field {
            of: self.of,
            field: self.field,
            fault: fault.into(),
        }
    }

    fn spelled_out_run(&mut self) -> Result<Run, WireError> {
        let node = self.node()?;
        let incarnation = Incarnation(self.small_number()?);
        let run = Run { node, incarnation };
        if !self.spelled_out.insert(run) {
            return Err(self.error(Fault::RunTwice));
        }
        self.runs.push(run);
        Ok(run)
    }

    fn slice(&mut self, length: usize) -> Result<Bytes, WireError> {
        if length > self.rest.len() {
            return Err(self.error(Fault::TooShort));
        }
        Ok(self.rest.split_to(length))
    }
}
