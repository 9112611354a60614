use super::node::{Node, answer_released, ask_release, node, older, session};
use super::*;
use crate::SlotEntries;

fn by(clock: u64, dot: Dot) -> Claimant {
    let clock = Hlc::at(clock);
    Claimant { clock, dot }
}

fn release(old: Dot, by: Claimant) -> Release {
    Release { old, by: Some(by) }
}

#[test]
fn an_older_connection_answers_when_what_it_leaves_is_durable() {
    let mut at = Node::new(LIMITS);
    let (connection, old) = at.connect_new();
    at.writes.clear();
    let claimant = by(200, dot(3, 1));
    let reason = DisconnectReason::TakenOver { by: claimant.dot };
    let actions = at.release(3, release(old, claimant));
    assert_eq!(actions, [Action::Disconnect { connection, reason }]);
    assert_eq!(at.release(3, release(old, claimant)), [], "it waits already");
    assert_eq!(at.writes, []);
    let closed = at.step(Event::Closed { connection });
    assert_eq!(closed, [answer_released(old, claimant.dot, true)]);
    assert_eq!(at.writes, [Write::Closed { dot: old }]);
    let again = at.release(3, release(old, claimant));
    assert_eq!(again, [answer_released(old, claimant.dot, true)], "it has ended");
}

#[test]
fn of_two_that_ask_each_other_the_earlier_gives_in() {
    let mut at = Node::new(LIMITS);
    let (connection, _) = at.connect(false);
    let own = by(101, dot(0, 1));
    let later = by(102, dot(3, 1));
    let earlier = by(100, dot(2, 1));
    let same_clock = by(101, dot(2, 2));
    assert_eq!(
        at.answer_all(own.dot, 1, &session(&[older(later.dot)])),
        [ask_release(later.dot, own)]
    );
    let refused = at.release(2, release(own.dot, earlier));
    assert_eq!(refused, [answer_released(own.dot, earlier.dot, false)]);
    let taken_over = at.release(2, release(own.dot, same_clock));
    let reason = RefuseReason::TakenOver;
    assert_eq!(taken_over, [Action::Refuse { connection, reason }], "runs decide");
    assert_eq!(at.release(3, release(own.dot, later)), [], "it closes already");
    let closed = at.step(Event::Closed { connection });
    let answers = [same_clock, later].map(|by| answer_released(own.dot, by.dot, true));
    assert_eq!(closed, answers);
}

#[test]
fn a_claimant_that_is_refused_gives_in() {
    let mut at = Node::new(LIMITS);
    let (connection, _) = at.connect(false);
    let (own, later) = (dot(0, 1), dot(3, 4));
    at.answer_all(own, 1, &session(&[older(later)]));
    assert_eq!(at.released(dot(3, 5), own, false), [], "it was not asked");
    let reason = RefuseReason::TakenOver;
    assert_eq!(
        at.released(later, own, false),
        [Action::Refuse { connection, reason }]
    );
}

#[test]
fn an_owner_gets_no_answer() {
    let mut at = Node::new(LIMITS);
    let (connection, old) = at.connect_new();
    let reason = DisconnectReason::LosesMerge;
    let actions = at.release(1, Release { old, by: None });
    assert_eq!(actions, [Action::Disconnect { connection, reason }]);
    assert_eq!(at.step(Event::Closed { connection }), []);
    assert_eq!(at.release(1, Release { old, by: None }), []);
}

#[test]
fn a_client_that_leaves_meanwhile_is_not_parted_with_again() {
    let mut at = Node::new(LIMITS);
    let (connection, old) = at.connect_new();
    assert_eq!(at.step(Event::Ended { connection }), []);
    let claimant = by(200, dot(3, 1));
    assert_eq!(at.release(3, release(old, claimant)), []);
    let closed = at.step(Event::Closed { connection });
    assert_eq!(closed, [answer_released(old, claimant.dot, true)]);
}

/// The entry is removed as soon as it is made: nobody else knows it.
#[test]
fn a_connection_that_ends_before_its_entry_is_made_leaves_none() {
    let mut at = Node::new(LIMITS);
    let connection = at.begin(false).expect("room");
    at.step(Event::Closed { connection });
    assert_eq!(at.connections.len(), 1);
    assert_eq!(at.write_connection(connection, 100), []);
    assert_eq!(at.writes, [Write::Closed { dot: dot(0, 1) }]);
    assert!(at.connections.is_empty());
}

