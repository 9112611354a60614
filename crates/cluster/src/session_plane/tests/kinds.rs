//! What each kind of record does when two sides of a split meet.

use std::time::Duration;

use super::world::origin;
use super::*;
use crate::session_plane::retirement::{Action, Event, Retired, Retirement};
use crate::session_plane::session::Standing;

/// Two nodes with the same copy, which do not hear of each other any more.
fn split<V: Value>(
    first: impl FnOnce(&mut Record<V>, &mut Writer),
) -> (Record<V>, Writer, Record<V>, Writer) {
    let (mut here, there) = (writer(1), writer(2));
    let mut copy = Record::absent();
    first(&mut copy, &mut here);
    (copy.clone(), here, copy, there)
}

fn connected(number: u64) -> SessionState {
    SessionState {
        presence: Presence::Connected(connection(number)),
        expiry: 60,
        attributes: Bytes::new(),
    }
}

fn disconnected() -> SessionState {
    SessionState {
        presence: Presence::Disconnected,
        ..connected(0)
    }
}

fn presence(record: &Record<SessionState>) -> Presence {
    record.state().unwrap().0.presence
}

/// The example of the published handler, in which the node that is told keeps what it has, unless it has nobody connected and the other has; so two
/// nodes of which each is told by the other keep different states. Here with either of them in either role.
#[test]
fn connected_beats_disconnected_whoever_is_told() {
    for is_later in [true, false] {
        let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
            copy.replace(writer, 10, disconnected()).unwrap();
        });
        here.replace(&mut one, 20, connected(1)).unwrap();
        there
            .replace(&mut two, if is_later { 30 } else { 15 }, disconnected())
            .unwrap();
        let (told_here, told_there) = (joined(&here, &there), joined(&there, &here));
        assert_eq!(told_here, told_there);
        assert_eq!(told_here.clock().compare(told_there.clock()), Causality::Equal);
        assert_eq!(presence(&told_here), Presence::Connected(connection(1)));
        assert_eq!(told_here.standing(connection(1)), Standing::Holds);
    }
}

#[test]
fn of_two_connections_the_later_one_holds_the_session() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        copy.replace(writer, 10, disconnected()).unwrap();
    });
    here.replace(&mut one, 20, connected(1)).unwrap();
    there.replace(&mut two, 21, connected(2)).unwrap();
    let both = joined(&here, &there);
    assert_eq!(both, joined(&there, &here));
    assert_eq!(both.standing(connection(2)), Standing::Holds);
    assert_eq!(both.standing(connection(1)), Standing::TakenOver);
}

/// One value, chosen at each meeting, would depend on who meets whom first: a connection that has ended comes back by way of a node that
/// knows of its beginning only.
#[test]
fn a_connection_that_has_ended_does_not_win_by_a_detour() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        copy.replace(writer, 10, disconnected()).unwrap();
    });
    here.replace(&mut one, 20, connected(1)).unwrap();
    let before = here.clone();
    here.replace(&mut one, 30, disconnected()).unwrap();
    there.replace(&mut two, 40, disconnected()).unwrap();
    let detour = joined(&joined(&before, &there), &here);
    assert_eq!(detour, joined(&here, &there));
    assert_eq!(presence(&detour), Presence::Disconnected);
}

#[test]
fn a_front_that_was_presumed_lost_writes_again_what_it_has() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        copy.replace(writer, 10, connected(1)).unwrap();
    });
    end(&mut there, &mut two, 100).unwrap();
    let before = here.clone();
    here.merge(&there).unwrap();
    assert_eq!(here.standing(connection(1)), Standing::PresumedLost);
    let again = here.write_again(&mut one, 101, &before).unwrap().unwrap();
    there.apply(&again).unwrap();
    assert_eq!(here, there);
    assert_eq!(there.standing(connection(1)), Standing::Holds);
    assert_eq!(here.clone().write_again(&mut one, 102, &here).unwrap(), None);
}

#[test]
fn a_deleted_session_does_not_come_back() {
    let (mut here, mut one, there, _) = split(|copy, writer| {
        copy.replace(writer, 10, disconnected()).unwrap();
    });
    end(&mut here, &mut one, 20).unwrap();
    for merged in [joined(&here, &there), joined(&there, &here)] {
        assert!(merged.is_tombstone());
        assert_eq!(merged.state(), None);
    }
    assert!(joined(&Record::absent(), &here).is_tombstone());
    assert!(joined(&here, &Record::absent()).is_tombstone());
}

