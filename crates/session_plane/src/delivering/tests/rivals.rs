//! Deliveries that sides of a split have given to one packet id, or to one message. Each is told in
//! both orders.

use super::node::*;
use super::*;

use DeliveryAnswer::{Puback, Pubcomp, Pubrec};
use DeliveryStage::{Freeing, Released};

fn entry(number: u64) -> Dot {
    dot(2, number)
}

/// Both orders of two deliveries.
fn orders(
    first: &FeedDelivery<PacketDelivery>,
    second: &FeedDelivery<PacketDelivery>,
) -> [[FeedDelivery<PacketDelivery>; 2]; 2] {
    let (first, second) = (first.clone(), second.clone());
    [[first.clone(), second.clone()], [second, first]]
}

#[test]
fn the_later_connection_counts_for_a_packet_id() {
    for both in orders(&older(9, 10, 7, 60, SENT), &older(1, 20, 7, 61, SENT)) {
        let mut node = Node::unfed(LIMITS);
        assert_does(node.tell(&both[..1]), []);
        assert_does(node.tell(&both[1..]), []);
        assert_does(node.queue(60, ONCE), [write(id_of(60), 60, SENT, &[])]);
        let resumed = write(packet_id(7), 61, SENT, &[entry(9), entry(1)]);
        assert_does(node.queue(61, ONCE), [resumed]);
    }
}

#[test]
fn of_one_connection_the_later_entry_counts() {
    for both in orders(&older(1, 10, 7, 60, SENT), &older(2, 10, 7, 61, SENT)) {
        let (mut node, _) = Node::resumed(&both);
        let resumed = write(packet_id(7), 61, SENT, &[entry(1), entry(2)]);
        assert_does(node.queue(61, ONCE), [resumed]);
    }
}

#[test]
fn what_a_client_has_is_acknowledged_though_its_packet_id_is_lost() {
    for both in orders(&older(9, 10, 7, 60, Released), &older(1, 20, 7, 61, SENT)) {
        let (mut node, begun) = Node::resumed(&both);
        assert_does(begun, [remove_message(60, &[])]);
        assert_does(node.queue(60, ONCE), [let_go(60)]);
        let resumed = write(packet_id(7), 61, SENT, &[entry(9), entry(1)]);
        assert_does(node.queue(61, ONCE), [resumed]);
    }
}

#[test]
fn what_a_client_has_is_acknowledged_while_it_waits() {
    for both in orders(&older(9, 10, 7, 60, Released), &older(1, 20, 7, 61, SENT)) {
        let mut node = Node::full();
        node.queue(60, ONCE);
        assert_does(node.tell(&both), [acknowledge(60, &[])]);
        assert_eq!(node.delivering.waiting(), 2, "both deliveries");
    }
}

#[test]
fn of_two_packet_ids_of_a_message_one_is_released() {
    for both in orders(&older(9, 10, 7, 60, SENT), &older(1, 20, 8, 60, SENT)) {
        let (mut node, begun) = Node::resumed(&both);
        assert_does(begun, [write(packet_id(7), 60, Freeing, &[entry(9)])]);
        let resumed = write(packet_id(8), 60, SENT, &[entry(1)]);
        assert_does(node.queue(60, ONCE), [resumed]);
    }
}

#[test]
fn pubrec_counts_before_a_later_connection() {
    for both in orders(&older(9, 10, 7, 60, Released), &older(1, 20, 8, 60, SENT)) {
        let (mut node, begun) = Node::resumed(&both);
        let written = [
            write(packet_id(8), 60, Freeing, &[entry(1)]),
            write(packet_id(7), 60, Released, &[entry(9)]),
        ];
        assert_does(begun, written);
        assert_does(node.queue(60, ONCE), []);
        node.store(packet_id(8));
        let of_freed = node.last();
        node.store(packet_id(7));
        let of_released = node.last();
        let freed = node.answer(packet_id(8), Pubcomp);
        assert_does(freed, [remove(&[of_freed])]);
        let done = node.answer(packet_id(7), Pubcomp);
        assert_does(done, [acknowledge(60, &[of_released])]);
    }
}

#[test]
fn pubrec_counts_before_a_later_publish_of_the_same_packet_id() {
    for stage in [SENT, Freeing] {
        for both in orders(&older(9, 10, 7, 60, Released), &older(1, 20, 7, 60, stage)) {
            let (mut node, begun) = Node::resumed(&both);
            let written = [
                remove_message(60, &[]),
                write(packet_id(7), 60, Freeing, &[entry(9), entry(1)]),
            ];
            assert_does(begun, written);
            assert_does(node.queue(60, ONCE), [let_go(60)]);
        }
    }
}

#[test]
fn a_delivery_that_was_beaten_counts_when_the_other_one_has_ended() {
    for both in orders(&older(1, 10, 7, 60, SENT), &older(2, 20, 7, 61, SENT)) {
        let mut node = Node::full();
        node.tell(&both);
        node.queue(60, ONCE);
        node.queue(61, ONCE);
        node.withdraw(61);
        assert_does(node.tell_ended(&[2]), []);
        let next = node.answer(id_of(901), Puback);
        let resumed = write(packet_id(7), 60, SENT, &[entry(1)]);
        assert_does(next, [acknowledge(901, &[]), resumed]);
    }
}

#[test]
fn a_delivery_that_was_beaten_may_end_before() {
    let mut node = Node::full();
    node.tell(&[older(1, 10, 7, 60, SENT), older(2, 20, 7, 61, SENT)]);
    node.queue(61, ONCE);
    node.tell_ended(&[1]);
    let next = node.answer(id_of(901), Puback);
    let resumed = write(packet_id(7), 61, SENT, &[entry(2)]);
    assert_does(next, [acknowledge(901, &[]), resumed]);
}

