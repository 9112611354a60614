//! Bytes that are no message are refused by what is wrong with them.

use super::*;
use crate::{SlotOutOfRange, ViewError};
use cluster::NodeId;

/// Node 1, as a message spells it out.
const NODE_1: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 1];
/// Start 7 of node 1, spelled out.
const RUN: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 7];
const CLOCK: [u8; 8] = [0; 8];

/// Field and fault for which the fields of a message are refused.
pub(super) fn refusal(kind: Kind, fields: &[u8]) -> (&'static str, Fault) {
    match decode(&[&[VERSION, kind.number()], fields].concat()) {
        Err(WireError::Field { of, field, fault }) => {
            assert_eq!(of, Subject::Message(kind));
            (field, fault)
        }
        other => panic!("{other:?}"),
    }
}

fn concat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn another_version_is_refused_by_both_versions() {
    for kind in 0..=255 {
        let hello = [2, kind, 0, 0];
        assert_eq!(decode(&hello), Err(WireError::OtherVersion { found: 2 }));
    }
    assert_eq!(decode(&[0]), Err(WireError::OtherVersion { found: 0 }));
    assert_eq!(
        WireError::OtherVersion { found: 2 }.to_string(),
        "the peer speaks version 2 of the session plane, this node version 1: run one release on all nodes"
    );
}

#[test]
fn what_has_no_frame_is_refused() {
    assert_eq!(decode(&[]), Err(WireError::NoFrame { bytes: 0 }));
    assert_eq!(decode(&[VERSION]), Err(WireError::NoFrame { bytes: 1 }));
}

#[test]
fn an_unknown_kind_is_refused_by_its_number() {
    for number in (0..=255).filter(|number| Kind::of_number(*number).is_none()) {
        let refused = decode(&[VERSION, number, 0, 0]);
        assert_eq!(refused, Err(WireError::UnknownKind { number }));
    }
    assert_eq!(
        WireError::UnknownKind { number: 99 }.to_string(),
        "a message of kind 99 is unknown to version 1: run one release on all nodes"
    );
}

#[test]
fn each_kind_is_read_by_its_module() {
    for row in KINDS {
        let refused = decode(&[VERSION, row.kind.number()]);
        let is_read = matches!(refused, Err(WireError::Field { .. }));
        assert!(is_read, "{}: {refused:?}", row.name);
    }
    assert_eq!(
        WireError::MisplacedKind { kind: Kind::Give }.to_string(),
        "a Give message (kind 26) is none of its module"
    );
}

#[test]
fn a_refusal_names_the_message_and_the_field() {
    let error = decode(&[VERSION, Kind::DropQuestion.number(), 0x82, 0x20, 1]).expect_err("no slot");
    assert_eq!(
        error.to_string(),
        "DropQuestion message: slot: slot 4098 is out of range: slots are 0 to 4097"
    );
    let error = decode(&[VERSION, Kind::Offer.number(), 0, 0, 0]).expect_err("too long");
    assert_eq!(error.to_string(), "Offer message: 2 bytes are left over");
}

#[test]
fn a_number_has_one_form_and_64_bits() {
    let confirm = |number: &[u8]| decode(&[&[VERSION, Kind::Confirm.number()], number, &[0]].concat());
    let read = |number: &[u8]| match confirm(number) {
        Ok(Message::Replication(Replication::Confirm(Confirm { number, .. }))) => Some(number),
        _ => None,
    };
    let most = [&[0xff; 9][..], &[0x01]].concat();
    assert_eq!([read(&[0x80, 0x01]), read(&most)], [Some(128), Some(u64::MAX)]);
    let invalid: [&[u8]; 4] = [
        &[0x80, 0x00],
        &[0xff, 0x80, 0x00],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    for number in invalid {
        let expected = ("confirmed number", Fault::InvalidNumber);
        assert_eq!(refusal(Kind::Confirm, number), expected, "{number:?}");
    }
    let expected = ("confirmed number", Fault::TooShort);
    assert_eq!(refusal(Kind::Confirm, &[0x80]), expected);
}

#[test]
fn numbers_that_count_from_one_are_not_zero() {
    let zero: [(Kind, &[u8], &str); 8] = [
        (Kind::ConfirmResent, &[0], "id of a resend"),
        (Kind::DropQuestion, &[5, 0], "question"),
        (Kind::FeedClose, &[0], "feed"),
        (Kind::Hello, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 7], "run"),
        (Kind::Event, &concat(&[&[0], &RUN, &[0]]), "dot of an event"),
        (Kind::Resend, &[1, 0, 0, 0, 0], "numbers of a resend"),
        (
            Kind::HandshakeOffer,
            &concat(&[&RUN, &[1, 1, 0], &NODE_1]),
            "side of the sender",
        ),
        (
            Kind::FeedOpen,
            &concat(&[&[1, 0], &RUN, &[5, 0, 1], &CLOCK, &[1, 0], &[0]]),
            "dot of a queued message",
        ),
    ];
    for (kind, fields, field) in zero {
        assert_eq!(refusal(kind, fields), (field, Fault::Zero), "{kind}");
    }
}

