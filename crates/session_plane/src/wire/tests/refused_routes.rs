//! Routes that no node sends are refused by what is wrong with them.

use super::refusals::refusal;
use super::*;
use crate::SlotOutOfRange;
use crate::dot::EVENT_NUMBER_MAX;
use crate::publishing::{ConfirmRoute, NoRecipients};

/// Start 7 of node 1, spelled out.
const RUN: [u8; 10] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 7];
const CLOCK: [u8; 8] = [0; 8];

/// Fields of a route with the number 1, the marker 5, and nothing known.
fn route(message: &[u8]) -> Vec<u8> {
    [&RUN[..], &[1, 5], &CLOCK, &[0], message].concat()
}

/// Fields of a confirmation of the marker 5.
fn confirm(place: u64) -> Bytes {
    let mut writer = Writer::new(Kind::ConfirmRoute);
    writer.put_fixed(&RUN);
    writer.put_number(place);
    writer.put_number(5);
    writer.finish()
}

#[test]
fn a_number_is_one_of_a_message() {
    let number = |place| match Sample::decode(confirm(place)) {
        Ok(Message::Publishing(PublishingMessage::Confirm(ConfirmRoute { number, .. }))) => number.number,
        other => panic!("{other:?}"),
    };
    let max = u64::MAX - EVENT_NUMBER_MAX;
    assert_eq!([number(1), number(max)], [EVENT_NUMBER_MAX + 1, u64::MAX]);
    let refused = |place| refusal(Kind::ConfirmRoute, &confirm(place)[FRAME_BYTES..]);
    let field = "number of a route";
    assert_eq!(refused(0), (field, Fault::Zero));
    for found in [max + 1, u64::MAX] {
        assert_eq!(refused(found), (field, Fault::TooHigh { found, max }));
    }
}

/// A type cannot say that its number is one of a message. So its bytes are none.
#[test]
fn the_number_of_an_event_becomes_no_other_number() {
    for number in [0, 1, 2, EVENT_NUMBER_MAX - 1, EVENT_NUMBER_MAX] {
        let (node, incarnation) = (cluster::NodeId(1), cluster::Incarnation(7));
        let run = crate::Run { node, incarnation };
        let number = crate::Dot { run, number };
        let confirm = PublishingMessage::Confirm(ConfirmRoute { number, marker: 5 });
        let read = Sample::decode(Sample::Publishing(confirm).encode());
        assert!(read.is_err(), "{read:?}");
    }
}

#[test]
fn a_route_names_a_ring_marker() {
    let route = [&RUN[..], &[1, 0], &CLOCK, &[0, 0]].concat();
    assert_eq!(
        refusal(Kind::Route, &route),
        ("ring marker of a route", Fault::Zero)
    );
    let confirm = [&RUN[..], &[1, 0]].concat();
    assert_eq!(
        refusal(Kind::ConfirmRoute, &confirm),
        ("ring marker of a route", Fault::Zero)
    );
}

/// With nobody it would be a second form of a route without a message.
#[test]
fn a_routed_message_is_for_somebody() {
    let read = |message: &[u8]| decode(&[&[VERSION, Kind::Route.number()], &route(message)[..]].concat());
    assert!(read(&[0]).is_ok());
    assert!(read(&[1, 1, 9, 2, 8, 8]).is_ok());
    assert!(read(&[2, 0, 2, 8, 8]).is_ok());
    let refused = |message: &[u8]| refusal(Kind::Route, &route(message));
    let none = ("routed message", Fault::NoRecipients(NoRecipients));
    assert_eq!(refused(&[1, 0, 2, 8, 8]), none);
    let unknown = ("routed message", Fault::UnknownForm { found: 3 });
    assert_eq!(refused(&[3, 1, 9, 0]), unknown);
    let range = Fault::Slot(SlotOutOfRange { number: 4_098 });
    assert_eq!(
        refused(&[1, 1, 0x82, 0x20, 0]),
        ("slots of a routed message", range)
    );
    let fault = Fault::TooMany { count: 9, bytes: 2 };
    assert_eq!(refused(&[1, 9, 0, 0]), ("slots of a routed message", fault));
    assert_eq!(
        refused(&[1, 1, 9, 3, 8, 8]),
        ("content of a routed message", Fault::TooShort)
    );
}
