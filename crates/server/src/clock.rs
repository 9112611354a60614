//! The only place that knows what time it is.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use broker::now::Now;

/// Both clocks at one moment.
pub fn now() -> Now {
    Now {
        instant: instant(),
        wall: wall(),
    }
}

/// The monotonic time. Only differences mean something.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn instant() -> Instant {
    Instant::now()
}

/// Milliseconds since the Unix epoch; 0 on a machine whose clock is set before it.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn wall() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}
