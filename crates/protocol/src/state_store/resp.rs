//! RESP, strictly: arrays of bulk strings, and the lines that replies are made of.
//!
//! A length is canonical decimal (digits only, no sign, no leading zero), followed by CR LF. Nothing is
//! allocated by a length: bulk strings are ranges of the payload.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

/// The payload is not what RESP allows at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the payload is not valid RESP")]
pub struct Malformed;

/// Reads RESP from a payload.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    payload: &'a Bytes,
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: &'a Bytes) -> Self {
        Self { payload, position: 0 }
    }

    /// The number of elements of the array that starts here.
    pub(crate) fn array(&mut self) -> Result<usize, Malformed> {
        self.length(b'*')
    }

    /// Where the bulk string that starts here lies in the payload.
    pub(crate) fn bulk(&mut self) -> Result<Range<usize>, Malformed> {
        let length = self.length(b'$')?;
        let start = self.position;
        let end = start.checked_add(length).ok_or(Malformed)?;
        let next = end.checked_add(CRLF.len()).ok_or(Malformed)?;
        if self.payload.get(end..next) != Some(CRLF) {
            return Err(Malformed);
        }
        self.position = next;
        Ok(start..end)
    }

    /// The bulk string that starts here, sharing the payload's memory.
    pub(crate) fn bulk_bytes(&mut self) -> Result<Bytes, Malformed> {
        let range = self.bulk()?;
        Ok(self.payload.slice(range))
    }

    /// Whether the whole payload has been read.
    pub(crate) fn finish(&self) -> Result<(), Malformed> {
        if self.position == self.payload.len() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    /// `prefix`, canonical decimal, CR LF.
    fn length(&mut self, prefix: u8) -> Result<usize, Malformed> {
        let rest = self.payload.get(self.position..).ok_or(Malformed)?;
        let (first, rest) = rest.split_first().ok_or(Malformed)?;
        if *first != prefix {
            return Err(Malformed);
        }
        let mut length: usize = 0;
        let mut digits = 0;
        for byte in rest {
            if !byte.is_ascii_digit() {
                break;
            }
            let has_leading_zero = digits > 0 && length == 0;
            if has_leading_zero {
                return Err(Malformed);
            }
            length = length.checked_mul(10).ok_or(Malformed)?;
            length = length.checked_add(usize::from(byte - b'0')).ok_or(Malformed)?;
            digits += 1;
        }
        if digits == 0 || rest.get(digits..digits + CRLF.len()) != Some(CRLF) {
            return Err(Malformed);
        }
        self.position += 1 + digits + CRLF.len();
        Ok(length)
    }
}

/// Writes `*count`.
pub(crate) fn put_array(out: &mut BytesMut, count: usize) {
    put_header(out, b'*', count);
}

/// Writes one bulk string.
pub(crate) fn put_bulk(out: &mut BytesMut, bytes: &[u8]) {
    put_header(out, b'$', bytes.len());
    out.put_slice(bytes);
    out.put_slice(CRLF);
}

/// Writes `prefix`, the number in decimal, CR LF.
pub(crate) fn put_header(out: &mut BytesMut, prefix: u8, number: usize) {
    let mut digits = [0; DIGITS_MAX];
    let mut first = DIGITS_MAX;
    let mut rest = number;
    for (index, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(rest % 10).expect("a remainder of ten fits a byte");
        first = index;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.put_u8(prefix);
    out.put_slice(digits.get(first..).unwrap_or_default());
    out.put_slice(CRLF);
}

/// How many bytes [`put_bulk`] writes at most for a bulk string of this length.
pub(crate) const fn bulk_length_max(length: usize) -> usize {
    HEADER_LENGTH_MAX + length + CRLF.len()
}

/// The longest header: prefix, digits, CR LF.
pub(crate) const HEADER_LENGTH_MAX: usize = 1 + DIGITS_MAX + CRLF.len();

pub(crate) const CRLF: &[u8] = b"\r\n";

/// Digits of the greatest `usize` of 64 bits.
const DIGITS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(payload: &'static [u8]) -> Result<Vec<Bytes>, Malformed> {
        let payload = Bytes::from_static(payload);
        let mut reader = Reader::new(&payload);
        let count = reader.array()?;
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(reader.bulk_bytes()?);
        }
        reader.finish()?;
        Ok(elements)
    }

    #[test]
    fn an_array_of_bulk_strings_is_read() {
        assert_eq!(
            read(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n").unwrap(),
            [&b"GET"[..], b""]
        );
        assert_eq!(read(b"*1\r\n$4\r\n\r\n\r\n\r\n").unwrap(), [&b"\r\n\r\n"[..]]);
        assert_eq!(read(b"*0\r\n").unwrap(), Vec::<Bytes>::new());
    }

    #[test]
    fn everything_else_is_malformed() {
        let malformed: [&[u8]; 22] = [
            b"",
            b"*",
            b"*1",
            b"*1\r",
            b"*1\n$1\r\nx\r\n",
            b"*\r\n",
            b"*-1\r\n",
            b"*+1\r\n$1\r\nx\r\n",
            b"*01\r\n$1\r\nx\r\n",
            b"*1\r\n$01\r\nx\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$2\r\nx\r\n",
            b"*1\r\n$0\r\nx\r\n",
            b"*1\r\n$1\r\nx",
            b"*1\r\n$1\r\nx\n\n",
            b"*2\r\n$1\r\nx\r\n",
            b"*1\r\n$1\r\nx\r\n ",
            b"*1\r\n*1\r\n$1\r\nx\r\n",
            b"*1\r\n+x\r\n",
            b"*1\r\n$18446744073709551616\r\nx\r\n",
            b"*1\r\n$18446744073709551615\r\nx\r\n",
            b"*18446744073709551615\r\n$1\r\nx\r\n",
        ];
        for payload in malformed {
            assert_eq!(read(payload), Err(Malformed), "{:?}", Bytes::from_static(payload));
        }
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 1, 9, 10, 65_535, usize::MAX] {
            let mut out = BytesMut::new();
            put_header(&mut out, b'$', number);
            assert_eq!(out, format!("${number}\r\n").as_bytes());
        }
    }
}
