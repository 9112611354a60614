//! A node whose data directory is put back to an older copy while the others go on.

use super::copy;
use super::growing::{Operated, node_at};
use super::member::{Member, TRIES};
use crate::harness::page;

/// A cluster of which one node comes back with an older disk, while another one is away.
struct Play {
    operated: Operated,
    leader: Member,
    /// Number of the node with the older disk.
    older: u16,
}

impl Play {
    /// Keys are written that the leader and the node with the older disk alone have acknowledged.
    fn new() -> Self {
        let operated = Operated::new();
        let place = &operated.place;
        let mut members: Vec<_> = place.start_all(3).into_iter().map(Some).collect();
        let first = members[0].as_ref().expect("it runs");
        first.set("before", "v");
        let status = operated.status(first);
        let led_by = |group: usize| status["groups"][group]["leader"].as_str().map(str::to_owned);
        let ids = [0, 1, 2].map(|node| node_at(&operated, first, &place.peer(node)));
        let leads = |node: usize| led_by(0).as_ref() == Some(&ids[node]);
        let leader = (0..3).find(|node| leads(*node)).expect("one of them leads");
        let (older, away) = ((leader + 1) % 3, (leader + 2) % 3);

        let number = u16::try_from(older).expect("of three");
        members[older].take().expect("it runs").kill();
        copy(&place.data(number), &place.path("older"));
        let mut again = place.start(number, 3);
        again.wait_ready();
        members[away].take().expect("it runs").kill();
        let leader = members[leader].take().expect("it runs");
        for key in 0..20 {
            leader.set(&format!("key{key}"), "v");
        }
        again.kill();
        std::fs::remove_dir_all(place.data(number)).expect("removed");
        copy(&place.path("older"), &place.data(number));
        Self {
            leader,
            older: number,
            operated,
        }
    }
}

#[test]
fn a_node_that_is_put_back_to_an_older_copy_is_refused_by_name() {
    const LINE: &str = "has an older copy of its data directory: it was started 3 times, and knows of 2";
    let mut play = Play::new();
    let mut older = play.operated.place.start(play.older, 3);
    play.leader.logged(&[LINE]);
    older.wait_ready();
    let refuses = |_| {
        let (status, body) = page(older.at("admin"), "/readyz");
        status.contains("503") && body.contains(LINE)
    };
    assert!(
        (0..TRIES).any(refuses),
        "{:?}",
        page(older.at("admin"), "/readyz")
    );
}
