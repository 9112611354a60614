//! Tombstones: the last versions of keys that are gone.
//!
//! A key that comes back must get a version greater than all it ever had. Once the store's clock has passed the
//! wall of the last one, any new version is; until then it is remembered here. Most tombstones live for a
//! millisecond. Those of keys written by clients whose clocks are ahead live for up to a minute, so there is a
//! limit: beyond it the oldest are forgotten one by one, and their greatest version becomes a floor for every key
//! that is created while the clock has not passed it.

use std::collections::BTreeSet;

use imbl::OrdMap;

use crate::key::Key;
use crate::version::Version;

#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    pub(crate) versions: OrdMap<Key, Version>,
    pub(crate) floor: Option<Version>,
    by_version: BTreeSet<(Version, Key)>,
    bytes: usize,
}

impl Tombstones {
    /// Remembers the last version of a key that is gone.
    pub(crate) fn insert(&mut self, key: Key, version: Version, clock: u64) {
        self.forget_passed(clock, FORGOTTEN_PER_TOMBSTONE);
        self.bytes += key.len();
        self.by_version.insert((version, key.clone()));
        let replaced = self.versions.insert(key, version);
        assert!(replaced.is_none(), "a key that exists has no tombstone");
        while self.versions.len() > TOMBSTONES_MAX || self.bytes > TOMBSTONE_BYTES_MAX {
            let oldest = self.forget_first().expect("above a limit there is one");
            self.floor = self.floor.max(Some(oldest));
        }
    }

    /// What the first version of a key that does not exist must be greater than, if anything. The key's
    /// tombstone goes: it is about to exist.
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<Version> {
        if self.versions.is_empty() {
            return self.floor;
        }
        let Some((key, version)) = self.versions.remove_with_key(key) else {
            return self.floor;
        };
        self.bytes -= key.len();
        let was_there = self.by_version.remove(&(version, key));
        assert!(was_there, "every tombstone is in the index");
        self.floor.max(Some(version))
    }

    /// Bytes of all keys.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The last version of a key that is gone, as far as it is remembered for itself.
    pub(crate) fn of(&self, key: &[u8]) -> Option<Version> {
        self.versions.get(key).copied()
    }

    /// Every key that is created from now on gets a greater version.
    pub(crate) fn raise_floor(&mut self, floor: Version, clock: u64) {
        if floor.wall >= clock {
            self.floor = self.floor.max(Some(floor));
        }
    }

    /// Forgets those that the clock has passed, the oldest first, at most `max`. Any new version is greater than
    /// one that the clock has passed, so it does no harm to keep it.
    pub(crate) fn forget_passed(&mut self, clock: u64, max: usize) {
        let is_passed = |version: Version| version.wall < clock;
        self.floor = self.floor.filter(|floor| !is_passed(*floor));
        for _ in 0..max {
            if !self
                .by_version
                .first()
                .is_some_and(|(version, _)| is_passed(*version))
            {
                break;
            }
            self.forget_first();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.versions.len()
    }

    fn forget_first(&mut self) -> Option<Version> {
        let (version, key) = self.by_version.pop_first()?;
        self.bytes -= key.len();
        self.versions.remove(&key);
        Some(version)
    }
}

impl PartialEq for Tombstones {
    fn eq(&self, other: &Self) -> bool {
        self.floor == other.floor && self.versions == other.versions
    }
}

/// How many tombstones are kept: a minute of 17,000 deletions a second, by clients whose clocks are a minute
/// ahead.
pub const TOMBSTONES_MAX: usize = 1 << 20;

/// How many bytes their keys may have together.
pub const TOMBSTONE_BYTES_MAX: usize = 64 << 20;

/// How many are forgotten when one comes, so that more go than come.
const FORGOTTEN_PER_TOMBSTONE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn version(wall: u64) -> Version {
        Version { wall, counter: 1 }
    }

    #[test]
    fn a_tombstone_is_forgotten_when_the_clock_has_passed_its_wall() {
        let mut tombstones = Tombstones::default();
        tombstones.insert(Key::new(b"a"), version(10), 0);
        tombstones.insert(Key::new(b"b"), version(20), 0);
        tombstones.forget_passed(10, 9);
        assert_eq!(tombstones.len(), 2);
        tombstones.forget_passed(11, 9);
        assert_eq!(tombstones.len(), 1);
        assert_eq!(tombstones.take(b"a"), None);
        assert_eq!(tombstones.take(b"b"), Some(version(20)));
        assert_eq!(tombstones, Tombstones::default());
    }

    #[test]
    fn forgetting_many_takes_several_steps_and_more_go_than_come() {
        let mut tombstones = Tombstones::default();
        for key in 1..=10 {
            tombstones.insert(Key::new(&[key]), version(10), 0);
        }
        tombstones.forget_passed(11, 4);
        assert_eq!(tombstones.len(), 6);
        tombstones.insert(Key::new(&[11]), version(20), 11);
        assert_eq!(tombstones.len(), 5);
    }

    #[test]
    fn beyond_the_limit_the_oldest_become_a_floor_for_all_keys() {
        let mut tombstones = Tombstones::default();
        let huge = |first: u8| [&[first][..], &vec![0; TOMBSTONE_BYTES_MAX / 2]].concat();
        tombstones.insert(Key::new(&huge(b'a')), version(10), 0);
        tombstones.insert(Key::new(&huge(b'b')), version(30), 0);
        assert_eq!(tombstones.len(), 1);
        assert_eq!(tombstones.take(b"another"), Some(version(10)));
        assert_eq!(tombstones.take(&huge(b'b')), Some(version(30)));
        tombstones.forget_passed(11, 9);
        assert_eq!(tombstones.take(b"another"), None);
        assert_eq!(tombstones, Tombstones::default());
    }
}
