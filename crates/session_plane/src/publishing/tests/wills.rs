//! Wills under numbers, beside the messages of clients.

use super::node::*;
use super::*;

/// Event of the will.
fn will() -> Dot {
    number_of(run_of(2, 1), 0)
}

fn due(numbered: Option<NumberedWill>) -> PublishingEvent {
    let due = DueWill {
        client: client_id(1),
        will: will(),
        content: content(7),
        numbered,
    };
    PublishingEvent::WillDue { due, body: () }
}

fn told(number: Dot) -> PublishingAction {
    PublishingAction::WillNumbered {
        client: client_id(1),
        will: will(),
        number,
    }
}

fn writes(number: Dot, message_clock: Option<Hlc>) -> PublishingAction {
    PublishingAction::WriteWillNumber {
        client: client_id(1),
        will: will(),
        number: WillNumber {
            number,
            message_clock,
        },
    }
}

fn awaits_all(number: Dot, entry: u64, marker: u64) -> PublishingAction {
    PublishingAction::AwaitStored {
        client: client_id(1),
        at: StoredAt::AllNodes,
        number,
        entry: event(entry),
        marker,
    }
}

fn gives_again(number: Dot, entry: u64) -> PublishingAction {
    PublishingAction::GiveAgain {
        client: client_id(1),
        number,
        entry: event(entry),
    }
}

fn routed_will(number: Dot, clock: Hlc, marker: u64, nodes: &[u64]) -> PublishingAction {
    let content = content(7);
    PublishingAction::Route {
        body: (),
        message: NumberedMessage { number, content },
        clock,
        to: nodes.iter().copied().map(NodeId).collect(),
        marker,
    }
}

fn written(node: &mut Node, number: Dot, entry: u64) -> Vec<PublishingAction> {
    let made = made(entry);
    node.step(PublishingEvent::WillNumberWritten { number, made })
}

fn give_up(node: &mut Node, number: Dot) -> Vec<PublishingAction> {
    node.step(PublishingEvent::WillGivenUp { number })
}

/// Number that another run has given to the will.
fn numbered_elsewhere() -> NumberedWill {
    NumberedWill {
        number: number_of(run_of(3, 1), 9),
        clock: Hlc::at(60),
        entry: None,
    }
}

#[test]
fn a_will_takes_a_number_and_is_routed_when_all_nodes_have_it() {
    let mut node = Node::new(LIMITS);
    assert_eq!(node.step(due(None)), [told(number(1)), writes(number(1), None)]);
    assert_eq!(written(&mut node, number(1), 9), [awaits_all(number(1), 9, 1)]);
    let again = [gives_again(number(1), 9), awaits_all(number(1), 9, 4)];
    assert_eq!(node.change_ring(4, &[1, 2]), again);
    assert_eq!(node.stored(number(1), 9, 1), [], "by the older ring");
    let route = [routed_will(number(1), made(9).clock, 4, &[1, 2])];
    assert_eq!(node.stored(number(1), 9, 4), route);
    assert_eq!(node.publishing.waiting(), 0, "it is no message of a client");
    assert_eq!(node.confirm(1, number(1), 4), []);
    let published = [PublishingAction::WillPublished { number: number(1) }];
    assert_eq!(node.confirm(2, number(1), 4), published);
}

#[test]
fn wills_and_messages_of_clients_are_routed_in_the_order_of_their_numbers() {
    let mut node = Node::new(LIMITS);
    node.step(due(None));
    node.publish(FIRST, 7, 2);
    node.write(FIRST, number(2));
    assert_eq!(node.stored(number(2), 2, 1), [], "the will has the lower number");
    assert!(node.publishing.reserved().covers(number(1)));
    written(&mut node, number(1), 9);
    let both = [
        routed_will(number(1), made(9).clock, 1, &[1, 2, 3]),
        routed(2, 2, &[1, 2, 3], 1),
    ];
    assert_eq!(node.stored(number(1), 9, 1), both);
}

