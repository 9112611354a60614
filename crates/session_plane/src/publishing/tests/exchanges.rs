//! Exchanges of one client, packet by packet.

use super::node::*;
use super::*;

fn message(number: Dot, of: u128) -> Option<NumberedMessage> {
    let content = content(of);
    Some(NumberedMessage { number, content })
}

fn pubcomp(is_found: bool) -> PublishingAction {
    PublishingAction::SendPubcomp {
        connection: FIRST,
        packet_id: packet_id(7),
        is_found,
    }
}

#[test]
fn a_message_goes_from_publish_to_pubcomp() {
    let mut node = Node::new(LIMITS);
    let published = node.publish(FIRST, 7, 1);
    let packet_use = PacketUse {
        packet_id: packet_id(7),
        connection_clock: Hlc::at(100),
        message: message(number(1), 1),
        message_clock: None,
    };
    let write = |packet_use: PacketUse, removes| PublishingAction::Write {
        connection: FIRST,
        client: client_id(0),
        packet_use,
        body: packet_use.message.map(|_| ()),
        removes,
    };
    assert_eq!(published, [write(packet_use, Vec::new())]);
    assert_eq!(node.write(FIRST, number(1)), [awaits(0, number(1), 2, 1)]);
    assert_eq!(node.stored(number(1), 2, 1), [routed(1, 2, &[1, 2, 3], 1)]);
    for from in [1, 3, 3] {
        assert_eq!(node.confirm(from, number(1), 1), []);
    }
    assert_eq!(node.confirm(2, number(1), 1), [pubrec(FIRST, 7)]);
    let free = PacketUse {
        message: None,
        ..packet_use
    };
    assert_eq!(node.pubrel(FIRST, 7), [write(free, vec![event(2)])]);
    assert_eq!(node.pubrel(FIRST, 7), [], "it waits for the first");
    let freed = |dot| PublishingEvent::Freed {
        connection: FIRST,
        packet_id: packet_id(7),
        dot,
    };
    assert_eq!(node.step(free_written(3)), []);
    assert_eq!(node.step(freed(event(2))), [], "another event");
    assert_eq!(node.step(freed(event(3))), [pubcomp(true)]);
    assert_eq!(
        written(&node.publish(FIRST, 7, 1)),
        [(Some(number(2)), vec![event(3)])]
    );
}

fn free_written(dot: u64) -> PublishingEvent {
    PublishingEvent::FreeWritten {
        connection: FIRST,
        packet_id: packet_id(7),
        made: made(dot),
    }
}

/// Node whose first client has these entries of packet id 7.
fn with_uses(uses: Vec<UseEntry>) -> Node {
    let mut node = Node::new(LIMITS);
    assert_eq!(node.close(FIRST), []);
    node.open(ConnectionId(3), 0, 200, uses);
    node
}

const THIRD: ConnectionId = ConnectionId(3);

/// Numbers that a PUBLISH with DUP of content 1 writes.
fn numbers_of_dup(uses: Vec<UseEntry>) -> Vec<Option<Dot>> {
    let written = written(&with_uses(uses).publish_dup(THIRD, 7, 1));
    written.into_iter().map(|(number, _)| number).collect()
}

#[test]
fn a_publish_with_dup_goes_on_under_the_number_and_the_clock_of_its_packet_id() {
    let theirs = number_of(run_of(3, 1), 9);
    let entry = use_of(50, 60, message(theirs, 1));
    let mut node = with_uses(vec![entry]);
    let published = node.publish_dup(THIRD, 7, 1);
    let [
        PublishingAction::Write {
            packet_use, removes, ..
        },
    ] = published.as_slice()
    else {
        panic!("{published:?}");
    };
    assert_eq!(
        (packet_use.message, removes),
        (message(theirs, 1), &vec![entry.dot])
    );
    assert_eq!(packet_use.connection_clock, Hlc::at(200));
    assert_eq!(packet_use.message_clock, Some(Hlc::at(60)));
    assert_eq!(node.write(THIRD, theirs), [awaits(0, theirs, 2, 1)]);
    let routed = node.stored(theirs, 2, 1);
    assert!(
        matches!(&routed[..], [PublishingAction::Route { clock, .. }] if *clock == Hlc::at(60)),
        "{routed:?}"
    );
    for from in 1..=2 {
        assert_eq!(node.confirm(from, theirs, 1), []);
    }
    assert_eq!(node.confirm(3, theirs, 1), [pubrec(THIRD, 7)]);
}

