//! Bytes on their way to one socket.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// What a socket has not taken yet. Holds no memory while it is empty.
#[derive(Debug, Default)]
pub(crate) struct OutBuffer {
    /// Complete pieces, before `tail`.
    pieces: VecDeque<Bytes>,
    /// Bytes in `pieces`.
    pieces_len: usize,
    /// Where packets are encoded.
    tail: BytesMut,
    /// Bytes of the largest message since it was empty.
    largest_message: usize,
}

/// Payloads from this size on are sent from where they are; smaller ones are copied next to their header, which is
/// cheaper than one more piece in the write.
const SHARED_PAYLOAD_MIN: usize = 4096;

/// Pieces in one write.
const PIECES_PER_WRITE_MAX: usize = 64;

impl OutBuffer {
    /// Where to encode the next packet; takes spare memory if there is none.
    pub(crate) fn tail(&mut self, spare: &mut Vec<BytesMut>) -> &mut BytesMut {
        if self.tail.capacity() == 0
            && let Some(buffer) = spare.pop()
        {
            self.tail = buffer;
        }
        &mut self.tail
    }

    /// Appends a payload right after what was encoded.
    pub(crate) fn payload(&mut self, payload: &Bytes) {
        if payload.len() < SHARED_PAYLOAD_MIN {
            self.tail.extend_from_slice(payload);
            return;
        }
        if !self.tail.is_empty() {
            let encoded = self.tail.split().freeze();
            self.push(encoded);
        }
        self.push(payload.clone());
    }

    /// Takes note that so many of the bytes are one message.
    pub(crate) fn note_message(&mut self, bytes: usize) {
        self.largest_message = self.largest_message.max(bytes);
    }

    /// Bytes of the largest message since it was empty.
    pub(crate) fn largest_message(&self) -> usize {
        self.largest_message
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.pieces_len + self.tail.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes with `write`, which is called once, and takes off what it took.
    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let written = if self.pieces.is_empty() {
            write(&[IoSlice::new(&self.tail)])?
        } else {
            let mut slices = Vec::with_capacity(self.pieces.len().min(PIECES_PER_WRITE_MAX) + 1);
            slices.extend(
                self.pieces
                    .iter()
                    .take(PIECES_PER_WRITE_MAX)
                    .map(|piece| IoSlice::new(piece)),
            );
            if self.pieces.len() <= PIECES_PER_WRITE_MAX && !self.tail.is_empty() {
                slices.push(IoSlice::new(&self.tail));
            }
            write(&slices)?
        };
        self.advance(written);
        Ok(written)
    }

    /// Gives back the memory of an empty buffer.
    pub(crate) fn recycle(&mut self, spare: &mut Vec<BytesMut>) {
        if !self.is_empty() {
            return;
        }
        self.largest_message = 0;
        if self.tail.capacity() == 0 {
            return;
        }
        self.pieces = VecDeque::new();
        let buffer = std::mem::take(&mut self.tail);
        if spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_CAPACITY_MAX {
            spare.push(buffer);
        }
    }

    fn push(&mut self, piece: Bytes) {
        self.pieces_len += piece.len();
        self.pieces.push_back(piece);
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(piece) = self.pieces.front_mut() {
            if written < piece.len() {
                piece.advance(written);
                self.pieces_len -= written;
                return;
            }
            written -= piece.len();
            self.pieces_len -= piece.len();
            self.pieces.pop_front();
        }
        if written == self.tail.len() {
            self.tail.clear();
        } else {
            self.tail.advance(written);
        }
    }
}

/// Spare buffers kept, and the largest that is worth keeping, in bytes.
const SPARE_MAX: usize = 64;
const SPARE_CAPACITY_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Writes everything in steps of `step` bytes.
    fn drain(buffer: &mut OutBuffer, step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while !buffer.is_empty() {
            let take = |slices: &[IoSlice<'_>]| {
                let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
                let taken = all.len().min(step);
                out.extend_from_slice(&all[..taken]);
                Ok(taken)
            };
            buffer.write(take).unwrap();
        }
        out
    }

    #[test]
    fn bytes_leave_in_order_however_little_the_socket_takes() {
        for step in [1, 3, 1000, 100_000] {
            let mut buffer = OutBuffer::default();
            let mut expected = Vec::new();
            for size in [10, 5_000, 20, 4_096, 4_095] {
                buffer.tail(&mut vec![]).extend_from_slice(b"head");
                expected.extend_from_slice(b"head");
                let payload = vec![u8::try_from(size % 251).unwrap(); size];
                buffer.payload(&Bytes::from(payload.clone()));
                expected.extend_from_slice(&payload);
            }
            assert_eq!(buffer.len(), expected.len());
            assert_eq!(drain(&mut buffer, step), expected);
        }
    }

    #[test]
    fn the_largest_message_is_known_until_everything_is_written() {
        let mut buffer = OutBuffer::default();
        for size in [10, 20, 5] {
            buffer.tail(&mut vec![]).extend_from_slice(&vec![0; size]);
            buffer.note_message(size);
        }
        buffer.recycle(&mut vec![]);
        assert_eq!(buffer.largest_message(), 20);
        drain(&mut buffer, 7);
        buffer.recycle(&mut vec![]);
        assert_eq!(buffer.largest_message(), 0);
    }

    #[test]
    fn an_empty_buffer_gives_its_memory_back() {
        let mut spare = vec![];
        let mut buffer = OutBuffer::default();
        buffer.tail(&mut spare).extend_from_slice(b"packet");
        drain(&mut buffer, 100);
        buffer.recycle(&mut spare);
        assert_eq!(spare.len(), 1);
        assert_eq!(buffer.tail.capacity(), 0);
    }
}