#[test]
fn a_slot_is_in_range() {
    let number = SlotOutOfRange { number: 4_098 };
    assert_eq!(
        refusal(Kind::DropQuestion, &[0x82, 0x20, 1]),
        ("slot", Fault::Slot(number))
    );
    let fault = Fault::TooHigh {
        found: 65_536,
        max: 4_097,
    };
    assert_eq!(
        refusal(Kind::DropQuestion, &[0x80, 0x80, 0x04, 1]),
        ("slot", fault)
    );
    // The highest slot, and one behind it.
    let slots = [1, 2, 0x81, 0x20, 0];
    assert_eq!(
        refusal(Kind::Resend, &slots),
        ("slots of a resend", Fault::Slot(number))
    );
}

#[test]
fn forms_are_known() {
    let offer = concat(&[&RUN, &[5, 1, 1], &NODE_1]);
    let forms: [(Kind, &[u8], &str, u8); 9] = [
        (Kind::HandshakeOffer, &offer, "state of the sender", 5),
        (Kind::Welcome, &concat(&[&RUN, &[1, 3, 0]]), "form of an event", 3),
        (Kind::Heartbeat, &[2], "position", 2),
        (Kind::AskPart, &[5, 1, 0, 5], "wanted content", 5),
        (Kind::AskPart, &[5, 1, 0, 3, 0, 0, 3], "entries to leave out", 3),
        (Kind::SlotPart, &[5, 1, 0, 4, 0], "content of the part", 4),
        (
            Kind::SlotPart,
            &[5, 1, 0, 2, 1, 0, 1, 2, 0],
            "blocks of a difference",
            2,
        ),
        (Kind::FeedClosed, &[1, 5], "reason", 5),
        (
            Kind::SlotPart,
            &concat(&[&[5, 1, 0, 3, 1], &RUN, &[1, 17], &[0; 40]]),
            "kind of an entry",
            17,
        ),
    ];
    for (kind, fields, field, found) in forms {
        let expected = (field, Fault::UnknownForm { found });
        assert_eq!(refusal(kind, fields), expected, "{kind} {field}");
    }
}

#[test]
fn runs_are_named_by_places_that_the_message_has() {
    let fault = |found, known| Fault::UnknownRun { found, known };
    assert_eq!(refusal(Kind::Hello, &[1]), ("run", fault(1, 0)));
    let positions = concat(&[&[1, 1, 5, 3], &RUN, &[1, 1, 1, 2, 1]]);
    assert_eq!(refusal(Kind::AskSlots, &positions), ("positions", fault(2, 1)));
    let positions = concat(&[&[1, 1, 5, 2], &RUN, &[1], &RUN, &[1, 0]]);
    assert_eq!(
        refusal(Kind::AskSlots, &positions),
        ("positions", Fault::RunTwice)
    );
}

#[test]
fn intervals_are_ascending_and_apart() {
    let closing = |intervals: &[u8]| concat(&[&[1, 1, 5, 0, 2], intervals]);
    let node_2 = [0, 0, 0, 0, 0, 0, 0, 0, 2, 7];
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let touching = closing(&concat(&[&RUN, &[0, 0, 4], &[1, 0, 0, 4]]));
    let descending = closing(&concat(&[&node_2, &[0, 0, 4], &RUN, &[0, 0, 4]]));
    let beyond_the_last = closing(&concat(&[&RUN, &[1, 0], &most, &[1, 0, 0, 0]]));
    let behind_the_end = closing(&concat(&[&RUN, &[0, 0], &most[..9], &[0x00], &[1, 0, 0, 0]]));
    for fields in [touching, descending, beyond_the_last] {
        let expected = ("numbers that an asker lacks", Fault::NotAscending);
        assert_eq!(refusal(Kind::AskSlots, &fields), expected, "{fields:?}");
    }
    let expected = ("numbers that an asker lacks", Fault::InvalidNumber);
    assert_eq!(refusal(Kind::AskSlots, &behind_the_end), expected);
}

