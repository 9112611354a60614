//! The inputs of the fuzz targets that play a whole server, replayed: those to start from, and those that once failed.
//!
//! `UPDATE=1 cargo test -p sim` writes anew what the targets start from.

#[path = "it/clock.rs"]
mod clock;

use std::path::{Path, PathBuf};

use sim::inputs;

use self::clock::now;

/// Conversations: step, and what it takes; see `sim/src/inputs/conversation.rs`.
const CONVERSATIONS: [(&str, &[u8]); 10] = [
    (
        "seed-publish-and-subscribe",
        // a and b connect; b subscribes to a/+ and #; a publishes with each QoS; everybody answers.
        b"\0\x01\x01\x02\0\x11\x02\x02\0\x0c\x14\x01\x02\x02\x03\x01\x0c\x02\x01\0\x05\x01\x02\0\x01\x03\x01\x02\x02\x01\x05\x02\x0c\x16\x10\x06\x10\x0c\x16\x10",
    ),
    (
        "seed-durable-session-over-a-power-cut",
        b"\0\x01\x01\x08\x04\0\x14\x01\x01\x08\x04\0\x04\0\x03\x02\x0c\x08\x11\x02\0\0\x12\x01\0\x05\x01\x12\x02\0\x05\x02\x0c\x0f\x01\x01\x01\x08\x04\0\x0c\x06\x10\x0c",
    ),
    (
        "seed-will-with-a-delay",
        b"\0\x01\x01\x0c\x03\0\x0d\x01\x11\x02\x02\0\x14\0\x03\x01\x0c\x08\x0a\x02\x0a\x04\x0c",
    ),
    (
        "seed-topic-aliases",
        b"\0\x01\x01\x42\x02\0\x04\0\0\0\x02\x10\0\0\x04\x02\x30\0\0\x05\x02\x30\0\x03\x05\x0c",
    ),
    (
        "seed-shared-subscription",
        b"\0\x01\x01\x02\0\x11\x02\x02\0\x21\x03\x02\0\x04\0\x06\x01\x14\0\x06\x02\x0c\x22\x01\0\x05\x01\x22\x01\x01\x05\x02\x22\x02\x02\x05\x03\x0c\x06\x10\x18\x0c",
    ),
    (
        "seed-a-client-that-does-not-read",
        b"\0\x01\x01\x02\0\x11\x02\x02\0\x04\0\x03\x01\x0c\x09\x12\x01\0\xff\x01\x12\x01\0\xff\x02\x12\0\0\xff\x03\x12\0\0\xff\x0c\x09\x06\x10\x0c",
    ),
    (
        "seed-retained-messages",
        b"\0\x01\x01\x02\0\x02\x05\0\x05\x01\x02\x45\x01\x05\x02\x03\x02\x0c\x04\x01\x03\x0a\0\x18\x0c\x0a\x03\x02\x05\0\0\x01\x0c",
    ),
    (
        "seed-version-3-1-1",
        b"\0\x01\x01\x01\x01\x04\0\x03\x02\x02\x06\0\x05\x01\x0c\x06\x10\x0c\x06\x10\x05\x02\x05\x01",
    ),
    (
        "seed-takeover-and-refusals",
        b"\0\x01\x01\x0a\x04\0\x11\x01\x0a\x04\0\x21\x03\x02\0\x31\x04\x02\0\x41\x05\x02\0\x42\x01\x06\x05\x01\x12\x01\x05\x05\x01\x0c",
    ),
    (
        "seed-bytes",
        b"\x18\0\x0f\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0\0\x08\x82\x06\0\x01\0\0\x01#\0\x05\x02\x05\x03\x30\x05\0\x01ahi\x0a\x04\x0c",
    ),
];

/// Packets made from a few bytes; see `sim/src/inputs/work.rs`.
const WORK: [(&str, &[u8]); 5] = [
    (
        "seed-filters-that-all-but-match",
        // a subscribes to 1,000 filters of 127 levels, of which 16 are `+` or not; b publishes to a topic of as many.
        b"\0\x03\xe7\x7e\x01\0\x01\x14\0\x7f\0\0",
    ),
    (
        "seed-filters-in-no-order-and-again",
        b"\0\x03\xe7\0\x01\x01\x02\0\x03\xe7\0\x01\x01\x02\x03\x03\xe7\0\x01\x01\x02",
    ),
    (
        "seed-retained-for-many",
        b"\x14\x01\x05\x01\x03\0\x14\x01\x06\x01\x03\0\x14\x01\x07\x01\x03\0\0\x03\xe7\0\x01\x02\0\0\0\x01\0\0\0",
    ),
    (
        "seed-overlapping",
        b"\0\x03\xe7\x0f\x03\0\0\x02\0\x10\x03\xe7\x0f\x03\0\0\x02\0\x24\0\x0f\0\0",
    ),
    (
        "seed-one-filter-again-and-again",
        b"\0\x03\xe7\0\x01\x03\x02\x03\x03\xe7\0\x01\x03\x02\x14\0\0\x01\x03\x02",
    ),
];

