//! Bytes that released versions wrote must be read for ever, and what this version writes must not change
//! unnoticed. A new format gets a new directory; files of old ones are never edited.

use bytes::Bytes;
use protocol::Hlc;
use store::{
    Command, CommandAction, Condition, Dialect, Entry, EntryBuilder, Origin, Quota, RetryKey, Stamp, Store,
    Version, Watcher, asks_for_disk, decode_entry,
};

const ENTRY_OF_ONE_CLOCK: &[u8] = include_bytes!("../golden/v1/entry.bin");
const ENTRY_OF_ONE_CLOCK_FOR_DISK: &[u8] = include_bytes!("../golden/v2/entry.bin");
const SNAPSHOT_OF_ONE_CLOCK: &[u8] = include_bytes!("../golden/v1/snapshot.bin");
const ENTRY: &[u8] = include_bytes!("../golden/v3/entry.bin");
const ENTRY_FOR_DISK: &[u8] = include_bytes!("../golden/v4/entry.bin");
const SNAPSHOT: &[u8] = include_bytes!("../golden/v2/snapshot.bin");

fn hlc(text: &str) -> Hlc {
    Hlc::parse(text).unwrap()
}

const WATCHER: Watcher = Watcher {
    node: 1,
    incarnation: 2,
    connection: 3,
};
const RETRY: RetryKey = RetryKey {
    hash: *b"0123456789abcdef",
    remembered: 10_000,
};

fn key(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// A command of each kind; together they have all that commands may have.
fn commands() -> Vec<Command> {
    let origin = |request| Origin {
        node: 1,
        incarnation: 2,
        request,
    };
    let actions = watching().into_iter().chain(writing()).chain(ending());
    (300..)
        .zip(actions)
        .map(|(request, action)| Command {
            origin: origin(request),
            action,
        })
        .collect()
}

fn watching() -> [CommandAction; 4] {
    let retry = Some(RETRY);
    [
        CommandAction::Configure {
            quota: Quota {
                keys_max: 1_000,
                bytes_max: 1 << 30,
            },
        },
        CommandAction::Watch {
            key: key("lock"),
            watcher: WATCHER,
            dialect: Dialect::Sdk,
            retry,
        },
        CommandAction::Watch {
            key: key("sensor"),
            watcher: WATCHER,
            dialect: Dialect::Published,
            retry: None,
        },
        CommandAction::Unwatch {
            key: key("sensor"),
            watcher: WATCHER,
            retry,
        },
    ]
}

fn writing() -> [CommandAction; 4] {
    [
        CommandAction::Set {
            key: key("lock"),
            value: key("holder"),
            condition: Condition::NotExistsOrEqual,
            expires_in: Some(10_000),
            timestamp: hlc("1700000000000:0:client"),
            fencing: None,
            retry: Some(RetryKey {
                hash: *b"fedcba9876543210",
                remembered: 10_000,
            }),
        },
        CommandAction::Set {
            key: key("sensor"),
            value: Bytes::from_static(&[0, 1, 0xff]),
            condition: Condition::NotExistsOrEqualTo(key("old")),
            expires_in: None,
            timestamp: hlc("1700000000500:7:client"),
            fencing: Some(hlc("1700000000000:1:StateStore")),
            retry: None,
        },
        CommandAction::Set {
            key: key("gone"),
            value: Bytes::new(),
            condition: Condition::NotExists,
            expires_in: None,
            timestamp: hlc("1700000000000:0:client"),
            fencing: None,
            retry: None,
        },
        CommandAction::Delete {
            key: key("gone"),
            only_if: Some(Bytes::new()),
            timestamp: Some(hlc("1700000000000:0:client")),
            fencing: Some(hlc("1:0:x")),
            retry: None,
        },
    ]
}

fn ending() -> [CommandAction; 3] {
    [
        CommandAction::Expire {
            keys: vec![key("lock"), key("sensor")],
        },
        CommandAction::EndWatches {
            watcher: Watcher {
                connection: 4,
                ..WATCHER
            },
        },
        CommandAction::EndIncarnations { node: 1, below: 2 },
    ]
}

const CLOCK: u64 = 1_700_000_000_000;
const TIME: u64 = 1_699_999_990_000;
const STAMP: Stamp = Stamp {
    clock: CLOCK,
    time: TIME,
};

fn store(stamp: Stamp) -> Store {
    let mut store = Store::new();
    store.begin(stamp);
    for command in commands() {
        store.apply(command, &mut Vec::new());
    }
    store
}

#[test]
fn the_entry_of_version_3_is_read_and_written() {
    let mut entry = EntryBuilder::new();
    commands().iter().for_each(|command| entry.push(command));
    assert_eq!(
        decode_entry(Bytes::from_static(ENTRY)),
        Ok(Entry {
            stamp: STAMP,
            commands: commands()
        })
    );
    assert_eq!(entry.finish(STAMP), ENTRY);
}

#[test]
fn the_entry_of_version_4_is_read_and_written_and_asks_for_the_disk() {
    let mut entry = EntryBuilder::new();
    commands().iter().for_each(|command| entry.push(command));
    entry.ask_for_disk();
    let read = decode_entry(Bytes::from_static(ENTRY_FOR_DISK)).map(|entry| entry.commands);
    assert_eq!(read, Ok(commands()));
    assert_eq!(entry.finish(STAMP), ENTRY_FOR_DISK);
    assert!(asks_for_disk(ENTRY_FOR_DISK) && !asks_for_disk(ENTRY));
}

#[test]
fn the_snapshot_of_version_2_is_read_and_written() {
    let store = store(STAMP);
    let written: Vec<u8> = store.image().into_chunks().flatten().collect();
    assert_eq!(
        Store::restore(std::iter::once(Bytes::from_static(SNAPSHOT))),
        Ok(store)
    );
    assert_eq!(written, SNAPSHOT);
}

#[test]
fn the_snapshot_of_version_2_means_what_it_meant() {
    let store = store(STAMP);
    let found = store.get(b"lock", TIME).unwrap();
    assert_eq!(
        (&found.value[..], found.version),
        (
            &b"holder"[..],
            Version {
                wall: CLOCK,
                counter: 1
            }
        )
    );
    assert_eq!(store.next_expiry(), Some(TIME + 10_000));
    let usage = store.usage();
    assert_eq!(
        (
            usage.keys,
            usage.tombstones,
            usage.replies_remembered,
            usage.watches
        ),
        (2, 1, 2, 1)
    );
}

#[test]
fn what_was_written_before_there_was_group_time_is_read() {
    for (entry, is_for_disk) in [(ENTRY_OF_ONE_CLOCK, false), (ENTRY_OF_ONE_CLOCK_FOR_DISK, true)] {
        assert_eq!(
            decode_entry(Bytes::from_static(entry)),
            Ok(Entry {
                stamp: Stamp::first(CLOCK),
                commands: commands()
            })
        );
        assert_eq!(asks_for_disk(entry), is_for_disk);
    }
    let restored = Store::restore(std::iter::once(Bytes::from_static(SNAPSHOT_OF_ONE_CLOCK)));
    assert_eq!(restored, Ok(store(Stamp::first(CLOCK))));
}
