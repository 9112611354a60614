//! Where encoded packets go: a buffer, or just a count of their bytes.

use bytes::{BufMut, BytesMut};

use crate::packet::PropertyId;
use crate::text::Text;

/// Takes the data representations of MQTT (MQTT 5.0 section 1.5).
pub(super) trait Sink {
    fn bytes(&mut self, bytes: &[u8]);
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);

    /// At most four times seven bits; the packet size limit has been checked before.
    fn variable_byte_integer(&mut self, value: usize) {
        let mut rest = value;
        while rest > 0x7F {
            self.u8((rest & 0x7F) as u8 | 0x80);
            rest >>= 7;
        }
        self.u8(rest as u8);
    }

    /// Binary data or a string: its length, which is at most 65,535, and its bytes.
    fn prefixed(&mut self, bytes: &[u8]) {
        let length = u16::try_from(bytes.len()).expect("lengths are checked before a packet is written");
        self.u16(length);
        self.bytes(bytes);
    }

    fn text(&mut self, text: &Text) {
        self.prefixed(text.as_bytes());
    }

    fn u8_property(&mut self, id: PropertyId, value: Option<u8>) {
        if let Some(value) = value {
            self.u8(id as u8);
            self.u8(value);
        }
    }

    fn boolean_property(&mut self, id: PropertyId, value: Option<bool>) {
        self.u8_property(id, value.map(u8::from));
    }

    fn u16_property(&mut self, id: PropertyId, value: Option<u16>) {
        if let Some(value) = value {
            self.u8(id as u8);
            self.u16(value);
        }
    }

    fn u32_property(&mut self, id: PropertyId, value: Option<u32>) {
        if let Some(value) = value {
            self.u8(id as u8);
            self.u32(value);
        }
    }

    fn text_property(&mut self, id: PropertyId, value: Option<&Text>) {
        self.binary_property(id, value.map(|text| text.as_str().as_bytes()));
    }

    fn binary_property(&mut self, id: PropertyId, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.u8(id as u8);
            self.prefixed(value);
        }
    }
}

/// Counts what would be written.
#[derive(Debug, Default)]
pub(super) struct Counter {
    count: usize,
}

impl Counter {
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

impl Sink for Counter {
    fn bytes(&mut self, bytes: &[u8]) {
        self.count += bytes.len();
    }

    fn u8(&mut self, _: u8) {
        self.count += 1;
    }

    fn u16(&mut self, _: u16) {
        self.count += 2;
    }

    fn u32(&mut self, _: u32) {
        self.count += 4;
    }

    fn variable_byte_integer(&mut self, value: usize) {
        self.count += variable_byte_integer_length(value);
    }

    /// Lengths over 65,535 count too, so that a size can be told for what is refused later.
    fn prefixed(&mut self, bytes: &[u8]) {
        self.count += 2 + bytes.len();
    }
}

impl Sink for BytesMut {
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn u8(&mut self, value: u8) {
        self.put_u8(value);
    }

    fn u16(&mut self, value: u16) {
        self.put_u16(value);
    }

    fn u32(&mut self, value: u32) {
        self.put_u32(value);
    }
}

/// How many bytes [`Sink::variable_byte_integer`] writes.
pub(super) fn variable_byte_integer_length(value: usize) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}
