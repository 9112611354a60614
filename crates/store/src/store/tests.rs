use protocol::state_store::Dialect;

use super::*;
use crate::command::{Origin, Watcher};
use crate::stamp::Stamp;

const ORIGIN: Origin = Origin {
    node: 1,
    incarnation: 1,
    request: 1,
};
const ALICE: Watcher = Watcher {
    node: 1,
    incarnation: 1,
    connection: 1,
};
const BOB: Watcher = Watcher {
    node: 1,
    incarnation: 1,
    connection: 2,
};

/// A store, and what its commands have told whom. Time moves by [`Story::at`].
#[derive(Default)]
struct Story {
    store: Store,
    effects: Vec<Effect>,
}

/// A SET in the words of the protocol; the timestamp is far behind unless it is given.
struct SetWords {
    key: &'static str,
    value: &'static str,
    condition: Condition,
    expires_in: Option<u64>,
    timestamp: &'static str,
    fencing: Option<&'static str>,
    retry: Option<u8>,
}

fn set(key: &'static str, value: &'static str) -> SetWords {
    SetWords {
        key,
        value,
        condition: Condition::None,
        expires_in: None,
        timestamp: "0:0:c",
        fencing: None,
        retry: None,
    }
}

impl SetWords {
    fn nx(self) -> Self {
        Self {
            condition: Condition::NotExists,
            ..self
        }
    }

    fn nex(self) -> Self {
        Self {
            condition: Condition::NotExistsOrEqual,
            ..self
        }
    }

    fn nex_to(self, value: &'static str) -> Self {
        Self {
            condition: Condition::NotExistsOrEqualTo(Bytes::from_static(value.as_bytes())),
            ..self
        }
    }

    fn px(self, milliseconds: u64) -> Self {
        Self {
            expires_in: Some(milliseconds),
            ..self
        }
    }

    fn ts(self, timestamp: &'static str) -> Self {
        Self { timestamp, ..self }
    }

    fn ft(self, token: &'static str) -> Self {
        Self {
            fencing: Some(token),
            ..self
        }
    }

