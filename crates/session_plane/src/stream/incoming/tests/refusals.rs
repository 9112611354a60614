use super::*;
use crate::EVENT_NUMBER_MAX;
use crate::stream::{CoveredSlots, ReceivedFlush};

fn event(number: u64, kind: EventKind) -> StreamEvent<()> {
    let dot = Dot {
        run: run(OWN),
        number,
    };
    StreamEvent {
        dot,
        kind,
        payload: (),
    }
}

fn change(number: u64) -> StreamEvent<()> {
    event(number, EventKind::Change(SlotSet::default()))
}

fn marker(number: u64, nodes: &[u64]) -> StreamEvent<()> {
    let states: BTreeMap<NodeId, NodeState> =
        nodes.iter().map(|id| (node(*id), NodeState::Running)).collect();
    event(number, EventKind::RingMarker(routing(&states)))
}

fn position(after: u64, number: u64) -> StreamPosition {
    StreamPosition { after, number }
}

/// Stream that began with 5 and has the event 7.
fn begun() -> IncomingStream<()> {
    let limits = IncomingLimits {
        events_max: 10,
        bytes_max: 100,
    };
    let mut stream = IncomingStream::new(RECEIVER, run(OWN), limits);
    let begun = stream.receive_welcome(marker(5, &[1, 2]), 1);
    assert!(matches!(begun, Ok(Received::Begun { gained }) if gained.len() == 4_098));
    let numbers = NumberRange { first: 6, last: 7 };
    let gained = SlotSet::default();
    let taken = stream.receive_event(5, change(7), 1);
    assert_eq!(taken, Ok(Received::Taken { numbers, gained }));
    stream
}

/// The stream goes on after a refusal as if nothing had come.
#[track_caller]
fn assert_unchanged(stream: &mut IncomingStream<()>) {
    assert_eq!((stream.position(), stream.durable()), (7, 4));
    let numbers = NumberRange { first: 8, last: 9 };
    let gained = SlotSet::default();
    let taken = stream.receive_event(7, change(9), 1);
    assert_eq!(taken, Ok(Received::Taken { numbers, gained }));
}

#[track_caller]
fn assert_refused(after: u64, event: StreamEvent<()>, error: ReceiveError) {
    let mut stream = begun();
    assert_eq!(stream.receive_event(after, event, 1), Err(error));
    assert_unchanged(&mut stream);
}

#[test]
fn events_that_are_not_next_are_refused_by_name() {
    let run = run(OWN);
    let (expected, found) = (7, 8);
    let skipped = ReceiveError::Skipped { run, expected, found };
    assert_refused(8, change(9), skipped);
    for number in 6..=7 {
        let position = 7;
        let back = ReceiveError::GoesBack {
            run,
            position,
            number,
        };
        assert_refused(5, change(number), back);
    }
}

#[test]
fn events_of_others_are_refused_by_name() {
    let expected = run(OWN);
    let found = run(node(3));
    let mut other = change(8);
    other.dot.run = found;
    assert_refused(7, other, ReceiveError::OtherRun { expected, found });
    let (run, number) = (expected, 8);
    let foreign = ReceiveError::ForeignView { run, number };
    assert_refused(7, marker(8, &[1, 3]), foreign);
    assert_refused(7, marker(8, &[2, 3]), foreign);
}

#[test]
fn positions_that_skip_or_go_back_are_refused_by_name() {
    let run = run(OWN);
    let mut stream = begun();
    let skipped = ReceiveError::Skipped {
        run,
        expected: 7,
        found: 8,
    };
    assert_eq!(stream.receive_position(position(8, 9)), Err(skipped));
    let back = ReceiveError::GoesBack {
        run,
        position: 7,
        number: 6,
    };
    assert_eq!(stream.receive_position(position(5, 6)), Err(back));
    let early = ReceiveError::StableTooEarly {
        run,
        durable: 4,
        number: 5,
    };
    assert_eq!(stream.receive_stable(5), Err(early));
    assert_eq!(stream.receive_stable(4), Ok(()));
    let back = ReceiveError::GoesBack {
        run,
        position: 4,
        number: 3,
    };
    assert_eq!(stream.receive_stable(3), Err(back));
    assert_unchanged(&mut stream);
}

#[test]
fn a_stream_begins_with_a_marker_that_is_later() {
    let run = run(OWN);
    let limits = IncomingLimits {
        events_max: 1,
        bytes_max: 1,
    };
    let mut stream = IncomingStream::new(RECEIVER, run, limits);
    assert_eq!(
        stream.receive_event(0, change(1), 1),
        Err(ReceiveError::NotBegun { run })
    );
    assert_eq!(
        stream.receive_position(position(0, 1)),
        Err(ReceiveError::NotBegun { run })
    );
    let refused = stream.receive_welcome(change(1), 1);
    assert_eq!(refused, Err(ReceiveError::NotAMarker { run, number: 1 }));

    let mut stream = begun();
    stream.restart_connection();
    assert_eq!(stream.receive_welcome(marker(5, &[1, 2]), 1), Ok(Received::Again));
    let back = ReceiveError::GoesBack {
        run,
        position: 7,
        number: 6,
    };
    assert_eq!(stream.receive_welcome(marker(6, &[1, 2]), 1), Err(back));
    assert_unchanged(&mut stream);
}

