//! What confirmations tell.

use session_plane::wire::Confirm;
use session_plane::{Dot, MadeEvent};

use super::network::Way;
use super::world::{TICK, World};

/// Makes an event of a node, and waits until another one has confirmed it.
fn make(world: &mut World, id: u64, by: u64) -> (Dot, Confirm) {
    let made: Option<MadeEvent> = world.change(id, 0, Vec::new(), None);
    let dot = made.expect("the stream has room").dot;
    let way = Way { from: by, to: id };
    for _ in 0..1_000 {
        world.pass(TICK).expect("nothing goes wrong");
        let confirmed = world.confirmations.get(&way);
        if let Some(confirmed) = confirmed.filter(|confirmed| confirmed.number >= dot.number) {
            return (dot, confirmed.clone());
        }
    }
    panic!("{by} does not confirm {dot:?}");
}

/// Of two nodes that have given each other up, each is to hear of the other's events before it goes by the
/// confirmation of a third one.
#[test]
fn a_confirmation_tells_what_its_sender_knows_where_views_differ() {
    let mut world = World::new(1, 3);
    world.rest().expect("three nodes come to rest");
    make(&mut world, 2, 3);
    let (_, confirmed) = make(&mut world, 1, 3);
    assert!(confirmed.known.is_empty(), "all have one view: {confirmed:?}");

    world.network.cut(Way { from: 1, to: 2 });
    while world.present_to(1).contains(&2) {
        world.pass(TICK).expect("nothing goes wrong");
    }
    let is_whole = |world: &World| world.present_to(3).contains(&2);
    assert!(is_whole(&world), "it waits for half of the silence");
    let unseen = world.machines[&2].plane().expect("it runs").last();
    let (_, confirmed) = make(&mut world, 1, 3);
    assert!(is_whole(&world), "it waits still");
    assert!(confirmed.known.covers(unseen), "{confirmed:?}");
}
