//! Processes that join a cluster and leave it, while clients go on.

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;

use super::broken_links::{carry, pair};
use super::member::{Member, Place, TRIES};
use crate::harness::{Ran, run, statehold};

/// A cluster that is not running yet, and who may change it.
pub(super) struct Operated {
    pub(super) place: Place,
    pub(super) token: String,
}

impl Operated {
    pub(super) fn new() -> Self {
        let mut place = Place::new();
        let made = run(statehold(&["admin-token", "ops", "--scope", "write"])).expect(0);
        let (tokens, config) = (place.path("tokens"), place.path("config.toml"));
        std::fs::write(&tokens, &made.stdout).expect("written");
        std::fs::write(&config, format!("[admin]\ntokens = {tokens:?}\n")).expect("written");
        place.options.extend(["--config".to_owned(), config]);
        let token = made.stderr.trim().rsplit(' ').next().expect("a token").to_owned();
        Self { place, token }
    }

    /// Adds tables to the settings of all nodes that are started from then on.
    pub(super) fn set(&self, tables: &str) {
        let config = self.place.path("config.toml");
        let before = std::fs::read_to_string(&config).expect("it was written");
        std::fs::write(&config, before + tables).expect("written");
    }

    /// Lets a node that stands still be waited for: whoever runs the tests may have other work for the processors, and a dead node is
    /// no part of the story.
    pub(super) fn wait_for_silent_nodes(&self) {
        self.set("[cluster]\nsilence_max = \"60s\"\n");
    }

    /// Starts three nodes, and waits until each says that all run.
    #[track_caller]
    pub(super) fn start_running(&self) -> Vec<Member> {
        let members = self.place.start_all(3);
        for member in &members {
            until_states(self, member, ["RUNNING"; 3]);
        }
        members
    }

    /// Runs `statehold cluster` by way of a node.
    pub(super) fn cluster(&self, member: &Member, arguments: &[&str]) -> Ran {
        self.cluster_at(member.at("admin"), arguments)
    }

    /// The same, by way of the node whose admin pages are at an address.
    pub(super) fn cluster_at(&self, admin: &str, arguments: &[&str]) -> Ran {
        run(self.command_at(admin, arguments))
    }

    /// Command `statehold cluster` that asks the node whose admin pages are at an address.
    pub(super) fn command_at(&self, admin: &str, arguments: &[&str]) -> Command {
        let mut command = statehold(&["cluster"]);
        let admin = format!("http://{admin}");
        command.args(arguments).args(["--admin", &admin]);
        command.env("STATEHOLD_ADMIN_TOKEN", &self.token);
        command
    }

    /// The same, again until it says so.
    pub(super) fn until(&self, member: &Member, arguments: &[&str], text: &str) -> Ran {
        for _ in 0..TRIES {
            let ran = self.cluster(member, arguments);
            if ran.stderr.contains(text) || ran.text().contains(text) {
                return ran;
            }
        }
        panic!("{arguments:?}: {:?}", self.cluster(member, arguments))
    }

    /// How the cluster stands, as a node sees it; null if that node does not answer.
    pub(super) fn status(&self, member: &Member) -> Value {
        let status = self.cluster(member, &["status", "--json"]);
        serde_json::from_str(status.text()).unwrap_or_default()
    }

    /// Looks at the groups until all of them are so.
    pub(super) fn until_all(&self, member: &Member, is_so: impl Fn(&Value) -> bool) {
        for _ in 0..TRIES {
            let status = self.status(member);
            let groups = status["groups"].as_array();
            if groups.is_some_and(|groups| !groups.is_empty() && groups.iter().all(&is_so)) {
                return;
            }
        }
        panic!("{:?}", self.cluster(member, &["status"]))
    }
}

/// The id of the node at an address, as one of the cluster knows it.
pub(super) fn node_at(operated: &Operated, member: &Member, address: &str) -> String {
    let status = operated.status(member);
    let mut nodes = status["nodes"].as_array().expect("nodes").iter();
    let found = nodes
        .find(|node| node["address"] == address)
        .expect("it is there");
    found["node"].as_str().expect("an id").to_owned()
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
    operated.wait_for_silent_nodes();
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
        let nodes = operated.cluster(&new, &["nodes"]);
        assert!(
            !gone.iter().any(|address| nodes.text().contains(address)),
            "{}",
            nodes.text()
        );
        let _writer = writing.join().expect("all was written");
        assert_eq!(new.get("counter"), written.load(Ordering::Acquire).to_string());
    });
}

/// Bytes that one connection carries to the new node while the network is bad: less than one entry of the log.
pub(super) const CARRIED_MAX: usize = 200_000;

/// Lets little through to an address, while `is_bad`.
pub(super) fn narrow(at: &str, to: String) -> Arc<AtomicBool> {
    let is_bad = Arc::new(AtomicBool::new(true));
    let listener = TcpListener::bind(at).expect("bound");
    let all = Arc::clone(&is_bad);
    std::thread::spawn(move || {
        for from in listener.incoming().flatten() {
            let Ok(to) = TcpStream::connect(&to) else { continue };
            let (back, forth) = (pair(&to, &from), pair(&from, &to));
            std::thread::spawn(move || carry(back, |_| true));
            let (is_bad, mut carried) = (Arc::clone(&all), 0);
            let may_pass = move |bytes: &mut [u8]| {
                carried += bytes.len();
                carried <= CARRIED_MAX || !is_bad.load(Ordering::Acquire)
            };
            std::thread::spawn(move || carry(forth, may_pass));
        }
    });
    is_bad
}

