use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use world::World;

mod world;

const PEER: NodeId = NodeId(2);

/// Step of a history.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A node wants something else of a filter.
    Set {
        node: u64,
        filter: u8,
        interest: Option<Interest>,
    },
    /// A node sends what it has for another one.
    Send { from: u64, to: u64 },
    /// The oldest message between two nodes arrives.
    Deliver { from: u64, to: u64 },
    /// The link between two nodes is lost with what is on it, and a new one begins.
    Break { one: u64, other: u64 },
    /// Two nodes give each other up; or `one` meets the other, which may have met it before.
    Toggle { one: u64, other: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 1..=3_u64;
    let pairs = || (node(), 1..=2_u64).prop_map(|(one, further)| (one, (one + further - 1) % 3 + 1));
    let interests = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Interest::Unstored)),
        2 => Just(Some(Interest::All)),
    ];
    let set = (node(), 0..8_u8, interests).prop_map(|(node, filter, interest)| Step::Set {
        node,
        filter,
        interest,
    });
    let step = prop_oneof![
        6 => set,
        5 => pairs().prop_map(|(from, to)| Step::Send { from, to }),
        8 => pairs().prop_map(|(from, to)| Step::Deliver { from, to }),
        1 => pairs().prop_map(|(one, other)| Step::Break { one, other }),
        1 => pairs().prop_map(|(one, other)| Step::Toggle { one, other }),
    ];
    proptest::collection::vec(step, 0..120)
}

fn limits() -> InterestLimits {
    InterestLimits {
        own_max: 100,
        of_peer_max: 100,
        changes_max: 3,
        bytes_max: 1_000,
    }
}

fn filter(name: &str) -> TopicFilter {
    TopicFilter::new(name.as_bytes()).expect("short")
}

proptest! {
    #[test]
    fn peers_know_what_they_were_told(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
        }
        world.come_to_rest();
        world.check();
        world.check_rest();
    }
}

#[test]
fn a_node_without_peers_has_told_everything() {
    let mut interests = Interests::new(limits());
    let position = interests.set(&filter("a"), Some(Interest::All));
    assert_eq!((position, interests.told()), (Ok(1), 1));
    assert!(interests.are_known());
    assert_eq!(interests.set(&filter("a"), None), Ok(2));
    assert_eq!(
        interests.set(&filter("a"), None),
        Ok(2),
        "there is nothing to say"
    );
    assert!(interests.is_empty(), "nobody is to forget it");
}

#[test]
fn a_filter_that_a_peer_is_to_forget_has_its_place_until_then() {
    let mut interests = Interests::new(InterestLimits {
        own_max: 1,
        ..limits()
    });
    interests.meet(PEER);
    assert_eq!(interests.set(&filter("a"), Some(Interest::All)), Ok(1));
    assert_eq!(interests.set(&filter("a"), None), Ok(2));
    let full = Err(InterestsFull { max: 1 });
    assert_eq!(interests.set(&filter("b"), Some(Interest::All)), full);
    let told = interests.next_message(PEER).map(|told| told.up_to);
    assert_eq!(told, Some(2));
    assert_eq!(interests.next_message(PEER), None, "one is on its way");
    assert_eq!(interests.confirm(PEER, 2), Ok(()));
    assert_eq!(interests.set(&filter("b"), Some(Interest::All)), Ok(3));
}

#[test]
fn a_peer_is_met_with_a_message_though_there_is_nothing_to_tell() {
    let (mut one, mut other) = (Interests::new(limits()), Interests::new(limits()));
    one.meet(PEER);
    other.meet(NodeId(1));
    assert!(!other.are_known());
    let told = one.next_message(PEER).expect("a first message");
    assert_eq!(
        other
            .receive(NodeId(1), told, 0)
            .map(|learned| learned.changes.len()),
        Ok(0)
    );
    assert!(other.are_known());
    assert_eq!(one.confirm(PEER, 0), Ok(()));
    assert_eq!(one.next_message(PEER), None);
}

#[test]
fn bad_input_is_refused_by_name() {
    let mut interests = Interests::new(InterestLimits {
        of_peer_max: 1,
        ..limits()
    });
    let told = |after, up_to, count: usize| InterestChanges {
        after,
        up_to,
        is_all: true,
        changes: vec![
            InterestChange {
                filter: filter("a"),
                interest: Some(Interest::All),
            };
            count
        ],
    };
    let peer = PEER;
    let not_present = InterestError::NotPresent { peer };
    assert_eq!(interests.receive(peer, told(0, 1, 1), 0), Err(not_present));
    assert_eq!(interests.confirm(peer, 0), Err(not_present));
    interests.meet(peer);
    let too_many = InterestError::TooMany { peer, max: 1 };
    assert_eq!(interests.receive(peer, told(0, 2, 2), 0), Err(too_many));
    assert_eq!(too_many.to_string(), "node 2 has more than 1 filters");
    let wrong = |after, up_to| InterestError::WrongPosition {
        peer,
        after,
        up_to,
        position: 0,
    };
    assert_eq!(interests.receive(peer, told(1, 2, 0), 0), Err(wrong(1, 2)));
    assert_eq!(
        interests
            .receive(peer, told(0, 2, 1), 7)
            .map(|learned| learned.is_anew),
        Ok(true)
    );
    assert_eq!(interests.receive(peer, told(2, 3, 1), 1), Err(too_many));
    let never = InterestError::NeverTold {
        peer,
        up_to: 4,
        told: 0,
    };
    assert_eq!(interests.confirm(peer, 4), Err(never));
}
