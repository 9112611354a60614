use protocol::Hlc;
use protocol::state_store::{Condition, Dialect};

use super::*;
use crate::command::{Quota, Watcher};
use crate::retry::RetryKey;
use crate::stamp::Stamp;
use crate::version::Version;

const ORIGIN: Origin = Origin {
    node: 300,
    incarnation: 2,
    request: u64::MAX,
};
const WATCHER: Watcher = Watcher {
    node: 1,
    incarnation: 2,
    connection: 3,
};
const FLOOR: Version = Version {
    wall: 1_700_000_000_000,
    counter: 7,
};
const STAMP: Stamp = Stamp {
    clock: 1_700_000_000_000,
    time: 1_699_999_999_000,
};

const RETRY: RetryKey = RetryKey {
    hash: *b"0123456789abcdef",
    remembered: 600_000,
};

fn hlc(text: &str) -> Hlc {
    Hlc::parse(text).unwrap()
}

/// Every kind of command, with as little and as much as it may have.
fn samples() -> Vec<Command> {
    let key = Bytes::from_static(b"key");
    let value = Bytes::from_static(b"value");
    let conditions = [
        Condition::None,
        Condition::NotExists,
        Condition::NotExistsOrEqual,
        Condition::NotExistsOrEqualTo(Bytes::from_static(b"old")),
    ];
    let mut actions = Vec::new();
    for condition in conditions {
        for is_full in [false, true] {
            actions.push(CommandAction::Set {
                key: key.clone(),
                value: value.clone(),
                condition: condition.clone(),
                expires_in: is_full.then_some(1 << 53),
                timestamp: hlc("1700000000000:1:client"),
                fencing: is_full.then(|| hlc("0:0:x")),
                retry: is_full.then_some(RETRY),
            });
        }
    }
    for is_full in [false, true] {
        actions.push(CommandAction::Delete {
            key: key.clone(),
            only_if: is_full.then(Bytes::new),
            timestamp: is_full.then(|| hlc("1700000000000:1:client")),
            fencing: is_full.then(|| hlc("0:0:x")),
            retry: is_full.then_some(RETRY),
        });
    }
    for (dialect, retry) in [(Dialect::Sdk, None), (Dialect::Published, Some(RETRY))] {
        actions.push(CommandAction::Watch {
            key: key.clone(),
            watcher: WATCHER,
            dialect,
            retry,
        });
        actions.push(CommandAction::Unwatch {
            key: key.clone(),
            watcher: WATCHER,
            retry,
        });
    }
    actions.push(CommandAction::EndWatches { watcher: WATCHER });
    actions.push(CommandAction::EndIncarnations {
        node: 7,
        below: u32::MAX,
    });
    actions.push(CommandAction::Expire { keys: vec![] });
    actions.push(CommandAction::Expire {
        keys: vec![key, value],
    });
    actions.push(CommandAction::Configure {
        quota: Quota {
            keys_max: 0,
            bytes_max: u64::MAX,
        },
    });
    actions.extend(put_back());
    actions
        .into_iter()
        .map(|action| Command {
            origin: ORIGIN,
            action,
        })
        .collect()
}

/// Those of a restore.
fn put_back() -> impl Iterator<Item = CommandAction> {
    let reinstated = [false, true].map(|is_full| CommandAction::Reinstate {
        record: KeyRecord {
            key: Bytes::from_static(b"key"),
            value: Bytes::from_static(b"value"),
            version: FLOOR,
            deadline: is_full.then_some(1_700_000_010_000),
            fencing: is_full.then(|| hlc("0:0:x")),
        },
    });
    let raised = CommandAction::RaiseFloor { floor: FLOOR };
    reinstated.into_iter().chain([raised])
}

fn encoded(commands: &[Command]) -> Bytes {
    let mut entry = EntryBuilder::new();
    for command in commands {
        entry.push(command);
    }
    assert_eq!(entry.is_empty(), commands.is_empty());
    let length = entry.len_bytes();
    let entry = entry.finish(STAMP);
    assert_eq!(entry.len(), length);
    entry
}

#[test]
fn what_is_encoded_is_decoded_again() {
    let commands = samples();
    let entry = decode_entry(encoded(&commands)).unwrap();
    assert_eq!(
        entry,
        Entry {
            stamp: STAMP,
            commands
        }
    );
    assert_eq!(decode_entry(encoded(&[])).unwrap().commands, []);
}

#[test]
fn keys_and_values_share_the_memory_of_the_entry() {
    let bytes = encoded(&samples()[..1]);
    let entry = decode_entry(bytes.clone()).unwrap();
    let CommandAction::Set { key, value, .. } = &entry.commands[0].action else {
        panic!("not a SET")
    };
    for part in [key, value] {
        assert!(bytes.as_ptr_range().contains(&part.as_ptr()));
    }
}

