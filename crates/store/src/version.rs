//! Versions of keys, and the rule that makes the next one.

use std::fmt;

use protocol::{Hlc, Text};

/// The version of a key: the HLC at which the store wrote it. Its node is always `StateStore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// Milliseconds since the Unix epoch.
    pub wall: u64,
    /// Orders versions of the same millisecond; from 1, below 2^31.
    pub counter: u32,
}

impl Version {
    /// What the store calls itself in timestamps.
    pub const NODE: &'static str = "StateStore";

    /// The least version that is greater than the request's timestamp and the key's last version, and not
    /// behind the clock ([`Stamp::clock`](crate::Stamp)).
    ///
    /// `(clock, 1)` if the clock is ahead of both. Otherwise the greatest wall among the three, and the counter
    /// that belongs to it + 1; a full counter moves the wall on by a millisecond. So the counter depends on
    /// this key alone: with a counter shared by all keys, leases of the official clients fail under traffic.
    pub(crate) fn next(clock: u64, timestamp: Option<&Hlc>, last: Option<Self>) -> Self {
        let timestamp = timestamp.map(|timestamp| (timestamp.wall, timestamp.counter));
        let last = last.map(|last| (last.wall, u64::from(last.counter)));
        let (wall, counter) = timestamp.max(last).max(Some((clock, 0))).unwrap_or_default();
        match u32::try_from(counter) {
            Ok(counter) if counter < COUNTER_MAX => Self {
                wall,
                counter: counter + 1,
            },
            _ => {
                assert!(
                    wall < u64::MAX,
                    "walls are at most 2^63 when they come in, and rise by one at a time"
                );
                Self {
                    wall: wall + 1,
                    counter: 1,
                }
            }
        }
    }

    /// The version as a timestamp.
    pub fn to_hlc(self) -> Hlc {
        Hlc {
            wall: self.wall,
            counter: u64::from(self.counter),
            node: Text::from_static(Self::NODE),
        }
    }
}

impl fmt::Display for Version {
    /// Writes the text form, without padding: `1696374425000:1:StateStore`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.wall, self.counter, Self::NODE)
    }
}

/// The greatest counter: one of the official clients reads it as a 32-bit integer with a sign.
pub(crate) const COUNTER_MAX: u32 = (1 << 31) - 1;

/// The greatest wall that a log entry or a snapshot may bring in, in milliseconds. The state store refuses
/// timestamps that are more than a minute ahead long before; this bounds what damaged bytes can do.
pub const WALL_MAX: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;

    fn next(clock: u64, timestamp: (u64, u64), last: Option<(u64, u32)>) -> (u64, u32) {
        let timestamp = Hlc {
            wall: timestamp.0,
            counter: timestamp.1,
            node: Text::from_static("client"),
        };
        let last = last.map(|(wall, counter)| Version { wall, counter });
        let version = Version::next(clock, Some(&timestamp), last);
        (version.wall, version.counter)
    }

    #[test]
    fn the_sample_of_the_published_text_raises_the_counter_by_one() {
        assert_eq!(
            next(1_696_374_425_000, (1_696_374_425_000, 0), None),
            (1_696_374_425_000, 1)
        );
    }

    #[test]
    fn a_clock_ahead_of_both_starts_the_counter_at_one() {
        assert_eq!(next(100, (99, 7), Some((98, 5))), (100, 1));
        assert_eq!(
            Version::next(100, None, None),
            Version {
                wall: 100,
                counter: 1
            }
        );
    }

    #[test]
    fn otherwise_the_greatest_wall_wins_with_the_counter_that_belongs_to_it() {
        assert_eq!(next(100, (100, 7), Some((99, 9))), (100, 8));
        assert_eq!(next(100, (90, 7), Some((100, 9))), (100, 10));
        assert_eq!(next(100, (120, 7), Some((110, 9))), (120, 8));
        assert_eq!(next(100, (120, 7), Some((130, 9))), (130, 10));
        assert_eq!(next(100, (120, 7), Some((120, 9))), (120, 10));
        assert_eq!(next(100, (120, 9), Some((120, 7))), (120, 10));
    }

    #[test]
    fn a_full_counter_moves_the_wall_on() {
        assert_eq!(
            next(100, (100, 0), Some((100, COUNTER_MAX - 1))),
            (100, COUNTER_MAX)
        );
        assert_eq!(next(100, (100, 0), Some((100, COUNTER_MAX))), (101, 1));
        assert_eq!(next(100, (100, u64::MAX), None), (101, 1));
        assert_eq!(next(100, (99, u64::MAX), None), (100, 1));
        assert_eq!(next(0, (WALL_MAX, u64::MAX), None), (WALL_MAX + 1, 1));
    }

    #[test]
    fn the_text_form_has_no_padding() {
        let version = Version {
            wall: 1_696_374_425_000,
            counter: 1,
        };
        assert_eq!(version.to_string(), "1696374425000:1:StateStore");
        assert_eq!(version.to_hlc().to_string(), version.to_string());
    }
}
