//! Any bytes, in any kind of connection, are decoded or refused, and what was understood can be said again.
#![no_main]

#[path = "../../crates/protocol/tests/it/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::decode_input(input));