    fn retry(self, hash: u8) -> Self {
        Self {
            retry: Some(hash),
            ..self
        }
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn hlc(text: &str) -> Hlc {
    Hlc::parse(text).unwrap()
}

fn retry_key(hash: u8) -> RetryKey {
    RetryKey {
        hash: [hash; 16],
        remembered: u64::MAX,
    }
}

fn version(wall: u64, counter: u32) -> Version {
    Version { wall, counter }
}

fn stored(wall: u64, counter: u32) -> Outcome {
    Outcome::Stored {
        version: version(wall, counter),
    }
}

impl Story {
    fn at(clock: u64) -> Self {
        let mut story = Self::default();
        story.store.begin(Stamp::first(clock));
        story
    }

    fn advance(&mut self, clock: u64) {
        self.store.begin(Stamp::first(clock));
    }

    fn apply(&mut self, action: CommandAction) -> Outcome {
        self.store.apply(
            Command {
                origin: ORIGIN,
                action,
            },
            &mut self.effects,
        )
    }

    fn set(&mut self, words: SetWords) -> Outcome {
        self.apply(CommandAction::Set {
            key: bytes(words.key),
            value: bytes(words.value),
            condition: words.condition,
            expires_in: words.expires_in,
            timestamp: hlc(words.timestamp),
            fencing: words.fencing.map(hlc),
            retry: words.retry.map(retry_key),
        })
    }

    fn delete(&mut self, key: &str, only_if: Option<&str>, token: Option<&str>) -> Outcome {
        self.apply(CommandAction::Delete {
            key: bytes(key),
            only_if: only_if.map(bytes),
            timestamp: None,
            fencing: token.map(hlc),
            retry: None,
        })
    }

    fn watch(&mut self, key: &str, watcher: Watcher, dialect: Dialect) -> Outcome {
        self.apply(CommandAction::Watch {
            key: bytes(key),
            watcher,
            dialect,
            retry: None,
        })
    }

    fn unwatch(&mut self, key: &str, watcher: Watcher, retry: Option<u8>) -> Outcome {
        self.apply(CommandAction::Unwatch {
            key: bytes(key),
            watcher,
            retry: retry.map(retry_key),
        })
    }

    fn expire(&mut self, keys: &[&str]) {
        let keys = keys.iter().map(|key| bytes(key)).collect();
        assert_eq!(self.apply(CommandAction::Expire { keys }), Outcome::Done);
    }

    fn limit(&mut self, keys_max: u64, bytes_max: u64) {
        self.apply(CommandAction::Configure {
            quota: Quota { keys_max, bytes_max },
        });
    }

    fn get(&self, key: &str) -> Option<(String, Version)> {
        let found = self.store.get(key.as_bytes(), self.store.stamp().time)?;
        Some((String::from_utf8(found.value.to_vec()).unwrap(), found.version))
    }

    /// What was told since the last call: `connection key=value version` or `connection key deleted version`.
    fn told(&mut self) -> Vec<String> {
        let tell = |effect| {
            let Effect::Changed {
                watcher,
                key,
                change,
                version,
                ..
            } = effect;
            let key = key.escape_ascii();
            let change = match change {
                Change::Set { value } => format!("{key}={}", value.escape_ascii()),
                Change::Delete => format!("{key} deleted"),
            };
            format!(
                "{} {change} {}:{}",
                watcher.connection, version.wall, version.counter
            )
        };
        self.effects.drain(..).map(tell).collect()
    }
}

#[test]
fn get_returns_exactly_what_the_set_returned() {
    let mut story = Story::at(100);
    assert_eq!(story.set(set("k", "v").ts("100:0:CLIENT")), stored(100, 1));
    assert_eq!(story.get("k"), Some(("v".into(), version(100, 1))));
    assert_eq!(story.get("other"), None);
    assert_eq!(story.set(set("k", "").ts("100:0:CLIENT")), stored(100, 2));
    assert_eq!(story.get("k"), Some((String::new(), version(100, 2))));
}

#[test]
fn a_version_is_greater_than_the_timestamp_and_moves_its_own_key_only() {
    let mut story = Story::at(100);
    assert_eq!(story.set(set("ahead", "v").ts("60100:7:c")), stored(60_100, 8));
    assert_eq!(story.set(set("other", "v").ts("99:9:c")), stored(100, 1));
    assert_eq!(story.set(set("ahead", "w").ts("100:0:c")), stored(60_100, 9));
    assert_eq!(story.store.stamp().clock, 100);
}

#[test]
fn no_version_is_beyond_what_was_given_also_after_a_snapshot() {
    let mut story = Story::at(100);
    assert_eq!(story.store.given_until(), 100);
    story.set(set("ahead", "v").ts("60100:7:c"));
    story.set(set("other", "v").ts("99:9:c"));
    assert_eq!(story.store.given_until(), 60_100);
    story.delete("ahead", None, None);
    let restored = Store::restore(story.store.image().into_chunks()).unwrap();
    assert_eq!(restored, story.store);
    assert_eq!(restored.given_until(), 60_100);
    story.advance(60_101);
    assert_eq!(story.store.given_until(), 60_101);
}

#[test]
fn the_counter_does_not_depend_on_other_keys() {
    let mut story = Story::at(100);
    for key in ["a", "b", "c"] {
        assert_eq!(story.set(set(key, "v").ts("100:0:c")), stored(100, 1));
    }
}

#[test]
fn a_leader_whose_clock_is_behind_does_not_turn_back_the_store() {
    let mut story = Story::at(100);
    story.advance(50);
    assert_eq!(story.store.stamp().clock, 100);
    assert_eq!(story.set(set("k", "v")), stored(100, 1));
}

#[test]
fn versions_rise_across_deletion_and_creation() {
    let mut story = Story::at(100);
    assert_eq!(story.set(set("k", "v").ts("500:3:c")), stored(500, 4));
    assert_eq!(
        story.delete("k", None, None),
        Outcome::Deleted {
            version: version(500, 4)
        }
    );
    assert_eq!(story.get("k"), None);
    // The deletion took 500:5.
    assert_eq!(story.set(set("k", "v").ts("100:0:c")), stored(500, 6));
    story.delete("k", None, None);
    assert_eq!(story.store.usage().tombstones, 1);
    story.advance(501);
    assert_eq!(story.store.usage().tombstones, 0);
    assert_eq!(story.set(set("k", "v")), stored(501, 1));
}

#[test]
fn nx_stores_only_what_does_not_exist() {
    let mut story = Story::at(100);
    assert_eq!(story.set(set("k", "v").nx()), stored(100, 1));
    let failed = Outcome::ConditionFailed {
        stored: version(100, 1),
    };
    assert_eq!(story.set(set("k", "v").nx()), failed);
    assert_eq!(story.get("k"), Some(("v".into(), version(100, 1))));
}

#[test]
fn nex_compares_with_the_value_being_set_and_renews() {
    let mut story = Story::at(100);
    assert_eq!(story.set(set("lock", "alice").nex().px(50)), stored(100, 1));
    assert_eq!(
        story.set(set("lock", "bob").nex().px(50)),
        Outcome::ConditionFailed {
            stored: version(100, 1)
        }
    );
    story.advance(140);
    assert_eq!(story.set(set("lock", "alice").nex().px(50)), stored(140, 1));
    assert_eq!(story.store.next_expiry(), Some(190));
}

#[test]
fn nex_with_a_value_compares_and_sets() {
    let mut story = Story::at(100);
    assert_eq!(story.set(set("k", "a").nex_to("x")), stored(100, 1));
    assert_eq!(
        story.set(set("k", "b").nex_to("b")),
        Outcome::ConditionFailed {
            stored: version(100, 1)
        }
    );
    assert_eq!(story.set(set("k", "b").nex_to("a")), stored(100, 2));
}

#[test]
fn vdel_deletes_only_the_given_value() {
    let mut story = Story::at(100);
    assert_eq!(story.delete("k", Some("v"), None), Outcome::Missing);
    story.set(set("k", "v"));
    assert_eq!(
        story.delete("k", Some("w"), None),
        Outcome::OtherValue {
            stored: version(100, 1)
        }
    );
    assert_eq!(
        story.delete("k", Some("v"), None),
        Outcome::Deleted {
            version: version(100, 1)
        }
    );
    assert_eq!(story.delete("k", Some("v"), None), Outcome::Missing);
}

#[test]
fn a_key_is_missing_from_its_deadline_on() {
    let mut story = Story::at(100);
    story.set(set("k", "v").px(50));
    assert!(story.store.get(b"k", 149).is_some());
    assert!(story.store.get(b"k", 150).is_none());
    assert_eq!(story.store.expired(149, 9), [&b""[..]; 0]);
    assert_eq!(story.store.expired(150, 9), [&b"k"[..]]);
    story.advance(150);
    assert!(
        story.store.get(b"k", 0).is_none(),
        "a reader whose clock is behind does not bring it back"
    );
    assert_eq!(story.delete("k", None, None), Outcome::Missing);
}

#[test]
fn a_set_without_px_clears_an_earlier_expiry() {
    let mut story = Story::at(100);
    story.set(set("k", "v").px(50));
    story.set(set("k", "v"));
    assert_eq!(story.store.next_expiry(), None);
    story.advance(1_000);
    story.expire(&["k"]);
    assert!(story.get("k").is_some());
}

#[test]
fn the_deadline_is_counted_in_group_time_whatever_the_version_is() {
    let mut story = Story::at(100);
    assert_eq!(story.set(set("k", "v").ts("130:0:c").px(50)), stored(130, 1));
    assert_eq!(story.store.next_expiry(), Some(150));
    // The wall clock jumps an hour ahead, and group time goes on.
    story.store.begin(Stamp {
        clock: 3_600_100,
        time: 149,
    });
    story.expire(&["k"]);
    assert!(story.get("k").is_some());
    story.set(set("later", "v").px(50));
    assert_eq!(
        story.store.details(b"later", 0).unwrap().deadline,
        Some(3_600_150)
    );
    story.store.begin(Stamp { clock: 0, time: 150 });
    story.expire(&["k"]);
    assert_eq!(story.get("k"), None);
    assert!(story.get("later").is_some());
}

#[test]
fn expiry_deletes_what_is_due_and_notifies_as_a_delete() {
    let mut story = Story::at(100);
    story.watch("k", ALICE, Dialect::Sdk);
    story.set(set("k", "v").px(50));
    story.set(set("later", "v").px(500));
    story.told();
    story.expire(&["k"]);
    assert_eq!(story.told(), [""; 0], "not due yet");
    story.advance(160);
    story.expire(&["k", "later", "never", "k"]);
    assert_eq!(story.told(), ["1 k deleted 160:1"]);
    assert_eq!(story.store.usage().keys, 1);
    assert_eq!(story.set(set("k", "w")), stored(160, 2));
}

#[test]
fn a_command_on_a_key_past_its_deadline_finds_it_expired_and_says_so() {
    let mut story = Story::at(100);
    story.watch("k", ALICE, Dialect::Sdk);
    story.set(set("k", "v").px(50).ft("7:0:x"));
    story.advance(150);
    story.told();
    // Neither the condition nor the fencing token of the expired key counts.
    assert_eq!(story.set(set("k", "w").nx()), stored(150, 2));
    assert_eq!(story.told(), ["1 k deleted 150:1", "1 k=w 150:2"]);
}

#[test]
fn a_fenced_key_refuses_older_tokens_and_keeps_the_newer() {
    let mut story = Story::at(100);
    story.set(set("k", "a"));
    assert_eq!(story.set(set("k", "b").ft("5:1:s")), stored(100, 2));
    let required = Outcome::Refused(Refusal::FencingTokenRequired);
    let lower = Outcome::Refused(Refusal::FencingTokenLower);
    assert_eq!(story.set(set("k", "c")), required);
    assert_eq!(story.set(set("k", "c").ft("5:0:s")), lower);
    assert_eq!(story.set(set("k", "c").ft("0:0:x")), lower);
    assert_eq!(story.set(set("k", "c").ft("5:1:s")), stored(100, 3));
    assert_eq!(story.set(set("k", "d").ft("6:0:s")), stored(100, 4));
    assert_eq!(story.set(set("k", "e").ft("5:9:s")), lower);
    assert_eq!(story.get("k"), Some(("d".into(), version(100, 4))));
}

#[test]
fn deleting_a_fenced_key_takes_its_token_along() {
    let mut story = Story::at(100);
    story.set(set("k", "v").ft("5:1:s"));
    assert_eq!(
        story.delete("k", None, None),
        Outcome::Refused(Refusal::FencingTokenRequired)
    );
    assert_eq!(
        story.delete("k", Some("v"), Some("5:0:s")),
        Outcome::Refused(Refusal::FencingTokenLower)
    );
    // Fencing is checked before the value.
    assert_eq!(
        story.delete("k", Some("w"), Some("5:0:s")),
        Outcome::Refused(Refusal::FencingTokenLower)
    );
    assert_eq!(
        story.delete("k", Some("w"), Some("5:1:s")),
        Outcome::OtherValue {
            stored: version(100, 1)
        }
    );
    assert_eq!(
        story.delete("k", None, Some("9:0:s")),
        Outcome::Deleted {
            version: version(100, 1)
        }
    );
    assert_eq!(story.set(set("k", "v")), stored(100, 3));
}

#[test]
fn a_condition_that_fails_leaves_the_fencing_token_as_it_is() {
    let mut story = Story::at(100);
    story.set(set("k", "v").ft("5:0:s"));
    assert_eq!(
        story.set(set("k", "v").nx().ft("9:0:s")),
        Outcome::ConditionFailed {
            stored: version(100, 1)
        }
    );
    assert_eq!(story.set(set("k", "v").ft("5:0:s")), stored(100, 2));
}

#[test]
fn fencing_comes_before_the_condition_and_the_condition_before_the_quota() {
    let mut story = Story::at(100);
    story.set(set("k", "v").ft("5:0:s"));
    story.limit(1, 2);
    assert_eq!(
        story.set(set("k", "long").nx()),
        Outcome::Refused(Refusal::FencingTokenRequired)
    );
    assert_eq!(
        story.set(set("k", "long").nx().ft("5:0:s")),
        Outcome::ConditionFailed {
            stored: version(100, 1)
        }
    );
    assert_eq!(
        story.set(set("k", "long").ft("5:0:s")),
        Outcome::Refused(Refusal::QuotaExceeded)
    );
}

#[test]
fn the_quota_of_keys_refuses_new_ones_only() {
    let mut story = Story::at(100);
    story.limit(1, u64::MAX);
    assert_eq!(story.set(set("a", "v")), stored(100, 1));
    assert_eq!(story.set(set("b", "v")), Outcome::Refused(Refusal::QuotaExceeded));
    assert_eq!(story.set(set("a", "longer")), stored(100, 2));
    story.delete("a", None, None);
    assert_eq!(story.set(set("b", "v")), stored(100, 1));
}

#[test]
fn the_quota_of_bytes_counts_keys_values_and_tokens() {
    let mut story = Story::at(100);
    story.limit(u64::MAX, 10);
    assert_eq!(story.set(set("key", "1234567")), stored(100, 1));
    assert_eq!(story.store.usage().bytes, 10);
    assert_eq!(
        story.set(set("key", "12345678")),
        Outcome::Refused(Refusal::QuotaExceeded)
    );
    assert_eq!(
        story.set(set("key", "1234567").ft("1:1:x")),
        Outcome::Refused(Refusal::QuotaExceeded)
    );
    assert_eq!(story.set(set("key", "123").ft("1:1:node")), stored(100, 2));
    assert_eq!(story.store.usage().bytes, 10);
    story.limit(u64::MAX, 5);
    assert_eq!(
        story.set(set("key", "12").ft("1:1:node")),
        stored(100, 3),
        "a smaller store is welcome"
    );
    story.delete("key", None, Some("1:1:node"));
    assert_eq!(story.store.usage().bytes, 0);
}

#[test]
fn a_key_that_has_expired_does_not_count_once_it_is_written_to() {
    let mut story = Story::at(100);
    story.limit(1, u64::MAX);
    story.set(set("k", "v").px(10));
    story.advance(110);
    assert_eq!(story.set(set("k", "w")), stored(110, 2));
}

#[test]
fn all_who_watch_a_key_are_told_of_each_change_once_and_in_order() {
    let mut story = Story::at(100);
    assert_eq!(story.watch("k", ALICE, Dialect::Sdk), Outcome::Watching);
    assert_eq!(story.watch("k", BOB, Dialect::Published), Outcome::Watching);
    assert_eq!(story.watch("k", ALICE, Dialect::Sdk), Outcome::Watching);
    story.set(set("other", "v"));
    story.set(set("k", "v"));
    story.set(set("k", "w").nx());
    story.delete("k", Some("x"), None);
    story.delete("k", Some("v"), None);
    assert_eq!(
        story.told(),
        [
            "1 k=v 100:1",
            "2 k=v 100:1",
            "1 k deleted 100:2",
            "2 k deleted 100:2"
        ]
    );
}

#[test]
fn effects_carry_the_dialect_of_the_registration() {
    let mut story = Story::at(100);
    story.watch("k", ALICE, Dialect::Published);
    story.set(set("k", "v"));
    assert!(matches!(
        story.effects[..],
        [Effect::Changed {
            dialect: Dialect::Published,
            ..
        }]
    ));
}

#[test]
fn nothing_is_told_after_stop_or_after_the_connection_has_ended() {
    let mut story = Story::at(100);
    for watcher in [ALICE, BOB] {
        story.watch("k", watcher, Dialect::Sdk);
    }
    assert_eq!(story.unwatch("k", ALICE, None), Outcome::Unwatched);
    assert_eq!(story.unwatch("k", ALICE, None), Outcome::NotWatched);
    assert_eq!(
        story.apply(CommandAction::EndWatches { watcher: BOB }),
        Outcome::Done
    );
    story.set(set("k", "v"));
    assert_eq!(story.told(), [""; 0]);
}

#[test]
fn a_restarted_node_ends_the_watches_of_its_earlier_lives() {
    let mut story = Story::at(100);
    story.watch("k", ALICE, Dialect::Sdk);
    story.watch(
        "k",
        Watcher {
            incarnation: 2,
            ..BOB
        },
        Dialect::Sdk,
    );
    assert_eq!(
        story.apply(CommandAction::EndIncarnations { node: 1, below: 2 }),
        Outcome::Done
    );
    story.set(set("k", "v"));
    assert_eq!(story.told(), ["2 k=v 100:1"]);
}

#[test]
fn a_retried_request_is_answered_and_not_executed_again() {
    let mut story = Story::at(100);
    story.watch("k", ALICE, Dialect::Sdk);
    assert_eq!(story.set(set("k", "v").nx().retry(1)), stored(100, 1));
    story.set(set("k", "w"));
    story.told();
    assert_eq!(story.set(set("k", "v").nx().retry(1)), stored(100, 1));
    assert_eq!(story.get("k"), Some(("w".into(), version(100, 2))));
    assert_eq!(story.told(), [""; 0]);
    assert_eq!(
        story.set(set("k", "v").nx().retry(2)),
        Outcome::ConditionFailed {
            stored: version(100, 2)
        }
    );
}

#[test]
fn a_refusal_is_remembered_too() {
    let mut story = Story::at(100);
    story.limit(0, 0);
    assert_eq!(
        story.set(set("k", "v").retry(1)),
        Outcome::Refused(Refusal::QuotaExceeded)
    );
    story.limit(9, 9);
    assert_eq!(
        story.set(set("k", "v").retry(1)),
        Outcome::Refused(Refusal::QuotaExceeded)
    );
}

#[test]
fn an_outcome_is_remembered_for_an_hour_at_most() {
    let mut story = Story::at(100);
    story.set(set("k", "v").retry(1));
    story.advance(99 + RetryKey::REMEMBERED_MAX_MS);
    assert_eq!(story.set(set("k", "v").retry(1)), stored(100, 1));
    story.advance(100 + RetryKey::REMEMBERED_MAX_MS);
    assert_eq!(story.store.usage().replies_remembered, 0);
    assert_eq!(
        story.set(set("k", "v").retry(1)),
        stored(100 + RetryKey::REMEMBERED_MAX_MS, 1)
    );
}

#[test]
fn a_retried_stop_ends_the_registration_of_the_new_connection_too() {
    let mut story = Story::at(100);
    story.watch("k", ALICE, Dialect::Sdk);
    assert_eq!(story.unwatch("k", ALICE, Some(1)), Outcome::Unwatched);
    // The replies were lost with the connection; both requests come again on a new one.
    story.watch("k", BOB, Dialect::Sdk);
    assert_eq!(story.unwatch("k", BOB, Some(1)), Outcome::Unwatched);
    story.set(set("k", "v"));
    assert_eq!(story.told(), [""; 0]);
}

#[test]
fn a_stored_value_does_not_keep_the_memory_of_the_entry() {
    let mut story = Story::at(100);
    let entry = Bytes::from(b"key value".to_vec());
    story.apply(CommandAction::Set {
        key: entry.slice(..3),
        value: entry.slice(4..),
        condition: Condition::None,
        expires_in: None,
        timestamp: hlc("0:0:c"),
        fencing: None,
        retry: None,
    });
    assert!(entry.is_unique());
}

#[test]
fn a_large_value_is_kept_where_it_is_and_a_small_one_is_copied() {
    for (length, is_shared) in [(KEPT_MIN, true), (KEPT_MIN - 1, false)] {
        let (mut story, value) = (Story::at(1_000), Bytes::from(vec![7; length]));
        story.apply(CommandAction::Set {
            key: bytes("key"),
            value: value.clone(),
            condition: Condition::None,
            expires_in: None,
            timestamp: hlc("1:0:a"),
            fencing: None,
            retry: None,
        });
        let found = story.store.get(b"key", 0).unwrap().value;
        assert_eq!(found, value);
        assert_eq!(found.as_ptr() == value.as_ptr(), is_shared);
    }
}
