//! Any conversation of a few clients with one server, over clocks and power cuts, keeps the server within its limits.
#![no_main]

use std::sync::LazyLock;
use std::time::Instant;

/// Only differences matter.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

libfuzzer_sys::fuzz_target!(|input: &[u8]| sim::inputs::conversation(input, *ORIGIN));
