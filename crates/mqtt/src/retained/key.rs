//! Topic names as keys that sort level by level.

use std::borrow::Borrow;

/// A topic name in which the level separator is the byte 0, which no topic name contains [MQTT-4.7.3-2] and which is
/// lower than any other.
///
/// So `a/b` stands before `a!`, as a topic below `a` should, and everything below a level is one range.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(Box<[u8]>);

impl Key {
    /// The key of a topic name.
    pub(super) fn of(topic: &str) -> Self {
        Self(
            topic
                .bytes()
                .map(|byte| if byte == b'/' { SEPARATOR } else { byte })
                .collect(),
        )
    }

    /// The levels of the topic name.
    pub(super) fn levels(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == SEPARATOR)
    }

    /// The key's bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Stands between two levels.
pub(super) const SEPARATOR: u8 = 0;
