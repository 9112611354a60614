//! Any bytes are a backup or none, the same in pieces of any size, and what was understood can be said again.
#![no_main]

#[path = "../../crates/server/tests/backup/check.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::backup_input(input);
});
