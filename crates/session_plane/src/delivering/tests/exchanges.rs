//! Messages of one connection, packet by packet.

use super::node::*;
use super::*;

use DeliveryAnswer::{Puback, Pubcomp, Pubrec};

const RELEASED: DeliveryStage = DeliveryStage::Released;
/// Message that prefers the packet id of message 60, too.
const SAME: u64 = 60 + 65_535;

#[test]
fn a_qos_2_message_is_told_when_its_stage_is_stored() {
    let (mut node, id) = (Node::new(), id_of(60));
    assert_does(node.queue(60, ONCE), [write(id, 60, SENT, &[])]);
    assert_does(node.store(id), [publish(id, 60, ONCE, false)]);
    let first = node.last();
    assert_does(node.answer(id, Pubrec), [write(id, 60, RELEASED, &[first])]);
    assert_does(node.store(id), [pubrel(id)]);
    let second = node.last();
    assert_does(node.answer(id, Pubcomp), [acknowledge(60, &[second])]);
    assert_eq!((node.delivering.in_flight(), node.delivering.waiting()), (0, 0));
    assert_does(node.queue(SAME, ONCE), [write(id, SAME, SENT, &[])]);
}

#[test]
fn a_qos_1_message_has_an_entry_only_where_its_packet_id_is_in_use() {
    let (mut node, id) = (Node::new(), id_of(60));
    assert_does(node.queue(60, LEAST), [publish(id, 60, LEAST, false)]);
    let second = node.queue(SAME, LEAST);
    let [other] = written_ids(&second)[..] else {
        panic!("{second:?}")
    };
    assert_does(second, [write(other, SAME, DeliveryStage::Sent(LEAST), &[])]);
    assert_ne!(other, id);
    assert_does(node.queue(61, LEAST), []);
    let sent = [
        publish(other, SAME, LEAST, false),
        publish(id_of(61), 61, LEAST, false),
    ];
    assert_does(node.store(other), sent);
    let entry = node.last();
    assert_does(node.answer(id, Puback), [acknowledge(60, &[])]);
    assert_does(node.answer(other, Puback), [acknowledge(SAME, &[entry])]);
}

#[test]
fn a_qos_1_message_does_not_wait_for_those_of_qos_2() {
    let mut node = Node::new();
    node.queue(60, ONCE);
    assert_does(node.queue(61, LEAST), [publish(id_of(61), 61, LEAST, false)]);
}

/// DUP says that it might be sent again.
#[test]
fn mqtt_3_3_1_1_dup_where_an_older_connection_may_have_sent_the_message() {
    let mut node = Node::new();
    assert_does(node.queue(50, LEAST), [publish(id_of(50), 50, LEAST, true)]);
    assert_does(node.queue(51, LEAST), [publish(id_of(51), 51, LEAST, false)]);
    node.queue(40, ONCE);
    assert_does(node.store(id_of(40)), [publish(id_of(40), 40, ONCE, false)]);
}

#[test]
fn mqtt_3_3_4_9_messages_wait_beyond_receive_maximum() {
    let mut node = Node::full();
    assert_does(node.queue(970, ONCE), []);
    assert_eq!((node.delivering.in_flight(), node.delivering.waiting()), (10, 1));
    let next = [acknowledge(903, &[]), write(id_of(970), 970, SENT, &[])];
    assert_does(node.answer(id_of(903), Puback), next);
    assert_does(node.queue(971, LEAST), []);
    node.store(id_of(970));
    node.answer(id_of(970), Pubrec);
    node.store(id_of(970));
    let entry = node.last();
    let next = [acknowledge(970, &[entry]), publish(id_of(971), 971, LEAST, false)];
    assert_does(node.answer(id_of(970), Pubcomp), next);
}

#[test]
fn mqtt_3_3_4_10_pubrel_of_an_older_connection_takes_no_place() {
    let mut node = Node::full();
    let told = node.tell(&[older(1, 10, 7, 60, RELEASED)]);
    assert_does(told, [write(packet_id(7), 60, RELEASED, &[dot(2, 1)])]);
    let mut node = Node::unfed(DeliveringLimits {
        in_flight_max: NonZeroU16::MIN,
        ..LIMITS
    });
    let told = node.tell(&[older(1, 10, 7, 60, RELEASED), older(2, 10, 8, 61, RELEASED)]);
    assert_does(told, [write(packet_id(7), 60, RELEASED, &[dot(2, 1)])]);
    assert_eq!((node.delivering.in_flight(), node.delivering.waiting()), (1, 1));
    node.store(packet_id(7));
    let entry = node.last();
    let next = [
        remove_message(60, &[entry]),
        write(packet_id(8), 61, RELEASED, &[dot(2, 2)]),
    ];
    assert_does(node.answer(packet_id(7), Pubcomp), next);
}

#[test]
fn mqtt_4_6_0_publish_and_pubrel_go_out_in_order() {
    let (mut node, ids) = (Node::new(), [60, 61].map(id_of));
    node.queue(60, ONCE);
    node.queue(61, ONCE);
    assert_does(node.store(ids[1]), []);
    let sent = [publish(ids[0], 60, ONCE, false), publish(ids[1], 61, ONCE, false)];
    assert_does(node.store(ids[0]), sent);
    node.answer(ids[1], Pubrec);
    node.answer(ids[0], Pubrec);
    assert_does(node.store(ids[0]), []);
    assert_does(node.store(ids[1]), [pubrel(ids[1]), pubrel(ids[0])]);
}

