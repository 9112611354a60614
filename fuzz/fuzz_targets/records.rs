//! Any disk is refused, or makes a server that serves and understands what it writes.
#![no_main]

use std::sync::LazyLock;
use std::time::Instant;

/// Only differences matter.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    sim::inputs::records(input, *ORIGIN);
});
