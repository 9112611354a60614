//! Registrations for the changes of keys.

use std::collections::{BTreeMap, BTreeSet};

use imbl::OrdMap;
use protocol::state_store::Dialect;

use crate::command::{Refusal, Watcher};
use crate::key::Key;

/// Which connections watch which keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watches {
    pub(crate) by_key: OrdMap<Key, OrdMap<Watcher, Dialect>>,
    by_watcher: BTreeMap<Watcher, Watched>,
    count: usize,
    /// Bytes of the keys, each once for each connection that watches it.
    bytes: usize,
}

/// What one connection watches.
#[derive(Debug, Clone, Default)]
struct Watched {
    keys: BTreeSet<Key>,
    bytes: usize,
}

impl Watches {
    /// Registers a connection. If it already watches the key, only the dialect may change.
    pub(crate) fn watch(&mut self, key: &[u8], watcher: Watcher, dialect: Dialect) -> Result<(), Refusal> {
        let watched = self.by_watcher.entry(watcher).or_default();
        let key = Key::new(key);
        if !watched.keys.contains(&key) {
            let is_full = watched.keys.len() == WATCHES_PER_WATCHER_MAX
                || watched.bytes + key.len() > WATCHED_BYTES_PER_WATCHER_MAX;
            if is_full {
                if watched.keys.is_empty() {
                    self.by_watcher.remove(&watcher);
                }
                return Err(Refusal::QuotaExceeded);
            }
            watched.bytes += key.len();
            watched.keys.insert(key.clone());
            self.count += 1;
            self.bytes += key.len();
        }
        self.by_key.entry(key).or_default().insert(watcher, dialect);
        Ok(())
    }

    /// Ends a registration. False if there was none.
    pub(crate) fn unwatch(&mut self, key: &[u8], watcher: Watcher) -> bool {
        let Some(watched) = self.by_watcher.get_mut(&watcher) else {
            return false;
        };
        if !watched.keys.remove(key) {
            return false;
        }
        watched.bytes -= key.len();
        if watched.keys.is_empty() {
            self.by_watcher.remove(&watcher);
        }
        self.remove_from_key(key, watcher);
        true
    }

    /// Ends all registrations of a connection, at a cost that depends on their number alone.
    pub(crate) fn end(&mut self, watcher: Watcher) {
        let Some(watched) = self.by_watcher.remove(&watcher) else {
            return;
        };
        for key in &watched.keys {
            self.remove_from_key(key.as_slice(), watcher);
        }
    }

    /// Ends all registrations of a node's connections in its incarnations below this one.
    pub(crate) fn end_incarnations(&mut self, node: u64, below: u32) {
        let first = Watcher {
            node,
            incarnation: 0,
            connection: 0,
        };
        let end = Watcher {
            node,
            incarnation: below,
            connection: 0,
        };
        let ended: Vec<Watcher> = self
            .by_watcher
            .range(first..end)
            .map(|(watcher, _)| *watcher)
            .collect();
        for watcher in ended {
            self.end(watcher);
        }
    }

    /// Whether a connection of this node watches a key.
    pub(crate) fn has_any_of(&self, node: u64) -> bool {
        let first = Watcher {
            node,
            incarnation: 0,
            connection: 0,
        };
        let mut watchers = self.by_watcher.range(first..);
        watchers.next().is_some_and(|(watcher, _)| watcher.node == node)
    }

    /// Who watches a key.
    pub(crate) fn of(&self, key: &[u8]) -> impl Iterator<Item = (Watcher, Dialect)> {
        // Most stores have no watches: spare them the search.
        let watchers = if self.count == 0 {
            None
        } else {
            self.by_key.get(key)
        };
        watchers
            .into_iter()
            .flatten()
            .map(|(watcher, dialect)| (*watcher, *dialect))
    }

    /// Which keys a connection watches.
    pub(crate) fn by(&self, watcher: Watcher) -> impl Iterator<Item = &[u8]> {
        let watched = self.by_watcher.get(&watcher);
        watched
            .into_iter()
            .flat_map(|watched| watched.keys.iter().map(|key| key.as_slice()))
    }

    /// The connections from one to another that watch anything.
    pub(crate) fn watchers_between(&self, from: Watcher, to: Watcher) -> impl Iterator<Item = Watcher> {
        self.by_watcher.range(from..=to).map(|(watcher, _)| *watcher)
    }

