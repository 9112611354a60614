//! Processes that join a cluster and leave it, while clients go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::member::{Member, Place, TRIES};
use crate::harness::{Ran, run, statehold};

/// A cluster that is not running yet, and who may change it.
struct Operated {
    place: Place,
    token: String,
}

impl Operated {
    fn new() -> Self {
        let mut place = Place::new();
        let made = run(statehold(&["admin-token", "ops", "--scope", "write"])).expect(0);
        let (tokens, config) = (place.path("tokens"), place.path("config.toml"));
        std::fs::write(&tokens, &made.stdout).expect("written");
        std::fs::write(&config, format!("[admin]\ntokens = {tokens:?}\n")).expect("written");
        place.options.extend(["--config".to_owned(), config]);
        let token = made.stderr.trim().rsplit(' ').next().expect("a token").to_owned();
        Self { place, token }
    }

    /// Runs `statehold cluster` by way of a node.
    fn cluster(&self, member: &Member, arguments: &[&str]) -> Ran {
        let mut command = statehold(&["cluster"]);
        let admin = format!("http://{}", member.at("admin"));
        command.args(arguments).args(["--admin", &admin]);
        command.env("STATEHOLD_ADMIN_TOKEN", &self.token);
        run(command)
    }

    /// The same, again until it says so.
    fn until(&self, member: &Member, arguments: &[&str], text: &str) -> Ran {
        for _ in 0..TRIES {
            let ran = self.cluster(member, arguments);
            if ran.stderr.contains(text) || ran.text().contains(text) {
                return ran;
            }
        }
        panic!("{arguments:?}: {:?}", self.cluster(member, arguments))
    }
}

/// Writes through one node until it is told to stop; every write has to succeed in the end.
fn write_until(member: Member, is_over: &AtomicBool, written: &AtomicU64) -> Member {
    while !is_over.load(Ordering::Acquire) {
        let number = written.load(Ordering::Acquire) + 1;
        member.set("counter", &number.to_string());
        written.store(number, Ordering::Release);
    }
    member
}

#[test]
fn a_cluster_grows_and_shrinks_while_clients_go_on() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut members = place.start_all(3);
    members[0].set("before", "kept");
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let writer = members.swap_remove(0);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(writer, &is_over, &written));

        let mut new = place.start(3, 3);
        new.logged(&["is a cluster that is formed and does not know this node"]);
        let before = written.load(Ordering::Acquire);
        operated.until(&members[0], &["status"], "waits: statehold cluster add");
        let added = operated.cluster(&members[0], &["add", &place.peer(3)]);
        assert_eq!(added.code, Some(0), "{}", added.stderr);
        assert!(added.stderr.contains("is a member"), "{}", added.stderr);
        new.wait_ready();
        assert_eq!(new.get("before"), "kept");

        let gone = [place.peer(1), place.peer(2)];
        for address in &gone {
            let removed = operated.cluster(&new, &["remove", address]);
            assert_eq!(removed.code, Some(0), "{}", removed.stderr);
            assert!(removed.stderr.contains("is removed"), "{}", removed.stderr);
        }
        drop(members);
        assert!(written.load(Ordering::Acquire) > before, "clients went on");
        is_over.store(true, Ordering::Release);
        let status = operated.cluster(&new, &["status"]);
        assert!(
            !gone.iter().any(|address| status.text().contains(address)),
            "{}",
            status.text()
        );
        let _writer = writing.join().expect("all was written");
        assert_eq!(new.get("counter"), written.load(Ordering::Acquire).to_string());
    });
}

#[test]
fn what_is_asked_of_no_cluster_is_refused() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut alone = place.start(0, 1);
    alone.wait_ready();
    let refused = operated.until(&alone, &["remove", &place.peer(0)], "is the only one");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let wrong = operated.cluster(&alone, &["remove", "nobody"]);
    assert_eq!(wrong.code, Some(3), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("no node `nobody`"), "{}", wrong.stderr);
}
