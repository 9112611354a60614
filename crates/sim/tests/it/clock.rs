//! The only place of these tests that reads a clock, because an [`Instant`] cannot be made in another way.

use std::time::Instant;

/// The origin of a simulation: any moment will do, only differences matter.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
