//! Packets that are much work for few bytes: by the server's own counters, none is more work than its length and one turn.
#![no_main]

use std::sync::LazyLock;
use std::time::Instant;

/// Only differences matter.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

libfuzzer_sys::fuzz_target!(|input: &[u8]| sim::inputs::work(input, *ORIGIN));