/// The client keeps nothing of a QoS 1 message, but what an older connection has sent under its packet id.
#[test]
fn a_packet_id_of_qos_1_that_an_older_connection_has_used_is_released() {
    let (mut node, id) = (Node::new(), id_of(60));
    node.queue(60, LEAST);
    node.tell(&[older(1, 10, id.0.get(), 99, SENT)]);
    let freed = [acknowledge(60, &[]), write(id, 60, Freeing, &[entry(1)])];
    assert_does(node.answer(id, Puback), freed);
    assert_does(node.store(id), [pubrel(id)]);
    let of_freed = node.last();
    assert_does(node.answer(id, Pubcomp), [remove(&[of_freed])]);
    let least = DeliveryStage::Sent(LEAST);
    for both in orders(&older(9, 10, 7, 60, SENT), &older(1, 20, 7, 61, least)) {
        let (mut node, _) = Node::resumed(&both);
        let resumed = write(packet_id(7), 61, least, &[entry(1)]);
        assert_does(node.queue(61, LEAST), [resumed]);
        node.store(packet_id(7));
        let stored = node.last();
        let freed = [
            acknowledge(61, &[]),
            write(packet_id(7), 61, Freeing, &[entry(9), stored]),
        ];
        assert_does(node.answer(packet_id(7), Puback), freed);
        let (_, begun) = Node::resumed(&both.map(gone));
        let freed = write(packet_id(7), 61, Freeing, &[entry(9), entry(1)]);
        assert_does(begun, [remove_message(61, &[]), freed]);
    }
}

/// A merge tells of the deliveries of another side while the connection is open.
#[test]
fn a_late_delivery_of_a_message_under_way_is_released_or_goes_with_it() {
    let (mut node, id) = (Node::new(), id_of(60));
    node.queue(60, ONCE);
    let late = [older(1, 10, 7, 60, SENT), older(2, 10, id.0.get(), 99, SENT)];
    let freed = write(packet_id(7), 60, Freeing, &[entry(1)]);
    assert_does(node.tell(&late), [freed]);
    node.store(id);
    let stored = node.last();
    let released = write(id, 60, Released, &[entry(2), stored]);
    assert_does(node.answer(id, Pubrec), [released]);
    assert_does(node.queue(99, ONCE), [write(id_of(99), 99, SENT, &[])]);
}

#[test]
fn a_message_under_way_that_a_client_has_is_not_sent() {
    let (mut node, id) = (Node::new(), id_of(60));
    node.queue(60, ONCE);
    let told = node.tell(&[older(1, 10, 7, 60, Released)]);
    let written = [
        acknowledge(60, &[]),
        write(packet_id(7), 60, Freeing, &[entry(1)]),
    ];
    assert_does(told, written);
    let stored = node.store(id);
    assert_does(stored, [remove(&[node.last()])]);
    node.store(packet_id(7));
    let of_freed = node.last();
    assert_does(node.answer(packet_id(7), Pubcomp), [remove(&[of_freed])]);
    let mut node = Node::new();
    node.queue(60, ONCE);
    let told = node.tell(&[older(1, 10, id.0.get(), 60, Released)]);
    assert_does(told, [acknowledge(60, &[])]);
    let stored = node.store(id);
    let of_publish = node.last();
    assert_does(stored, [write(id, 60, Freeing, &[entry(1), of_publish])]);
}

/// The client may keep the packet id of the message that is acknowledged.
#[test]
fn a_packet_id_of_qos_1_whose_message_before_was_released_is_released() {
    let least = DeliveryStage::Sent(LEAST);
    for both in orders(&older(9, 10, 7, 60, Released), &older(1, 20, 7, 61, least)) {
        let (mut node, begun) = Node::resumed(&both);
        assert_does(begun, [remove_message(60, &[])]);
        node.queue(61, LEAST);
        node.store(packet_id(7));
        let stored = node.last();
        let freed = [
            acknowledge(61, &[]),
            write(packet_id(7), 61, Freeing, &[entry(9), stored]),
        ];
        assert_does(node.answer(packet_id(7), Puback), freed);
    }
}

/// The release of the second packet id waits for its turn, and is decided upon again meanwhile.
#[test]
fn a_second_packet_id_is_released_though_its_message_was_completed_before() {
    let mut node = Node::unfed(DeliveringLimits {
        in_flight_max: NonZeroU16::new(2).unwrap(),
        ..LIMITS
    });
    node.feed(
        DeliveryChanges::default(),
        vec![queued(60, ONCE), queued(61, LEAST)],
    );
    let first = gone(older(1, 10, 8, 99, SENT));
    assert_does(node.tell(&[first, older(2, 10, 7, 60, SENT)]), []);
    node.store(id_of(60));
    node.answer(id_of(60), Pubrec);
    node.store(id_of(60));
    let of_message = node.last();
    let next = [
        acknowledge(60, &[of_message]),
        remove_message(99, &[]),
        write(packet_id(8), 99, Freeing, &[entry(1)]),
    ];
    assert_does(node.answer(id_of(60), Pubcomp), next);
    assert_does(node.tell(&[older(3, 9, 7, 98, SENT)]), []);
    let next = [
        acknowledge(61, &[]),
        write(packet_id(7), 60, Freeing, &[entry(3), entry(2)]),
    ];
    assert_does(node.answer(id_of(61), Puback), next);
}
