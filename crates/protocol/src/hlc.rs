//! Hybrid logical clock timestamps as the state store protocol writes them: `wall:counter:node`.
//!
//! [`Hlc`] is one timestamp, [`HlcClock`] the clock of a client that stamps its requests. Neither reads a
//! clock: the wall time comes in as an argument. The timestamps of the *server* are made by the store, by the
//! rule of its versions, and not here.

use std::fmt;

use crate::text::Text;

/// A hybrid logical clock timestamp. Ordered by wall, then counter, then node (bytes).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hlc {
    /// Milliseconds since the Unix epoch.
    pub wall: u64,
    /// Orders timestamps of the same millisecond.
    pub counter: u64,
    /// Who made it; not empty.
    pub node: Text,
}

/// Why a text is no HLC timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HlcError {
    /// Fewer or more than three parts between colons.
    #[error("the timestamp does not have the three parts wall:counter:node")]
    Parts,
    /// Wall or counter is empty, has something else than digits, or does not fit 64 bits.
    #[error("the timestamp's wall or counter is not a decimal number of 64 bits")]
    Number,
    /// The node id is empty, contains U+0000, or is too long for a string of MQTT.
    #[error("the timestamp's node id is empty or not a string of MQTT")]
    Node,
}

impl Hlc {
    /// Parses `wall:counter:node`. Wall and counter are decimal of any width: clients pad them with zeros.
    pub fn parse(text: &str) -> Result<Self, HlcError> {
        let mut parts = text.split(':');
        let (Some(wall), Some(counter), Some(node), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(HlcError::Parts);
        };
        if node.is_empty() {
            return Err(HlcError::Node);
        }
        let node = Text::new(node).map_err(|_| HlcError::Node)?;
        Ok(Self {
            wall: decimal(wall)?,
            counter: decimal(counter)?,
            node,
        })
    }

    /// The same timestamp in memory of its own.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            wall: self.wall,
            counter: self.counter,
            node: self.node.detached(),
        }
    }
}

/// Digits only: no sign, no blank, nothing that [`str::parse`] would let through besides.
fn decimal(text: &str) -> Result<u64, HlcError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HlcError::Number);
    }
    text.parse().map_err(|_| HlcError::Number)
}

impl fmt::Display for Hlc {
    /// Writes the text form without padding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.wall, self.counter, self.node)
    }
}

/// The hybrid logical clock of a client: what it stamps its requests with (`__ts`).
///
/// Every timestamp is greater than all that this clock gave or observed before, with one exception: a clock
/// that ran ahead of the wall time by more than [`HlcClock::AHEAD_MAX_MS`] starts over from the wall time.
/// The server would refuse every request stamped by it, for as long as the wall time needs to catch up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HlcClock {
    node: Text,
    wall: u64,
    counter: u64,
}

impl HlcClock {
    /// How far ahead of the wall time the clock may be, in milliseconds: what the server accepts.
    pub const AHEAD_MAX_MS: u64 = 60_000;

    /// Counters stay below this, because one of the official clients reads them as 32-bit integers with a
    /// sign. Beyond, the wall moves on by a millisecond.
    pub const COUNTER_LIMIT: u64 = 1 << 31;

    /// A clock that has seen nothing. `node` is the client's name for itself in timestamps, `None` if it
    /// cannot be one: empty or with a colon.
    pub fn new(node: Text) -> Option<Self> {
        let is_node = !node.is_empty() && !node.contains(':');
        is_node.then_some(Self {
            node,
            wall: 0,
            counter: 0,
        })
    }

    /// The next timestamp. `wall_ms` is the wall time, in milliseconds since the Unix epoch.
    pub fn now(&mut self, wall_ms: u64) -> Hlc {
        let is_too_far_ahead = self.wall > wall_ms.saturating_add(Self::AHEAD_MAX_MS);
        if wall_ms > self.wall || is_too_far_ahead {
            self.wall = wall_ms;
            self.counter = 0;
        } else if self.counter + 1 < Self::COUNTER_LIMIT {
            self.counter += 1;
        } else {
            self.wall = self.wall.saturating_add(1);
            self.counter = 0;
        }
        Hlc {
            wall: self.wall,
            counter: self.counter,
            node: self.node.clone(),
        }
    }