fn subscription(filter: &'static str, options: &'static str) -> Subscription {
    Subscription {
        filter: Bytes::from_static(filter.as_bytes()),
        options: Bytes::from_static(options.as_bytes()),
    }
}

fn subscribed(record: &Record<Subscription>) -> Vec<(&[u8], &[u8])> {
    let subscriptions = record.subscriptions();
    let pair = |(filter, entry)| -> (&[u8], &[u8]) {
        let (filter, entry): (&Bytes, &Entry<Subscription>) = (filter, entry);
        (filter, &entry.value.options)
    };
    subscriptions.into_iter().map(pair).collect()
}

#[test]
fn an_unsubscribe_holds_and_a_subscribe_that_it_has_not_seen_stays() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        copy.subscribe(writer, 1, subscription("a", "0")).unwrap();
        copy.subscribe(writer, 2, subscription("b", "0")).unwrap();
    });
    here.unsubscribe(&mut one, 10, b"a").unwrap().unwrap();
    here.unsubscribe(&mut one, 11, b"b").unwrap().unwrap();
    there.subscribe(&mut two, 5, subscription("b", "1")).unwrap();
    for merged in [joined(&here, &there), joined(&there, &here)] {
        assert_eq!(subscribed(&merged), [(&b"b"[..], &b"1"[..])]);
    }
}

#[test]
fn of_two_subscribes_the_later_options_count_and_the_next_write_removes_both() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        copy.subscribe(writer, 1, subscription("a", "0")).unwrap();
    });
    here.subscribe(&mut one, 10, subscription("a", "1")).unwrap();
    there.subscribe(&mut two, 11, subscription("a", "2")).unwrap();
    let mut merged = joined(&here, &there);
    assert_eq!(subscribed(&merged), [(&b"a"[..], &b"2"[..])]);
    assert_eq!(merged.entries().len(), 2);
    assert_eq!(merged.unsubscribe(&mut one, 12, b"c").unwrap(), None);
    merged.unsubscribe(&mut one, 13, b"a").unwrap().unwrap();
    assert!(merged.is_tombstone());
}

fn messages(record: &Record<Queued>) -> Vec<String> {
    let text = |entry: &Entry<Queued>| match &entry.value {
        Queued::Message(message) => String::from_utf8(message.to_vec()).unwrap(),
        Queued::Released(packet_id) => format!("released {packet_id}"),
    };
    record.in_order().into_iter().map(text).collect()
}

fn queue(record: &mut Record<Queued>, writer: &mut Writer, wall: u64, texts: &[&'static str]) {
    let texts = texts.iter().map(|text| Bytes::from_static(text.as_bytes()));
    record.enqueue(writer, wall, texts).unwrap();
}

#[test]
fn a_queue_is_what_neither_side_has_seen_acknowledged_in_the_order_of_moments() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        queue(copy, writer, 1, &["a", "b", "c"]);
    });
    let first = here.entries().next().unwrap().dot;
    here.acknowledge(&mut one, 10, [first]).unwrap().unwrap();
    queue(&mut here, &mut one, 20, &["f"]);
    queue(&mut there, &mut two, 15, &["d", "e"]);
    let last = there.entries().nth(2).unwrap().dot;
    there.release(&mut two, 16, last, 7).unwrap().unwrap();
    for merged in [joined(&here, &there), joined(&there, &here)] {
        assert_eq!(messages(&merged), ["b", "d", "e", "released 7", "f"]);
        assert_eq!(merged.clone().acknowledge(&mut one, 30, [first]).unwrap(), None);
    }
}

#[test]
fn an_outline_tells_what_is_missing() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        queue(copy, writer, 1, &["a", "b", "c"]);
    });
    let dots = there.all_dots();
    here.acknowledge(&mut one, 10, [dots[1]]).unwrap().unwrap();
    queue(&mut here, &mut one, 20, &["e"]);
    there.acknowledge(&mut two, 11, [dots[0]]).unwrap().unwrap();
    queue(&mut there, &mut two, 15, &["d"]);
    let outline = here.outline();
    let missing = there.missing(&outline);
    let fetched: Vec<_> = missing
        .iter()
        .map(|dot| here.entry(*dot).unwrap().clone())
        .collect();
    assert_eq!(fetched.len(), 1);
    let whole = joined(&there, &here);
    let before = there.clone();
    assert!(there.merge_outline(&outline, &[]).is_err());
    assert_eq!(there, before);
    there.merge_outline(&outline, &fetched).unwrap();
    assert_eq!(there, whole);
    assert_eq!(messages(&there), ["c", "d", "e"]);
}

