//! Expiring: single verdicts about the entries of a client, and histories of clients whose nodes crash.

use std::collections::BTreeSet;

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::verdict::{Act, Verdict};
use super::*;
use crate::{Birth, Dot, Run};

mod world;

use world::{Step, World, steps};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// The world asserts what must not happen where it happens, and at rest that all has ended that is to end.
    #[test]
    fn sessions_end_when_their_interval_has_passed_and_not_before(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_at_rest();
    }
}

#[test]
fn a_tick_ends_as_many_sessions_as_it_may_and_the_rest_stays_due() {
    let mut world = World::new();
    for client in 0..world::CLIENTS {
        world.step(&Step::connect(client, 1, 0));
    }
    world.step(&Step::Crash { node: 1 });
    world.step(&Step::Meet { node: 1 });
    for left in (0..world::CLIENTS).rev() {
        assert_eq!(world.expiring.waiting(), left + 1);
        assert!(world.expiring.deadline().is_some());
        world.step(&Step::Tick);
        world.step(&Step::Write);
        assert_eq!(world.sessions(), left);
    }
    assert_eq!((world.expiring.waiting(), world.expiring.deadline()), (0, None));
}

fn run(node: u64) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(1),
    }
}

fn dot(node: u64, number: u64) -> Dot {
    let run = run(node);
    Dot { run, number }
}

fn birth(number: u64) -> Birth {
    Birth {
        dot: dot(9, number),
        clock: Hlc::ZERO,
        is_clean: false,
    }
}

/// Entry of the session with birth 9:`of`, as of a second.
fn entry(dot: Dot, second: u64, of: u64, expiry: u32) -> LifetimeEntry {
    LifetimeEntry {
        dot,
        clock: Hlc::at(second * 1_000),
        birth: birth(of),
        expiry: SessionExpiry::of_seconds(expiry),
        connection: None,
    }
}

/// Entry of a session, or of its expiry, that names a connection.
fn written_by(entry: LifetimeEntry, of: &ConnectionEntry) -> LifetimeEntry {
    LifetimeEntry {
        connection: Some(of.order()),
        ..entry
    }
}

fn connection(dot: Dot, second: u64) -> ConnectionEntry {
    ConnectionEntry {
        dot,
        clock: Hlc::at(second * 1_000),
        will: None,
    }
}

fn at(wall: u64) -> Time {
    let claim_max = 3_000;
    Time { wall, claim_max }
}

/// Verdict at 100 seconds. The runs of these nodes have ended.
fn verdict(lifetime: &Lifetime, ended: &[u64]) -> Verdict {
    lifetime.verdict(at(100_000), |run| match ended.contains(&run.node.0) {
        true => RunState::Ended,
        false => RunState::Present,
    })
}

fn removing(dots: &[Dot]) -> Verdict {
    Verdict::Act(Act::Remove(dots.iter().copied().collect()))
}

fn ending(dots: &[Dot]) -> Verdict {
    let connections = dots.iter().copied().collect();
    Verdict::Act(Act::End { connections })
}

/// Session with an interval of 60 seconds, that a connection of node 1 had from second 10 to 30.
fn closed() -> Lifetime {
    Lifetime {
        sessions: vec![entry(dot(1, 2), 11, 1, 60)],
        expiries: vec![entry(dot(1, 3), 30, 1, 60)],
        ..Lifetime::default()
    }
}

#[test]
fn a_session_ends_when_the_interval_of_its_last_expiry_has_passed() {
    let mut lifetime = closed();
    assert_eq!(
        lifetime.verdict(at(89_999), |_| RunState::Absent),
        Verdict::LookAt(90_000)
    );
    assert_eq!(lifetime.verdict(at(90_000), |_| RunState::Absent), ending(&[]));
    lifetime.expiries.push(entry(dot(3, 1), 40, 1, u32::MAX));
    assert_eq!(verdict(&lifetime, &[]), Verdict::Nothing);
}

#[test]
fn a_session_stays_while_a_connection_may_be_open() {
    let mut lifetime = closed();
    lifetime.connections = vec![connection(dot(2, 1), 31)];
    assert_eq!(verdict(&lifetime, &[]), Verdict::Nothing, "it claims the session");
    assert_eq!(
        verdict(&lifetime, &[2]),
        ending(&[dot(2, 1)]),
        "it has never had it"
    );
}

/// The client was connected on both sides of a split: the one side has said that nobody has the session.
#[test]
fn an_expiry_of_another_side_does_not_hold_for_an_open_connection() {
    let mut lifetime = closed();
    lifetime.connections = vec![connection(dot(2, 1), 5)];
    assert_eq!(verdict(&lifetime, &[]), removing(&[dot(1, 3)]));
    let absent = lifetime.verdict(at(100_000), |_| RunState::Absent);
    assert_eq!(absent, Verdict::Nothing, "it may have ended before");
    lifetime.sessions[0].expiry = SessionExpiry::WITH_CONNECTION;
    let Verdict::Act(Act::Write(new)) = verdict(&lifetime, &[2]) else {
        panic!("its interval begins when its run has ended");
    };
    let mut actions = Vec::new();
    let client = ClientId::new(b"press").expect("short");
    Act::Write(new).append_to(&client, &mut actions);
    let written = ExpiringAction::Write {
        client,
        birth: birth(1),
        connected: Some(connection(dot(2, 1), 5).order()),
        expiry: SessionExpiry::of_seconds(60),
        removes: BTreeSet::from([dot(1, 3), dot(2, 1)]),
    };
    assert_eq!(actions, [written]);
}

