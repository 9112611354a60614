//! Sink: presences, messages that are given, acknowledgements and limits.

use super::*;
use crate::Slot;
use crate::connecting::ConnectionId;

const LIMITS: SinkLimits = SinkLimits {
    presences_max: 2,
    given_max: 2,
};

const C: ConnectionId = ConnectionId(1);

fn step(sink: &mut GroupSink, event: SinkEvent<u64>) -> Vec<SinkAction<u64>> {
    let mut actions = Vec::new();
    sink.step(event, &mut actions).expect("no refusal");
    actions
}

fn slot() -> Slot {
    group().slot(b"plant/7/cmd")
}

fn wrote(write: GroupWrite) -> SinkAction<u64> {
    let (connection, group) = (C, group());
    SinkAction::Write {
        connection,
        group,
        write,
    }
}

fn give(message: u64, assignment: u64) -> SinkEvent<u64> {
    let (message, assignment) = (dot(2, message), dot(3, assignment));
    let give = Give {
        slot: slot(),
        presence: dot(1, 5),
        message,
        assignment,
        value: message.number,
    };
    SinkEvent::Given {
        from: NodeId(3),
        give,
    }
}

fn given(message: u64, assignment: u64) -> GivenDots {
    GivenDots {
        slot: slot(),
        message: dot(2, message),
        assignment: dot(3, assignment),
    }
}

fn deliver(message: u64) -> SinkAction<u64> {
    SinkAction::Deliver {
        connection: C,
        group: group(),
        message: dot(2, message),
        value: message,
    }
}

fn acknowledge(message: u64) -> SinkEvent<u64> {
    SinkEvent::Acknowledged {
        connection: C,
        group: group(),
        message: dot(2, message),
    }
}

fn known(message: u64) -> SinkEvent<u64> {
    SinkEvent::AcknowledgementKnown {
        connection: C,
        group: group(),
        message: dot(2, message),
    }
}

/// Sink with one connection that is present.
fn present() -> GroupSink {
    let mut sink = GroupSink::new(run(1), LIMITS);
    let opened = SinkEvent::Opened {
        connection: C,
        birth: birth(1),
        groups: vec![group()],
    };
    let birth = birth(1);
    assert_eq!(step(&mut sink, opened), [wrote(GroupWrite::Presence { birth })]);
    let written = SinkEvent::PresenceWritten {
        connection: C,
        group: group(),
        dot: dot(1, 5),
    };
    assert_eq!(step(&mut sink, written), []);
    sink
}

#[test]
fn a_message_is_sent_once_until_nobody_can_give_it() {
    let mut sink = present();
    assert_eq!(step(&mut sink, give(7, 8)), [deliver(7)]);
    assert_eq!(step(&mut sink, give(7, 9)), [], "it has the message");
    let write = GroupWrite::Acknowledgement(given(7, 9));
    assert_eq!(step(&mut sink, known(7)), [], "it is not acknowledged");
    assert_eq!(step(&mut sink, acknowledge(7)), [wrote(write)]);
    assert_eq!(step(&mut sink, acknowledge(7)), [], "it is acknowledged");
    assert_eq!(
        step(&mut sink, give(7, 10)),
        [],
        "the giver may not know that yet"
    );
    assert_eq!(sink.given(), 1);
    assert_eq!(step(&mut sink, known(7)), []);
    assert_eq!(sink.given(), 0);
}

#[test]
fn mqtt_4_8_2_5_a_message_that_moves_is_out_of_the_group() {
    let mut sink = present();
    step(&mut sink, give(7, 8));
    step(&mut sink, give(7, 9));
    let moving = || SinkEvent::Moving {
        connection: C,
        group: group(),
        message: dot(2, 7),
        value: 7,
    };
    let moves = SinkAction::Move {
        connection: C,
        group: group(),
        given: given(7, 9),
        value: 7,
    };
    assert_eq!(step(&mut sink, moving()), [moves]);
    assert_eq!(step(&mut sink, moving()), [], "it moves already");
    assert_eq!(step(&mut sink, acknowledge(7)), [], "it is the session's");
    assert_eq!(
        step(&mut sink, give(7, 10)),
        [],
        "the giver may not know that yet"
    );
    assert_eq!(step(&mut sink, known(7)), []);
    assert_eq!(sink.given(), 0);
    assert_eq!(step(&mut sink, moving()), [], "it was not given");
}

#[test]
fn a_presence_goes_with_its_connection_and_what_it_was_given() {
    let mut sink = present();
    step(&mut sink, give(7, 8));
    let presence = dot(1, 5);
    let closed = SinkEvent::Closed { connection: C };
    assert_eq!(step(&mut sink, closed), [wrote(GroupWrite::Absence { presence })]);
    assert_eq!((sink.attended(), sink.given()), (0, 0));
    assert_eq!(step(&mut sink, give(9, 10)), [], "the connection has ended");
    let late = SinkEvent::PresenceWritten {
        connection: C,
        group: group(),
        dot: dot(1, 6),
    };
    let presence = dot(1, 6);
    assert_eq!(step(&mut sink, late), [wrote(GroupWrite::Absence { presence })]);
}

