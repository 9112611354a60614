//! The decoder allocates in proportion to received bytes, whatever lengths they announce.
//!
//! A test program of its own, because it counts what the whole program allocates.
#![allow(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::alloc::System;

use bytes::BytesMut;
use cap::Cap;
use statehold_protocol::packet::{Decoder, ProtocolVersion};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

#[test]
fn memory_follows_the_bytes_received() {
    // Headers that announce packets of a megabyte, with a body that has only just begun.
    for first in [0x30, 0x82, 0xA2, 0x40, 0xE0, 0xF0] {
        let allocated = allocated_while_decoding(&[first, 0xF0, 0xFF, 0x3F, 0x00, 0x01, 0xFF]);
        assert_eq!(allocated, 0, "{first:#x} allocated before it was complete");
    }
    // Lengths inside a packet that is complete.
    for packet in [
        &b"\x30\x05\xff\xff\x00\x00\x00"[..],
        b"\x30\x09\0\x01t\xff\xff\xff\x7f\x26\xff",
        b"\x30\x07\0\x01t\x03\x09\xff\xff",
        b"\x82\x08\0\x01\0\xff\xff\0\0\0",
        b"\xa2\x08\0\x01\0\xff\xff\0\0\0",
    ] {
        check(packet);
    }
    // The smallest fields in the largest number.
    check_valid(&packet(0xA2, b"\0\x01\0", b"\0\0", 500_000));
    check_valid(&packet(0x82, b"\0\x01\0", b"\0\0\0", 300_000));
    check_valid(&packet(0x30, b"\0\x01t\xd0\x86\x03", b"\x26\0\0\0\0", 10_000));
    let alternating = b"\x26\0\0\0\0\x0b\x01";
    check_valid(&packet(0x30, b"\0\x01t\xf0\xa2\x04", alternating, 10_000));
}

fn check_valid(packet: &[u8]) {
    let mut decoder = Decoder::for_client(1 << 20);
    if packet[0] != 0x30 {
        decoder = Decoder::for_server(1 << 20);
        decoder.set_version(ProtocolVersion::V5);
    }
    assert!(matches!(decoder.decode(&mut BytesMut::from(packet)), Ok(Some(_))));
    check(packet);
}

/// Allows for what the largest number of the smallest parts needs: a topic filter of no character takes two bytes of
/// a packet and 32 in memory, and a growing list is copied when it doubles.
fn check(packet: &[u8]) {
    let allocated = allocated_while_decoding(packet);
    assert!(
        allocated <= 64 * packet.len() + 256,
        "{allocated} bytes for the {} of {:02x?}...",
        packet.len(),
        &packet[..packet.len().min(12)]
    );
}

fn allocated_while_decoding(bytes: &[u8]) -> usize {
    let mut largest = 0;
    for is_client in [false, true] {
        let mut decoder = if is_client {
            Decoder::for_client(1 << 20)
        } else {
            Decoder::for_server(1 << 20)
        };
        decoder.set_version(ProtocolVersion::V5);
        let mut buffer = BytesMut::from(bytes);
        let before = ALLOCATOR.total_allocated();
        let result = decoder.decode(&mut buffer);
        largest = largest.max(ALLOCATOR.total_allocated() - before);
        drop(result);
    }
    largest
}

/// A packet of `start` and `count` times `part`.
fn packet(first: u8, start: &[u8], part: &[u8], count: usize) -> Vec<u8> {
    let body = [start, &part.repeat(count)].concat();
    let mut packet = vec![first];
    let mut rest = body.len();
    while rest > 0x7F {
        packet.push(u8::try_from(rest & 0x7F).unwrap() | 0x80);
        rest >>= 7;
    }
    packet.push(u8::try_from(rest).unwrap());
    packet.extend_from_slice(&body);
    packet
}
