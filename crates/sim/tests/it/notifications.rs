//! Clients of a node that falls behind, and gets the store of another one, are told what has become of the keys that they watch: once of each
//! that is another, as it is; and nothing of the others.

use std::time::Duration;

use crate::client::{self, Notified};
use crate::copies::{copies, key, world};
use crate::world::{Place, World};

const SECOND: Duration = Duration::from_secs(1);

/// The node that falls behind, and where its watcher is.
const BEHIND: usize = 2;
const WATCHER: &str = "watcher";

const SAME: u16 = 1;
const CHANGED: u16 = 2;
const DELETED: u16 = 3;
const MADE_AGAIN: u16 = 4;
const NEW: u16 = 5;
/// It is not there, as before: nobody knows in the end that it was, once its deletion is forgotten.
const CAME_AND_WENT: u16 = 6;
const NEVER: u16 = 7;
const WATCHED: [u16; 7] = [SAME, CHANGED, DELETED, MADE_AGAIN, NEW, CAME_AND_WENT, NEVER];

/// One request after the other, each of which is done.
fn execute(world: &mut World, at: Place, requests: &[&[&str]]) {
    for arguments in requests {
        world.ask(at, "c", 1, arguments);
        world.run(SECOND / 50, |_| false);
        let responses = world.responses(at);
        assert_eq!(responses.len(), 1, "{arguments:?}");
        assert!(!responses[0].payload.starts_with("-ERR"), "{responses:?}");
        world.finish_snapshots();
    }
}

fn set(world: &mut World, at: Place, number: u16, value: &str) {
    execute(world, at, &[&["SET", &key(number), value]]);
}

fn delete(world: &mut World, at: Place, number: u16) {
    execute(world, at, &[&["DEL", &key(number)]]);
}

/// What the watcher was notified of since the last call, in the order of the keys.
fn notified(world: &mut World, at: Place) -> Vec<Notified> {
    let packets = world.machine(at.node).take_sent(at.connection);
    let mut notified = client::notifications(&packets, WATCHER);
    notified.sort_by(|one, other| one.key.cmp(&other.key));
    notified
}

fn expected(changes: &[(u16, Option<&str>)]) -> Vec<Notified> {
    let changes = changes.iter().map(|(number, value)| Notified {
        key: key(*number),
        value: value.map(str::to_owned),
    });
    let mut expected: Vec<_> = changes.collect();
    expected.sort_by(|one, other| one.key.cmp(&other.key));
    expected
}

#[test]
fn who_watches_is_told_once_of_each_key_that_is_another_in_a_snapshot() {
    let mut world = world();
    let (at, watcher) = (world.client(1, "c"), world.client(BEHIND, WATCHER));
    for number in [SAME, CHANGED, DELETED, MADE_AGAIN] {
        set(&mut world, at, number, "before");
    }
    for (number, name) in WATCHED.into_iter().zip(1..) {
        world.ask(watcher, WATCHER, name, &["KEYNOTIFY", &key(number)]);
    }
    world.run(SECOND, |_| false);
    let responses = world.responses(watcher);
    assert_eq!(responses.len(), WATCHED.len());
    set(&mut world, at, CHANGED, "with the log");
    world.run(SECOND / 10, |_| false);
    let first = expected(&[(CHANGED, Some("with the log"))]);
    assert_eq!(notified(&mut world, watcher), first);

    world.cut_off = Some(BEHIND);
    for value in ["a", "b", "c"] {
        set(&mut world, at, CHANGED, value);
    }
    delete(&mut world, at, DELETED);
    delete(&mut world, at, MADE_AGAIN);
    set(&mut world, at, MADE_AGAIN, "again");
    set(&mut world, at, NEW, "new");
    set(&mut world, at, CAME_AND_WENT, "here");
    delete(&mut world, at, CAME_AND_WENT);
    for number in 20..40 {
        set(&mut world, at, number, &"v".repeat(100));
    }
    assert_eq!(notified(&mut world, watcher), [], "it hears of nothing");

    world.cut_off = None;
    for _ in 0..500 {
        world.run(SECOND / 50, |_| false);
        world.finish_snapshots();
    }
    assert_eq!(copies(&mut world, BEHIND), 1);
    let told = expected(&[
        (CHANGED, Some("c")),
        (DELETED, None),
        (MADE_AGAIN, Some("again")),
        (NEW, Some("new")),
    ]);
    assert_eq!(notified(&mut world, watcher), told);

    // From there on of every change, as before.
    for value in ["d", "e"] {
        set(&mut world, at, SAME, value);
    }
    world.run(SECOND / 10, |_| false);
    let told = expected(&[(SAME, Some("d")), (SAME, Some("e"))]);
    assert_eq!(notified(&mut world, watcher), told);
}