#[test]
fn a_will_that_is_given_up_holds_nothing_back() {
    let mut node = Node::new(LIMITS);
    node.step(due(None));
    node.publish(FIRST, 7, 2);
    node.write(FIRST, number(2));
    node.stored(number(2), 2, 1);
    assert_eq!(give_up(&mut node, number(1)), [routed(2, 2, &[1, 2, 3], 1)]);
    assert_eq!(node.publishing.given_up().collect::<Vec<Dot>>(), [number(1)]);
    assert_eq!(written(&mut node, number(1), 9), []);
    assert_eq!(give_up(&mut node, number(2)), [], "that is no will");
    let numbered = NumberedWill {
        number: number(1),
        clock: made(9).clock,
        entry: Some(event(9)),
    };
    let goes_on = [
        told(number(1)),
        gives_again(number(1), 9),
        awaits_all(number(1), 9, 1),
    ];
    assert_eq!(node.step(due(Some(numbered))), goes_on);
    assert_eq!(node.publishing.given_up().len(), 0);
    let route = [routed_will(number(1), made(9).clock, 1, &[1, 2, 3])];
    assert_eq!(node.stored(number(1), 9, 1), route);
    assert_eq!(give_up(&mut node, number(1)), [], "it is on its way");
    (1..=2).for_each(|from| drop(node.confirm(from, number(1), 1)));
    assert_eq!(node.confirm(3, number(1), 1).len(), 1);
}

#[test]
fn a_number_of_another_run_is_written_first_with_the_clock_that_it_has() {
    let numbered = numbered_elsewhere();
    let (theirs, clock) = (numbered.number, numbered.clock);
    let mut node = Node::new(LIMITS);
    let goes_on = [told(theirs), writes(theirs, Some(clock))];
    assert_eq!(node.step(due(Some(numbered))), goes_on);
    assert_eq!(written(&mut node, theirs, 9), [awaits_all(theirs, 9, 1)]);
    let route = [routed_will(theirs, clock, 1, &[1, 2, 3])];
    assert_eq!(node.stored(theirs, 9, 1), route);
}

/// Both writes of a will that is given up and gone on with may wait for room in the stream.
#[test]
fn of_two_entries_of_a_number_the_first_is_waited_for() {
    let numbered = numbered_elsewhere();
    let (theirs, clock) = (numbered.number, numbered.clock);
    let mut node = Node::new(LIMITS);
    node.step(due(Some(numbered.clone())));
    give_up(&mut node, theirs);
    assert!(!node.publishing.is_storing(theirs, event(8)));
    let goes_on = [told(theirs), writes(theirs, Some(clock))];
    assert_eq!(node.step(due(Some(numbered))), goes_on);
    assert_eq!(written(&mut node, theirs, 8), [awaits_all(theirs, 8, 1)]);
    assert_eq!(written(&mut node, theirs, 9), []);
    assert!(node.publishing.is_storing(theirs, event(8)));
    assert!(!node.publishing.is_storing(theirs, event(9)));
}

#[test]
fn a_number_that_names_no_will_is_not_gone_on_with() {
    let numbered = |number| NumberedWill {
        number,
        clock: Hlc::at(60),
        entry: None,
    };
    for wrong in [event(3), number(5)] {
        let mut node = Node::new(LIMITS);
        let anew = [told(number(1)), writes(number(1), None)];
        assert_eq!(node.step(due(Some(numbered(wrong)))), anew);
    }
    let mut node = Node::new(LIMITS);
    node.publish(FIRST, 7, 1);
    let anew = [told(number(2)), writes(number(2), None)];
    assert_eq!(
        node.step(due(Some(numbered(number(1))))),
        anew,
        "the number of a message"
    );
}

/// A node that has come meanwhile may have the will, and not its number.
#[test]
fn a_will_on_its_way_goes_to_the_nodes_of_the_new_ring_behind_its_number() {
    let mut node = Node::new(LIMITS);
    node.step(due(None));
    written(&mut node, number(1), 9);
    node.stored(number(1), 9, 1);
    node.confirm(1, number(1), 1);
    for marker in [4, 6] {
        let again = [gives_again(number(1), 9), awaits_all(number(1), 9, marker)];
        assert_eq!(node.change_ring(marker, &[1, 2, 4]), again);
    }
    let renewed = PublishingEvent::LinkRenewed(NodeId(4));
    assert_eq!(node.step(renewed), [], "the number comes first");
    assert_eq!(give_up(&mut node, number(1)), [], "it is on its way");
    assert!(node.publishing.reserved().covers(number(1)), "nobody closes it");
    assert_eq!(node.stored(number(1), 9, 4), [], "by the older ring");
    assert_eq!(node.stored(number(1), 8, 6), [], "another entry");
    let route = [routed_will(number(1), made(9).clock, 6, &[1, 2, 4])];
    assert_eq!(node.stored(number(1), 9, 6), route);
    assert_eq!(node.stored(number(1), 9, 6), [], "it is sent once");
    (1..=2).for_each(|from| drop(node.confirm(from, number(1), 6)));
    let published = [PublishingAction::WillPublished { number: number(1) }];
    assert_eq!(node.confirm(4, number(1), 6), published);
}
