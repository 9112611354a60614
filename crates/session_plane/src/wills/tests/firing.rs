//! Wills at their primary owner, step by step.

use super::node::*;
use super::*;

const OWN: u64 = 1;

/// Node whose will of client 0 is on its way under its first number.
fn firing(will: KnownWill) -> Node {
    let mut node = Node::new(10);
    assert_eq!(node.change(0, vec![will]), [publish(0, None)]);
    assert_eq!(node.number(0, number_of(OWN, 1)), []);
    node
}

fn given_up(number: Dot) -> WillsAction {
    WillsAction::GiveUp { number }
}

#[test]
fn a_will_is_published_when_its_connection_has_ended_and_removed_then() {
    let mut node = Node::new(10);
    assert_eq!(node.change(0, vec![open_will()]), []);
    assert_eq!(node.change(0, vec![ended_will()]), [publish(0, None)]);
    assert_eq!(node.change(0, vec![ended_will()]), [], "it is on its way");
    assert_eq!(node.number(0, number_of(OWN, 1)), []);
    assert_eq!(node.wills.firing(), 1);
    let mut will = ended_will();
    will.numbers = vec![numbered(number_of(OWN, 1), OWN, 9)];
    will.entries.insert(dot(OWN, 9));
    assert_eq!(node.change(0, vec![will.clone()]), []);
    let all = [dot(2, 1), dot(2, 3), dot(2, 4), dot(OWN, 9)];
    assert_eq!(node.published(number_of(OWN, 1)), [removed(0, &all)]);
    assert_eq!(node.change(0, vec![will]), [], "it is being removed");
    assert_eq!(node.change(0, Vec::new()), []);
    assert_eq!((node.wills.firing(), node.wills.waiting()), (0, 0));
}

#[test]
fn a_will_that_may_not_be_published_is_removed_and_makes_room() {
    let mut node = Node::new(1);
    assert_eq!(node.change(0, vec![ended_will()]), [publish(0, None)]);
    assert_eq!(node.change(1, vec![ended_will()]), [], "there is room for one");
    let will = ended_will().will;
    let client = client_id(0);
    let removes = removed(0, &[dot(2, 1), dot(2, 3), dot(2, 4)]);
    assert_eq!(
        node.step(WillsEvent::Refused { client, will }),
        [removes, publish(1, None)]
    );
    assert_eq!(node.number(1, number_of(OWN, 1)), []);
    let refused = WillsEvent::Refused {
        client: client_id(1),
        will,
    };
    assert_eq!(node.step(refused), [], "it has a number: it was allowed");
}

#[test]
fn mqtt_3_1_3_9_a_delayed_will_waits_and_a_resumed_session_cancels_it() {
    let delayed = || KnownWill {
        delay: DELAY,
        ..ended_will()
    };
    let mut node = Node::new(10);
    assert_eq!(node.change(0, vec![delayed()]), []);
    assert_eq!((node.due_in(), node.wills.waiting()), (Some(DELAY), 1));
    assert_eq!(node.wait(DELAY / 2), []);
    assert_eq!(
        node.change(0, vec![delayed()]),
        [],
        "it waits since the first look"
    );
    assert_eq!(node.due_in(), Some(DELAY / 2));
    assert_eq!(node.wait(DELAY / 2), [publish(0, None)]);
    let mut node = Node::new(10);
    assert_eq!(node.change(0, vec![delayed()]), []);
    assert_eq!(node.change(0, Vec::new()), []);
    assert_eq!((node.due_in(), node.wait(DELAY)), (None, Vec::new()));
    let mut node = Node::new(10);
    assert_eq!(node.change(0, vec![delayed()]), []);
    assert_eq!(
        node.change(0, vec![ended_will()]),
        [publish(0, None)],
        "the session has ended"
    );
}

#[test]
fn a_will_of_a_node_that_was_given_up_stays_and_is_armed_again() {
    let home = NodeId(2);
    let mut node = Node::new(10);
    assert_eq!(node.change(0, vec![open_will()]), []);
    node.state.present.remove(&home);
    assert_eq!(node.step(WillsEvent::RingChanged), [publish(0, None)]);
    node.number(0, number_of(OWN, 1));
    assert_eq!(node.published(number_of(OWN, 1)), []);
    assert_eq!(node.step(WillsEvent::RingChanged), [], "it was published here");
    node.state.present.insert(home, run_of(2, 1));
    let armed = WillsAction::Arm {
        client: client_id(0),
        will: dot(2, 3),
        removes: [dot(2, 3)].into(),
    };
    assert_eq!(node.step(WillsEvent::RingChanged), [armed]);
    assert_eq!(node.step(WillsEvent::RingChanged), [], "it is being armed");
}

