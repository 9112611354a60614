//! What must hold when any bytes are read as a backup; `fuzz/fuzz_targets/backup.rs` has it as well.
//!
//! The first byte of an input says how the rest is meant. If it is even, the rest is the stream as it is, and hardly any change gets past
//! its checksums. If it is odd, the rest is bodies of records, each with its length in two bytes, which get their frames here: so what is behind the
//! checksums is looked at as well. The other bits say in pieces of how many bytes it comes.

use bytes::{BufMut, BytesMut};
use server::backup::{Decoder, Encoder, FormatError, Record};

/// Reads an input. How many records there were before its end, or before what is wrong with it.
pub(crate) fn backup_input(input: &[u8]) -> usize {
    let Some((how, rest)) = input.split_first() else {
        return 0;
    };
    let is_framed = how % 2 == 1;
    let stream = if is_framed { framed(rest) } else { rest.to_vec() };
    let piece = usize::from(how / 2).max(1);
    let (records, error) = read(&stream, piece);
    // It is the same in one piece.
    let (at_once, error_at_once) = read(&stream, stream.len().max(1));
    assert_eq!(at_once, records);
    assert_eq!(error_at_once, error);
    if let Some(error) = &error {
        assert!(error.position <= stream.len() as u64, "{error}");
        assert!(!error.to_string().is_empty());
    }
    // What was understood can be said again.
    let said = encoded(&records);
    let (again, none) = read(&said, said.len());
    assert_eq!(again, records);
    assert_eq!(none, None);
    if error.is_none() {
        assert_eq!(said, stream, "whatever is whole was written so");
    }
    records.len()
}

/// All records, and what is wrong behind them.
pub(crate) fn read(stream: &[u8], piece: usize) -> (Vec<Record>, Option<FormatError>) {
    let mut decoder = Decoder::default();
    let mut records = Vec::new();
    for piece in stream.chunks(piece) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(error) => return (records, Some(error)),
            }
        }
    }
    let error = decoder.finish().err();
    (records, error)
}

/// A whole stream of records.
pub(crate) fn encoded(records: &[Record]) -> Vec<u8> {
    let (mut encoder, head) = Encoder::begin();
    let mut out = BytesMut::from(&head[..]);
    for record in records {
        encoder.push(record, &mut out).expect("as short as it was read");
    }
    let (_, end) = encoder.end();
    out.extend_from_slice(&end);
    out.to_vec()
}

/// Bodies with what makes them records, without an end.
fn framed(mut bodies: &[u8]) -> Vec<u8> {
    let mut out = b"STHDBKUP\x01".to_vec();
    let mut number = 0_u64;
    while let Some((length, rest)) = bodies.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (body, behind) = rest.split_at(length);
        frame(number, body, &mut out);
        (number, bodies) = (number + 1, behind);
    }
    out
}

fn frame(number: u64, body: &[u8], out: &mut Vec<u8>) {
    let checksum = |bytes: &[u8]| crc32c::crc32c_append(crc32c::crc32c(&number.to_be_bytes()), bytes);
    let length = u32::try_from(body.len()).expect("a short body");
    out.put_u32(length);
    out.put_u32(checksum(&length.to_be_bytes()));
    out.put_slice(body);
    out.put_u32(checksum(body));
}
