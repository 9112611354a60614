//! Whatever a backup has, and says with the right checksums, is put back or refused, within the limits, and the server goes on.
#![no_main]

use std::sync::LazyLock;
use std::time::Instant;

/// Only differences matter.
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    sim::inputs::restored(input, *ORIGIN);
});
