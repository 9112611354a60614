//! Retained messages of a few planes: who writes last is read, and what was removed does not come back.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use values::Text;
use world::World;

mod clearing;
mod histories;
mod misplaced;
mod values;
mod world;

fn topic(name: &str) -> ClientId {
    ClientId::new(name.as_bytes()).expect("short")
}

fn write(world: &mut World, id: u64, name: &str, write: TopicWrite<Text>) -> Option<MadeEvent> {
    let topic = topic(name);
    world.act(id, |plane, at, actions| {
        let made = plane.retain(at, &topic, write, actions);
        made.expect("the stream has room")
    })
}

fn retain(world: &mut World, id: u64, name: &str, text: u64) -> MadeEvent {
    write(world, id, name, TopicWrite::Retain(Text(text))).expect("an event")
}

fn clear(world: &mut World, id: u64, name: &str) -> MadeEvent {
    write(world, id, name, TopicWrite::Clear(Text(0))).expect("an event")
}

fn remove(world: &mut World, id: u64, name: &str) -> Option<MadeEvent> {
    write(world, id, name, TopicWrite::Remove)
}

fn texts(world: &World, id: u64, name: &str) -> Option<u64> {
    let retained = world.plane(id).retained(&topic(name));
    retained.map(|retained| retained.value.0)
}

fn entries(world: &World, id: u64, name: &str) -> usize {
    world.plane(id).topic_dots(&topic(name), |_| true).len()
}

fn at_rest(count: u64) -> World {
    let mut world = World::new(count, &[]);
    world.rest();
    world
}

fn all(world: &World, name: &str) -> BTreeSet<Option<u64>> {
    let ids = world.nodes.keys();
    ids.map(|id| texts(world, *id, name)).collect()
}

#[test]
fn a_topic_retains_what_was_written_last() {
    let mut world = at_rest(3);
    assert_eq!(remove(&mut world, 1, "a"), None, "there is nothing to remove");
    let first = retain(&mut world, 1, "a", 1);
    let retained = world.plane(1).retained(&topic("a")).expect("at once");
    assert_eq!((retained.dot, retained.clock), (first.dot, first.clock));
    assert!(!world.durable.contains(&first.dot));
    world.rest();
    assert!(world.durable.contains(&first.dot));
    let second = retain(&mut world, 2, "a", 2);
    assert!(second.clock > first.clock);
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([Some(2)]));
    assert_eq!(entries(&world, 3, "a"), 1, "the first one was replaced");
    let removal = remove(&mut world, 3, "a").expect("an event");
    world.rest();
    assert!(world.durable.contains(&removal.dot));
    assert_eq!(all(&world, "a"), BTreeSet::from([None]));
    assert!(world.plane(1).retained_after(None).next().is_none());
    assert_eq!(remove(&mut world, 1, "a"), None);
}

#[test]
fn topics_are_listed_from_one_on() {
    let mut world = at_rest(1);
    for (text, name) in (1..).zip(["b", "a", "c", "", "é"]) {
        retain(&mut world, 1, name, text);
    }
    clear(&mut world, 1, "c");
    let listed = |world: &World, after: Option<&str>| {
        let after = after.map(topic);
        let topics = world.plane(1).retained_after(after.as_ref());
        let topics = topics.map(|of| {
            (
                String::from_utf8_lossy(of.topic.as_bytes()).into_owned(),
                of.entry.map(|entry| entry.value.0),
            )
        });
        topics.collect::<Vec<(String, Option<u64>)>>()
    };
    let named = |list: &[(&str, Option<u64>)]| {
        let list = list.iter().map(|(name, text)| (String::from(*name), *text));
        list.collect::<Vec<(String, Option<u64>)>>()
    };
    let all = named(&[
        ("", Some(4)),
        ("a", Some(2)),
        ("b", Some(1)),
        ("c", None),
        ("é", Some(5)),
    ]);
    assert_eq!(listed(&world, None), all);
    assert_eq!(listed(&world, Some("")), all[1..]);
    assert_eq!(listed(&world, Some("aa")), all[2..]);
    assert_eq!(listed(&world, Some("é")), []);
}

/// Both sides of a split write: the later one is read, and the next write removes both.
#[test]
fn of_two_that_have_not_seen_each_other_the_later_one_is_read() {
    let mut world = at_rest(3);
    world.split(&[1]);
    retain(&mut world, 1, "a", 1);
    world.pass(100);
    retain(&mut world, 2, "a", 2);
    world.pass(100);
    assert_eq!(texts(&world, 1, "a"), Some(1));
    assert_eq!(texts(&world, 3, "a"), Some(2));
    world.heal();
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([Some(2)]));
    world.pass(100);
    assert_eq!(
        entries(&world, 1, "a"),
        2,
        "a message that is not read is no garbage"
    );
    remove(&mut world, 1, "a").expect("an event");
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([None]));
    assert_eq!(entries(&world, 2, "a"), 0, "the removal has seen both");
}

