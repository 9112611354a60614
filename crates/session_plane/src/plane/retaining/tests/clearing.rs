//! Clears of topics: what they beat, and when they go.

use super::*;

/// Steps in which nodes that are all present drop what is garbage, and more.
const LONG: usize = 200;

fn is_cleared(world: &World, id: u64, name: &str) -> bool {
    world.plane(id).is_cleared(&topic(name))
}

/// Topics that nodes have entries of.
fn topics(world: &World) -> usize {
    let planes = world.nodes.values().map(|node| &node.plane);
    planes.map(|plane| plane.retained_after(None).count()).sum()
}

/// A client retains at one node, and clears at another one that lacks the message.
#[test]
fn a_clear_beats_what_its_node_has_not_seen() {
    let mut world = at_rest(3);
    world.split(&[1]);
    world.pass(100);
    retain(&mut world, 1, "a", 1);
    world.pass(5);
    let cleared = clear(&mut world, 2, "a");
    world.pass(100);
    assert_eq!([1, 2, 3].map(|id| texts(&world, id, "a")), [Some(1), None, None]);
    assert_eq!(
        [1, 2, 3].map(|id| is_cleared(&world, id, "a")),
        [false, true, true]
    );
    world.heal();
    world.rest();
    assert!(world.durable.contains(&cleared.dot));
    assert_eq!(all(&world, "a"), BTreeSet::from([None]));
    assert_eq!(topics(&world), 0, "all members know the clear");
}

/// The same, but the message is later than the clear.
#[test]
fn a_later_message_beats_a_clear() {
    for skew in [0, 60_000] {
        let mut world = World::new(3, &[skew]);
        world.rest();
        world.split(&[1]);
        world.pass(100);
        // By clocks the message is later: it was written last, or its node is ahead.
        let (first, second) = if skew == 0 { (2, 1) } else { (1, 2) };
        for id in [first, second] {
            match id {
                1 => retain(&mut world, 1, "a", 1),
                _ => clear(&mut world, 2, "a"),
            };
            world.pass(5);
        }
        world.heal();
        world.rest();
        assert_eq!(all(&world, "a"), BTreeSet::from([Some(1)]), "{skew}");
        assert_eq!(
            [1, 2, 3].map(|id| entries(&world, id, "a")),
            [1, 1, 1],
            "the clear is gone"
        );
    }
}

#[test]
fn a_clear_of_an_unknown_topic_makes_an_event() {
    let mut world = at_rest(2);
    let made = clear(&mut world, 1, "a");
    assert!(is_cleared(&world, 1, "a"));
    assert_eq!(world.plane(1).retained(&topic("a")), None);
    let again = clear(&mut world, 1, "a");
    assert!(again.clock > made.clock);
    assert_eq!(entries(&world, 1, "a"), 1, "a clear replaces a clear");
    world.rest();
    assert!(world.durable.contains(&made.dot) && world.durable.contains(&again.dot));
    assert_eq!(topics(&world), 0);
}

#[test]
fn a_clear_stays_while_a_member_is_away() {
    let mut world = at_rest(3);
    retain(&mut world, 1, "a", 1);
    world.rest();
    world.split(&[3]);
    world.pass(100);
    clear(&mut world, 1, "a");
    retain(&mut world, 1, "b", 2);
    world.pass(5);
    clear(&mut world, 2, "b");
    retain(&mut world, 2, "b", 3);
    world.pass(LONG);
    assert_eq!([1, 2].map(|id| entries(&world, id, "a")), [1, 1]);
    assert_eq!(
        [1, 2].map(|id| entries(&world, id, "b")),
        [2, 2],
        "a message removes no clear"
    );
    assert_eq!(texts(&world, 1, "b"), Some(3));
    for id in 1..=3 {
        world.restart(id);
        world.pass(LONG);
    }
    assert_eq!([1, 2].map(|id| entries(&world, id, "a")), [1, 1]);
    assert_eq!(texts(&world, 3, "a"), Some(1));
    world.heal();
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([None]));
    assert_eq!(all(&world, "b"), BTreeSet::from([Some(3)]));
    assert_eq!([1, 2, 3].map(|id| entries(&world, id, "b")), [1, 1, 1]);
    assert_eq!(topics(&world), 3);
}

/// What a clear has beaten does not come back with the removal of what was retained since.
#[test]
fn a_clear_holds_behind_a_later_message_that_is_removed() {
    let mut world = at_rest(3);
    world.split(&[3]);
    world.pass(100);
    retain(&mut world, 3, "a", 1);
    world.pass(5);
    clear(&mut world, 1, "a");
    world.pass(5);
    retain(&mut world, 2, "a", 2);
    world.pass(5);
    remove(&mut world, 1, "a").expect("an event");
    world.pass(5);
    assert_eq!(remove(&mut world, 1, "a"), None, "a removal removes no clear");
    assert!(is_cleared(&world, 2, "a"));
    world.heal();
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([None]));
    assert_eq!(topics(&world), 0);
}

