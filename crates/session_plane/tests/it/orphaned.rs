//! Memberships of sessions that have ended: the primary owner of the routes removes them, whatever it hears of
//! first.

use session_plane::plane::{NewBirth, NewChange, NewEntry};
use session_plane::{Birth, Dot, EntryKind, Fact, MemberTerms, Slot, SlotSet};

use super::clients::{NOBODY, client, slot};
use super::connections::CONNECTING;
use super::group_clients::{group, part_slots};
use super::machine::Value;
use super::world::World;

/// Milliseconds in which nodes that see each other agree.
const LONG: u64 = 3_000;
/// Client that is a member.
const MEMBER: u8 = CONNECTING.start;

/// Makes the session with a birth a member, as the node of its connection does.
fn join(world: &mut World, node: u64, birth: Birth) {
    let adds = NewEntry {
        birth: NewBirth::Of(birth),
        fact: Fact::Member(Box::new(MemberTerms {
            client: client(MEMBER),
            since: None,
        })),
        value: Value::Plain(3),
    };
    let change = NewChange {
        client: group().key().clone(),
        removes: Vec::new(),
        adds: Some(adds),
    };
    let slots = part_slots().union(&SlotSet::from_iter([Slot::ROUTES]));
    world.with_sessions(node, |sessions, at, actions| {
        let made = sessions.change(at, NOBODY, slots, change, actions);
        made.expect("the stream has room");
    });
}

fn begin(world: &mut World, node: u64) -> Birth {
    let birth = NewBirth::Here {
        is_clean: false,
        clock: None,
    };
    let (fact, value) = (Fact::Session { connected: None }, Value::Plain(1));
    let adds = Some(NewEntry { birth, fact, value });
    let made = world.change(node, MEMBER, Vec::new(), adds);
    let made = made.expect("the stream has room");
    Birth {
        dot: made.dot,
        clock: made.clock,
        is_clean: false,
    }
}

fn end(world: &mut World, node: u64) {
    let plane = world.machines[&node].plane().expect("it runs");
    let copy = plane.copy(slot(MEMBER)).expect("three nodes own all slots");
    let session = copy.entries.session(client(MEMBER).as_bytes());
    let session = session.expect("a session");
    let ending = session.ending(plane.known()).expect("it has not ended");
    let removes = session.iter().map(|(id, _)| id.dot).collect();
    let adds = NewEntry {
        birth: NewBirth::Of(ending.birth),
        fact: ending.fact,
        value: Value::Plain(1),
    };
    let made = world.change(node, MEMBER, removes, Some(adds));
    made.expect("the stream has room");
}

/// Nodes whose routes have a member.
fn nodes_with_member(world: &World) -> Vec<u64> {
    let has_member = |id: &u64| {
        let mut entries = world.group_entries(*id, Slot::ROUTES).into_iter();
        entries.any(|(id, _)| id.kind == EntryKind::Member)
    };
    (1..=3).filter(has_member).collect()
}

#[test]
fn a_member_of_a_session_that_has_ended_is_removed() {
    for node in 1..=3 {
        let mut world = World::new(1, 3);
        world.rest().expect("three nodes come to rest");
        let birth = begin(&mut world, 1);
        world.pass(LONG).expect("nothing goes wrong");
        end(&mut world, 2);
        world.pass(LONG).expect("nothing goes wrong");
        join(&mut world, node, birth);
        world.rest().expect("nobody keeps the member");
        assert_eq!(nodes_with_member(&world), []);
    }
}

/// Events of several nodes may come in any order.
#[test]
fn a_member_waits_for_its_session_and_goes_with_it() {
    for (joins_at, begins_at) in [(1, 2), (2, 3), (3, 1)] {
        let mut world = World::new(1, 3);
        world.rest().expect("three nodes come to rest");
        let last = world.machines[&begins_at].plane().expect("it runs").last();
        let next = Dot {
            number: last.number + 1,
            ..last
        };
        let birth = Birth {
            dot: next,
            clock: world.machines[&begins_at].plane().expect("it runs").clock(),
            is_clean: false,
        };
        join(&mut world, joins_at, birth);
        world.pass(LONG).expect("nothing goes wrong");
        assert_eq!(nodes_with_member(&world), [1, 2, 3], "its session may come");

        let begun = begin(&mut world, begins_at);
        assert_eq!(begun.dot, next);
        world.pass(LONG).expect("nothing goes wrong");
        assert_eq!(nodes_with_member(&world), [1, 2, 3], "its session is there");
        end(&mut world, 6 - joins_at - begins_at);
        world.rest().expect("nobody keeps the member");
        assert_eq!(nodes_with_member(&world), []);
    }
}
