//! Random histories: the store and the model must agree about everything, after every command.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use protocol::{Hlc, Text};
use store::{
    Command, CommandAction, Condition, Dialect, EntryBuilder, Glob, Image, Origin, Outcome, Quota, RetryKey,
    ScanLimits, Store, Version, Watcher, decode_entry,
};

use crate::model::{Model, told};

/// One step of a history. Times are relative to the model's clock, so that interesting coincidences happen.
#[derive(Debug, Clone)]
enum Step {
    /// A new log entry begins, its clock this many milliseconds ahead of or behind the last one.
    Entry {
        advance: i64,
        /// By how much more, or less, group time advances than the wall clock.
        drift: i64,
    },
    Set(SetStep),
    Delete {
        key: usize,
        only_if: Option<usize>,
        timestamp: Option<Stamp>,
        token: Option<usize>,
        retry: Retry,
    },
    Watch {
        key: usize,
        watcher: usize,
        dialect: Dialect,
    },
    Unwatch {
        key: usize,
        watcher: usize,
        retry: Retry,
    },
    EndWatches {
        watcher: usize,
    },
    EndIncarnations {
        node: u64,
        below: u32,
    },
    /// What the leader finds due.
    ExpireDue {
        max: usize,
    },
    /// Whatever somebody thinks is due.
    ExpireAny {
        keys: Vec<usize>,
    },
    Configure {
        keys_max: u64,
        bytes_max: u64,
    },
    /// The replica stops and comes back from a snapshot.
    Restart,
    /// A snapshot begins, and is compared at the end.
    Freeze,
}

#[derive(Debug, Clone)]
struct SetStep {
    key: usize,
    value: usize,
    condition: Condition,
    expires_in: Option<u64>,
    timestamp: Stamp,
    token: Option<usize>,
    retry: Retry,
}

/// A timestamp: its wall relative to the clock, and its counter.
type Stamp = (i64, u64);

/// Which remembered request this is a retry of, and for how long it is remembered.
type Retry = Option<(u8, u64)>;

const KEYS: [&[u8]; 5] = [
    b"a",
    b"b",
    b"\xff",
    b"a key that does not fit where short keys lie",
    b"c",
];
const VALUES: [&[u8]; 4] = [b"", b"x", b"y", b"a longer value"];
const TOKENS: [&str; 6] = [
    "0:0:x",
    "5:1:a",
    "5:1:b",
    "5:2:a",
    "6:0:aa",
    "1700000000000:7:StateStore",
];
const WATCHERS: [Watcher; 4] = [
    Watcher {
        node: 1,
        incarnation: 1,
        connection: 1,
    },
    Watcher {
        node: 1,
        incarnation: 1,
        connection: 2,
    },
    Watcher {
        node: 1,
        incarnation: 2,
        connection: 1,
    },
    Watcher {
        node: 2,
        incarnation: 1,
        connection: 1,
    },
];

fn stamp() -> impl Strategy<Value = Stamp> {
    let wall = prop_oneof![4 => -3_i64..=3, 1 => -100_000_i64..=60_000];
    let counter = prop_oneof![6 => 0_u64..4, 1 => (1_u64 << 31) - 3..=(1 << 31), 1 => Just(u64::MAX)];
    (wall, counter)
}

fn retry() -> impl Strategy<Value = Retry> {
    prop::option::weighted(0.3, (0_u8..6, prop_oneof![0_u64..200, Just(100_000)]))
}