/// A SET of so many bytes, which replaces a value of so many if one is given.
fn large_set(length: usize, compared: usize) -> Command {
    let condition = match compared {
        0 => Condition::None,
        compared => Condition::NotExistsOrEqualTo(Bytes::from(vec![2; compared])),
    };
    let action = CommandAction::Set {
        key: Bytes::from_static(b"key"),
        value: Bytes::from(vec![1; length]),
        condition,
        expires_in: None,
        timestamp: hlc("1:0:a"),
        fencing: None,
        retry: None,
    };
    Command {
        origin: ORIGIN,
        action,
    }
}

/// Which values of SETs lie in the entry that was decoded.
fn are_shared(commands: &[Command]) -> Vec<bool> {
    let bytes = encoded(commands);
    let entry = decode_entry(bytes.clone()).unwrap();
    assert_eq!(entry.commands, commands);
    let values = entry.commands.iter().map(|command| match &command.action {
        CommandAction::Set { value, .. } => bytes.as_ptr_range().contains(&value.as_ptr()),
        _ => panic!("not a SET"),
    });
    values.collect()
}

#[test]
fn a_large_value_shares_the_memory_of_an_entry_that_has_little_else() {
    let (large, small) = (large_set(KEPT_MIN, 0), large_set(100, 0));
    assert_eq!(are_shared(&[large.clone(), small.clone()]), [true, true]);
    assert_eq!(are_shared(&[large.clone(), large]), [false, false]);
    assert_eq!(
        are_shared(&[large_set(KEPT_MIN, KEPT_MIN / UNCOUNTED_PART)]),
        [false]
    );
    assert_eq!(
        are_shared(&[large_set(KEPT_MIN - 1, KEPT_MIN), small]),
        [true, true]
    );
}

#[test]
fn an_entry_of_an_unknown_version_is_refused_as_such() {
    assert_eq!(
        decode_entry(Bytes::from_static(&[5])),
        Err(EntryError::UnknownVersion { version: 5 })
    );
    assert_eq!(decode_entry(Bytes::new()), Err(EntryError::Damaged));
}

#[test]
fn an_entry_that_is_cut_off_is_damaged_or_shorter_but_never_wrong() {
    let commands = samples();
    let bytes = encoded(&commands);
    for length in 0..bytes.len() {
        match decode_entry(bytes.slice(..length)) {
            Ok(entry) => assert!(commands.starts_with(&entry.commands)),
            Err(error) => assert_eq!(error, EntryError::Damaged),
        }
    }
}

#[test]
fn no_changed_byte_makes_decoding_panic_and_what_decodes_has_one_encoding() {
    let bytes = encoded(&samples()).to_vec();
    for position in 1..bytes.len() {
        for change in [0x01, 0x02, 0x04, 0x08, 0x10, 0x40, 0x80, 0xff, bytes[position]] {
            let mut damaged = bytes.clone();
            damaged[position] ^= change;
            let damaged = Bytes::from(damaged);
            if let Ok(entry) = decode_entry(damaged.clone()) {
                let mut again = EntryBuilder::new();
                entry.commands.iter().for_each(|command| again.push(command));
                assert_eq!(again.finish(entry.stamp), damaged);
            }
        }
    }
}

#[test]
fn what_the_store_relies_on_is_checked() {
    let refused = |bytes: &[u8]| decode_entry(Bytes::copy_from_slice(bytes)) == Err(EntryError::Damaged);
    let header = [&[3][..], &[0; 16]].concat();
    let origin = [1, 1, 1];
    // A clock beyond the greatest wall.
    for (clock, time) in [(u64::MAX, 0), (0, u64::MAX)] {
        let bytes = [&[3][..], &clock.to_be_bytes(), &time.to_be_bytes()].concat();
        assert!(refused(&bytes));
    }
    // An empty key.
    assert!(refused(
        &[&header[..], &[3], &origin, &[0, 0, 1, 1, 1, 0]].concat()
    ));
    assert!(!refused(
        &[&header[..], &[3], &origin, &[0, 1, b'k', 1, 1, 1, 0]].concat()
    ));
    // A timestamp without a node.
    assert!(refused(
        &[&header[..], &[1], &origin, &[0, 1, b'k', 0, 5, 5, 0]].concat()
    ));
    assert!(!refused(
        &[&header[..], &[1], &origin, &[0, 1, b'k', 0, 5, 5, 1, b'c']].concat()
    ));
    // A flag that means nothing, a kind that is none.
    assert!(refused(
        &[&header[..], &[3], &origin, &[2, 1, b'k', 1, 1, 1, 0]].concat()
    ));
    assert!(refused(&[&header[..], &[9], &origin].concat()));
}
