//! A node whose data directory is put back to an older copy while the others go on.

use super::copy;
use super::growing::{Operated, node_at};
use super::member::{Member, TRIES};
use crate::harness::page;

/// When the older copy is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copied {
    /// Before the last start: the copy lacks that one.
    BeforeStart,
    /// While the node ran: its starts are those of the original.
    Running,
}

/// A cluster of which one node has an older disk than it had, while another one is away.
struct Play {
    operated: Operated,
    leader: Member,
    numbers: Numbers,
}

/// Numbers of the three nodes.
#[derive(Clone, Copy)]
struct Numbers {
    leader: u16,
    older: u16,
    away: u16,
}

impl Numbers {
    /// The node that leads, and the others in their order.
    fn of(operated: &Operated, members: &[Option<Member>]) -> Self {
        let first = members[0].as_ref().expect("it runs");
        let status = operated.status(first);
        let led_by = status["groups"][0]["leader"].as_str().map(str::to_owned);
        let leads = |node: &u16| Some(node_at(operated, first, &operated.place.peer(*node))) == led_by;
        let leader = (0..3).find(leads).expect("one of them leads");
        Self {
            leader,
            older: (leader + 1) % 3,
            away: (leader + 2) % 3,
        }
    }
}

/// Keys that the leader and the node with the older disk alone have acknowledged.
fn keys() -> impl Iterator<Item = String> {
    (0..20).map(|key| format!("key{key}"))
}

impl Play {
    fn new(operated: Operated, copied: Copied) -> Self {
        let place = &operated.place;
        let mut members: Vec<_> = place.start_all(3).into_iter().map(Some).collect();
        members[0].as_ref().expect("it runs").set("before", "v");
        let numbers = Numbers::of(&operated, &members);
        let mut take = |node: u16| members[usize::from(node)].take().expect("it runs");
        let Numbers { older, away, .. } = numbers;
        take(older).kill();
        if copied == Copied::BeforeStart {
            copy(&place.data(older), &place.path("older"));
        }
        let mut again = place.start(older, 3);
        again.wait_ready();
        assert_eq!(again.get("before"), "v");
        if copied == Copied::Running {
            copy(&place.data(older), &place.path("older"));
        }
        take(away).kill();
        let leader = take(numbers.leader);
        for key in keys() {
            leader.set(&key, "v");
        }
        again.kill();
        std::fs::remove_dir_all(place.data(older)).expect("removed");
        copy(&place.path("older"), &place.data(older));
        Self {
            operated,
            leader,
            numbers,
        }
    }

    fn start(&self, node: u16) -> Member {
        let mut member = self.operated.place.start(node, 3);
        member.wait_ready();
        member
    }

    fn keys_are_at(member: &Member) {
        for key in keys() {
            assert_eq!(member.get(&key), "v", "{key}");
        }
    }

    /// The node with the older disk takes no part, whoever else is there, so that nothing that was acknowledged is lost.
    fn takes_no_part(self, line: &str) {
        let mut older = self.start(self.numbers.older);
        older.logged(&["this node takes no part in its cluster any more", line]);
        until_unready(&older, line);
        self.operated.until(&older, &["status"], line);
        // It knows nothing of what it has missed.
        let away = self.start(self.numbers.away);
        Self::keys_are_at(&self.leader);
        Self::keys_are_at(&away);
        self.operated.until(&self.leader, &["status"], line);
        self.operated.until(&away, &["status"], line);

        // Without the leader there is no majority, although two nodes run.
        older.kill();
        self.leader.kill();
        let mut older = self.operated.place.start(self.numbers.older, 3);
        older.logged(&["this node takes no part in its cluster any more", line]);
        until_unready(&away, "have no leader");
        self.operated.until(&away, &["status"], line);
        let leader = self.operated.place.start(self.numbers.leader, 3);
        Self::keys_are_at(&away);
        drop(leader);
    }
}

/// Waits until `/readyz` says this.
#[track_caller]
fn until_unready(member: &Member, line: &str) {
    let says = |_| {
        let (status, body) = page(member.at("admin"), "/readyz");
        status.contains("503") && body.contains(line)
    };
    assert!((0..TRIES).any(says), "{:?}", page(member.at("admin"), "/readyz"));
}

#[test]
fn a_copy_that_lacks_a_start_takes_no_part() {
    let play = Play::new(Operated::new(), Copied::BeforeStart);
    play.takes_no_part("has an older copy of its data directory");
}

#[test]
fn a_copy_that_lacks_entries_takes_no_part() {
    let play = Play::new(Operated::new(), Copied::Running);
    play.takes_no_part("is rolled back: its data directory is older than what it has acknowledged in");
}

#[test]
fn entries_that_were_lost_from_memory_are_sent_again() {
    let mut operated = Operated::new();
    let options = ["--durability", "memory"].map(str::to_owned);
    operated.place.options.extend(options);
    let play = Play::new(operated, Copied::Running);
    let mut older = play.operated.place.start(play.numbers.older, 3);
    older.logged(&["this node has lost the end of its log"]);
    older.wait_ready();
    Play::keys_are_at(&older);
    // It has its vote again.
    let away = play.start(play.numbers.away);
    play.leader.kill();
    older.set("after", "v");
    Play::keys_are_at(&away);
}
