//! Moves of QoS 2 messages of groups into the queue.

use super::DeliveryAnswer::{Puback, Pubcomp, Pubrec};
use super::node::*;
use super::*;

const RELEASED: DeliveryStage = DeliveryStage::Released;

#[test]
fn mqtt_4_8_2_4_a_qos_2_message_of_a_group_is_the_sessions_before_publish() {
    let mut node = Node::new();
    let id = id_of(70);
    assert_does(node.give(60, ONCE), [move_into_queue(60)]);
    assert_does(node.know_move(70), []);
    assert_does(node.make_move(60, 70), []);
    assert_eq!(node.delivering.in_flight(), 1, "it has its place");
    assert_does(node.know_move(70), [write(id, 70, SENT, &[])]);
    assert_does(node.know_move(70), []);
    assert_does(node.store(id), [publish(id, 70, ONCE, false)]);
    let first = node.last();
    assert_does(node.answer(id, Pubrec), [write(id, 70, RELEASED, &[first])]);
    assert_does(node.store(id), [pubrel(id)]);
    let second = node.last();
    assert_does(node.answer(id, Pubcomp), [remove_message(70, &[second])]);
    assert_does(node.queue(70, ONCE), [let_go(70)]);
    assert_eq!((node.delivering.in_flight(), node.delivering.waiting()), (0, 0));
}

#[test]
fn what_the_feed_passes_on_of_a_move_is_sent_once() {
    let (mut node, id) = (Node::new(), id_of(70));
    node.give(60, ONCE);
    node.make_move(60, 70);
    assert_does(node.queue(70, ONCE), []);
    assert_does(node.know_move(70), [write(id, 70, SENT, &[])]);
    node.store(id);
    assert_eq!(node.delivering.in_flight(), 1);
    let mut node = Node::new();
    node.give(60, ONCE);
    node.make_move(60, 70);
    node.know_move(70);
    assert_does(node.queue(70, ONCE), []);
    assert_does(node.store(id), [publish(id, 70, ONCE, false)]);
    let first = node.last();
    assert_does(
        node.answer(id, DeliveryAnswer::PubrecError),
        [acknowledge(70, &[first])],
    );
}

/// A slow client draws no more messages from its group than it receives.
#[test]
fn a_message_moves_when_there_is_a_place_for_it() {
    let mut node = Node::full();
    assert_does(node.give(60, ONCE), []);
    let ended = [acknowledge(901, &[]), move_into_queue(60)];
    assert_does(node.answer(id_of(901), Puback), ended);
    node.make_move(60, 70);
    assert_does(node.queue(980, LEAST), []);
    assert_does(node.give(61, ONCE), []);
    assert_does(node.know_move(70), [write(id_of(70), 70, SENT, &[])]);
    let mut node = Node::unfed(LIMITS);
    assert_does(node.give(60, ONCE), []);
    let begun = node.feed(DeliveryChanges::default(), Vec::new());
    assert_does(begun, [move_into_queue(60)]);
}

#[test]
fn messages_begin_in_the_order_of_their_moves() {
    let mut node = Node::new();
    for number in [60, 61] {
        assert_does(node.give(number, ONCE), [move_into_queue(number)]);
        node.make_move(number, number + 10);
    }
    assert_does(node.know_move(71), []);
    let begun = [70, 71].map(|number| write(id_of(number), number, SENT, &[]));
    assert_does(node.know_move(70), begun);
}

#[test]
fn a_message_that_leaves_the_queue_before_every_node_knows_its_move_is_not_sent() {
    let mut node = Node::new();
    for number in [60, 61] {
        node.give(number, ONCE);
        node.make_move(number, number + 10);
    }
    node.queue(70, ONCE);
    assert_does(node.withdraw(70), []);
    assert_does(node.know_move(70), []);
    assert_does(node.know_move(71), [write(id_of(71), 71, SENT, &[])]);
    assert_eq!(node.delivering.in_flight(), 1);
}

#[test]
fn a_client_that_is_paused_gets_what_has_moved_later() {
    let mut node = Node::new();
    node.give(60, ONCE);
    node.make_move(60, 70);
    let pause = |is_paused| DeliveringEvent::Paused {
        connection: FIRST,
        is_paused,
    };
    assert_does(node.step(pause(true)), []);
    assert_does(node.know_move(70), []);
    assert_does(node.step(pause(false)), [write(id_of(70), 70, SENT, &[])]);
}
