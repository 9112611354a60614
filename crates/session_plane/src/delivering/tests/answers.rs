//! Answers of clients that do not fit.

use super::node::*;
use super::*;

use DeliveryAnswer::{Discarded, Puback, Pubcomp, Pubrec, PubrecError};

#[test]
fn an_answer_to_a_packet_id_that_is_not_in_use_changes_nothing() {
    let (mut node, id) = (Node::new(), packet_id(7));
    for answer in [Puback, Pubcomp, PubrecError, Discarded] {
        assert_does(node.answer(id, answer), []);
    }
    assert_does(node.answer(id, Pubrec), [not_found(id)]);
}

/// With PUBREL 0x92 the client would take the PUBLISH that follows for a new message.
#[test]
fn mqtt_4_3_3_pubrec_of_a_packet_id_that_is_kept_for_its_message_is_not_answered() {
    let id = packet_id(7);
    let (mut node, begun) = Node::resumed(&[older(1, 10, 7, 60, SENT)]);
    assert_does(begun, []);
    assert_does(node.answer(id, Pubrec), []);
    node.queue(60, ONCE);
    assert_does(node.answer(id, Pubrec), []);
    let mut node = Node::unfed(LIMITS);
    assert_does(node.answer(id, Pubrec), []);
}

#[test]
fn mqtt_4_3_3_pubrec_with_an_error_ends_the_exchange() {
    let mut node = Node::new();
    node.queue(60, ONCE);
    node.store(id_of(60));
    let entry = node.last();
    assert_does(node.answer(id_of(60), PubrecError), [acknowledge(60, &[entry])]);
    assert_eq!(node.delivering.in_flight(), 0);
}

#[test]
fn an_answer_to_another_qos_ends_the_connection() {
    for (qos, answer) in [(LEAST, Pubrec), (LEAST, PubrecError), (ONCE, Puback)] {
        let mut node = Node::new();
        node.queue(60, qos);
        node.store(id_of(60));
        let packet_id = id_of(60);
        let closed = disconnect(DeliveryViolation::OtherQos { packet_id });
        assert_does(node.answer(packet_id, answer), [closed]);
        assert_does(node.queue(61, LEAST), []);
        assert_does(node.answer(packet_id, Puback), []);
    }
}

/// PUBCOMP may answer PUBREL 0x92, which was sent before PUBLISH with that packet id.
#[test]
fn answers_out_of_order_change_nothing() {
    let (mut node, id) = (Node::new(), id_of(60));
    node.queue(60, ONCE);
    assert_does(node.answer(id, Pubcomp), []);
    node.store(id);
    assert_does(node.answer(id, Pubcomp), []);
    node.answer(id, Pubrec);
    for answer in [Pubcomp, Pubrec, PubrecError, Puback, Discarded] {
        assert_does(node.answer(id, answer), []);
    }
    assert_does(node.store(id), [pubrel(id)]);
    assert_does(node.answer(id, PubrecError), []);
    let entry = node.last();
    assert_does(node.answer(id, Pubcomp), [acknowledge(60, &[entry])]);
}

#[test]
fn mqtt_4_3_3_4_a_second_pubrec_is_answered_with_pubrel_again() {
    let (mut node, id) = (Node::new(), id_of(60));
    node.queue(60, ONCE);
    node.store(id);
    node.answer(id, Pubrec);
    node.store(id);
    assert_does(node.answer(id, Pubrec), [pubrel(id)]);
    assert_does(node.answer(id, Pubrec), [pubrel(id)]);
    let entry = node.last();
    assert_does(node.answer(id, Pubcomp), [acknowledge(60, &[entry])]);
}

#[test]
fn what_is_said_of_a_connection_that_has_ended_changes_nothing() {
    let mut node = Node::new();
    node.queue(60, ONCE);
    let connection = FIRST;
    assert_does(node.step(DeliveringEvent::Closed { connection }), []);
    assert_does(node.store(id_of(60)), []);
    assert_does(node.answer(id_of(60), Pubrec), []);
    assert_eq!((node.delivering.in_flight(), node.delivering.waiting()), (0, 0));
}

#[test]
fn a_message_that_the_node_does_not_send_is_done() {
    let mut node = Node::new();
    node.queue(60, LEAST);
    assert_does(node.answer(id_of(60), Discarded), [acknowledge(60, &[])]);
    node.queue(61, ONCE);
    node.store(id_of(61));
    let entry = node.last();
    assert_does(node.answer(id_of(61), Discarded), [acknowledge(61, &[entry])]);
    let (mut node, _) = Node::resumed(&[older(1, 10, 7, 62, SENT)]);
    node.queue(62, ONCE);
    node.store(packet_id(7));
    let entry = node.last();
    let freed = [
        acknowledge(62, &[]),
        write(packet_id(7), 62, DeliveryStage::Freeing, &[entry]),
    ];
    assert_does(node.answer(packet_id(7), Discarded), freed);
    assert_does(node.store(packet_id(7)), [pubrel(packet_id(7))]);
    let entry = node.last();
    assert_does(node.answer(packet_id(7), Pubcomp), [remove(&[entry])]);
}