    /// How many registrations there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes of their keys.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove_from_key(&mut self, key: &[u8], watcher: Watcher) {
        let watchers = self.by_key.get_mut(key).expect("a watched key has watchers");
        let removed = watchers.remove(&watcher);
        assert!(removed.is_some(), "both directions hold the same registrations");
        if watchers.is_empty() {
            self.by_key.remove(key);
        }
        self.count -= 1;
        self.bytes -= key.len();
    }
}

impl PartialEq for Watches {
    fn eq(&self, other: &Self) -> bool {
        self.by_key == other.by_key
    }
}

/// How many keys one connection may watch.
pub const WATCHES_PER_WATCHER_MAX: usize = 1 << 14;

/// How many bytes the keys that one connection watches may have together.
pub const WATCHED_BYTES_PER_WATCHER_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const SDK: Dialect = Dialect::Sdk;

    fn watcher(node: u64, incarnation: u32, connection: u64) -> Watcher {
        Watcher {
            node,
            incarnation,
            connection,
        }
    }

    fn watchers(watches: &Watches, key: &[u8]) -> Vec<u64> {
        watches.of(key).map(|(watcher, _)| watcher.connection).collect()
    }

    #[test]
    fn several_connections_may_watch_a_key_and_each_once() {
        let mut watches = Watches::default();
        for connection in [2, 1, 2] {
            watches.watch(b"k", watcher(1, 1, connection), SDK).unwrap();
        }
        assert_eq!((watchers(&watches, b"k"), watches.len()), (vec![1, 2], 2));
        watches.watch(b"k", watcher(1, 1, 1), Dialect::Published).unwrap();
        assert_eq!(
            watches.of(b"k").next(),
            Some((watcher(1, 1, 1), Dialect::Published))
        );
    }

    #[test]
    fn unwatch_ends_one_registration() {
        let mut watches = Watches::default();
        watches.watch(b"k", watcher(1, 1, 1), SDK).unwrap();
        assert!(!watches.unwatch(b"other", watcher(1, 1, 1)));
        assert!(!watches.unwatch(b"k", watcher(1, 1, 2)));
        assert!(watches.unwatch(b"k", watcher(1, 1, 1)));
        assert!(!watches.unwatch(b"k", watcher(1, 1, 1)));
        assert!(watches.by_key.is_empty() && watches.by_watcher.is_empty());
    }

    #[test]
    fn a_connection_that_ends_takes_its_registrations_along() {
        let mut watches = Watches::default();
        for key in [b"a", b"b"] {
            watches.watch(key, watcher(1, 1, 1), SDK).unwrap();
            watches.watch(key, watcher(1, 1, 2), SDK).unwrap();
        }
        watches.end(watcher(1, 1, 1));
        watches.end(watcher(1, 1, 1));
        assert_eq!((watchers(&watches, b"a"), watches.len()), (vec![2], 2));
    }

    #[test]
    fn a_node_that_starts_anew_ends_those_of_its_earlier_lives() {
        let mut watches = Watches::default();
        for (connection, (node, incarnation)) in (1..).zip([(1, 0), (1, 3), (1, 4), (1, 5), (2, 1)]) {
            watches
                .watch(b"k", watcher(node, incarnation, connection), SDK)
                .unwrap();
        }
        watches.end_incarnations(1, 4);
        assert_eq!(watchers(&watches, b"k"), [3, 4, 5]);
    }

    #[test]
    fn a_connection_may_watch_so_many_keys_and_no_more() {
        let mut watches = Watches::default();
        for number in 0..WATCHES_PER_WATCHER_MAX as u64 {
            watches
                .watch(&number.to_be_bytes(), watcher(1, 1, 1), SDK)
                .unwrap();
        }
        assert_eq!(
            watches.watch(b"k", watcher(1, 1, 1), SDK),
            Err(Refusal::QuotaExceeded)
        );
        assert_eq!(watches.watch(&0_u64.to_be_bytes(), watcher(1, 1, 1), SDK), Ok(()));
        assert_eq!(watches.watch(b"k", watcher(1, 1, 2), SDK), Ok(()));
    }

    #[test]
    fn a_connection_may_watch_so_many_bytes_and_no_more() {
        let mut watches = Watches::default();
        let too_long = vec![0; WATCHED_BYTES_PER_WATCHER_MAX + 1];
        assert_eq!(
            watches.watch(&too_long, watcher(1, 1, 1), SDK),
            Err(Refusal::QuotaExceeded)
        );
        assert!(watches.by_watcher.is_empty());
        assert_eq!(watches.watch(&too_long[1..], watcher(1, 1, 1), SDK), Ok(()));
        assert_eq!(
            watches.watch(b"k", watcher(1, 1, 1), SDK),
            Err(Refusal::QuotaExceeded)
        );
    }
}
