//! Packet ids of older connections.

use super::node::*;
use super::*;

use DeliveryAnswer::{Pubcomp, Pubrec};
use DeliveryStage::{Freeing, Released};

/// Entry of older connections, by its number.
fn entry(number: u64) -> Dot {
    dot(2, number)
}

#[test]
fn mqtt_4_4_0_1_publish_goes_on_under_its_packet_id_once_that_is_stored_anew() {
    let id = packet_id(7);
    let (mut node, begun) = Node::resumed(&[older(1, 10, 7, 60, SENT)]);
    assert_does(begun, []);
    assert_does(node.queue(60, ONCE), [write(id, 60, SENT, &[entry(1)])]);
    assert_does(node.store(id), [publish(id, 60, ONCE, true)]);
    let stored = node.last();
    assert_does(node.answer(id, Pubrec), [write(id, 60, Released, &[stored])]);
}

#[test]
fn mqtt_4_4_0_1_pubrel_goes_on_once_its_stage_is_stored_anew() {
    let (first, second) = (packet_id(5), packet_id(4));
    let deliveries = [older(3, 10, 4, 60, Released), older(2, 10, 5, 61, Released)];
    let (mut node, begun) = Node::resumed(&deliveries);
    let written = [
        write(first, 61, Released, &[entry(2)]),
        write(second, 60, Released, &[entry(3)]),
    ];
    assert_does(begun, written);
    assert_does(node.store(second), []);
    let of_second = node.last();
    assert_does(node.store(first), [pubrel(first), pubrel(second)]);
    let of_first = node.last();
    assert_does(node.queue(61, ONCE), []);
    assert_does(node.answer(first, Pubcomp), [acknowledge(61, &[of_first])]);
    let removed = node.answer(second, Pubcomp);
    assert_does(removed, [remove_message(60, &[of_second])]);
    assert_does(node.queue(60, ONCE), [let_go(60)]);
}

/// The order of sending is kept, though a connection in between has gone on with one of them only.
#[test]
fn mqtt_4_6_0_1_older_packets_go_on_in_their_order() {
    let mut resumed = older(9, 20, 8, 60, SENT);
    resumed.value.order = 1;
    let deliveries = [resumed, older(2, 10, 5, 61, SENT), older(3, 10, 6, 62, SENT)];
    let mut node = Node::unfed(LIMITS);
    let messages = [62, 63, 61, 60].map(|number| queued(number, ONCE)).to_vec();
    let begun = node.feed(added(&deliveries), messages);
    assert_eq!(
        written_ids(&begun),
        [packet_id(8), packet_id(5), packet_id(6), id_of(63)]
    );
}

#[test]
fn a_removal_that_is_durable_is_not_remembered() {
    let (mut node, _) = Node::resumed(&[older(1, 10, 7, 60, Released)]);
    node.store(packet_id(7));
    node.answer(packet_id(7), Pubcomp);
    let (connection, message) = (FIRST, message(60));
    assert_does(node.step(DeliveringEvent::Removed { connection, message }), []);
    assert_eq!((node.delivering.in_flight(), node.delivering.waiting()), (0, 0));
    assert_does(node.queue(60, ONCE), [write(id_of(60), 60, SENT, &[])]);
}

#[test]
fn a_packet_id_whose_message_is_gone_is_released_before_it_is_free() {
    let (id, same) = (id_of(70), 70 + 65_535);
    let (mut node, begun) = Node::resumed(&[gone(older(1, 10, id.0.get(), 60, SENT))]);
    let released = [remove_message(60, &[]), write(id, 60, Freeing, &[entry(1)])];
    assert_does(begun, released);
    let other = node.queue(70, ONCE);
    assert_ne!(written_ids(&other), [id]);
    assert_does(node.store(id), [pubrel(id)]);
    let stored = node.last();
    assert_does(node.answer(id, Pubcomp), [remove(&[stored])]);
    assert_does(node.queue(same, ONCE), [write(id, same, SENT, &[])]);
}

#[test]
fn a_packet_id_whose_message_is_lost_later_is_released_then() {
    let (mut node, _) = Node::resumed(&[older(1, 10, 7, 60, SENT)]);
    let freed = write(packet_id(7), 60, Freeing, &[entry(1)]);
    let told = node.tell_gone(1);
    assert_does(told, [remove_message(60, &[]), freed.clone()]);
    let mut node = Node::full();
    node.tell(&[older(1, 10, 7, 60, SENT)]);
    node.queue(60, ONCE);
    assert_does(node.tell_gone(1), [acknowledge(60, &[]), freed]);
}

#[test]
fn a_packet_id_that_another_node_has_removed_is_free() {
    let id = id_of(60).0.get();
    let (mut node, _) = Node::resumed(&[older(1, 10, id, 61, SENT)]);
    assert_does(node.tell_ended(&[1, 2]), []);
    assert_does(node.queue(60, ONCE), [write(id_of(60), 60, SENT, &[])]);
}

#[test]
fn a_qos_1_entry_that_is_not_gone_on_with_needs_no_pubrel() {
    let stage = DeliveryStage::Sent(LEAST);
    let deliveries = [gone(older(1, 10, 7, 60, stage)), older(2, 10, 8, 61, stage)];
    let (mut node, begun) = Node::resumed(&deliveries);
    assert_does(begun, [remove(&[entry(1)])]);
    let resumed = node.queue(61, LEAST);
    assert_does(resumed, [write(packet_id(8), 61, stage, &[entry(2)])]);
    assert_does(node.store(packet_id(8)), [publish(packet_id(8), 61, LEAST, true)]);
}

#[test]
fn a_resumed_message_that_is_withdrawn_before_publish_is_released() {
    let id = packet_id(7);
    let (mut node, _) = Node::resumed(&[older(1, 10, 7, 60, SENT)]);
    node.queue(60, ONCE);
    node.withdraw(60);
    let stored = node.store(id);
    let of_publish = node.last();
    let freed = write(id, 60, Freeing, &[of_publish]);
    assert_does(stored, [remove_message(60, &[]), freed]);
    assert_does(node.store(id), [pubrel(id)]);
    let of_release = node.last();
    assert_does(node.answer(id, Pubcomp), [remove(&[of_release])]);
}

#[test]
fn a_message_that_is_withdrawn_while_it_waits_to_go_on_waits_no_more() {
    let mut node = Node::full();
    node.tell(&[older(1, 10, 7, 60, SENT)]);
    node.queue(60, ONCE);
    assert_does(node.withdraw(60), []);
    let next = node.answer(id_of(901), DeliveryAnswer::Puback);
    assert_does(next, [acknowledge(901, &[])]);
}