#[test]
fn nothing_comes_behind_the_highest_number() {
    let all_but_one = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    // The numbers 1 to the highest, then one more interval of the run.
    let fields = concat(&[&[1, 1, 5, 0, 2], &RUN, &[0, 0], &all_but_one, &[1, 1, 0, 0]]);
    let expected = ("numbers that an asker lacks", Fault::NotAscending);
    assert_eq!(refusal(Kind::AskSlots, &fields), expected);
    // What is first of the next start touches it.
    let mut next = RUN;
    next[9] += 1;
    let fields = concat(&[&[1, 1, 5, 0, 2], &RUN, &[0, 0], &all_but_one, &next, &[0, 0, 4]]);
    assert_eq!(refusal(Kind::AskSlots, &fields), expected);
    // An interval that ends behind the highest start.
    let starts = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let fields = concat(&[&[1, 1, 5, 0, 1], &RUN, &[0], &starts, &[4]]);
    assert_eq!(refusal(Kind::AskSlots, &fields), expected);
    // A range whose last number is above the highest.
    let fields = concat(&[&[1, 0, 2], &all_but_one, &[0]]);
    let expected = ("numbers of a resend", Fault::NotAscending);
    assert_eq!(refusal(Kind::Resend, &fields), expected);
    // A position that is above the highest.
    let fields = concat(&[&[1, 2], &all_but_one, &[0, 0]]);
    assert_eq!(
        refusal(Kind::Heartbeat, &fields),
        ("position", Fault::NotAscending)
    );
}

#[test]
fn an_event_comes_after_a_lower_number() {
    let event = |after| concat(&[&[after], &RUN, &[3, 0, 0], &CLOCK, &[0, 0]]);
    assert!(decode(&concat(&[&[VERSION, Kind::Event.number()], &event(2)])).is_ok());
    let expected = ("event", Fault::NotAscending);
    assert_eq!(refusal(Kind::Event, &event(3)), expected);
}

#[test]
fn events_of_a_resend_are_among_its_numbers() {
    let event = |run: &[u8], number: u8| concat(&[run, &[number, 0, 0], &CLOCK, &[0, 0]]);
    // The numbers 5 to 8, and two events.
    let resend = |one: &[u8], other: &[u8]| concat(&[&[1, 0, 5, 3, 2], one, other]);
    let whole = resend(&event(&RUN, 5), &event(&[1], 8));
    assert!(decode(&concat(&[&[VERSION, Kind::Resend.number()], &whole])).is_ok());
    let node_2 = [0, 0, 0, 0, 0, 0, 0, 0, 2, 7];
    let refused = [
        resend(&event(&RUN, 4), &event(&[1], 8)),
        resend(&event(&RUN, 5), &event(&[1], 9)),
        resend(&event(&RUN, 6), &event(&[1], 6)),
        resend(&event(&RUN, 5), &event(&node_2, 8)),
    ];
    for fields in refused {
        let expected = ("resend", Fault::NotAscending);
        assert_eq!(refusal(Kind::Resend, &fields), expected, "{fields:?}");
    }
}