#[test]
fn a_packet_id_stays_until_no_side_waits_for_its_release() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        copy.receive(writer, 1, ReceivedId(1)).unwrap().unwrap();
        copy.receive(writer, 2, ReceivedId(2)).unwrap().unwrap();
    });
    assert_eq!(here.receive(&mut one, 3, ReceivedId(1)).unwrap(), None);
    here.release_id(&mut one, 4, ReceivedId(1)).unwrap().unwrap();
    there.receive(&mut two, 4, ReceivedId(3)).unwrap().unwrap();
    for merged in [joined(&here, &there), joined(&there, &here)] {
        assert_eq!(merged.ids(), [ReceivedId(2), ReceivedId(3)].into());
    }
}

#[test]
fn a_will_that_was_cancelled_or_forgotten_on_one_side_is_not_published_on_the_other_any_more() {
    for is_back in [false, true] {
        let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
            copy.arm(writer, 1, connection(1)).unwrap();
        });
        there
            .go_on(&mut two, 5, connection(1), WillStage::Firing)
            .unwrap()
            .unwrap();
        here.go_on(&mut one, 6, connection(1), WillStage::Cancelled)
            .unwrap()
            .unwrap();
        if is_back {
            here.arm(&mut one, 7, connection(2)).unwrap();
        }
        let merged = joined(&there, &here);
        assert_eq!(merged, joined(&here, &there));
        let (first, second) = match is_back {
            false => (Some(WillStage::Cancelled), None),
            true => (None, Some(WillStage::Armed)),
        };
        assert_eq!(merged.stage(connection(1)), first);
        assert_eq!(merged.stage(connection(2)), second);
    }
}

#[test]
fn a_will_that_was_fired_is_fired_and_goes_no_further() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        copy.arm(writer, 1, connection(1)).unwrap();
    });
    there
        .go_on(&mut two, 5, connection(1), WillStage::Firing)
        .unwrap()
        .unwrap();
    there
        .go_on(&mut two, 6, connection(1), WillStage::Fired)
        .unwrap()
        .unwrap();
    here.merge(&there).unwrap();
    assert_eq!(here.stage(connection(1)), Some(WillStage::Fired));
    assert_eq!(
        here.go_on(&mut one, 7, connection(1), WillStage::Firing).unwrap(),
        None
    );
    assert_eq!(
        here.go_on(&mut one, 7, connection(2), WillStage::Firing).unwrap(),
        None
    );
}

#[test]
fn the_later_retained_message_wins_and_so_does_taking_it_away() {
    let (mut one, mut two) = (writer(1), writer(2));
    let message = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    let mut taken = Retained::new(&mut one, 10, message("a")).unwrap();
    let mut there = taken.clone();
    there.set(&mut two, 20, message("b")).unwrap();
    taken.set(&mut one, 30, None).unwrap();
    let mut merged = there.clone();
    assert_eq!(merged.merge(&taken), Ok(Causality::Concurrent));
    assert!(merged.is_tombstone());
    taken.merge(&there).unwrap();
    assert_eq!(taken, merged);
    merged.set(&mut two, 5, message("c")).unwrap();
    assert_eq!(merged.message(), message("c").as_ref());
}

/// Ended actors leave a clock, but for those whose entries are there still; whoever was not told of it brings nothing back.
#[test]
fn actors_that_have_ended_leave_a_clock_unless_they_are_needed() {
    let (mut here, _, mut there, mut two) = split(|copy, writer| queue(copy, writer, 1, &["a", "b"]));
    let dots = there.all_dots();
    let is_ended = |ended: Actor| ended == actor(1, 1);
    there.acknowledge(&mut two, 2, [dots[0]]).unwrap().unwrap();
    assert_eq!(there.retirable(is_ended), []);
    let clock = there.clock().clone();
    let forced = Retired::Actors(vec![actor(1, 1)]);
    there.retire(&mut two, &clock, &forced);
    assert_eq!(there.clock(), &clock, "an entry of it is there");
    there.acknowledge(&mut two, 3, [dots[1]]).unwrap().unwrap();
    here.merge(&there).unwrap();
    let clock = there.clock().clone();
    let what = Retired::Actors(there.retirable(is_ended));
    assert_eq!(what, forced);
    there.retire(&mut two, &clock, &what);
    assert_eq!(there.clock().actors().collect::<Vec<_>>(), [actor(2, 1)]);
    assert_eq!(there.retirable(|_| true), []);
    queue(&mut there, &mut two, 4, &["c"]);
    here.merge(&there).unwrap();
    assert_eq!(messages(&here), ["c"]);
    assert_eq!(here.clock().actors().len(), 2);
}

