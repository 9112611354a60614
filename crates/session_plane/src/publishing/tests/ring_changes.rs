//! Changes of the ring, and links that break.

use super::node::*;
use super::*;

fn gives_again(number: Dot, entry: u64) -> PublishingAction {
    PublishingAction::GiveAgain {
        client: client_id(0),
        number,
        entry: event(entry),
    }
}

#[test]
fn a_packet_id_that_waits_goes_to_the_owners_of_the_new_ring() {
    let mut node = Node::new(LIMITS);
    node.publish(FIRST, 7, 1);
    node.write(FIRST, number(1));
    let again = [gives_again(number(1), 2), awaits(0, number(1), 2, 9)];
    assert_eq!(node.change_ring(9, &[1, 2]), again);
    assert_eq!(node.stored(number(1), 2, 1), [], "the wait by the older ring");
    assert_eq!(node.stored(number(1), 2, 9), [routed(1, 2, &[1, 2], 9)]);
}

/// The event was sent to the owners of the ring that was in force when it was asked for.
#[test]
fn an_event_that_is_made_after_the_change_goes_to_the_new_owners_too() {
    let mut node = Node::new(LIMITS);
    node.publish(FIRST, 7, 1);
    assert_eq!(node.change_ring(9, &[1, 2]), []);
    let again = [gives_again(number(1), 2), awaits(0, number(1), 2, 9)];
    assert_eq!(node.write(FIRST, number(1)), again);
}

#[test]
fn a_message_that_waits_for_lower_numbers_waits_for_the_new_owners_too() {
    let mut node = Node::new(LIMITS);
    node.publish(SECOND, 7, 1);
    node.publish(FIRST, 7, 2);
    node.write(FIRST, number(2));
    assert_eq!(node.stored(number(2), 2, 1), []);
    let again = [gives_again(number(2), 2), awaits(0, number(2), 2, 9)];
    assert_eq!(node.change_ring(9, &[1, 2, 3, 4]), again);
    assert_eq!(node.close(SECOND), []);
    assert_eq!(node.stored(number(2), 2, 9), [routed(2, 2, &[1, 2, 3, 4], 9)]);
}

/// The same for a number of another run, which waits for the routes.
#[test]
fn a_message_of_another_run_waits_for_the_new_owners_too() {
    let mut node = Node::without_routes(LIMITS);
    let theirs = number_of(run_of(3, 1), 9);
    let message = Some(NumberedMessage {
        number: theirs,
        content: content(1),
    });
    let third = ConnectionId(3);
    node.open(third, 0, 200, vec![use_of(50, 60, message)]);
    assert_eq!(written(&node.publish_dup(third, 7, 1)).len(), 1);
    node.write(third, theirs);
    assert_eq!(node.stored(theirs, 2, 1), []);
    let again = [gives_again(theirs, 2), awaits(0, theirs, 2, 9)];
    assert_eq!(node.change_ring(9, &[1, 2]), again);
    assert_eq!(node.step(PublishingEvent::RoutesMerged(true)), []);
    let routed = node.stored(theirs, 2, 9);
    assert!(
        matches!(&routed[..], [PublishingAction::Route { .. }]),
        "{routed:?}"
    );
}

#[test]
fn a_message_on_its_way_goes_to_all_nodes_of_the_new_ring() {
    let mut node = Node::new(LIMITS);
    node.publish_and_route(FIRST, 7, 1);
    (1..=2).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(node.change_ring(9, &[1, 2, 4]), [routed(1, 2, &[1, 2, 4], 9)]);
    assert_eq!(node.confirm(4, number(1), 9), []);
    for from in [1, 2] {
        assert_eq!(node.confirm(from, number(1), 1), [], "by the older ring");
    }
    assert_eq!(node.confirm(1, number(1), 9), []);
    assert_eq!(node.confirm(2, number(1), 9), [pubrec(FIRST, 7)]);
}

#[test]
fn what_a_link_has_lost_is_sent_again() {
    let mut node = Node::new(LIMITS);
    node.publish_and_route(FIRST, 7, 1);
    node.publish_and_route(SECOND, 7, 2);
    node.publish(FIRST, 8, 3);
    node.confirm(2, number(1), 1);
    let renewed = |node: &mut Node, peer| node.step(PublishingEvent::LinkRenewed(NodeId(peer)));
    assert_eq!(renewed(&mut node, 2), [routed(2, 3, &[2], 1)]);
    assert_eq!(
        renewed(&mut node, 3),
        [routed(1, 2, &[3], 1), routed(2, 3, &[3], 1)]
    );
    assert_eq!(renewed(&mut node, 4), []);
}