#[test]
fn entries_say_the_order_of_publish_and_of_pubrec() {
    let mut node = Node::unfed(LIMITS);
    node.tell(&[older(40, 10, 7, 50, SENT)]);
    let order = |actions: Vec<Action>| match &actions[..] {
        [DeliveringAction::Write(written)] => written.delivery.order,
        other => panic!("{other:?}"),
    };
    let first = order(node.queue(60, ONCE));
    let second = order(node.queue(61, ONCE));
    assert!(40 < first && first < second);
    assert_eq!(order(node.queue(50, ONCE)), 40, "it keeps its place");
    node.store(id_of(60));
    node.store(id_of(61));
    let first_pubrec = order(node.answer(id_of(61), Pubrec));
    let second_pubrec = order(node.answer(id_of(60), Pubrec));
    assert!(second < first_pubrec && first_pubrec < second_pubrec);
}

#[test]
fn no_packet_id_is_given_before_an_owner_has_told_those_that_it_has() {
    let mut node = Node::unfed(LIMITS);
    assert_does(node.give(60, LEAST), []);
    assert_eq!(node.delivering.waiting(), 1);
    let begun = node.feed(DeliveryChanges::default(), Vec::new());
    assert_does(begun, [publish(id_of(60), 60, LEAST, false)]);
}

#[test]
fn a_qos_1_message_of_a_group_has_no_entry() {
    let (mut node, id) = (Node::new(), id_of(60));
    assert_does(node.give(60, LEAST), [publish(id, 60, LEAST, false)]);
    let given = node.give(SAME, LEAST);
    let [DeliveringAction::SendPublish(published)] = &given[..] else {
        panic!("{given:?}")
    };
    let other = published.packet_id;
    assert_ne!(other, id);
    assert_does(node.answer(id, Puback), [acknowledge_group(60)]);
    assert_does(node.answer(other, Puback), [acknowledge_group(SAME)]);
    assert_eq!((node.delivering.in_flight(), node.delivering.waiting()), (0, 0));
}

#[test]
fn a_message_is_of_the_queue_and_of_a_group_at_once() {
    let mut node = Node::new();
    node.queue(60, ONCE);
    let given = node.give(60, LEAST);
    let [DeliveringAction::SendPublish(published)] = &given[..] else {
        panic!("{given:?}")
    };
    assert_ne!(published.packet_id, id_of(60));
    assert_eq!(node.delivering.in_flight(), 2);
    node.store(id_of(60));
    node.answer(id_of(60), Pubrec);
    assert_does(node.store(id_of(60)), [pubrel(id_of(60))]);
}

/// Neither the queue nor the groups wait for the end of the other.
#[test]
fn the_queue_and_groups_take_turns() {
    let mut node = Node::full();
    for number in [961, 962] {
        node.queue(number, LEAST);
        node.give(number + 10, LEAST);
    }
    let mut sent = Vec::new();
    for number in 901..=904 {
        for action in node.answer(id_of(number), Puback) {
            if let DeliveringAction::SendPublish(published) = action {
                sent.push(published.value);
            }
        }
    }
    assert_eq!(sent, [971, 961, 972, 962]);
}

#[test]
fn what_is_withdrawn_before_publish_is_not_sent() {
    let (mut node, id) = (Node::new(), id_of(60));
    node.queue(60, ONCE);
    assert_does(node.withdraw(60), []);
    let stored = node.store(id);
    assert_does(stored, [remove(&[node.last()])]);
    assert_eq!(node.delivering.in_flight(), 0);
    let mut node = Node::full();
    node.queue(980, ONCE);
    assert_does(node.withdraw(980), []);
    assert_eq!(node.delivering.waiting(), 0);
    assert_does(node.answer(id_of(901), Puback), [acknowledge(901, &[])]);
    node.queue(981, ONCE);
    node.store(id_of(981));
    node.withdraw(981);
    let entry = node.last();
    let released = write(id_of(981), 981, RELEASED, &[entry]);
    assert_does(node.answer(id_of(981), Pubrec), [released]);
}

#[test]
fn a_message_waits_while_all_packet_ids_are_in_use() {
    let ids = (1..=u16::MAX).map(|id| older(u64::from(id), 10, id, 100_000 + u64::from(id), SENT));
    let (mut node, begun) = Node::resumed(&ids.collect::<Vec<_>>());
    assert_does(begun, []);
    assert_does(node.queue(60, ONCE), []);
    assert_does(node.give(61, LEAST), []);
    let begun = node.tell_ended(&[7]);
    assert_does(begun, [write(packet_id(7), 60, SENT, &[])]);
    let begun = node.tell_ended(&[8]);
    assert_does(begun, [publish(packet_id(8), 61, LEAST, false)]);
}

#[test]
fn a_connection_that_is_passed_on_too_much_is_closed() {
    let limits = DeliveringLimits {
        waiting_max: 1,
        ..LIMITS
    };
    let too_many = || disconnect(DeliveryViolation::TooManyWaiting { waiting_max: 1 });
    let mut node = Node::unfed(limits);
    assert_does(node.give(60, ONCE), []);
    assert_does(node.give(61, ONCE), [too_many()]);
    assert_does(node.give(62, ONCE), []);
    let mut node = Node::unfed(limits);
    let messages = [60, 61, 62].map(|number| queued(number, ONCE)).to_vec();
    assert_does(node.feed(DeliveryChanges::default(), messages), [too_many()]);
}