#[test]
fn a_connection_is_present_when_its_session_turns_out_to_be_a_member() {
    let mut sink = GroupSink::new(run(1), LIMITS);
    let birth = birth(1);
    let opened = |connection| SinkEvent::Opened {
        connection,
        birth,
        groups: Vec::new(),
    };
    assert_eq!(step(&mut sink, opened(C)), []);
    let joined = |connection, name: &[u8]| SinkEvent::Joined {
        connection,
        group: GroupId::new(name).expect("a short name"),
    };
    assert_eq!(
        step(&mut sink, joined(C, b"presses")),
        [wrote(GroupWrite::Presence { birth })]
    );
    assert_eq!(step(&mut sink, joined(C, b"presses")), [], "it is present");
    assert_eq!(
        step(&mut sink, joined(ConnectionId(2), b"presses")),
        [],
        "it has ended"
    );
    step(&mut sink, joined(C, b"b"));
    let reason = MemberViolation::TooManyPresences { presences_max: 2 };
    let closes = SinkAction::Disconnect {
        connection: C,
        reason,
    };
    assert_eq!(step(&mut sink, joined(C, b"c")), [closes]);
}

#[test]
fn mqtt_3_10_4_4_who_leaves_completes_what_it_was_given() {
    let mut sink = present();
    step(&mut sink, give(7, 8));
    let known = vec![KnownMember {
        dot: dot(1, 4),
        since: Hlc::at(4),
    }];
    let left = SubscribedGroup {
        connection: C,
        group: group(),
        known,
    };
    let removes = vec![dot(1, 4)];
    assert_eq!(
        step(&mut sink, SinkEvent::Unsubscribed(left)),
        [wrote(GroupWrite::Leave { removes })]
    );
    assert_eq!(sink.attended(), 1, "the presence stays");
    assert_eq!(step(&mut sink, acknowledge(7)).len(), 1);
}

#[test]
fn a_member_keeps_the_begin_of_its_membership() {
    let mut sink = present();
    let member = |number| KnownMember {
        dot: dot(1, number),
        since: Hlc::at(number),
    };
    let subscribed = SubscribedGroup {
        connection: C,
        group: group(),
        known: vec![member(4), member(3)],
    };
    let write = GroupWrite::Member {
        birth: birth(1),
        since: Some(Hlc::at(3)),
        removes: vec![dot(1, 4), dot(1, 3)],
    };
    assert_eq!(step(&mut sink, SinkEvent::Subscribed(subscribed)), [wrote(write)]);
}

#[test]
fn what_exceeds_a_limit_is_refused_or_closes_the_connection() {
    let mut sink = present();
    step(&mut sink, give(7, 8));
    step(&mut sink, give(9, 10));
    let reason = MemberViolation::TooManyGiven { given_max: 2 };
    let closes = SinkAction::Disconnect {
        connection: C,
        reason,
    };
    assert_eq!(step(&mut sink, give(11, 12)), [closes]);
    let other = |name: &[u8]| SubscribedGroup {
        connection: C,
        group: GroupId::new(name).expect("a short name"),
        known: Vec::new(),
    };
    assert_eq!(step(&mut sink, SinkEvent::Subscribed(other(b"b"))).len(), 2);
    let refused = step(&mut sink, SinkEvent::Subscribed(other(b"c")));
    assert!(
        matches!(refused[..], [SinkAction::RefuseSubscribe { .. }]),
        "{refused:?}"
    );
    assert_eq!(sink.attended(), 2);
}

#[test]
fn a_giver_names_what_it_has_made_and_what_is_here() {
    let mut sink = present();
    let refused = |sink: &mut GroupSink, change: fn(&mut Give<u64>)| {
        let SinkEvent::Given { from, mut give } = give(7, 8) else {
            panic!("a message");
        };
        change(&mut give);
        let mut actions = Vec::new();
        let refused = sink.step(SinkEvent::Given { from, give }, &mut actions);
        assert_eq!(actions, []);
        refused.expect_err("it is refused")
    };
    let peer = NodeId(3);
    let presence = dot(2, 5);
    assert_eq!(
        refused(&mut sink, |give| give.presence = dot(2, 5)),
        GroupError::OtherRun { peer, presence }
    );
    let assignment = dot(2, 8);
    assert_eq!(
        refused(&mut sink, |give| give.assignment = dot(2, 8)),
        GroupError::OtherGiver { peer, assignment }
    );
    let slot = Slot::ROUTES;
    assert_eq!(
        refused(&mut sink, |give| give.slot = Slot::ROUTES),
        GroupError::OtherSlot { peer, slot }
    );
    assert_eq!(sink.given(), 0);
}