#[test]
fn events_and_slots_of_a_flush_are_among_its_numbers() {
    let event = |run: &[u8], number: u8| concat(&[run, &[number, 0, 0], &CLOCK, &[0, 0]]);
    // The numbers 5 to 8 without a view, one event, and no slots at two ranges.
    let flush = |from: u8, event: &[u8], ranges: [u8; 4]| {
        let [first, more, next, next_more] = ranges;
        let slots = [2, first, more, 0, next, next_more, 0];
        concat(&[&RUN, &[from, 8, 0, 1], event, &slots])
    };
    let whole = flush(4, &event(&[1], 8), [5, 1, 7, 1]);
    assert!(decode(&concat(&[&[VERSION, Kind::FlushEvents.number()], &whole])).is_ok());
    let node_2 = [0, 0, 0, 0, 0, 0, 0, 0, 2, 7];
    let refused = [
        flush(9, &event(&[1], 8), [5, 1, 7, 1]),
        flush(4, &event(&[1], 4), [5, 1, 7, 1]),
        flush(4, &event(&[1], 9), [5, 1, 7, 1]),
        flush(4, &event(&node_2, 8), [5, 1, 7, 1]),
        flush(4, &event(&[1], 8), [4, 1, 7, 1]),
        flush(4, &event(&[1], 8), [5, 2, 7, 1]),
        flush(4, &event(&[1], 8), [5, 1, 7, 2]),
    ];
    for fields in refused {
        let expected = ("flush", Fault::NotAscending);
        assert_eq!(refusal(Kind::FlushEvents, &fields), expected, "{fields:?}");
    }
}

#[test]
fn a_view_is_one() {
    let run = |node: u8| [0, 0, 0, 0, 0, 0, 0, 0, node, 7, 1, 2];
    let welcome = |count: u8, nodes: &[u8]| concat(&[&RUN, &[1, 1, count], nodes, &CLOCK, &[0, 0]]);
    let own = [1, 1, 2];
    let field = "view of a ring marker";
    let again = concat(&[&own, &own]);
    let twice = Fault::View(ViewError::NodeTwice { node: NodeId(1) });
    let refused = |count, nodes: &[u8]| refusal(Kind::Welcome, &welcome(count, nodes));
    assert_eq!(refused(0, &[]), (field, Fault::View(ViewError::Empty)));
    assert_eq!(refused(2, &again), (field, twice));
    let descending = concat(&[&run(3), &run(2)]);
    assert_eq!(refused(2, &descending), (field, Fault::NotAscending));
    let welcome = welcome(2, &concat(&[&own, &run(2)]));
    assert!(decode(&concat(&[&[VERSION, Kind::Welcome.number()], &welcome])).is_ok());
}

#[test]
fn sets_are_in_ascending_order() {
    let held = concat(&[
        &[1, 0],
        &RUN,
        &[5, 0, 2],
        &CLOCK,
        &[1, 4],
        &CLOCK,
        &[1, 4],
        &[0; 4],
    ]);
    let expected = ("held messages", Fault::NotAscending);
    assert_eq!(refusal(Kind::FeedOpen, &held), expected);
    let told = concat(&[
        &[1, 0],
        &RUN,
        &[5, 0, 0, 2],
        &[1, 4, 1, 1, 0],
        &[1, 3, 1, 1, 0],
        &[0; 4],
    ]);
    let expected = ("known deliveries", Fault::NotAscending);
    assert_eq!(refusal(Kind::FeedOpen, &told), expected);
}

#[test]
fn a_clock_and_a_side_are_in_range() {
    let heartbeat = concat(&[&[0, 0, 0], &[0x80, 0, 0, 0, 0, 0, 0, 0], &[0]]);
    assert_eq!(
        refusal(Kind::Heartbeat, &heartbeat),
        ("clock", Fault::InvalidClock)
    );
    let offer = |nodes| concat(&[&RUN, &[1, 1, nodes], &NODE_1]);
    let fault = Fault::TooHigh { found: 101, max: 100 };
    assert_eq!(
        refusal(Kind::HandshakeOffer, &offer(101)),
        ("side of the sender", fault)
    );
    assert!(decode(&concat(&[&[VERSION, Kind::HandshakeOffer.number()], &offer(100)])).is_ok());
}

#[test]
fn a_value_that_the_node_refuses_is_named() {
    /// Value that has no bytes.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    struct Nothing;

    impl WireValue for Nothing {
        fn to_bytes(&self) -> Bytes {
            Bytes::new()
        }

        fn from_bytes(bytes: Bytes) -> Option<Nothing> {
            bytes.is_empty().then_some(Nothing)
        }
    }

    let event = concat(&[
        &[VERSION, Kind::Event.number(), 2],
        &RUN,
        &[3, 0, 0],
        &CLOCK,
        &[0, 2, 8, 9],
    ]);
    let refused = Message::<Bytes, Bytes, Nothing>::decode(Bytes::from(event)).expect_err("no value");
    assert_eq!(
        refused.to_string(),
        "Event message: content of an event: 2 bytes are no value of the node"
    );
}
