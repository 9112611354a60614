//! Session Expiry Interval, and the values that have one.

use std::time::Duration;

/// Session Expiry Interval in seconds (MQTT 5, section 3.1.2.11.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionExpiry(u32);

impl SessionExpiry {
    /// The session ends with its connection.
    pub const WITH_CONNECTION: SessionExpiry = SessionExpiry(0);
    /// The session does not expire.
    pub const NEVER: SessionExpiry = SessionExpiry(u32::MAX);

    /// Interval of this many seconds. 0 is [`Self::WITH_CONNECTION`], and `u32::MAX` is
    /// [`Self::NEVER`].
    pub fn of_seconds(seconds: u32) -> SessionExpiry {
        SessionExpiry(seconds)
    }

    /// Seconds, as MQTT has them.
    pub fn seconds(self) -> u32 {
        self.0
    }

    /// Time after the end of the connection. None: the session does not expire.
    pub fn duration(self) -> Option<Duration> {
        (self != SessionExpiry::NEVER).then(|| Duration::from_secs(u64::from(self.0)))
    }

    /// Milliseconds of the wall clock at which a session expires whose connection has ended at `wall`.
    pub(super) fn end(self, wall: u64) -> Option<u64> {
        let millis = u64::from(self.0) * 1_000;
        (self != SessionExpiry::NEVER).then(|| wall.saturating_add(millis))
    }
}

/// Value of entries that may have a Session Expiry Interval.
pub trait LifetimeValue {
    /// Value of an [`Expiry`](crate::EntryKind::Expiry) entry.
    fn of_expiry(expiry: SessionExpiry) -> Self;

    /// Interval in the value of a [`Session`](crate::EntryKind::Session) or an
    /// [`Expiry`](crate::EntryKind::Expiry) entry. None in entries of other kinds, and in one that a peer has
    /// made wrong: such a session does not expire.
    fn session_expiry(&self) -> Option<SessionExpiry>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mqtt_3_1_2_11_2_an_interval_of_all_ones_never_ends() {
        let (never, soon) = (SessionExpiry::NEVER, SessionExpiry::of_seconds(2));
        assert_eq!((never.duration(), never.end(5)), (None, None));
        assert_eq!(SessionExpiry::of_seconds(u32::MAX), never);
        assert_eq!(
            (soon.duration(), soon.end(5)),
            (Some(Duration::from_secs(2)), Some(2_005))
        );
        let zero = SessionExpiry::WITH_CONNECTION;
        assert_eq!((zero.seconds(), zero.end(5)), (0, Some(5)));
        let longest = SessionExpiry::of_seconds(u32::MAX - 1);
        assert_eq!(longest.end(u64::MAX), Some(u64::MAX));
    }
}
