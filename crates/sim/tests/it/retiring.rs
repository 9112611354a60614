//! The clocks of sessions that go from node to node get shorter again when all nodes have been there for a while, and what is known by them stays known.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places, Who};

const SECOND: Duration = Duration::from_secs(1);

/// From when nodes come and go no more, with what copies are ahead of their holders.
const QUIET: Duration = Duration::from_secs(80);

/// How often a session goes to another node: more runs than stay in a clock.
const MOVES: usize = 12;

/// Of three nodes the one that holds a session is cut off, again and again.
struct Moved {
    places: Places,
    publisher: Who,
    subscriber: Who,
    published: u64,
}

impl Moved {
    fn new(seed: u64) -> Self {
        let mut places = Places::running(seed, 3, |_| {});
        let publisher = places.connect(Party::new(0, "publisher"));
        let subscriber = places.connect(Party::durable(0, "subscriber"));
        places.subscribe(subscriber, "t/#", QoS::ExactlyOnce);
        places.run(SECOND);
        let mut moved = Self {
            places,
            publisher,
            subscriber,
            published: 0,
        };
        for _ in 0..MOVES {
            moved.move_on();
        }
        moved
    }

    fn holder(&self) -> usize {
        self.places.holders(self.subscriber)[0]
    }

    fn publish(&mut self) {
        self.published += 1;
        let number = self.published;
        self.places
            .publish(self.publisher, "t/x", QoS::ExactlyOnce, number);
    }

    fn move_on(&mut self) {
        let holder = self.holder();
        self.publish();
        self.places.isolate(holder, 6 * SECOND);
        self.places.run(3 * SECOND);
        self.publish();
        self.places.run(12 * SECOND);
        assert_ne!(self.holder(), holder, "it was cut off");
    }

    fn longest(&self) -> Vec<usize> {
        let nodes = 0..self.places.count();
        nodes
            .map(|node| self.places.machine(node).node().longest_clock())
            .collect()
    }

    fn heard_all_once(&mut self) {
        self.places.come_back(self.subscriber);
        self.places.run(5 * SECOND);
        let mut heard = self.places.heard(self.subscriber);
        heard.sort_unstable();
        assert_eq!(heard, (1..=self.published).collect::<Vec<_>>());
    }
}

#[test]
fn clocks_get_shorter_and_the_session_goes_on() {
    let mut moved = Moved::new(1);
    let before = moved.longest();
    assert!(before.iter().all(|runs| *runs > 8), "{before:?}");
    moved.places.run(QUIET);
    assert_eq!(moved.longest(), [1, 1, 1]);
    // What has a shorter clock is the same: nothing is sent whole to a node that was away for a moment.
    let sent_whole = |moved: &Moved| [0, 1, 2].map(|node| moved.places.copies(node).sent_whole);
    let before = sent_whole(&moved);
    moved.places.isolate(moved.holder(), SECOND);
    moved.places.run(5 * SECOND);
    assert_eq!(sent_whole(&moved), before);
    moved.move_on();
    moved.move_on();
    moved.heard_all_once();
}

#[test]
fn clocks_stay_as_they_are_while_a_node_is_away() {
    let mut moved = Moved::new(2);
    let away = (moved.holder() + 1) % 3;
    let before = moved.longest();
    moved.places.isolate(away, 2 * QUIET);
    moved.places.run(2 * QUIET - 10 * SECOND);
    assert!(
        moved
            .longest()
            .iter()
            .zip(&before)
            .all(|(now, before)| now >= before)
    );
    moved.places.run(30 * SECOND);
    moved.heard_all_once();
    moved.places.run(QUIET);
    assert_eq!(moved.longest(), [1, 1, 1]);
}

/// At each moment around that at which clocks are made shorter a node goes away, and the session ends: it does not come back with that node.
#[test]
fn what_has_ended_does_not_come_back_with_a_longer_clock() {
    for offset in [-2, 1, 14, 16, 20] {
        let mut moved = Moved::new(3);
        let since_heal = 9;
        moved
            .places
            .run(Duration::from_secs((60 - since_heal + offset) as u64));
        let holder = moved.holder();
        moved.places.go(moved.subscriber, holder);
        let away = (holder + 1) % 3;
        moved.places.isolate(away, 20 * SECOND);
        moved.places.run(5 * SECOND);
        moved.places.end_session(moved.subscriber);
        moved.places.run(40 * SECOND);
        assert_eq!(moved.places.holders(moved.subscriber), [0; 0], "{offset}");
    }
}