#[test]
fn only_the_same_content_with_dup_goes_on() {
    let theirs = number_of(run_of(3, 1), 9);
    let entry = use_of(50, 60, message(theirs, 1));
    let own = [(Some(number(1)), vec![entry.dot])];
    assert_eq!(
        written(&with_uses(vec![entry]).publish(THIRD, 7, 1)),
        own,
        "without DUP"
    );
    assert_eq!(
        written(&with_uses(vec![entry]).publish_dup(THIRD, 7, 2)),
        own,
        "another content"
    );
    let other_id = written(&with_uses(vec![entry]).publish_dup(THIRD, 8, 1));
    assert_eq!(other_id, [(Some(number(1)), Vec::new())], "another packet id");
}

#[test]
fn the_entry_of_the_later_connection_counts() {
    let (older, later) = (number_of(run_of(2, 1), 4), number_of(run_of(3, 1), 9));
    // The older connection has the later clock of the entry: it is on another side of a split.
    let of_older = use_of(50, 90, message(older, 1));
    let of_later = |of| use_of(60, 70, message(later, of));
    assert_eq!(numbers_of_dup(vec![of_older, of_later(1)]), [Some(later)]);
    assert_eq!(numbers_of_dup(vec![of_later(1), of_older]), [Some(later)]);
    assert_eq!(numbers_of_dup(vec![of_older, of_later(2)]), [Some(number(1))]);
    let freed = use_of(60, 70, None);
    assert_eq!(numbers_of_dup(vec![of_older, freed]), [Some(number(1))]);
    let of_one = [
        use_of(50, 60, message(older, 1)),
        use_of(50, 61, message(later, 1)),
    ];
    assert_eq!(
        numbers_of_dup(of_one.to_vec()),
        [Some(later)],
        "of one connection the later entry"
    );
}

#[test]
fn an_entry_that_names_no_number_of_a_message_is_not_gone_on_with() {
    let own = [Some(number(1))];
    let not_given_out = use_of(50, 60, message(number(1), 1));
    assert_eq!(numbers_of_dup(vec![not_given_out]), own);
    let an_event = use_of(50, 60, message(event(1), 1));
    assert_eq!(numbers_of_dup(vec![an_event]), own);
    let mut node = with_uses(vec![use_of(50, 60, message(number(1), 1))]);
    node.publish_and_route(SECOND, 7, 1);
    let written = written(&node.publish_dup(THIRD, 7, 1));
    assert!(
        matches!(&written[..], [(Some(other), _)] if *other == number(2)),
        "of another client"
    );
}

#[test]
fn entries_that_a_merge_brings_are_gone_on_with_and_replaced() {
    let theirs = number_of(run_of(3, 1), 9);
    let entry = use_of(50, 60, message(theirs, 1));
    let mut node = with_uses(Vec::new());
    let uses = vec![entry];
    assert_eq!(
        node.step(PublishingEvent::UsesMerged {
            connection: THIRD,
            uses
        }),
        []
    );
    let published = node.publish_dup(THIRD, 7, 1);
    assert_eq!(written(&published), [(Some(theirs), vec![entry.dot])]);
}

#[test]
fn a_publish_that_comes_again_over_its_connection_changes_nothing() {
    let mut node = Node::new(LIMITS);
    node.publish(FIRST, 7, 1);
    assert_eq!(node.publish_dup(FIRST, 7, 1), [], "while its entry is made");
    node.write(FIRST, number(1));
    assert_eq!(node.publish_dup(FIRST, 7, 1), [], "while its entry is stored");
    node.stored(number(1), 2, 1);
    assert_eq!(node.publish_dup(FIRST, 7, 1), [], "while it is routed");
    (1..=3).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(node.publish_dup(FIRST, 7, 1), [pubrec(FIRST, 7)]);
}

#[test]
fn a_packet_id_that_is_used_again_is_no_new_message() {
    let mut node = Node::new(LIMITS);
    node.publish_and_route(FIRST, 7, 1);
    assert_eq!(node.publish(FIRST, 7, 2), [], "it has its message");
    (1..=2).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(node.confirm(3, number(1), 1), [pubrec(FIRST, 7)]);
    assert_eq!(node.publish(FIRST, 7, 2), [pubrec(FIRST, 7)], "and its PUBREC");
}

#[test]
fn numbers_are_routed_in_their_order() {
    let mut node = Node::new(LIMITS);
    node.publish(FIRST, 7, 1);
    node.publish(SECOND, 7, 2);
    node.publish(FIRST, 8, 3);
    node.write(FIRST, number(1));
    node.write(SECOND, number(2));
    node.write(FIRST, number(3));
    assert_eq!(node.stored(number(3), 4, 1), []);
    assert_eq!(node.stored(number(1), 2, 1), [routed(1, 2, &[1, 2, 3], 1)]);
    let rest = [routed(2, 3, &[1, 2, 3], 1), routed(3, 4, &[1, 2, 3], 1)];
    assert_eq!(node.stored(number(2), 3, 1), rest);
}

