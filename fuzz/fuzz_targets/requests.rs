//! Any request to the state store is answered once, and what was set is got.
#![no_main]

use std::sync::LazyLock;
use std::time::Instant;

/// Only differences matter.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

libfuzzer_sys::fuzz_target!(|input: &[u8]| sim::inputs::requests(input, *ORIGIN));