fn set() -> impl Strategy<Value = Step> {
    let value = 0..VALUES.len();
    let condition = prop_oneof![
        4 => Just(Condition::None),
        2 => Just(Condition::NotExists),
        2 => Just(Condition::NotExistsOrEqual),
        2 => value.clone().prop_map(|value| Condition::NotExistsOrEqualTo(Bytes::from_static(VALUES[value]))),
    ];
    let expires_in = prop::option::of(prop_oneof![1_u64..4, 1_u64..200, Just(1 << 53)]);
    let token = prop::option::weighted(0.25, 0..TOKENS.len());
    let fields = (
        0..KEYS.len(),
        value,
        condition,
        expires_in,
        stamp(),
        token,
        retry(),
    );
    fields.prop_map(|(key, value, condition, expires_in, timestamp, token, retry)| {
        Step::Set(SetStep {
            key,
            value,
            condition,
            expires_in,
            timestamp,
            token,
            retry,
        })
    })
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    let watcher = 0..WATCHERS.len();
    let only_if = prop::option::of(0..VALUES.len());
    let token = prop::option::weighted(0.25, 0..TOKENS.len());
    let drift = prop_oneof![4 => Just(0_i64), 1 => -200_i64..200, 1 => -90_000_i64..90_000];
    let advance = prop_oneof![4 => 0_i64..4, 2 => -3_i64..200, 1 => -90_000_i64..90_000];
    let limit = || prop_oneof![0_u64..60, Just(u64::MAX)];
    prop_oneof![
        12 => (advance, drift).prop_map(|(advance, drift)| Step::Entry { advance, drift }),
        24 => set(),
        10 => (key.clone(), only_if, prop::option::of(stamp()), token, retry()).prop_map(
            |(key, only_if, timestamp, token, retry)| Step::Delete { key, only_if, timestamp, token, retry }
        ),
        6 => (key.clone(), watcher.clone(), any::<bool>()).prop_map(|(key, watcher, is_sdk)| Step::Watch {
            key,
            watcher,
            dialect: if is_sdk { Dialect::Sdk } else { Dialect::Published },
        }),
        3 => (key.clone(), watcher.clone(), retry())
            .prop_map(|(key, watcher, retry)| Step::Unwatch { key, watcher, retry }),
        1 => watcher.prop_map(|watcher| Step::EndWatches { watcher }),
        1 => (1_u64..3, 0_u32..4).prop_map(|(node, below)| Step::EndIncarnations { node, below }),
        4 => (0_usize..4).prop_map(|max| Step::ExpireDue { max }),
        1 => prop::collection::vec(key, 0..4).prop_map(|keys| Step::ExpireAny { keys }),
        1 => (limit(), limit()).prop_map(|(keys_max, bytes_max)| Step::Configure { keys_max, bytes_max }),
        2 => Just(Step::Restart),
        2 => Just(Step::Freeze),
    ]
}

/// The store and the model on their way through a history.
struct Run {
    store: Store,
    model: Model,
    /// Walls of new entries and timestamps are relative to this: the clock of the last entry, whether or not it
    /// was behind.
    clock: u64,
    /// Group time of the last entry, in the same way.
    time: u64,
    /// The greatest version that each key was ever seen with.
    seen: BTreeMap<Vec<u8>, Version>,
    frozen: Vec<(Image, Store)>,
}

