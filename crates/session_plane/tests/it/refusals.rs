//! What a copy refuses is not acknowledged.

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use session_plane::connecting::{ConnectingMessage, Release};
use session_plane::feed::{
    DeliveryChanges, FeedDelivery, FeedError, FeedId, FeedItem, FeedItems, FeedMessage, KnownDelivery,
    QueueKey,
};
use session_plane::groups::{Give, GroupError, GroupMessage};
use session_plane::plane::PlaneError;
use session_plane::sessions::{SessionsError, SessionsMessage};
use session_plane::slot_entries::SINGLE_DOTS_MAX;
use session_plane::{Dot, Run, Slot, VersionVector};

use super::clients::Waiting;
use super::machine::{Body, Value};
use super::network::Way;
use super::world::World;

/// Longer than holes stand before they are closed.
const LONG: u64 = 5_000;

/// Removes events of another node from a session, and waits for that.
fn remove(world: &mut World, count: usize) -> Dot {
    let run = Run {
        node: NodeId(9),
        incarnation: Incarnation(1),
    };
    let numbers = 1..=u64::try_from(count).expect("a count");
    let removes = numbers.map(|number| Dot { run, number }).collect();
    let dot = world
        .change(1, 0, removes, None)
        .expect("the stream has room")
        .dot;
    let (client, dots) = (0, Vec::new());
    world.wait_for(dot, Waiting::Remove { client, dots });
    dot
}

#[test]
fn what_a_copy_refuses_and_what_follows_is_not_acknowledged() {
    let mut world = World::new(1, 1);
    world.rest().expect("a node alone comes to rest");
    let taken = remove(&mut world, 1);
    world.pass(LONG).expect("nothing goes wrong");
    assert!(!world.waiting.contains_key(&taken));

    let refused = remove(&mut world, SINGLE_DOTS_MAX + 1);
    let behind = remove(&mut world, 1);
    world.pass(LONG).expect("nothing goes wrong");
    assert!(world.waiting.contains_key(&refused));
    assert!(world.waiting.contains_key(&behind), "positions have no gaps");
}

/// Messages of services beside the plane come in the present stay of their sender, too.
#[test]
fn only_the_run_that_is_present_gives_a_sign_of_life() {
    let mut world = World::new(1, 2);
    world.rest().expect("two nodes come to rest");
    let mut record = |node, incarnation| {
        let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
        let run = Run { node, incarnation };
        let release = Release {
            old: Dot { run, number: 1 },
            by: None,
        };
        let message = SessionsMessage::Connecting(ConnectingMessage::Release(release));
        let mut heard = Ok(());
        world.with_sessions(1, |sessions, at, actions| {
            heard = sessions.receive(at, run, message, actions);
        });
        heard
    };
    let present = record(2, 1).expect_err("its connection is not here");
    assert!(matches!(present, SessionsError::Connecting(_)), "{present:?}");
    let later = record(2, 2).expect_err("another run");
    assert!(
        matches!(later, SessionsError::Plane(PlaneError::OtherRun { .. })),
        "{later:?}"
    );
    let unknown = record(9, 1).expect_err("no member");
    assert!(
        matches!(unknown, SessionsError::Plane(PlaneError::NotPresent(_))),
        "{unknown:?}"
    );
    assert!(later.is_ordinary() && unknown.is_ordinary());
}

/// A node takes nothing else for a message, or for a packet id.
#[test]
fn a_value_of_something_else_is_refused_by_name() {
    let mut world = World::new(1, 2);
    world.rest().expect("two nodes come to rest");
    let (node, incarnation) = (NodeId(2), Incarnation(1));
    let run = Run { node, incarnation };
    let dot = Dot { run, number: 1 };
    let receive = |world: &mut World, message| {
        let mut received = Ok(());
        world.with_sessions(1, |sessions, at, actions| {
            received = sessions.receive(at, run, message, actions);
        });
        received.expect_err("the value is none of a message")
    };
    let clock = Hlc::ZERO;
    let message = FeedItem {
        key: QueueKey { clock, dot },
        value: Value::Plain(1),
    };
    let (message_of, is_gone) = (dot, false);
    let delivery = FeedDelivery {
        dot,
        known: KnownDelivery {
            message: message_of,
            is_gone,
        },
        value: Value::Message(Body(1)),
    };
    for (items, added) in [(vec![message], vec![]), (vec![], vec![delivery])] {
        let items = FeedItems {
            feed: FeedId(1),
            number: 0,
            deliveries: DeliveryChanges {
                added,
                ..DeliveryChanges::default()
            },
            items,
            removed: Vec::new(),
            removed_by: VersionVector::default(),
        };
        let refused = receive(&mut world, SessionsMessage::Feed(FeedMessage::Items(items)));
        let expected = FeedError::OtherValue {
            peer: node,
            feed: FeedId(1),
            event: dot,
        };
        assert_eq!(refused, SessionsError::Feed(expected));
        assert!(!refused.is_ordinary());
    }
    let give = Give {
        slot: Slot::ROUTES,
        presence: dot,
        message: dot,
        assignment: dot,
        value: Value::Plain(1),
    };
    let refused = receive(&mut world, SessionsMessage::Groups(GroupMessage::Give(give)));
    let (peer, message) = (node, dot);
    let expected = GroupError::OtherValue { peer, message };
    assert_eq!(refused, SessionsError::Groups(expected));
}

/// The first Confirm may be lost. So it is sent again, with the stream behind it, as often as the peer
/// answers: also when the peer has no room to meet others.
#[test]
fn a_stay_that_is_confirmed_again_needs_no_room_for_rings() {
    let mut world = World::new(1, 2);
    world.rest().expect("two nodes come to rest");
    // Nothing is durable without the disk, so each change of the ring keeps one more.
    world.machine(2).stop_disk();
    let (there, way) = (NodeId(1), Way { from: 1, to: 2 });
    let can_meet = |world: &World| world.machines[&2].plane().expect("it runs").can_welcome();
    for _ in 0..40 {
        if !can_meet(&world) {
            break;
        }
        world.network.cut(way);
        world.pass(LONG / 2).expect("nothing goes wrong");
        world.network.heal();
        world.pass(LONG / 2).expect("nothing goes wrong");
    }
    assert!(!can_meet(&world), "there are as many rings as may be");
    let plane = world.machines[&2].plane().expect("it runs");
    assert!(
        plane.membership().is_present(there),
        "the last ring came with its stay"
    );
    let first = world.machines[&1].plane().expect("it runs").run();
    for repeated in world.handshakes[&way].clone() {
        world.with_sessions(2, |sessions, at, actions| {
            let received = sessions.receive(at, first, repeated, actions);
            assert_eq!(received, Ok(()), "what is sent again is heard again");
        });
    }
}
