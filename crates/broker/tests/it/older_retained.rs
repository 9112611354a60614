//! What a data directory without a session plane retains is taken over at the first start.

use std::collections::BTreeMap;

use broker::{Action, Event, Node, Recovery};
use bytes::Bytes;
use cluster::{Keyspace, Write};
use mqtt::limits::Limits;
use mqtt::now::Now;
use state_service::StateStoreConfig;

use crate::alone::{config, now, recovered, state_store};
use crate::records::released;

/// Records of a disk.
type Disk = BTreeMap<(Keyspace, Bytes), Bytes>;

/// Disk of a version before the plane, with one topic.
fn older_disk(record: &str) -> Disk {
    let (key, value) = released(record);
    Disk::from([((Keyspace::Retained, key), value)])
}

/// Node that starts with a disk, in its run of this number.
fn start(now: Now, disk: &Disk, run: u32) -> Node {
    let mut recovery = Recovery::new(now, config(Limits::default()));
    for keyspace in Recovery::KEYSPACES {
        for ((_, key), value) in disk.iter().filter(|((of, _), _)| *of == keyspace) {
            recovery.record(keyspace, key, value.clone()).unwrap();
        }
    }
    let store = StateStoreConfig {
        incarnation: run,
        ..state_store()
    };
    recovered(now, recovery, store).0
}

/// Lets the node work until it has nothing more for the disk.
fn run(now: Now, node: &mut Node, disk: &mut Disk) {
    let mut events = vec![Event::Timeout, Event::Flush];
    while !events.is_empty() {
        let mut actions = Vec::new();
        events
            .into_iter()
            .for_each(|event| node.step(now, event, &mut actions));
        events = Vec::new();
        for action in actions {
            if let Action::Persist { ticket, writes, .. } = action {
                writes.into_iter().for_each(|write| apply(disk, write));
                events.push(Event::Durable { ticket });
            }
        }
        if !events.is_empty() {
            events.push(Event::Flush);
        }
    }
}

fn apply(disk: &mut Disk, write: Write) {
    match write {
        Write::Put { keyspace, key, value } => {
            disk.insert((keyspace, key), value);
        }
        Write::Remove { keyspace, key } | Write::RemoveOnce { keyspace, key } => {
            disk.remove(&(keyspace, key));
        }
        Write::RemoveRange { keyspace, from, to } | Write::RemoveRangeOnce { keyspace, from, to } => {
            disk.retain(|(of, key), _| *of != keyspace || *key < from || *key >= to);
        }
    }
}

fn has_older(disk: &Disk) -> bool {
    disk.keys().any(|(keyspace, _)| *keyspace == Keyspace::Retained)
}

#[test]
fn what_it_retains_is_there_at_once_and_after_the_next_starts() {
    for record in ["v1/retained-full.bin", "v2/retained-edition.bin"] {
        let now = now();
        let mut disk = older_disk(record);
        let topic = String::from_utf8(released(record).0.to_vec()).unwrap();
        let mut node = start(now, &disk, 1);
        let before = node.retained_message(now, &topic).expect("it is there");
        run(now, &mut node, &mut disk);
        assert!(!has_older(&disk), "{record} is taken over");
        for run in 2..4 {
            let node = start(now, &disk, run);
            let found = node.retained_message(now, &topic).expect("it is still there");
            assert_eq!(found.message.payload, before.message.payload);
            assert_eq!(found.message.properties, before.message.properties);
        }
    }
}

#[test]
fn a_start_that_is_cut_short_changes_nothing() {
    let now = now();
    let disk = older_disk("v1/retained-full.bin");
    let topic = String::from_utf8(released("v1/retained-full.bin").0.to_vec()).unwrap();
    drop(start(now, &disk, 1));
    let node = start(now, &disk, 2);
    assert!(node.retained_message(now, &topic).is_some());
}

#[test]
fn a_topic_that_was_cleared_stays_so() {
    let now = now();
    let mut disk = older_disk("v2/retained-tombstone.bin");
    let topic = String::from_utf8(released("v2/retained-tombstone.bin").0.to_vec()).unwrap();
    let mut node = start(now, &disk, 1);
    run(now, &mut node, &mut disk);
    assert!(!has_older(&disk));
    assert!(start(now, &disk, 2).retained_message(now, &topic).is_none());
}

#[test]
fn damaged_records_of_the_plane_are_refused() {
    let now = now();
    let mut disk = older_disk("v1/retained-full.bin");
    let mut node = start(now, &disk, 1);
    run(now, &mut node, &mut disk);
    let keys: Vec<_> = disk
        .keys()
        .filter(|(of, _)| *of == Keyspace::Plane)
        .cloned()
        .collect();
    assert!(!keys.is_empty());
    for damaged in keys {
        let mut recovery = Recovery::new(now, config(Limits::default()));
        let value = disk[&damaged].slice(..disk[&damaged].len() - 1);
        assert!(recovery.record(Keyspace::Plane, &damaged.1, value).is_err());
    }
}
