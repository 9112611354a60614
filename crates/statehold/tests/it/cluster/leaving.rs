//! Nodes that leave a cluster, or are replaced: the command ends when the node itself has said that it is done.

use std::sync::atomic::Ordering;

use client::protocol::ReasonCode;
use client::protocol::packet::{Packet, QoS};
use serde_json::Value;

use super::growing::{CARRIED_MAX, Operated, narrow, node_at};
use super::member::{Member, TRIES};
use crate::harness::Ran;
use crate::raw::{Raw, connect_durably};

/// Looks that a state has to last for.
const LOOKS: u32 = 20;

/// Lets the first node lead everything, so that no election comes in between.
fn lead_all(operated: &Operated, leader: &Member) {
    for group in ["0", "control"] {
        let transfer = ["transfer", group, &operated.place.peer(0)];
        operated.until(leader, &transfer, &format!("leads group {group}"));
    }
}

/// How far a node is in the cluster; null: it is not in it.
fn stage(operated: &Operated, member: &Member, address: &str) -> Value {
    let status = operated.status(member);
    let mut nodes = status["nodes"].as_array().into_iter().flatten();
    let found = nodes.find(|node| node["address"] == address);
    found.map_or(Value::Null, |node| node["stage"].clone())
}

#[track_caller]
fn until_stage(operated: &Operated, member: &Member, address: &str, expected: &str) {
    let is_so = (0..TRIES).any(|_| stage(operated, member, address) == expected);
    assert!(is_so, "{address} is not {expected}");
}

/// Waits until nobody has heard a node lately.
#[track_caller]
fn until_unreachable(operated: &Operated, member: &Member, id: &str) {
    let is_unreachable = |status: &Value| {
        let mut nodes = status["nodes"].as_array().into_iter().flatten();
        nodes.any(|node| node["node"] == *id && node["reachable"] == false)
    };
    let is_so = (0..TRIES).any(|_| is_unreachable(&operated.status(member)));
    assert!(is_so, "{}", operated.status(member));
}

/// Looks for texts in what a command has said, in this order.
#[track_caller]
fn assert_said(ran: &Ran, texts: &[&str]) {
    let mut rest = ran.stderr.as_str();
    for text in texts {
        let Some((_, after)) = rest.split_once(text) else {
            panic!("no {text:?} in its place in {}", ran.stderr);
        };
        rest = after;
    }
}

/// Between two leaders nobody decides: the command asks again.
#[test]
fn a_change_that_nobody_decides_is_asked_for_again() {
    let operated = Operated::new();
    operated.wait_for_silent_nodes();
    let place = &operated.place;
    let members = place.start_all(3);
    for member in &members[1..] {
        member.signal("STOP");
    }
    let nobody_leads = |status: &Value| {
        let mut groups = status["groups"].as_array().into_iter().flatten();
        groups.any(|group| group["group"] == "control" && group["leader"].is_null())
    };
    let is_so = (0..TRIES).any(|_| nobody_leads(&operated.status(&members[0])));
    assert!(is_so, "{}", operated.status(&members[0]));
    let transfer = ["transfer", "0", &place.peer(1)];
    let at_once = [&transfer[..], &["--wait", "0s"]].concat();
    let open = operated.cluster(&members[0], &at_once);
    assert_eq!(open.code, Some(4), "{}", open.stderr);

    let mut transferring = Member::spawn(operated.command_at(members[0].at("admin"), &transfer));
    transferring.logged(&["nobody leads the control group", "trying again"]);
    for member in &members[1..] {
        member.signal("CONT");
    }
    transferring.logged(&["leads group 0"]);
    assert_eq!(transferring.wait(), Some(0));
}

/// A node that is not dead may answer soon: nobody is told to remove it by force.
#[test]
fn the_removal_of_a_node_that_is_silent_waits_until_it_answers() {
    let operated = Operated::new();
    operated.wait_for_silent_nodes();
    let place = &operated.place;
    let members = operated.start_running();
    lead_all(&operated, &members[0]);
    let id = node_at(&operated, &members[0], &place.peer(2));
    members[2].signal("STOP");
    operated.until_all(&members[0], |group| {
        let mut replicas = group["replicas"].as_array().into_iter().flatten();
        replicas.any(|replica| replica["node"] == *id && replica["active"] == false)
    });
    let remove = ["remove", &place.peer(2)];
    let mut removing = Member::spawn(operated.command_at(members[0].at("admin"), &remove));
    removing.logged(&["cannot be reached", "trying again"]);
    members[2].signal("CONT");
    removing.logged(&["leaves"]);
    removing.logged(&["is removed, and the others have what it held"]);
    assert_eq!(removing.wait(), Some(0));
}

/// The others can do without the node, and do not know whether it is done.
#[test]
fn a_removal_lasts_until_the_node_itself_has_handed_over() {
    let operated = Operated::new();
    operated.wait_for_silent_nodes();
    let place = &operated.place;
    let members = operated.start_running();
    lead_all(&operated, &members[0]);
    let id = node_at(&operated, &members[0], &place.peer(2));

    members[2].signal("STOP");
    let admin = members[0].at("admin").to_owned();
    let ran = std::thread::scope(|scope| {
        let removing = scope.spawn(|| operated.cluster_at(&admin, &["remove", &place.peer(2), "--force"]));
        until_stage(&operated, &members[0], &place.peer(2), "leaving");
        operated.until_all(&members[0], |group| !group["voters"].to_string().contains(&id));
        for _ in 0..LOOKS {
            assert_eq!(stage(&operated, &members[0], &place.peer(2)), "leaving");
        }
        assert!(!removing.is_finished(), "the node has not answered");
        members[2].signal("CONT");
        removing.join().expect("it ran")
    });
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_said(
        &ran,
        &[
            "leaves",
            "is RUNNING",
            "is removed, and the others have what it held",
        ],
    );
}