impl Run {
    fn new() -> Self {
        Self {
            store: Store::new(),
            model: Model::default(),
            clock: 1_000_000,
            time: 500_000,
            seen: BTreeMap::new(),
            frozen: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        let action = match step {
            Step::Entry { advance, drift } => {
                self.clock = self.clock.saturating_add_signed(advance);
                self.time = self.time.saturating_add_signed(advance + drift);
                self.store.begin(self.stamp());
                self.model.begin(self.stamp());
                return self.compare();
            }
            Step::Restart => {
                let restored = Store::restore(self.store.image().into_chunks()).unwrap();
                assert_eq!(restored, self.store);
                self.store = restored;
                return self.compare();
            }
            Step::Freeze => return self.frozen.push((self.store.image(), self.store.clone())),
            Step::Set(set) => self.set(set),
            Step::Delete {
                key,
                only_if,
                timestamp,
                token,
                retry,
            } => CommandAction::Delete {
                key: Bytes::from_static(KEYS[key]),
                only_if: only_if.map(|value| Bytes::from_static(VALUES[value])),
                timestamp: timestamp.map(|timestamp| self.hlc(timestamp)),
                fencing: token.map(|token| Hlc::parse(TOKENS[token]).unwrap()),
                retry: self.retry(retry),
            },
            Step::Watch {
                key,
                watcher,
                dialect,
            } => {
                let key = Bytes::from_static(KEYS[key]);
                CommandAction::Watch {
                    key,
                    watcher: WATCHERS[watcher],
                    dialect,
                    retry: None,
                }
            }
            Step::Unwatch { key, watcher, retry } => {
                let key = Bytes::from_static(KEYS[key]);
                CommandAction::Unwatch {
                    key,
                    watcher: WATCHERS[watcher],
                    retry: self.retry(retry),
                }
            }
            Step::EndWatches { watcher } => CommandAction::EndWatches {
                watcher: WATCHERS[watcher],
            },
            Step::EndIncarnations { node, below } => CommandAction::EndIncarnations { node, below },
            Step::ExpireDue { max } => CommandAction::Expire {
                keys: self.store.expired(self.time, max),
            },
            Step::ExpireAny { keys } => CommandAction::Expire {
                keys: keys
                    .into_iter()
                    .map(|key| Bytes::from_static(KEYS[key]))
                    .collect(),
            },
            Step::Configure { keys_max, bytes_max } => CommandAction::Configure {
                quota: Quota { keys_max, bytes_max },
            },
        };
        self.apply(action);
        self.compare();
    }

    fn set(&self, set: SetStep) -> CommandAction {
        CommandAction::Set {
            key: Bytes::from_static(KEYS[set.key]),
            value: Bytes::from_static(VALUES[set.value]),
            condition: set.condition,
            expires_in: set.expires_in,
            timestamp: self.hlc(set.timestamp),
            fencing: set.token.map(|token| Hlc::parse(TOKENS[token]).unwrap()),
            retry: self.retry(set.retry),
        }
    }

    fn hlc(&self, (wall, counter): Stamp) -> Hlc {
        Hlc {
            wall: self.clock.saturating_add_signed(wall),
            counter,
            node: Text::from_static("client"),
        }
    }

    fn retry(&self, retry: Retry) -> Option<RetryKey> {
        retry.map(|(hash, remembered)| RetryKey {
            hash: [hash; 16],
            remembered,
        })
    }

    fn stamp(&self) -> store::Stamp {
        store::Stamp {
            clock: self.clock,
            time: self.time,
        }
    }

    /// Applies a command to both, on its way to the store through the log.
    fn apply(&mut self, action: CommandAction) {
        let command = Command {
            origin: Origin {
                node: 1,
                incarnation: 1,
                request: 1,
            },
            action,
        };
        let mut entry = EntryBuilder::new();
        entry.push(&command);
        let entry = decode_entry(entry.finish(self.stamp())).unwrap();
        assert_eq!(
            (entry.stamp, &entry.commands[..]),
            (self.stamp(), &[command.clone()][..])
        );

        let remembered = self.store.usage();
        let mut effects = Vec::new();
        let outcome = self.store.apply(command.clone(), &mut effects);
        let effects: Vec<_> = effects.into_iter().map(told).collect();
        let (expected, expected_effects) = self.model.apply(&command.action);
        assert_eq!(outcome, expected, "{command:?}");
        assert_eq!(effects, expected_effects, "{command:?}");

        // What holds no matter what the model says.
        let mut told_last: BTreeMap<(&[u8], Watcher), Version> = BTreeMap::new();
        let mut versions: BTreeMap<&[u8], BTreeSet<Version>> = BTreeMap::new();
        for (watcher, _, key, _, version) in &effects {
            let last = told_last.insert((key, *watcher), *version);
            assert!(
                last.is_none_or(|last| last < *version),
                "effects come in the order of the versions"
            );
            versions.entry(key).or_default().insert(*version);
        }
        if let (
            Outcome::Stored { version },
            CommandAction::Set {
                key,
                timestamp,
                retry,
                ..
            },
        ) = (outcome, &command.action)
        {
            let is_new =
                retry.is_none() || self.store.usage().replies_remembered > remembered.replies_remembered;
            if is_new {
                versions.entry(key).or_default().insert(version);
                assert!(version.to_hlc() > *timestamp);
                assert!(version.counter < 1 << 31);
            }
        }
        for (key, versions) in versions {
            for version in versions {
                let last = self.seen.insert(key.to_vec(), version);
                assert!(
                    last.is_none_or(|last| last < version),
                    "{last:?} then {version:?}"
                );
            }
        }
    }

    fn compare(&self) {
        let (store, model) = (&self.store, &self.model);
        assert_eq!(
            (store.stamp().clock, store.stamp().time),
            (model.clock, model.time)
        );
        for now in [0, self.time, self.time + 3] {
            let alive: BTreeMap<_, _> = model.alive(now).collect();
            for key in KEYS {
                let found = store
                    .get(key, now)
                    .map(|found| (found.value.to_vec(), found.version));
                let expected = alive
                    .get(&key.to_vec())
                    .map(|row| (row.value.clone(), row.version));
                assert_eq!(found, expected);
            }
        }
        let everything = Glob::compile(b"*").unwrap();
        let page = store
            .scan(&everything, None, 0, ScanLimits::default(), &mut |_| true)
            .unwrap();
        let is_text = |key: &&Vec<u8>| std::str::from_utf8(key).is_ok();
        let listed = model.alive(0).map(|(key, _)| key).filter(is_text);
        assert!(page.keys.iter().eq(listed));

        assert_eq!(
            store.next_expiry(),
            model.keys.values().filter_map(|row| row.deadline).min()
        );
        let usage = store.usage();
        assert_eq!(
            (usage.keys, usage.bytes),
            (model.keys.len() as u64, model.bytes())
        );
        assert_eq!(usage.watches, model.watches.len() as u64);
    }
}

/// How many histories are run.
const CASES: u32 = 10_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in prop::collection::vec(step(), 1..50)) {
        let mut run = Run::new();
        for step in steps {
            run.step(step);
        }
        for (image, store) in run.frozen {
            prop_assert_eq!(Store::restore(image.into_chunks()), Ok(store));
        }
    }
}