#[test]
fn what_waits_is_given_up_with_its_connection_and_what_is_on_its_way_is_not() {
    let mut node = Node::new(LIMITS);
    node.publish_and_route(FIRST, 6, 1);
    node.publish(FIRST, 7, 2);
    node.publish(FIRST, 8, 3);
    node.publish(SECOND, 7, 4);
    node.write(FIRST, number(2));
    node.write(SECOND, number(4));
    assert_eq!(node.stored(number(4), 4, 1), [], "it waits for lower numbers");
    assert_eq!(node.close(FIRST), [routed(4, 4, &[1, 2, 3], 1)]);
    let given_up: Vec<Dot> = node.publishing.given_up().collect();
    assert_eq!(given_up, [number(2), number(3)]);
    assert_eq!(node.write(FIRST, number(3)), []);
    assert_eq!(node.stored(number(2), 3, 1), []);
    for from in 1..=3 {
        assert_eq!(node.confirm(from, number(1), 1), [], "nobody gets PUBREC");
    }
    assert_eq!(node.publishing.waiting(), 1);
}

#[test]
fn the_next_connection_goes_on_with_a_number_that_was_given_up() {
    let mut node = Node::new(LIMITS);
    node.publish(FIRST, 7, 1);
    node.write(FIRST, number(1));
    node.close(FIRST);
    let entry = UseEntry {
        dot: event(2),
        ..use_of(100, 1_002, message(number(1), 1))
    };
    node.open(THIRD, 0, 200, vec![entry]);
    let published = node.publish_dup(THIRD, 7, 1);
    assert_eq!(written(&published), [(Some(number(1)), vec![event(2)])]);
    assert_eq!(node.publishing.given_up().len(), 0);
    assert_eq!(
        node.stored(number(1), 2, 1),
        [],
        "the wait of the older connection"
    );
    assert_eq!(
        node.write(FIRST, number(1)),
        [],
        "an event of the older connection"
    );
    node.write(THIRD, number(1));
    assert_eq!(
        node.stored(number(1), 2, 1),
        [],
        "the entry of the older connection"
    );
    assert_eq!(node.stored(number(1), 4, 1), [routed(1, 2, &[1, 2, 3], 1)]);
}

#[test]
fn a_connection_takes_over_what_the_older_one_still_waits_for() {
    let mut node = Node::new(LIMITS);
    node.publish_and_route(FIRST, 7, 1);
    let entry = use_of(100, 1_002, message(number(1), 1));
    node.open(THIRD, 0, 200, vec![entry]);
    assert_eq!(node.publish_dup(THIRD, 7, 1), []);
    assert_eq!(node.close(FIRST), []);
    (1..=2).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(node.confirm(3, number(1), 1), [pubrec(THIRD, 7)]);
}

/// The entry may be on another side of a split, and must not count later.
#[test]
fn a_packet_id_that_is_not_known_is_freed_once() {
    let mut node = Node::new(LIMITS);
    assert_eq!(written(&node.pubrel(FIRST, 7)), [(None, Vec::new())]);
    node.step(free_written(2));
    let freed = PublishingEvent::Freed {
        connection: FIRST,
        packet_id: packet_id(7),
        dot: event(2),
    };
    assert_eq!(node.step(freed), [pubcomp(false)]);
    assert_eq!(node.pubrel(FIRST, 7), [pubcomp(false)]);
    let mut node = with_uses(vec![use_of(50, 60, None)]);
    let written = written(&node.pubrel(THIRD, 7));
    assert_eq!(written.len(), 1, "an older connection has freed it");
}

#[test]
fn what_comes_before_the_routes_are_merged_waits_without_a_number() {
    let mut node = Node::without_routes(LIMITS);
    assert_eq!(node.publish(FIRST, 7, 1), []);
    assert_eq!(node.publish(SECOND, 7, 2), []);
    assert_eq!(node.publish_dup(SECOND, 7, 2), []);
    assert_eq!(node.close(FIRST), []);
    assert_eq!(node.publishing.waiting(), 2);
    let merged = node.step(PublishingEvent::RoutesMerged(true));
    assert_eq!(written(&merged), [(Some(number(1)), Vec::new())]);
    node.write(SECOND, number(1));
    assert_eq!(node.step(PublishingEvent::RoutesMerged(false)), []);
    assert_eq!(node.stored(number(1), 2, 1), [], "a peer has come meanwhile");
    let merged = node.step(PublishingEvent::RoutesMerged(true));
    assert!(
        matches!(&merged[..], [PublishingAction::Route { .. }]),
        "{merged:?}"
    );
}
