//! The checksum of RDB files: CRC-64 with the polynomial of Jones, reflected, beginning with 0.

use std::io::{self, Read};

/// Adds up what is read through it.
#[derive(Debug)]
pub(super) struct Crc64<R> {
    inner: R,
    sum: u64,
}

impl<R> Crc64<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, sum: 0 }
    }

    /// Of all that has been read.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }
}

impl<R: Read> Read for Crc64<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.sum = with(self.sum, &bytes[..count]);
        Ok(count)
    }
}

fn with(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| {
        let place = (sum ^ u64::from(*byte)) & 0xFF;
        TABLE[place as usize] ^ (sum >> 8)
    })
}

/// The polynomial 0xad93d23594c935a9 with its bits in reverse.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut place = 0;
    while place < 256 {
        let mut sum = place as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ POLYNOMIAL
            } else {
                sum >> 1
            };
            bit += 1;
        }
        table[place] = sum;
        place += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_algorithm() {
        let mut reader = Crc64::new(&b"123456789"[..]);
        io::copy(&mut reader, &mut io::sink()).expect("in memory");
        assert_eq!(reader.sum(), 0xe9c6_d914_c4b8_d9ca);
    }
}
