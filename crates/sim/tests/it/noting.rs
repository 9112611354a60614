//! While nodes come and go sessions note which messages they get; some time later all of it is forgotten.

use std::time::Duration;

use protocol::packet::QoS;

use crate::places::{Party, Places};

/// More than forget at a time.
const SESSIONS: usize = 1_100;

const SECOND: Duration = Duration::from_secs(1);

/// From when nodes come and go no more.
const NOTED_FOR: Duration = Duration::from_secs(60);

#[test]
fn sessions_note_what_they_get_until_nodes_have_stayed_for_a_while() {
    let mut places = Places::with_nodes(1, 3, |_| {});
    places.settle();
    let publisher = places.connect(Party::new(0, "publisher"));
    for number in 0..SESSIONS {
        let subscriber = places.connect(Party::durable(0, &format!("subscriber{number}")));
        places.subscribe(subscriber, "t/#", QoS::AtLeastOnce);
    }
    places.run(5 * SECOND);
    places.isolate(2, 5 * SECOND);
    places.run(5 * SECOND);
    places.publish(publisher, "t/x", QoS::AtLeastOnce, 1);
    places.run(5 * SECOND);
    let noted: Vec<usize> = (0..3).map(|node| places.noted(node)).collect();
    // The session and its one copy.
    assert_eq!(noted.iter().sum::<usize>(), 2 * SESSIONS, "{noted:?}");
    places.run(NOTED_FOR);
    assert_eq!([0, 1, 2].map(|node| places.noted(node)), [0; 3]);
    places.publish(publisher, "t/x", QoS::AtLeastOnce, 2);
    places.run(SECOND);
    assert_eq!([0, 1, 2].map(|node| places.noted(node)), [0; 3]);
}
