//! The only place of the driver that knows what time it is.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::core::Now;

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(crate) fn now() -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        instant: Instant::now(),
        wall: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
    }
}