#[test]
fn a_node_is_no_member_before_it_has_what_the_others_have() {
    let operated = Operated::new();
    let place = &operated.place;
    let members = place.start_all(3);
    let value = place.path("value");
    std::fs::write(&value, "x".repeat(4 * CARRIED_MAX)).expect("written");
    for number in 0..3 {
        members[0].set_file(&format!("key{number}"), &value);
    }
    let behind = place.peer(5);
    let is_bad = narrow(&place.peer(3), behind.clone());
    let mut command = place.command_for_peers_at(3, 3, ["127.0.0.1:0"; 2], &behind);
    command.args(["--peer-advertise", &place.peer(3)]);
    let mut new = Member::spawn(command);
    operated.until(&members[0], &["status"], "waits: statehold cluster add");

    let add = ["add", &place.peer(3), "--wait", "5s"];
    let added = operated.until(&members[0], &add, "lacks");
    assert_eq!(added.code, Some(4), "{}", added.stderr);
    assert!(!added.stderr.contains("is a member"), "{}", added.stderr);
    assert!(operated.status(&members[0]).to_string().contains("\"joining\""));
    is_bad.store(false, Ordering::Release);
    let added = operated.cluster(&members[0], &["add", &place.peer(3)]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    assert!(
        added.stderr.contains("is a member, and serves"),
        "{}",
        added.stderr
    );
    new.wait_ready();
    let id = node_at(&operated, &members[0], &place.peer(3));
    operated.until_all(&members[0], |group| {
        let mut replicas = group["replicas"].as_array().into_iter().flatten();
        replicas.any(|replica| replica["node"] == *id && replica["lacks"] == 0)
    });
}

#[test]
fn a_node_that_names_another_one_never_founds_a_cluster_of_its_own() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut new = place.start(3, 1);
    new.logged(&["cluster.size = 1", &place.peer(0), "statehold cluster add"]);
    assert!(!new.is_ready());
    new.kill();

    let members = place.start_all(3);
    members[0].set("before", "kept");
    let mut new = place.start(3, 1);
    new.logged(&["is a cluster that is formed and does not know this node"]);
    let added = operated.cluster(&members[0], &["add", &place.peer(3)]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    new.wait_ready();
    assert_eq!(new.get("before"), "kept");
}

#[test]
fn a_dead_node_is_replaced_by_a_new_one() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut members = place.start_all(3);
    let dead = node_at(&operated, &members[0], &place.peer(2));
    members.pop().expect("three").kill();
    std::fs::remove_dir_all(place.data(2)).expect("removed");
    operated.until_all(&members[0], |group| {
        let mut replicas = group["replicas"].as_array().into_iter().flatten();
        replicas.any(|replica| replica["node"] == *dead && replica["active"] == false)
    });
    let refused = operated.cluster(&members[0], &["remove", &place.peer(2)]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let whole = format!(
        "`statehold cluster remove {dead} --force --admin http://{}`",
        members[0].at("admin")
    );
    assert!(refused.stderr.contains(&whole), "{}", refused.stderr);

    let mut new = place.start(2, 3);
    new.logged(&["is a cluster that is formed and does not know this node"]);
    let taken = operated.until(&members[0], &["add", &place.peer(2)], "has the address");
    assert_eq!(taken.code, Some(2), "it is the dead one's: {}", taken.stderr);
    let removed = operated.cluster(&members[1], &["remove", &place.peer(2), "--force"]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert!(
        removed.stderr.contains("is removed; it did not answer"),
        "{}",
        removed.stderr
    );
    let added = operated.until(&members[0], &["add", &place.peer(2)], "is a member");
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    new.wait_ready();
    new.set("k", "v");
    assert_eq!(members[1].get("k"), "v");

    // Who is a member votes: one of the others may be away.
    members.pop().expect("two are left").kill();
    new.set("k", "again");
    assert_eq!(members[0].get("k"), "again");
}

/// A founder is on disk with the address that it had when the cluster was formed.
#[test]
fn a_node_that_is_back_at_another_address_is_shown_there() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut members = place.start_all(3);
    members.pop().expect("three").kill();
    let command = place.command_for_peers_at(2, 3, ["127.0.0.1:0"; 2], &place.peer(5));
    let mut moved = Member::spawn(command);
    moved.wait_ready();
    for member in members.iter().chain([&moved]) {
        let status = operated.until(member, &["status"], &place.peer(5));
        assert!(!status.text().contains(&place.peer(2)), "{}", status.text());
    }
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

/// How far each node is in the session plane, as the first member sees it, by id.
fn states(operated: &Operated, member: &Member) -> Vec<String> {
    let status = operated.status(member);
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let states = nodes.map(|node| node["sessions"]["state"].as_str().unwrap_or_default().to_owned());
    let mut states: Vec<_> = states.collect();
    states.sort();
    states
}

fn until_states(operated: &Operated, member: &Member, expected: [&str; 3]) {
    let is_so = (0..TRIES).any(|_| states(operated, member) == expected);
    assert!(is_so, "{:?}", operated.cluster(member, &["status"]));
}

#[test]
fn everybody_knows_which_nodes_run_and_which_are_dead() {
    let operated = Operated::new();
    let mut members = operated.start_running();
    members.pop().expect("a third one").kill();
    until_states(&operated, &members[0], ["DEAD", "RUNNING", "RUNNING"]);
    members[0].logged(&["a node is in another state", "to=DEAD"]);
    let mut back = operated.place.start(2, 3);
    back.wait_ready();
    for member in [&members[0], &members[1], &back] {
        until_states(&operated, member, ["RUNNING"; 3]);
    }
}