#[test]
fn a_connection_here_is_released_by_a_message_to_the_node_itself() {
    let mut at = Node::new(LIMITS);
    let (connection, old) = at.connect_new();
    at.connect(false);
    let own = by(100 + at.number, dot(0, at.number));
    let known = session(&[older(old), older(own.dot)]);
    assert_eq!(at.answer_all(own.dot, 1, &known), [ask_release(old, own)]);
    let reason = DisconnectReason::TakenOver { by: own.dot };
    assert_eq!(
        at.release(0, release(old, own)),
        [Action::Disconnect { connection, reason }]
    );
    assert_eq!(
        at.step(Event::Closed { connection }),
        [answer_released(old, own.dot, true)]
    );
    assert_eq!(
        at.released(old, own.dot, true).len(),
        2,
        "the session is read again"
    );
}

/// A connection answers no more than its limit: the others give in.
#[test]
fn claimants_of_a_connection_are_bounded() {
    let mut at = Node::new(ConnectionLimits {
        claimants_max: 2,
        ..LIMITS
    });
    let (connection, old) = at.connect_new();
    for number in 1..=2 {
        at.release(3, release(old, by(200, dot(3, number))));
    }
    let further = at.release(3, release(old, by(200, dot(3, 3))));
    assert_eq!(further, [answer_released(old, dot(3, 3), false)]);
    assert_eq!(
        at.release(3, release(old, by(200, dot(3, 2)))),
        [],
        "it is one of them"
    );
    assert_eq!(at.step(Event::Closed { connection }).len(), 2);
}

/// Losing connections that an owner releases, by what its copy has of clients: the fact and the clock of each event.
fn released_losers(listed: &[(u8, Dot, Fact, u64)]) -> Vec<Dot> {
    let at = Node::new(LIMITS);
    let mut entries: SlotEntries<Value> = SlotEntries::default();
    let covered = VersionVector::default();
    for (of, dot, fact, clock) in listed {
        let entry = entry_of(fact.clone(), birth_of(*dot), Hlc::at(*clock), *dot);
        entries.add(&covered, &client(*of), *dot, entry);
    }
    let mut outgoing = Vec::new();
    release_losers(&entries, &at.cluster, &mut outgoing);
    let released = outgoing
        .into_iter()
        .map(|Outgoing { to, message }| match message {
            ConnectingMessage::Release(Release { old, by: None }) if to == old.run.node => old,
            other => panic!("{other:?} to {to:?}"),
        });
    let mut released: Vec<Dot> = released.collect();
    released.sort_unstable();
    released
}

/// Rule `loser-released`.
#[test]
fn an_owner_releases_all_connections_but_the_latest() {
    let released = released_losers(&[
        (0, dot(1, 1), Fact::Connection, 5),
        (0, dot(2, 1), Fact::Connection, 9),
        (0, dot(3, 1), Fact::Connection, 7),
        (0, dot(8, 1), Fact::Connection, 1),
        (1, dot(2, 2), Fact::Connection, 3),
    ]);
    assert_eq!(released, [dot(1, 1), dot(3, 1)], "node {} is away", node(8).0);
}

/// Rule `loser-released`: the session's entry names a connection that has ended.
#[test]
fn an_owner_releases_all_connections_that_are_earlier_than_one_that_has_ended() {
    let session = |of: u64, clock: u64| {
        let connected = Some(Hlc::at(clock));
        (0, dot(of, 2), Fact::Session { connected }, clock + 5)
    };
    let open = |of: u64, clock: u64| (0, dot(of, 1), Fact::Connection, clock);
    assert_eq!(released_losers(&[open(1, 5), session(2, 6)]), [dot(1, 1)]);
    assert_eq!(released_losers(&[open(1, 7), session(2, 6)]), [], "it is later");
    assert_eq!(
        released_losers(&[open(1, 5), session(1, 5)]),
        [],
        "its own entry names it"
    );
    let both = [open(1, 5), open(2, 6), session(3, 7)];
    assert_eq!(released_losers(&both), [dot(1, 1), dot(2, 1)]);
    let of_runs = [open(1, 5), session(2, 5)];
    assert_eq!(released_losers(&of_runs), [dot(1, 1)], "runs decide");
    let carried = (0, dot(2, 2), Fact::Session { connected: None }, 9);
    assert_eq!(released_losers(&[open(1, 5), carried]), [], "nobody had it");
}
