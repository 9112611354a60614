//! Packet ids that the node asks for.

use super::node::*;
use super::*;

fn request(node: &mut Node, qos: DeliveryQos) -> Vec<Action> {
    let connection = FIRST;
    node.step(DeliveringEvent::Requested { connection, qos })
}

fn pause(node: &mut Node, is_paused: bool) -> Vec<Action> {
    let connection = FIRST;
    node.step(DeliveringEvent::Paused {
        connection,
        is_paused,
    })
}

fn grant(id: u16, qos: DeliveryQos) -> Action {
    DeliveringAction::Grant {
        connection: FIRST,
        packet_id: packet_id(id),
        qos,
    }
}

fn pubrel(id: u16) -> Action {
    DeliveringAction::SendPubrel {
        connection: FIRST,
        packet_id: packet_id(id),
        is_found: true,
    }
}

#[test]
fn packet_ids_are_granted_in_turn_and_free_again() {
    let mut node = Node::new();
    assert_does(request(&mut node, LEAST), [grant(1, LEAST)]);
    assert_does(request(&mut node, LEAST), [grant(2, LEAST)]);
    assert_does(node.answer(packet_id(1), DeliveryAnswer::Puback), []);
    assert_does(node.answer(packet_id(2), DeliveryAnswer::Discarded), []);
    assert_eq!(node.delivering.in_flight(), 0);
    assert_does(request(&mut node, LEAST), [grant(3, LEAST)]);
}

#[test]
fn a_qos_2_message_has_its_exchange_without_the_owners() {
    let mut node = Node::new();
    assert_does(request(&mut node, ONCE), [grant(1, ONCE)]);
    assert_does(node.answer(packet_id(1), DeliveryAnswer::Pubcomp), []);
    assert_does(node.answer(packet_id(1), DeliveryAnswer::Pubrec), [pubrel(1)]);
    assert_does(node.answer(packet_id(1), DeliveryAnswer::Pubrec), [pubrel(1)]);
    assert_eq!(node.delivering.in_flight(), 1);
    assert_does(node.answer(packet_id(1), DeliveryAnswer::Pubcomp), []);
    assert_does(request(&mut node, ONCE), [grant(2, ONCE)]);
    assert_does(node.answer(packet_id(2), DeliveryAnswer::PubrecError), []);
    assert_eq!(node.delivering.in_flight(), 0);
}

#[test]
fn an_answer_of_another_qos_ends_the_connection() {
    let mut node = Node::new();
    request(&mut node, ONCE);
    let reason = DeliveryViolation::OtherQos {
        packet_id: packet_id(1),
    };
    let connection = FIRST;
    let disconnect = DeliveringAction::Disconnect { connection, reason };
    assert_does(node.answer(packet_id(1), DeliveryAnswer::Puback), [disconnect]);
}

#[test]
fn requests_and_the_queue_take_turns_within_the_receive_maximum() {
    let mut node = Node::full();
    assert_does(request(&mut node, LEAST), []);
    assert_does(node.queue(60, LEAST), []);
    assert_does(node.queue(61, LEAST), []);
    let answered = node.answer(id_of(901), DeliveryAnswer::Puback);
    assert!(answered.contains(&grant(1, LEAST)), "{answered:?}");
    assert_does(request(&mut node, LEAST), []);
    let answered = node.answer(id_of(902), DeliveryAnswer::Puback);
    assert!(
        answered.contains(&publish(id_of(60), 60, LEAST, false)),
        "{answered:?}"
    );
    let answered = node.answer(packet_id(1), DeliveryAnswer::Puback);
    assert_does(answered, [grant(2, LEAST)]);
    let answered = node.answer(packet_id(2), DeliveryAnswer::Puback);
    assert_does(answered, [publish(id_of(61), 61, LEAST, false)]);
}

#[test]
fn nothing_begins_while_the_client_is_paused() {
    let mut node = Node::new();
    assert_does(pause(&mut node, true), []);
    assert_does(request(&mut node, LEAST), []);
    assert_does(node.queue(60, LEAST), []);
    let begun = pause(&mut node, false);
    assert_does(begun, [grant(1, LEAST), publish(id_of(60), 60, LEAST, false)]);
}

#[test]
fn a_connection_that_resumes_is_granted_nothing_before_its_packet_ids_are_known() {
    let mut node = Node::unfed(LIMITS);
    assert_does(request(&mut node, LEAST), []);
    let told = node.tell(&[older(1, 60, 1, 70, SENT)]);
    assert!(told.contains(&grant(2, LEAST)), "{told:?}");
    assert!(!told.contains(&grant(1, LEAST)));
}

#[test]
fn an_older_packet_id_that_is_told_late_goes_on_behind_the_message_that_has_it() {
    let mut node = Node::new();
    assert_does(request(&mut node, LEAST), [grant(1, LEAST)]);
    let released = DeliveryStage::Released;
    assert_does(node.tell(&[older(1, 60, 1, 70, released)]), []);
    let answered = node.answer(packet_id(1), DeliveryAnswer::Puback);
    assert!(
        matches!(&answered[..], [DeliveringAction::Write(_)]),
        "{answered:?}"
    );
}
