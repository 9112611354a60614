//! What watchers are told when a store takes the place of an older one: a replica that was too far behind for its log got a snapshot.
//!
//! Each key that somebody watches and that is not as it was is reported once, as it is. What happened to it in between is
//! not known any more.

use crate::command::{Change, CommandAction, Effect, Watcher};
use crate::retry::RetryKey;
use crate::store::Store;
use crate::version::{COUNTER_MAX, Version};

impl Store {
    /// The changes since `before` of the keys that were watched there by connections of this run of a node.
    pub fn changes_since(&self, before: &Self, node: u64, incarnation: u32) -> Vec<Effect> {
        let watched = before.watches.of_run(node, incarnation);
        let changed = watched.filter_map(|(watcher, dialect, key)| {
            let (change, version) = self.change_of(before, key)?;
            Some(Effect::Changed {
                watcher,
                dialect,
                key: bytes::Bytes::copy_from_slice(key),
                change,
                version,
            })
        });
        changed.collect()
    }

    /// Whether a client's command may have been executed since `before` without it being known any more: sent again, it
    /// might be executed twice.
    pub fn may_have_forgotten(&self, before: &Self, action: &CommandAction) -> bool {
        let retry = match action {
            CommandAction::Set { retry, .. }
            | CommandAction::Delete { retry, .. }
            | CommandAction::Unwatch { retry, .. } => retry.as_ref(),
            // What is registered twice is registered once; the rest is nobody's request.
            _ => None,
        };
        let has_dropped = self.replies.dropped > before.replies.dropped;
        // It was executed after that moment, if at all.
        let passed = self.stamp.time - before.stamp.time.min(self.stamp.time);
        retry.is_some_and(|retry| {
            let is_over = retry.remembered.min(RetryKey::REMEMBERED_MAX_MS) <= passed;
            !self.remembers(retry) && (has_dropped || is_over)
        })
    }

    fn change_of(&self, before: &Self, key: &[u8]) -> Option<(Change, Version)> {
        let (old, new) = (before.keys.get(key), self.keys.get(key));
        if let Some(new) = new {
            let is_same = old.is_some_and(|old| old.digest == new.digest);
            let value = new.value.clone();
            return (!is_same).then_some((Change::Set { value }, new.version));
        }
        let tombstone = self.tombstones.versions.get(key).copied();
        match (old, tombstone) {
            (Some(_), Some(version)) => Some((Change::Delete, version)),
            (Some(_), None) => Some((Change::Delete, self.latest_forgotten())),
            // It may have come and gone.
            (None, Some(version)) => {
                let is_new = before.tombstones.versions.get(key) != Some(&version);
                is_new.then_some((Change::Delete, version))
            }
            (None, None) => None,
        }
    }

    /// The greatest version that a deletion may have had which is not remembered; less than any that follows.
    fn latest_forgotten(&self) -> Version {
        let passed = Version {
            wall: self.stamp.clock.saturating_sub(1),
            counter: COUNTER_MAX,
        };
        self.tombstones.floor.map_or(passed, |floor| floor.max(passed))
    }
}