/// Requests: step, and what it takes; see `sim/src/inputs/requests.rs`.
const REQUESTS: [(&str, &[u8]); 8] = [
    ("seed-set-and-get", b"\0\0\0\x01\x02\xff\x01\x03\x01\xff\x0f\0\x03\x01\xff"),
    ("seed-conditions", b"\0\0\x10\x01\x02\xff\0\x10\x01\x03\xff\0\x20\x01\x02\xff\0\x30\x01\x03\x02\xff\x0a\x01\x03\x01\xff"),
    ("seed-fencing", b"\0\0\0\x01\x02\xd7\x05\0\0\x01\x03\xd7\x04\0\x04\x01\xff\0\x05\x01\x02\xd7\x09"),
    ("seed-watches", b"\0\x10\x06\x01\xff\0\0\x01\x02\xff\0\x04\x01\xff\x10\x0e\x01\xff\x1c\0\0\x01\x02\xff"),
    ("seed-expiry", b"\0\0\x08\x01\x02\xff\x01\x0b\x01\0\x03\x01\xff\0\x0f\xff"),
    ("seed-scan", b"\0\0\0\x01\x02\xff\0\0\x02\x02\xff\0\x07\0\xff\0\x0f\0\x04[a-]\xff\0\x1f\0\x01*\x03\x01ab\xff"),
    ("seed-quota-and-snapshots", b"\0\0\0\x01\xff\xff\0\0\x02\xff\xff\0\0\x03\xff\xff\0\0\x04\xff\xff\0\0\x05\xff\xff\x0d\0\x04\x02\xff\x0f"),
    ("seed-bytes", b"\0\x08\x11*2\r\n$3\r\nGET\r\n$1\r\n\0a\r\n\xff\x09\x05*1\r\n$\xff\x08\x02:1\x01\x05a:b:c"),
];

/// Connections of another node: a hello, then frames; see `sim/src/inputs/peers.rs`.
const PEERS: [(&str, &[u8]); 3] = [
    (
        "seed-hello-and-welcome",
        b"sthdpeer\0\x32\x04\x04\0\0\0\0\0\0\0\x02\0\0\0\x01\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x03\xe8\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\x03b:1\
          \0\0\0\x01\x06\0\0\0\x04\x01abc\0\0\0\x09\x02\0\0\0\0\0\0\0\x01\0\0\0\x11\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x03\xe8\0\0\0\x04\x04\x06no",
    ),
    (
        "seed-statement-of-who-waits",
        b"sthdpeer\0\x32\x04\x04\0\0\0\0\0\0\0\x02\0\0\0\x01\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x03\xe8\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01\0\x03b:1\
          \0\0\0\x1e\x05\x01\0\x02\0\0\0\0\0\0\0\x01\0\x03a:1\0\0\0\0\0\0\0\x02\0\x03b:1",
    ),
    (
        "seed-statement-of-who-is-formed",
        b"sthdpeer\0\x32\x04\x04\0\0\0\0\0\0\0\x02\0\0\0\x01\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\x03\xe8\0\0\0\0\0\0\0\x09\0\x02\0\0\0\x01\0\x03b:1\
          \0\0\0\x16\x05\x01\x02\0\0\0\0\x01\x01\0\0\0\0\0\0\0\x02\0\x03b:1",
    ),
];

#[test]
fn stored_connections_of_nodes_are_understood_or_refused() {
    let mut understood = 0;
    replay("peers", 3, |input| understood += inputs::peers(input, now()));
    assert!(understood >= 7, "only {understood} frames");
}

#[test]
fn stored_conversations_stay_within_the_limits() {
    replay("conversation", 10, |input| inputs::conversation(input, now()));
}

#[test]
fn stored_disks_are_refused_or_serve() {
    let mut started = 0;
    replay("records", 5, |input| {
        started += usize::from(inputs::records(input, now()));
    });
    assert!(started >= 3, "only {started} of them make a server");
}