/// A copy that was read again from this node's own disk counts on without a gap; one that came back from elsewhere does not.
#[test]
fn only_a_copy_from_elsewhere_leaves_a_gap() {
    let (copy, mut one, ..) = split(|copy, writer| queue(copy, writer, 1, &["a"]));
    let mut other = Record::absent();
    queue(&mut other, &mut one, 2, &["b", "c", "d"]);
    other.forget(&mut one);
    let mut here = copy.clone().continued();
    queue(&mut here, &mut one, 3, &["e"]);
    assert_eq!(here.clock().actors().len(), 1);
    let mut elsewhere = joined(&Record::absent(), &copy);
    queue(&mut elsewhere, &mut one, 4, &["f"]);
    assert_eq!(elsewhere.all_dots()[1].counter, 4);
    assert_eq!(elsewhere.clock().actors().len(), 2);
}

#[test]
fn a_tombstone_that_was_written_to_since_does_not_go() {
    let (mut here, mut one, mut there, mut two) = split(|copy, writer| {
        queue(copy, writer, 1, &["a"]);
        end(copy, writer, 2).unwrap();
    });
    let clock = here.clock().clone();
    queue(&mut here, &mut one, 3, &["b"]);
    here.retire(&mut one, &clock, &Retired::Tombstone);
    assert_eq!(messages(&here), ["b"]);
    end(&mut here, &mut one, 4).unwrap();
    here.retire(&mut one, &clock, &Retired::Tombstone);
    assert!(here.is_tombstone(), "another one than all have confirmed");
    there.retire(&mut two, &clock, &Retired::Tombstone);
    assert!(there.is_absent());
}

#[test]
fn a_holder_that_is_away_holds_a_tombstone_back_until_it_is_removed() {
    let (grace, start) = (Duration::from_secs(60), origin());
    let (copy, ..) = split(|copy, writer| {
        queue(copy, writer, 1, &["a"]);
        end(copy, writer, 2).unwrap();
    });
    let key = RecordKey {
        kind: Kind::Queue,
        key: Bytes::from_static(b"client"),
    };
    let clock = copy.clock().clone();
    let confirmed = |node, clock: &VectorClock| Event::Confirmed {
        key: key.clone(),
        node: NodeId(node),
        clock: clock.clone(),
    };
    let (mut retirement, mut actions) = (Retirement::new(grace), Vec::new());
    let retirable = Event::Retirable {
        key: key.clone(),
        clock: clock.clone(),
        what: Retired::Tombstone,
        holders: vec![NodeId(1), NodeId(2)],
    };
    retirement.step(start, retirable.clone(), &mut actions);
    retirement.step(start, confirmed(1, &clock), &mut actions);
    retirement.step(start, confirmed(2, &VectorClock::new()), &mut actions);
    assert_eq!(retirement.unconfirmed(&key).collect::<Vec<_>>(), [NodeId(2)]);
    assert_eq!(retirement.deadline(), None);
    let holders = |nodes: &[u64]| Event::Holders {
        key: key.clone(),
        holders: nodes.iter().copied().map(NodeId).collect(),
    };
    retirement.step(start, holders(&[1]), &mut actions);
    assert_eq!(retirement.deadline(), Some(start + grace));
    retirement.step(start, holders(&[1, 3]), &mut actions);
    assert_eq!(retirement.deadline(), None);
    let later = start + grace;
    retirement.step(later, confirmed(3, &clock), &mut actions);
    retirement.step(later, Event::Timeout, &mut actions);
    assert_eq!((actions.len(), retirement.deadline()), (0, Some(later + grace)));
    retirement.step(later + grace, Event::Timeout, &mut actions);
    let what = Retired::Tombstone;
    assert_eq!(
        actions,
        [Action::Retire {
            key: key.clone(),
            clock,
            what
        }]
    );
    retirement.step(later, retirable, &mut actions);
    retirement.step(later, Event::Needed(key), &mut actions);
    assert!(retirement.is_empty());
}