/// One node has dropped a clear, with what it has beaten, and another one has both still.
#[test]
fn what_a_clear_has_beaten_stays_away_while_nodes_drop_it() {
    let mut world = at_rest(3);
    world.split(&[1]);
    world.pass(100);
    retain(&mut world, 1, "a", 1);
    world.pass(5);
    clear(&mut world, 2, "a");
    world.pass(100);
    world.heal();
    let counts = |world: &World| [1, 2, 3].map(|id| entries(world, id, "a"));
    let mut was_mixed = false;
    for _ in 0..LONG {
        world.step();
        let counts = counts(&world);
        if counts.contains(&2) && counts.contains(&0) {
            was_mixed = true;
            let has_all = counts.iter().position(|count| *count == 2).expect("one");
            let id = u64::try_from(has_all + 1).expect("few");
            assert_eq!(texts(&world, id, "a"), None);
            world.restart(id);
        }
    }
    assert!(was_mixed, "the test is about nodes that drop one after another");
    world.rest();
    assert_eq!(all(&world, "a"), BTreeSet::from([None]));
    assert_eq!(counts(&world), [0, 0, 0]);
}

/// A member knows a clear, and loses it with its process. It starts where it reaches nobody, and its wall
/// clock is behind that of the clear.
#[test]
fn a_clear_stays_until_all_members_have_it_on_their_disks() {
    let mut world = World::new(3, &[60_000]);
    world.rest();
    world.stall(2);
    clear(&mut world, 1, "a");
    for _ in 0..LONG {
        world.step();
        let counts = [1, 2, 3].map(|id| entries(&world, id, "a"));
        if counts.contains(&0) && counts.contains(&1) && counts[1] == 1 {
            break;
        }
    }
    let had = [1, 3].map(|id| entries(&world, id, "a"));
    world.split(&[2]);
    world.restart(2);
    world.end_stalls();
    world.pass(100);
    assert_eq!(entries(&world, 2, "a"), 0, "it has lost the clear");
    retain(&mut world, 2, "a", 1);
    world.heal();
    world.rest();
    assert_eq!(
        all(&world, "a"),
        BTreeSet::from([None]),
        "by clocks it was cleared later"
    );
    assert_eq!(had, [1, 1]);
}

/// A drop is told, and goes to the disk.
#[test]
fn topics_that_are_dropped_are_told() {
    let mut world = at_rest(2);
    clear(&mut world, 1, "a");
    let mut told = BTreeSet::new();
    for _ in 0..LONG {
        let had_entries = topics(&world);
        world.step();
        if topics(&world) < had_entries {
            told.extend(world.nodes.values().flat_map(|node| node.told.clone()));
        }
    }
    assert_eq!(topics(&world), 0);
    assert_eq!(told, BTreeSet::from([topic("a")]));
    for id in 1..=2 {
        world.restart(id);
        assert_eq!(entries(&world, id, "a"), 0, "the disk has it no more");
    }
}

/// A clear comes with a merge before anything that its node has sent since, and that node's clock is ahead.
#[test]
fn the_clock_of_a_clear_that_comes_with_a_merge_is_seen() {
    let mut merged = 0;
    for wait in 0..20 {
        let mut world = World::new(3, &[0, 0, 60_000]);
        world.rest();
        for text in 0..40 {
            retain(&mut world, 2, &format!("b{text}"), text);
        }
        world.rest();
        world.split(&[1]);
        world.pass(100);
        for text in 0..40 {
            retain(&mut world, 2, &format!("b{text}"), 100 + text);
        }
        world.pass(20);
        world.heal();
        while !(2..=3).all(|id| world.plane(1).membership().is_present(cluster::NodeId(id))) {
            world.step();
        }
        world.pass(wait);
        world.hold(3, 1);
        let cleared = clear(&mut world, 3, "c");
        for _ in 0..20 {
            if is_cleared(&world, 1, "c") {
                break;
            }
            world.step();
        }
        if is_cleared(&world, 1, "c") {
            merged += 1;
            assert!(world.plane(1).clock() >= cleared.clock, "after {wait} steps");
            let made = retain(&mut world, 1, "c", 1);
            assert!(made.clock > cleared.clock);
            assert_eq!(texts(&world, 1, "c"), Some(1));
        }
        world.release();
        world.rest();
    }
    assert!(merged > 0, "the test is about a merge");
}