/// The clock of the earlier node is ahead by more than the split lasts.
#[test]
fn the_later_one_goes_by_clocks_that_may_differ() {
    let mut world = World::new(2, &[60_000]);
    world.split(&[1]);
    world.pass(100);
    retain(&mut world, 1, "a", 1);
    world.pass(10);
    retain(&mut world, 2, "a", 2);
    world.heal();
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([Some(1)]));
    retain(&mut world, 2, "a", 3);
    world.rest();
    assert_eq!(
        all(&world, "a"),
        BTreeSet::from([Some(3)]),
        "it has seen the first"
    );
}

/// Clocks are equal: the dot decides, and at all nodes for the same one.
#[test]
fn with_equal_clocks_the_greater_dot_is_read() {
    let mut world = at_rest(2);
    world.pass(100);
    let made = [1, 2].map(|id| retain(&mut world, id, "a", id));
    assert_eq!(made[0].clock, made[1].clock, "the test is about equal clocks");
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([Some(2)]));
}

#[test]
fn a_removal_removes_what_it_has_seen_and_nothing_else() {
    let mut world = at_rest(3);
    retain(&mut world, 1, "a", 1);
    retain(&mut world, 1, "b", 2);
    world.rest();
    world.split(&[3]);
    world.pass(100);
    retain(&mut world, 3, "a", 3);
    world.pass(5);
    remove(&mut world, 1, "a").expect("it removes the first");
    world.pass(100);
    assert_eq!(texts(&world, 2, "a"), None);
    world.heal();
    world.rest();
    assert_eq!(
        all(&world, "a"),
        BTreeSet::from([Some(3)]),
        "no removal had seen it"
    );
    assert_eq!(all(&world, "b"), BTreeSet::from([Some(2)]));
}

/// A node is away while a topic is written and removed, and others start anew meanwhile.
#[test]
fn what_was_removed_comes_back_from_no_copy_however_old() {
    let mut world = at_rest(3);
    retain(&mut world, 1, "a", 1);
    retain(&mut world, 1, "b", 2);
    world.rest();
    world.split(&[3]);
    world.pass(100);
    remove(&mut world, 2, "a").expect("an event");
    retain(&mut world, 2, "b", 3);
    world.pass(10);
    remove(&mut world, 1, "b").expect("an event");
    world.pass(10);
    for id in 1..=3 {
        world.restart(id);
        world.pass(200);
    }
    assert_eq!([texts(&world, 3, "a"), texts(&world, 3, "b")], [Some(1), Some(2)]);
    world.heal();
    world.rest();
    for name in ["a", "b"] {
        assert_eq!(all(&world, name), BTreeSet::from([None]), "{name}");
    }
    assert!(
        world
            .plane(3)
            .copy(Slot::RETAINED)
            .is_some_and(|copy| copy.entries.sessions().next().is_none())
    );
}

/// A copy that merges tells what differs, and one that is equal tells nothing. Heartbeats tell nothing.
#[test]
fn only_topics_that_have_changed_are_told() {
    let mut world = at_rest(2);
    for (text, name) in (1..).zip(["a", "b", "c", "d"]) {
        retain(&mut world, 1, name, text);
        world.node(1).look();
        assert_eq!(world.node(1).told, BTreeSet::from([topic(name)]));
    }
    world.rest();
    world.split(&[2]);
    world.pass(100);
    retain(&mut world, 1, "b", 9);
    remove(&mut world, 1, "c").expect("an event");
    world.pass(100);
    world.heal();
    let mut told: BTreeMap<u64, BTreeSet<ClientId>> = BTreeMap::new();
    for _ in 0..300 {
        world.step();
        for (id, node) in &world.nodes {
            told.entry(*id).or_default().extend(node.told.clone());
        }
    }
    world.rest();
    assert_eq!(told[&1], BTreeSet::new(), "it has all there is");
    assert_eq!(told[&2], BTreeSet::from([topic("b"), topic("c")]));
}

/// What is told stays until it is taken, whatever the disk has had meanwhile.
#[test]
fn changes_are_kept_until_they_are_taken() {
    let mut world = at_rest(1);
    retain(&mut world, 1, "a", 1);
    world.persist(1);
    retain(&mut world, 1, "b", 2);
    remove(&mut world, 1, "b").expect("an event");
    world.persist(1);
    world.node(1).look();
    assert_eq!(world.node(1).told, BTreeSet::from([topic("a"), topic("b")]));
    world.node(1).look();
    assert_eq!(world.node(1).told, BTreeSet::new());
}
