//! What comes to the port of the nodes is understood or refused, and binds a node once at most.
#![no_main]

use std::sync::LazyLock;
use std::time::Instant;

/// Only differences matter.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    sim::inputs::peers(input, *ORIGIN);
});