/// The registrations of one run of a node, in the order of its connections.
impl crate::watch::Watches {
    pub(crate) fn of_run(
        &self,
        node: u64,
        incarnation: u32,
    ) -> impl Iterator<Item = (Watcher, protocol::state_store::Dialect, &[u8])> {
        let watcher = |connection| Watcher {
            node,
            incarnation,
            connection,
        };
        let run = self.watchers_between(watcher(0), watcher(u64::MAX));
        run.flat_map(move |watcher| {
            let keys = self.by(watcher);
            keys.filter_map(move |key| Some((watcher, *self.by_key.get(key)?.get(&watcher)?, key)))
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use protocol::Hlc;
    use protocol::state_store::{Condition, Dialect};

    use super::*;
    use crate::command::{Command, Origin};
    use crate::retry::RetryKey;
    use crate::stamp::Stamp;

    const OWN: Watcher = Watcher {
        node: 1,
        incarnation: 2,
        connection: 3,
    };

    fn apply(store: &mut Store, action: CommandAction) {
        let origin = Origin {
            node: 1,
            incarnation: 2,
            request: 0,
        };
        store.apply(Command { origin, action }, &mut Vec::new());
    }

    fn set(store: &mut Store, key: &'static str, value: &'static str) {
        let action = CommandAction::Set {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
            condition: Condition::None,
            expires_in: None,
            timestamp: Hlc::parse("1:0:client").unwrap(),
            fencing: None,
            retry: None,
        };
        apply(store, action);
    }

    fn delete(store: &mut Store, key: &'static str) {
        let action = CommandAction::Delete {
            key: Bytes::from_static(key.as_bytes()),
            only_if: None,
            timestamp: None,
            fencing: None,
            retry: None,
        };
        apply(store, action);
    }

    /// Some keys, all of them watched from here and from elsewhere.
    fn before() -> Store {
        let mut store = Store::new();
        store.begin(Stamp::first(100));
        for key in ["changed", "deleted", "same", "again"] {
            set(&mut store, key, "old");
        }
        for key in ["changed", "deleted", "same", "again", "never", "new", "gone"] {
            for watcher in [OWN, Watcher { node: 9, ..OWN }] {
                let action = CommandAction::Watch {
                    key: Bytes::from_static(key.as_bytes()),
                    watcher,
                    dialect: Dialect::Sdk,
                    retry: None,
                };
                apply(&mut store, action);
            }
        }
        store
    }

    fn changes(after: &Store, before: &Store) -> Vec<(String, Change, Version)> {
        let changes = after.changes_since(before, OWN.node, OWN.incarnation);
        let named = changes.into_iter().map(|effect| {
            let Effect::Changed {
                watcher,
                key,
                change,
                version,
                ..
            } = effect;
            assert_eq!(watcher, OWN);
            (String::from_utf8(key.to_vec()).unwrap(), change, version)
        });
        named.collect()
    }

    #[test]
    fn each_watched_key_that_is_another_is_reported_once_as_it_is() {
        let before = before();
        let mut after = before.clone();
        after.begin(Stamp::first(200));
        for value in ["between", "last"] {
            set(&mut after, "changed", value);
            set(&mut after, "unwatched", value);
        }
        delete(&mut after, "deleted");
        delete(&mut after, "again");
        set(&mut after, "again", "old");
        set(&mut after, "new", "new");
        set(&mut after, "gone", "gone");
        delete(&mut after, "gone");

        let found = changes(&after, &before);
        let names: Vec<_> = found.iter().map(|(key, _, _)| key.as_str()).collect();
        assert_eq!(names, ["again", "changed", "deleted", "gone", "new"]);
        let value = Bytes::from_static(b"last");
        assert_eq!(found[1].1, Change::Set { value });
        assert_eq!(found[2].1, Change::Delete);
        assert_eq!(found[3].1, Change::Delete);
        assert_eq!(changes(&after, &after), []);
    }

    #[test]
    fn only_what_cannot_be_known_is_in_doubt() {
        let before = before();
        let mut after = before.clone();
        after.begin(Stamp::first(200));
        let action = |hash: u8, remembered| CommandAction::Delete {
            key: Bytes::from_static(b"same"),
            only_if: None,
            timestamp: None,
            fencing: None,
            retry: Some(RetryKey {
                hash: [hash; 16],
                remembered,
            }),
        };
        apply(&mut after, action(1, 200));
        assert!(!after.may_have_forgotten(&before, &action(1, 200)), "remembered");
        assert!(
            !after.may_have_forgotten(&before, &action(2, 200)),
            "not executed"
        );
        assert!(
            after.may_have_forgotten(&before, &action(3, 100)),
            "its time is over"
        );
    }

    #[test]
    fn a_deletion_that_is_forgotten_has_a_version_between_those_around_it() {
        let before = before();
        let mut after = before.clone();
        after.begin(Stamp::first(200));
        delete(&mut after, "deleted");
        after.begin(Stamp::first(300));
        let found = changes(&after, &before);
        let mut later = after.clone();
        set(&mut later, "deleted", "back");
        let next = changes(&later, &after);
        assert!(before.get(b"deleted", 0).unwrap().version < found[0].2);
        assert!(found[0].2 < next[0].2, "{found:?} {next:?}");
    }
}