#[test]
fn sessions_of_a_node_that_is_removed_go_on_at_the_others() {
    let operated = Operated::new();
    operated.wait_for_silent_nodes();
    let place = &operated.place;
    let mut members = operated.start_running();
    let mut client = Raw::connect(members[2].at("mqtt"), connect_durably("mover"));
    client.subscribe("t", QoS::AtLeastOnce);
    let removed = operated.until(&members[0], &["remove", &place.peer(2)], "is removed");
    assert_said(&removed, &["leaves", "the others have what it held"]);
    match client.receive() {
        Packet::Disconnect(disconnect) => assert_eq!(disconnect.reason, ReasonCode::ServerShuttingDown),
        other => panic!("not told: {other:?}"),
    }
    members[2].logged(&["this node was removed, and hands over what it holds"]);
    let mut refused = Raw::begin(members[2].at("mqtt"), connect_durably("mover"));
    match refused.receive() {
        Packet::ConnAck(connack) => assert_eq!(connack.reason, ReasonCode::ServerUnavailable),
        other => panic!("no CONNACK: {other:?}"),
    }
    let mut again = Raw::begin(members[0].at("mqtt"), connect_durably("mover"));
    assert!(again.accepted(), "the session is present");
}

/// The others hang up on it, so nobody else can tell it how far that is.
#[test]
fn a_node_through_which_it_is_removed_itself_says_so() {
    let operated = Operated::new();
    operated.wait_for_silent_nodes();
    let place = &operated.place;
    let members = place.start_all(3);
    lead_all(&operated, &members[0]);
    let removed = operated.cluster(&members[2], &["remove", &place.peer(2)]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert_said(&removed, &["leaves", "says itself that it is removed"]);
}

#[test]
fn a_replacement_lasts_until_the_new_node_has_everything_and_the_old_one_is_gone() {
    let operated = Operated::new();
    operated.wait_for_silent_nodes();
    let place = &operated.place;
    let members = place.start_all(3);
    let value = place.path("value");
    std::fs::write(&value, "x".repeat(4 * CARRIED_MAX)).expect("written");
    members[0].set_file("key", &value);
    let behind = place.peer(5);
    let is_bad = narrow(&place.peer(3), behind.clone());
    let mut command = place.command_for_peers_at(3, 3, ["127.0.0.1:0"; 2], &behind);
    command.args(["--peer-advertise", &place.peer(3)]);
    let mut new = Member::spawn(command);
    operated.until(&members[0], &["status"], "waits: statehold cluster add");
    lead_all(&operated, &members[0]);

    let admin = members[0].at("admin").to_owned();
    let ran = std::thread::scope(|scope| {
        let replace = || operated.cluster_at(&admin, &["replace", &place.peer(2), &place.peer(3)]);
        let replacing = scope.spawn(replace);
        until_stage(&operated, &members[0], &place.peer(3), "joining");
        for _ in 0..LOOKS {
            assert_eq!(stage(&operated, &members[0], &place.peer(3)), "joining");
            assert_eq!(stage(&operated, &members[0], &place.peer(2)), "member");
        }
        assert!(!replacing.is_finished(), "the new node lacks something");
        is_bad.store(false, Ordering::Release);
        replacing.join().expect("it ran")
    });
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_said(
        &ran,
        &[
            "step 1 of 2: the new node joins",
            "takes part in",
            "is a member, and serves",
            "step 2 of 2: the old node is removed",
            "leaves",
            "is removed",
            "has taken the place of node",
        ],
    );
    new.wait_ready();
    assert_eq!(new.get("key").len(), 4 * CARRIED_MAX);
    let id = node_at(&operated, &members[0], &place.peer(3));
    operated.until_all(&members[0], |group| group["voters"].to_string().contains(&id));
}

#[test]
fn a_dead_node_is_replaced_by_one_at_its_address() {
    let operated = Operated::new();
    let place = &operated.place;
    let mut members = place.start_all(3);
    let dead = node_at(&operated, &members[0], &place.peer(2));
    members.pop().expect("three").kill();
    std::fs::remove_dir_all(place.data(2)).expect("removed");
    let replace = ["replace", &dead, &place.peer(2)];
    let nobody = operated.cluster(&members[0], &replace);
    assert_eq!(nobody.code, Some(3), "{}", nobody.stderr);
    assert_said(&nobody, &["no node waits at", "start the new node there"]);

    let mut new = place.start(2, 3);
    operated.until(&members[0], &["status"], "waits: statehold cluster add");
    until_unreachable(&operated, &members[0], &dead);
    let refused = operated.cluster(&members[0], &replace);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert_said(
        &refused,
        &["statehold cluster replace", "--force --admin http://"],
    );
    let forced = [&replace[..], &["--force"]].concat();
    let ran = operated.until(&members[0], &forced, "has taken the place of node");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_said(
        &ran,
        &[
            "step 1 of 2: the old node is removed",
            "is removed; it did not answer",
            "step 2 of 2: the new node joins",
            "is a member, and serves",
        ],
    );
    new.wait_ready();
    new.set("k", "v");
    assert_eq!(members[0].get("k"), "v");
}