#[test]
fn the_highest_number_is_refused_and_nothing_overflows() {
    let (run, number) = (run(OWN), EVENT_NUMBER_MAX);
    let error = ReceiveError::OutOfRange { run, number };
    assert_refused(7, change(number), error);
    let number = u64::MAX;
    let error = ReceiveError::OutOfRange { run, number };
    assert_refused(7, change(number), error);
    assert_refused(7, marker(number, &[1, 2]), error);
    let mut stream = begun();
    assert_eq!(stream.receive_position(position(7, number)), Err(error));
    assert_eq!(stream.receive_welcome(marker(number, &[1, 2]), 1), Err(error));
    let flush = stream.flush(number);
    assert_eq!((flush.from, flush.to, flush.events.len()), (7, 7, 0));
    assert_unchanged(&mut stream);
}

#[test]
fn a_new_connection_may_repeat_what_came_before() {
    let mut stream = begun();
    stream.restart_connection();
    assert_eq!(stream.receive_position(position(4, 5)), Ok(None));
    assert_eq!(stream.receive_event(5, change(7), 1), Ok(Received::Again));
    assert_unchanged(&mut stream);
}

/// The run is present to another node earlier than to this one. When it stops, that one may pass on what came
/// after the Welcome for this one.
#[test]
fn a_stay_begins_with_its_welcome_also_where_a_flush_has_brought_more() {
    let mut stream = begun();
    let taken = stream.receive_flush(&flush(), |_| 1);
    assert!(taken.is_ok_and(|taken| !taken.parts.is_empty()));
    assert_eq!(stream.position(), 12);
    assert_eq!(stream.receive_welcome(marker(10, &[1, 2]), 1), {
        let (run, position, number) = (run(OWN), 12, 10);
        Err(ReceiveError::GoesBack {
            run,
            position,
            number,
        })
    });

    stream.begin_stay();
    let run = run(OWN);
    let early = stream.receive_event(12, change(13), 1);
    assert_eq!(early, Err(ReceiveError::NotBegun { run }));
    let back = stream.receive_welcome(marker(4, &[1, 2]), 1);
    let (position, number) = (5, 4);
    let goes_back = ReceiveError::GoesBack {
        run,
        position,
        number,
    };
    assert_eq!(back, Err(goes_back));
    let begun = stream.receive_welcome(marker(10, &[1, 2]), 1);
    assert!(matches!(begun, Ok(Received::Begun { gained }) if gained.len() == 4_098));
    assert_eq!((stream.position(), stream.durable()), (10, 9));
    let numbers = NumberRange { first: 11, last: 11 };
    let gained = SlotSet::default();
    let taken = stream.receive_event(10, change(11), 1);
    assert_eq!(taken, Ok(Received::Taken { numbers, gained }));
}

/// Flush of the numbers 8 to 12, with the event 9.
fn flush() -> ReceivedFlush<()> {
    ReceivedFlush {
        run: run(OWN),
        from: 7,
        to: 12,
        base: None,
        events: vec![change(9)],
        slots: vec![CoveredSlots {
            numbers: NumberRange { first: 8, last: 12 },
            slots: SlotSet::default(),
        }],
    }
}

#[track_caller]
fn assert_flush_refused(spoil: impl FnOnce(&mut ReceivedFlush<()>), error: ReceiveError) {
    let mut stream = begun();
    let mut flush = flush();
    spoil(&mut flush);
    assert_eq!(stream.receive_flush(&flush, |_| 1), Err(error));
    assert_unchanged(&mut stream);
}

#[test]
fn flushes_that_are_none_are_refused_by_name() {
    let own = run(OWN);
    let goes_back = |position, number| ReceiveError::GoesBack {
        run: own,
        position,
        number,
    };
    let beyond = |number| ReceiveError::OutOfRange { run: own, number };
    let found = run(node(3));
    let other = ReceiveError::OtherRun { expected: own, found };
    assert_flush_refused(|flush| flush.run = found, other);
    assert_flush_refused(|flush| flush.events[0].dot.run = found, other);
    assert_flush_refused(|flush| flush.to = u64::MAX, beyond(u64::MAX));
    assert_flush_refused(|flush| flush.from = 13, goes_back(13, 12));
    assert_flush_refused(|flush| flush.events = vec![change(7)], goes_back(7, 7));
    assert_flush_refused(|flush| flush.events = vec![change(9); 2], goes_back(9, 9));
    assert_flush_refused(|flush| flush.events = vec![change(13)], beyond(13));
    assert_flush_refused(|flush| flush.slots[0].numbers.first = 7, goes_back(7, 7));
    assert_flush_refused(|flush| flush.slots[0].numbers.last = 7, goes_back(7, 8));
    assert_flush_refused(|flush| flush.slots[0].numbers.last = 13, beyond(13));
    let mut stream = begun();
    assert_eq!(
        stream
            .receive_flush(&flush(), |_| 1)
            .map(|taken| taken.parts.len()),
        Ok(1)
    );
    assert_eq!(stream.position(), 12);
}