/// Rule `loser-released`: both sides of a split had a connection, and the later one has closed.
#[test]
fn a_connection_that_is_earlier_than_one_which_has_closed_is_released_and_the_expiry_stays() {
    let mut lifetime = closed();
    let later = connection(dot(1, 1), 10);
    lifetime.sessions = vec![written_by(entry(dot(1, 2), 11, 1, 60), &later)];
    lifetime.expiries = vec![written_by(lifetime.expiries[0], &later)];
    lifetime.connections = vec![connection(dot(2, 1), 5), connection(dot(3, 1), 4)];
    let released = Verdict::Release {
        connections: BTreeSet::from([dot(2, 1), dot(3, 1)]),
        again: 101_000,
    };
    assert_eq!(verdict(&lifetime, &[]), released);
    let absent = lifetime.verdict(at(100_000), |_| RunState::Absent);
    assert_eq!(absent, Verdict::Nothing, "nobody reaches it");
    // Its CONNECT came later than the other's, on its side, and so did its session's entry.
    lifetime
        .sessions
        .push(written_by(entry(dot(2, 2), 40, 1, 60), &connection(dot(2, 1), 5)));
    assert_eq!(verdict(&lifetime, &[]), released);
    lifetime.connections = vec![later];
    assert_eq!(verdict(&lifetime, &[]), Verdict::Nothing, "it is the latest");
}

#[test]
fn the_expiry_counts_once_the_earlier_connection_has_ended() {
    let later = connection(dot(1, 1), 10);
    let mut lifetime = closed();
    lifetime.sessions = vec![written_by(lifetime.sessions[0], &later)];
    lifetime.expiries = vec![written_by(lifetime.expiries[0], &later)];
    let present = lifetime.verdict(at(89_999), |_| RunState::Present);
    assert_eq!(present, Verdict::LookAt(90_000));
}

/// Each side of a split has written one, and has not known of the other's connection.
#[test]
fn of_two_expiries_the_one_that_lasts_longer_holds() {
    let mut lifetime = closed();
    lifetime.expiries.push(entry(dot(3, 1), 35, 1, 10));
    let absent = |wall| lifetime.verdict(at(wall), |_| RunState::Absent);
    assert_eq!(absent(89_999), Verdict::LookAt(90_000));
    assert_eq!(absent(90_000), ending(&[]));
}

/// A node has begun the interval of an earlier connection, which it had before it was away.
#[test]
fn of_two_expiries_that_of_the_later_connection_holds() {
    let (earlier, later) = (connection(dot(3, 1), 5), connection(dot(1, 1), 10));
    let mut lifetime = closed();
    lifetime.sessions = vec![written_by(lifetime.sessions[0], &earlier)];
    lifetime.expiries = vec![written_by(lifetime.expiries[0], &later)];
    lifetime
        .expiries
        .push(written_by(entry(dot(3, 9), 80, 1, 3_600), &earlier));
    let absent = |wall| lifetime.verdict(at(wall), |_| RunState::Absent);
    assert_eq!(absent(89_999), Verdict::LookAt(90_000));
    assert_eq!(absent(90_000), ending(&[]));
}

/// The later connection has said until when.
#[test]
fn an_earlier_connection_whose_run_has_ended_begins_no_interval() {
    let later = connection(dot(1, 1), 10);
    let mut lifetime = closed();
    lifetime.sessions = vec![written_by(lifetime.sessions[0], &later)];
    lifetime.expiries = vec![written_by(lifetime.expiries[0], &later)];
    lifetime.connections = vec![connection(dot(2, 1), 5)];
    assert_eq!(verdict(&lifetime, &[2]), ending(&[dot(2, 1)]));
    lifetime.expiries[0].connection = Some(connection(dot(3, 1), 4).order());
    let begun = verdict(&lifetime, &[2]);
    assert!(matches!(begun, Verdict::Act(Act::Write(_))), "{begun:?}");
}

/// It was written later, on its side of a split.
#[test]
fn a_session_of_an_earlier_connection_does_not_outdate_the_expiry() {
    let (earlier, later) = (connection(dot(3, 1), 5), connection(dot(1, 1), 10));
    let mut lifetime = closed();
    lifetime.sessions = vec![written_by(entry(dot(3, 2), 40, 1, 3_600), &earlier)];
    lifetime.expiries = vec![written_by(lifetime.expiries[0], &later)];
    let present = |lifetime: &Lifetime| lifetime.verdict(at(89_999), |_| RunState::Present);
    assert_eq!(present(&lifetime), Verdict::LookAt(90_000));
    lifetime.sessions[0].connection = Some(connection(dot(3, 1), 11).order());
    let begun = present(&lifetime);
    assert!(matches!(begun, Verdict::Act(Act::Write(_))), "{begun:?}");
}