    /// Takes note of a timestamp that somebody else made, so that the next one is greater.
    pub fn observe(&mut self, seen: &Hlc) {
        if (seen.wall, seen.counter) > (self.wall, self.counter) {
            self.wall = seen.wall;
            self.counter = seen.counter.min(Self::COUNTER_LIMIT - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hlc(text: &str) -> Hlc {
        Hlc::parse(text).unwrap()
    }

    #[test]
    fn decimal_of_any_width_is_read_and_written_without_padding() {
        assert_eq!(
            hlc("001696374425000:00001:StateStore").to_string(),
            "1696374425000:1:StateStore"
        );
        assert_eq!(hlc("0:0:x").to_string(), "0:0:x");
        assert_eq!(hlc("000000000000000000000000000007:0:x").wall, 7);
        assert_eq!(
            hlc("18446744073709551615:18446744073709551615:x").counter,
            u64::MAX
        );
    }

    #[test]
    fn a_timestamp_has_exactly_three_parts() {
        for text in ["", "1", "1:2", "1:2:x:y", "1:2:x:", ":::"] {
            assert_eq!(Hlc::parse(text), Err(HlcError::Parts), "{text}");
        }
    }

    #[test]
    fn wall_and_counter_are_digits_of_64_bits() {
        for text in [
            ":1:x", "1::x", "+1:1:x", "1:-1:x", " 1:1:x", "1:1 :x", "1.5:1:x", "٣:1:x",
        ] {
            assert_eq!(Hlc::parse(text), Err(HlcError::Number), "{text}");
        }
        assert_eq!(Hlc::parse("18446744073709551616:0:x"), Err(HlcError::Number));
    }

    #[test]
    fn the_node_is_not_empty() {
        assert_eq!(Hlc::parse("1:2:"), Err(HlcError::Node));
        assert_eq!(Hlc::parse("1:2:a\0b"), Err(HlcError::Node));
    }

    #[test]
    fn order_is_wall_then_counter_then_bytes_of_the_node() {
        let ordered = [
            "0:0:x", "9:10:a", "10:9:b", "10:10:A", "10:10:a", "10:10:ab", "10:10:é", "11:0:a",
        ];
        for pair in ordered.windows(2) {
            assert!(hlc(pair[0]) < hlc(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn a_clock_rises_while_the_wall_time_stands_or_falls() {
        let mut clock = HlcClock::new(Text::from_static("c")).unwrap();
        let given = [1_000, 1_000, 999, 1_001].map(|wall| clock.now(wall).to_string());
        assert_eq!(given, ["1000:0:c", "1000:1:c", "1000:2:c", "1001:0:c"]);
    }

    #[test]
    fn a_clock_is_ahead_of_what_it_observed() {
        let mut clock = HlcClock::new(Text::from_static("c")).unwrap();
        clock.observe(&hlc("5000:7:StateStore"));
        clock.observe(&hlc("4000:9:StateStore"));
        assert_eq!(clock.now(1_000).to_string(), "5000:8:c");
        assert_eq!(clock.now(6_000).to_string(), "6000:0:c");
    }

    #[test]
    fn a_clock_too_far_ahead_starts_over() {
        let mut clock = HlcClock::new(Text::from_static("c")).unwrap();
        clock.observe(&hlc("70000:7:StateStore"));
        assert_eq!(clock.now(10_000).to_string(), "70000:8:c");
        assert_eq!(clock.now(9_999).to_string(), "9999:0:c");
    }

    #[test]
    fn a_full_counter_moves_the_wall_on() {
        let mut clock = HlcClock::new(Text::from_static("c")).unwrap();
        clock.observe(&hlc("5000:18446744073709551615:x"));
        assert_eq!(clock.now(5_000).to_string(), "5001:0:c");
    }

    #[test]
    fn a_name_with_a_colon_or_none_is_no_node() {
        assert_eq!(HlcClock::new(Text::from_static("a:b")), None);
        assert_eq!(HlcClock::new(Text::default()), None);
    }
}