#[test]
fn stored_backups_are_put_back_or_refused() {
    let (mut restored, mut unreadable) = (0, 0);
    replay("restored", 5, |input| {
        let tally = inputs::restored(input, now());
        restored += tally.restored;
        unreadable += tally.unreadable;
    });
    assert!(restored >= 6, "only {restored} items are back");
    assert_eq!(unreadable, 0, "what a server has written can be read");
}

/// What a server has written, with any byte of it changed, taken away, or put in a second time.
#[test]
fn damaged_records_of_backups_are_put_back_or_refused() {
    for (_, seed) in backups() {
        for at in 1..seed.len() {
            for bit in [0, 3, 7] {
                let mut changed = seed.clone();
                changed[at] ^= 1 << bit;
                inputs::restored(&changed, now());
            }
            let cut = [&seed[..at], &seed[at + 1..]].concat();
            inputs::restored(&cut, now());
            let doubled = [&seed[..at], &seed[at - 1..]].concat();
            inputs::restored(&doubled, now());
        }
    }
}

#[test]
fn stored_requests_are_answered() {
    replay("requests", 8, |input| inputs::requests(input, now()));
}

#[test]
fn stored_packets_are_no_more_work_than_they_are_worth() {
    replay("work", 5, |input| inputs::work(input, now()));
}

#[test]
fn seeds_are_these() {
    for (name, input) in WORK {
        compare(&folder("work").join(name), input);
    }
    for (name, input) in CONVERSATIONS {
        compare(&folder("conversation").join(name), input);
    }
    for (name, input) in REQUESTS {
        compare(&folder("requests").join(name), input);
    }
    for (name, input) in PEERS {
        compare(&folder("peers").join(name), input);
    }
    for (name, disk) in disks() {
        compare(&folder("records").join(name), &disk);
    }
    for (name, items) in backups() {
        compare(&folder("restored").join(name), &items);
    }
}

/// What is on disk after conversations, as inputs.
fn disks() -> Vec<(&'static str, Vec<u8>)> {
    let disk_of = |(name, conversation)| (name, inputs::disk_after(conversation, now()));
    FILLING.map(disk_of).into()
}

/// What a backup has after the same conversations.
fn backups() -> Vec<(&'static str, Vec<u8>)> {
    let backup_of = |(name, conversation)| (name, inputs::restored_after(conversation, now()));
    FILLING.map(backup_of).into()
}

/// Conversations that leave something behind.
const FILLING: [(&str, &[u8]); 5] = [
    (
        "seed-queue-and-inflight",
        // a, durable, subscribes and gets messages of QoS 1 and 2, one of them answered; more wait.
        b"\0\x01\x01\x18\x04\x01\0\x04\0\x03\x02\x0c\x11\x02\x02\0\x0c\x12\x01\0\x05\x01\x12\x02\0\x05\x02\x12\x42\0\x05\x03\x03\x0c\x06\0\x0c",
    ),
    (
        "seed-received",
        b"\0\x01\x01\x08\x04\0\x0c\x02\x02\0\x05\x01\x02\x02\x01\x05\x02\x0c",
    ),
    (
        "seed-retained",
        b"\0\x01\x01\x02\0\x0c\x02\x05\0\x05\x01\x02\x45\x01\x05\x02\x03\x02\xc5\x02\x05\x03\x03\x0c",
    ),
    (
        "seed-will",
        b"\0\x01\x01\x0c\x04\0\x1d\x03\x11\x02\x0c\x04\0\x0d\x03\x0c\x18\x0c",
    ),
    (
        "seed-shared",
        b"\0\x01\x01\x08\x04\0\x11\x02\x08\x04\0\x04\x02\x06\x01\x07\x02\x08\x02\x14\0\x06\x02\x0c\x08\x12\x01\0\x05\x01\x12\x02\x01\x05\x02\x0c",
    ),
];

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target)
}

fn replay(target: &str, count_min: usize, mut play: impl FnMut(&[u8])) {
    let folder = folder(target);
    let mut count = 0;
    for file in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = file.expect("the folder can be read").path();
        play(&std::fs::read(path).expect("an input can be read"));
        count += 1;
    }
    assert!(count >= count_min, "only {count} inputs in {}", folder.display());
}

fn compare(path: &Path, input: &[u8]) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, input).expect("a seed can be written");
    }
    let stored = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        stored == input,
        "{} is stale: UPDATE=1 cargo test -p sim",
        path.display()
    );
}
