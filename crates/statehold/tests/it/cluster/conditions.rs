//! Conditions that keep a node from serving: `/readyz`, `cluster status` and the log say the same line, at the node and at its peers.

use std::process::Command;

use super::growing::Operated;
use super::member::{Member, Place, TRIES};
use super::with_a_clone;
use crate::disk_full::{can_mount, in_own_mounts};
use crate::harness::{Ran, run, statehold};

/// Runs a command at the admin pages of a node.
fn ask(operated: &Operated, member: &Member, arguments: &[&str]) -> Ran {
    let mut command = statehold(arguments);
    command.args(["--admin", &format!("http://{}", member.at("admin"))]);
    command.env("STATEHOLD_ADMIN_TOKEN", &operated.token);
    run(command)
}

pub(super) fn status(operated: &Operated, member: &Member) -> String {
    let said = ask(operated, member, &["cluster", "status"]);
    // A node that takes no part says nothing but why.
    format!("{}{}", said.text(), said.stderr)
}

/// Waits until `/readyz` and `cluster status` of a node have the same line with a text in it. That line.
#[track_caller]
pub(super) fn both_say(operated: &Operated, member: &Member, text: &str) -> String {
    for _ in 0..TRIES {
        let ready = ask(operated, member, &["health", "--ready"]);
        let status = status(operated, member);
        let mut lines = status
            .lines()
            .filter_map(|line| line.strip_prefix("! ").or(line.strip_prefix("statehold: ")));
        let line = lines.find(|line| line.contains(text));
        if let Some(line) = line.filter(|line| ready.code == Some(1) && ready.stderr.contains(line)) {
            return line.to_owned();
        }
    }
    let ready = ask(operated, member, &["health", "--ready"]);
    panic!("no {text:?}: {} and\n{}", ready.stderr, status(operated, member))
}

/// Waits until `cluster status` of a peer says it.
#[track_caller]
pub(super) fn peer_says(operated: &Operated, member: &Member, text: &str) {
    let says = (0..TRIES).any(|_| status(operated, member).contains(text));
    assert!(says, "no {text:?} in\n{}", status(operated, member));
}

#[track_caller]
pub(super) fn until_ready(operated: &Operated, member: &Member) {
    let is_ready = (0..TRIES).any(|_| ask(operated, member, &["health", "--ready"]).code == Some(0));
    assert!(is_ready, "{}", status(operated, member));
}

#[test]
fn a_node_without_a_majority_names_the_voters_that_it_does_not_reach() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut members = place.start_all(3);
    members.pop().expect("three").kill();
    members.pop().expect("two").kill();
    let line = both_say(&operated, &members[0], "groups 0, control have no leader");
    for gone in [1, 2] {
        assert!(line.contains(&place.peer(gone)), "{line}");
    }
    members[0].logged(&["group 0 has no leader: requests about its keys are refused"]);
    let mut back = place.start(1, 3);
    back.wait_ready();
    until_ready(&operated, &members[0]);
}

#[test]
fn a_removed_node_and_its_peers_say_that_it_was_removed() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut members = place.start_all(3);
    let mut removed = members.pop().expect("three");
    // Nobody may lead the control group yet.
    operated.until(&members[0], &["remove", &place.peer(2)], "is removed");
    let line = both_say(&operated, &removed, "was removed from cluster");
    assert!(line.contains("start it with an empty data directory"), "{line}");
    removed.logged(&["a node refuses this one", &line]);
    for member in &mut members {
        peer_says(&operated, member, &line);
        member.logged(&["refused a node", &line]);
        until_ready(&operated, member);
    }
}

#[test]
fn a_clone_and_its_peers_say_that_there_are_two() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut members = place.start_all(3);
    let (original, mut clone) = with_a_clone(place, &mut members);
    clone.wait_ready();
    let line = both_say(&operated, &clone, "there are two nodes with the id");
    assert!(line.contains("stop one of them"), "{line}");
    clone.logged(&["a node refuses this one", &line]);
    peer_says(&operated, &members[0], &line);
    until_ready(&operated, &original);
}

/// A command in whose view a directory is a file system of a few megabytes.
fn on_small_disk(place: &Place, node: u16) -> Command {
    const SCRIPT: &str = r#"mount -t tmpfs -o size=24m tmpfs "$1" && shift && exec "$@""#;
    std::fs::create_dir(place.data(node)).expect("made");
    let served = place.command(node, 3);
    let mut command = in_own_mounts();
    command.args(["sh", "-c", SCRIPT, "sh", &place.data(node)]);
    command.arg(served.get_program()).args(served.get_args());
    command.env_remove("STATEHOLD_LOG");
    command
}

#[test]
fn the_peers_of_a_node_with_a_full_disk_say_that_it_has_stopped_for_it() {
    if !can_mount() {
        println!("left out: a full disk cannot be made without the right to mount");
        return;
    }
    let operated = Operated::new();
    let place = &operated.place;
    let mut full = Member::spawn(on_small_disk(place, 2));
    let mut members = [place.start(0, 3), place.start(1, 3)];
    members.iter_mut().chain([&mut full]).for_each(Member::wait_ready);
    let value = place.path("value");
    std::fs::write(&value, "x".repeat(400_000)).expect("written");
    for number in 0..100 {
        members[0].set_file(&format!("key{number}"), &value);
    }
    full.logged(&["the disk is full", "free some space and start again"]);
    for member in &mut members {
        let line = "has stopped: the disk is full: ";
        member.logged(&[&place.peer(2), line]);
        peer_says(&operated, member, &format!("at {} {line}", place.peer(2)));
    }
}