#[test]
fn a_will_that_stays_is_removed_when_its_run_has_ended() {
    let mut node = Node::new(10);
    node.state.present.remove(&NodeId(2));
    assert_eq!(node.change(0, vec![open_will()]), [publish(0, None)]);
    node.number(0, number_of(OWN, 1));
    assert_eq!(node.published(number_of(OWN, 1)), []);
    node.state.present.insert(NodeId(2), run_of(2, 2));
    node.state.ended.insert(run_of(2, 1));
    let all = [dot(2, 1), dot(2, 3)];
    assert_eq!(node.step(WillsEvent::RingChanged), [removed(0, &all)]);
}

#[test]
fn a_node_that_is_back_before_the_delay_has_no_will_to_publish() {
    let delayed = || KnownWill {
        delay: DELAY,
        ..open_will()
    };
    let mut node = Node::new(10);
    node.state.present.remove(&NodeId(2));
    assert_eq!(node.change(0, vec![delayed()]), []);
    assert_eq!(node.wait(DELAY / 2), []);
    node.state.present.insert(NodeId(2), run_of(2, 1));
    assert_eq!(node.step(WillsEvent::RingChanged), []);
    assert_eq!(node.wait(DELAY), []);
}

#[test]
fn the_number_that_counts_is_gone_on_with() {
    let (first, later) = (number_of(2, 1), number_of(3, 1));
    let mut will = ended_will();
    will.numbers = vec![numbered(first, 2, 50), numbered(later, 3, 60)];
    will.delay = DELAY;
    let go_on = |number, clock| {
        let (clock, entry) = (Hlc::at(clock), None);
        publish(0, Some(NumberedWill { number, clock, entry }))
    };
    let mut node = Node::new(10);
    assert_eq!(
        node.change(0, vec![will]),
        [go_on(later, 60)],
        "the later one, at once"
    );
    assert_eq!(node.number(0, later), []);
    node.state.heard.insert(first);
    let routed = WillsEvent::RoutedByPeer { number: first };
    assert_eq!(
        node.step(routed),
        [given_up(later), go_on(first, 50)],
        "one that was routed"
    );
}

#[test]
fn a_run_goes_on_with_its_own_entry_and_the_clock_of_the_first() {
    let number = number_of(2, 1);
    let mut again = numbered(number, OWN, 70);
    again.number.message_clock = Some(Hlc::at(50));
    let mut will = ended_will();
    will.numbers = vec![numbered(number, 2, 50), again];
    let numbered = NumberedWill {
        number,
        clock: Hlc::at(50),
        entry: Some(dot(OWN, 70)),
    };
    assert_eq!(Node::new(10).change(0, vec![will]), [publish(0, Some(numbered))]);
}

/// The will of client 0 with an own number, and with one that another node has given it before.
fn numbered_twice() -> KnownWill {
    let mut will = ended_will();
    will.numbers = vec![
        numbered(number_of(OWN, 1), OWN, 60),
        numbered(number_of(3, 1), 3, 50),
    ];
    will
}

/// Publishes the will under its own number, whose entry is this one.
fn own_number(entry: Option<Dot>) -> WillsAction {
    let (number, clock) = (number_of(OWN, 1), Hlc::at(60));
    publish(0, Some(NumberedWill { number, clock, entry }))
}

/// Node whose will of client 0 is on its way under its own number, with the entry of that.
fn firing_alone() -> Node {
    let mut node = firing(ended_will());
    let mut will = numbered_twice();
    will.numbers.truncate(1);
    assert_eq!(node.change(0, vec![will]), []);
    node
}

#[test]
fn a_number_is_written_anew_when_the_node_learns_of_another_one() {
    let mut node = firing_alone();
    let anew = [given_up(number_of(OWN, 1)), own_number(None)];
    assert_eq!(node.change(0, vec![numbered_twice()]), anew);
    assert_eq!(node.number(0, number_of(OWN, 1)), []);
    assert_eq!(node.change(0, vec![numbered_twice()]), [], "it is being written");
    let mut will = numbered_twice();
    will.numbers.push(numbered(number_of(OWN, 1), OWN, 70));
    assert_eq!(node.change(0, vec![will]), [], "it comes behind both numbers");
}