/// A claim of another side may fail.
#[test]
fn an_expiry_stays_while_an_older_connection_may_claim_the_session() {
    let mut lifetime = closed();
    lifetime.connections = vec![connection(dot(2, 1), 10)];
    let present = |wall| lifetime.verdict(at(wall), |_| RunState::Present);
    assert_eq!(present(12_999), Verdict::LookAt(13_000));
    assert_eq!(present(13_000), removing(&[dot(1, 3)]));
}

/// DISCONNECT has said that the session does not expire, and CONNECT had said otherwise.
#[test]
fn what_was_said_last_outlives_a_connection_that_nobody_has_missed() {
    let mut lifetime = closed();
    lifetime.expiries[0].expiry = SessionExpiry::NEVER;
    lifetime.connections = vec![connection(dot(2, 1), 5)];
    // Also where CONNECT has said it: another side of a split may have written a shorter interval, later than the session.
    for of_connect in [lifetime.sessions[0].expiry, SessionExpiry::NEVER] {
        lifetime.sessions[0].expiry = of_connect;
        let Verdict::Act(Act::Write(new)) = verdict(&lifetime, &[2]) else {
            panic!("it is written anew that the session does not expire");
        };
        let client = ClientId::new(b"press").expect("short");
        let mut actions = Vec::new();
        Act::Write(new).append_to(&client, &mut actions);
        let written = ExpiringAction::Write {
            client,
            birth: birth(1),
            connected: Some(connection(dot(2, 1), 5).order()),
            expiry: SessionExpiry::NEVER,
            removes: BTreeSet::from([dot(1, 3), dot(2, 1)]),
        };
        assert_eq!(actions, [written]);
    }
}

#[test]
fn the_expiry_of_a_connection_that_closes_stays_beside_it() {
    let mut lifetime = closed();
    lifetime.connections = vec![connection(dot(1, 1), 10)];
    assert_eq!(verdict(&lifetime, &[]), Verdict::Nothing);
    assert_eq!(verdict(&lifetime, &[1]), ending(&[dot(1, 1)]));
}

#[test]
fn an_expiry_that_a_connect_has_not_seen_is_removed() {
    let mut lifetime = closed();
    lifetime.sessions.push(entry(dot(2, 2), 31, 1, 60));
    lifetime.connections = vec![connection(dot(2, 1), 30)];
    assert_eq!(verdict(&lifetime, &[]), removing(&[dot(1, 3)]));
}

/// A will needs the connection's entry, or that of its end.
#[test]
fn a_connection_with_a_will_leaves_it_behind_the_expiry() {
    let mut lifetime = closed();
    lifetime.expiries.clear();
    let will = Some(birth(1));
    lifetime.connections = vec![ConnectionEntry {
        will,
        ..connection(dot(1, 1), 10)
    }];
    let Verdict::Act(act) = verdict(&lifetime, &[1]) else {
        panic!("an expiry is written");
    };
    let client = ClientId::new(b"press").expect("short");
    let mut actions = Vec::new();
    act.append_to(&client, &mut actions);
    let left = ExpiringAction::LeaveWill {
        client,
        connection: dot(1, 1),
        birth: birth(1),
    };
    assert_eq!(actions.get(1), Some(&left));
    lifetime.sessions[0].expiry = SessionExpiry::WITH_CONNECTION;
    assert_eq!(
        verdict(&lifetime, &[1]),
        ending(&[]),
        "the end publishes the will"
    );
    lifetime.sessions.clear();
    assert_eq!(verdict(&lifetime, &[1]), Verdict::Nothing);
}

/// Two sides of a split have begun sessions of the same client.
#[test]
fn of_two_sessions_the_one_that_lasts_longer_decides() {
    let mut lifetime = closed();
    lifetime.sessions.push(entry(dot(2, 2), 12, 2, 5));
    lifetime.expiries.push(entry(dot(2, 3), 20, 2, 5));
    assert_eq!(
        lifetime.verdict(at(89_999), |_| RunState::Absent),
        Verdict::LookAt(90_000)
    );
    lifetime.expiries[1].expiry = SessionExpiry::NEVER;
    assert_eq!(verdict(&lifetime, &[]), Verdict::Nothing);
}

/// The routes know of a CONNECT whose entries the copy lacks: the connection may be open.
#[test]
fn a_session_stays_while_the_copy_lacks_an_entry_of_it() {
    let mut lifetime = closed();
    lifetime.lacks_session = true;
    assert_eq!(verdict(&lifetime, &[1]), Verdict::LookAt(101_000));
}
