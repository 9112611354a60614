//! Any text is a topic filter or is not, and a filter matches what a naive comparison says.
#![no_main]

#[path = "../../crates/protocol/tests/it/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::topic_filter_input(input));