#[test]
fn a_number_that_was_given_up_is_written_anew_where_the_node_has_learned_of_another_one() {
    let mut node = firing_alone();
    let slot = Slot::of_client(client_id(0).as_bytes());
    let mut resume_with = |will: KnownWill| {
        node.state.decides = false;
        assert_eq!(
            node.step(WillsEvent::CopyChanged { slot }),
            [given_up(number_of(OWN, 1))]
        );
        node.state.wills.insert(client_id(0), vec![will]);
        node.state.decides = true;
        let actions = node.step(WillsEvent::CopyChanged { slot });
        assert_eq!(node.number(0, number_of(OWN, 1)), []);
        actions
    };
    let mut alone = numbered_twice();
    alone.numbers.truncate(1);
    let own = || own_number(Some(dot(OWN, 60)));
    assert_eq!(resume_with(alone), [own()], "it knows no more");
    assert_eq!(resume_with(numbered_twice()), [own_number(None)]);
    assert_eq!(resume_with(numbered_twice()), [own()], "it knew both");
    let mut anew = numbered_twice();
    anew.numbers.push(numbered(number_of(OWN, 1), OWN, 70));
    let last = own_number(Some(dot(OWN, 70)));
    assert_eq!(resume_with(anew), [last], "the entry behind both");
}

#[test]
fn a_number_that_was_routed_is_not_written_anew() {
    let mut node = firing_alone();
    node.state.heard.insert(number_of(OWN, 1));
    assert_eq!(node.change(0, vec![numbered_twice()]), []);
}

#[test]
fn nothing_stays_of_a_will_that_is_removed_while_the_node_does_not_decide() {
    let mut node = firing_alone();
    let slot = Slot::of_client(client_id(0).as_bytes());
    node.state.decides = false;
    node.change(0, Vec::new());
    assert_eq!(node.wills.written.len(), 1, "this node may go on with it");
    node.state.wills.clear();
    node.state.decides = true;
    assert_eq!(node.step(WillsEvent::CopyChanged { slot }), []);
    assert!(node.wills.written.is_empty());
    let mut node = firing_alone();
    node.state.decides = false;
    node.step(WillsEvent::RingChanged);
    assert!(node.wills.written.is_empty(), "the slot may have gone for ever");
}

#[test]
fn what_this_node_does_not_decide_about_is_given_up_and_taken_up_again() {
    let mut node = firing(ended_will());
    node.state.decides = false;
    let slot = Slot::of_client(client_id(0).as_bytes());
    let changed = || WillsEvent::CopyChanged { slot };
    assert_eq!(node.step(changed()), [given_up(number_of(OWN, 1))]);
    assert_eq!(node.wills.firing(), 0);
    assert_eq!(node.published(number_of(OWN, 1)), [], "it was on its way");
    assert_eq!(node.step(changed()), []);
    node.state.decides = true;
    assert_eq!(node.step(changed()), [publish(0, None)]);
    let mut node = firing(ended_will());
    node.state.decides = false;
    assert_eq!(node.step(WillsEvent::RingChanged), [given_up(number_of(OWN, 1))]);
}

#[test]
fn a_will_that_somebody_has_removed_is_given_up() {
    let mut node = firing(ended_will());
    assert_eq!(node.change(0, Vec::new()), [given_up(number_of(OWN, 1))]);
    assert_eq!(node.number(0, number_of(OWN, 2)), [given_up(number_of(OWN, 2))]);
}

#[test]
fn wills_beyond_the_limit_wait_for_their_turn() {
    let mut node = Node::new(2);
    assert_eq!(node.change(3, vec![ended_will()]), [publish(3, None)]);
    assert_eq!(node.change(1, vec![ended_will()]), [publish(1, None)]);
    for client in [2, 0] {
        assert_eq!(node.change(client, vec![ended_will()]), []);
        assert_eq!(node.wait(Duration::from_secs(1)), []);
    }
    assert_eq!(
        (node.wills.firing(), node.wills.waiting(), node.due_in()),
        (2, 2, None)
    );
    node.number(3, number_of(OWN, 1));
    let next = node.published(number_of(OWN, 1));
    let all = [dot(2, 1), dot(2, 3), dot(2, 4)];
    assert_eq!(
        next,
        [removed(3, &all), publish(2, None)],
        "the one that was due first"
    );
    assert_eq!(node.change(1, Vec::new()), [publish(0, None)]);
}

#[test]
fn a_number_that_is_refused_is_not_asked_for_again() {
    let (wrong, right) = (number_of(OWN, 9), number_of(3, 1));
    let mut will = ended_will();
    will.numbers = vec![numbered(wrong, 2, 50)];
    let asks = |number, clock| {
        let (clock, entry) = (Hlc::at(clock), None);
        publish(0, Some(NumberedWill { number, clock, entry }))
    };
    let mut node = Node::new(10);
    assert_eq!(node.change(0, vec![will.clone()]), [asks(wrong, 50)]);
    assert_eq!(node.number(0, number_of(OWN, 1)), []);
    assert_eq!(node.change(0, vec![will.clone()]), []);
    will.numbers.push(numbered(right, 3, 60));
    let goes_over = [given_up(number_of(OWN, 1)), asks(right, 60)];
    assert_eq!(node.change(0, vec![will]), goes_over, "a later one");
}
