//! The only place of the benchmark that knows what time it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The time that latencies are differences of.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since the Unix epoch, for `__ts`.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub(super) fn wall_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)
}

/// What this process has used of the processor.
pub(super) fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(used.tv_sec).unwrap_or(0),
        u32::try_from(used.tv_nsec).unwrap_or(0),
    )
}
