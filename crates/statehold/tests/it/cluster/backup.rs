//! A backup of a cluster that serves, put back into clusters of other sizes.

use std::sync::atomic::{AtomicBool, Ordering};

use client::protocol::ReasonCode;
use client::protocol::packet::{Ack, Packet, QoS};
use serde_json::Value;

use super::growing::Operated;
use super::member::{Member, TRIES};
use crate::harness::{Ran, run, statehold};
use crate::raw::{Raw, connect, connect_durably, packet_id, publish};

const KEYS: usize = 30;
const CLIENTS: [&str; 6] = ["pump-0", "pump-1", "pump-2", "pump-3", "pump-4", "pump-5"];
const MESSAGES: usize = 5;

fn cluster(groups: &str) -> Operated {
    let mut operated = Operated::new();
    operated
        .place
        .options
        .extend(["--groups", groups].map(str::to_owned));
    operated
}

fn backup(operated: &Operated, members: &[Member], arguments: &[&str]) -> Ran {
    let addresses: Vec<_> = members.iter().map(|member| member.at("admin")).collect();
    backup_at(operated, &addresses, arguments)
}

fn backup_at(operated: &Operated, addresses: &[impl std::fmt::Display], arguments: &[&str]) -> Ran {
    let mut command = statehold(&["backup"]);
    command
        .args(arguments)
        .env("STATEHOLD_ADMIN_TOKEN", &operated.token);
    for (number, address) in addresses.iter().enumerate() {
        let option = if number == 0 { "--admin" } else { "--also" };
        command.args([option, &format!("http://{address}")]);
    }
    run(command)
}

/// Admin address of a node that keeps it over restarts: a port that no node of the cluster has for its peers.
fn admin_of(operated: &Operated, node: u16) -> String {
    operated.place.peer(5 + node)
}

/// Starts a node of a cluster of three, with admin pages at [`admin_of`].
fn start(operated: &Operated, node: u16) -> Member {
    let admin = admin_of(operated, node);
    Member::spawn(operated.place.command_at(node, 3, ["127.0.0.1:0", &admin]))
}

/// Starts all three, and waits until they serve.
fn start_three(operated: &Operated) -> Vec<Member> {
    let mut members: Vec<_> = (0..3).map(|node| start(operated, node)).collect();
    members.iter_mut().for_each(Member::wait_ready);
    members
}

/// What a node retains, without what only one cluster knows of it.
fn retained(operated: &Operated, member: &Member) -> Vec<(String, String, Value)> {
    let mut command = statehold(&["retained", "list", "--all", "--json"]);
    command.args(["--admin", &format!("http://{}", member.at("admin"))]);
    command.env("STATEHOLD_ADMIN_TOKEN", &operated.token);
    let ran = run(command);
    let lines = ran.text().lines().map(|line| {
        let seen: Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
        (text("topic"), text("expires_at"), seen["bytes"].clone())
    });
    lines.collect()
}

fn publish_one(publisher: &mut Raw, topic: &'static str, payload: &[u8]) {
    let mut message = publish(topic, Some(packet_id(9)), b"");
    if let Packet::Publish(publish) = &mut message {
        publish.payload = payload.to_vec().into();
    }
    publisher.send(&message);
    assert!(matches!(publisher.receive(), Packet::PubAck(ack) if !ack.reason.is_error()));
}

/// Clients that are away again, and want messages.
fn subscribe_durably(members: &[Member]) {
    for (number, client_id) in CLIENTS.into_iter().enumerate() {
        let at = members[number % members.len()].at("mqtt");
        let mut client = Raw::connect(at, connect_durably(client_id));
        client.subscribe("work/#", QoS::AtLeastOnce);
    }
}

/// Keys with versions and a fence, retained messages, and clients that are away while messages wait for them.
fn fill(members: &[Member]) -> Vec<(String, Value)> {
    for key in 0..KEYS {
        members[key % members.len()].set(&format!("key-{key}"), &format!("value-{key}"));
    }
    members[0].set("gone", "1");
    members[0].until(&["del", "gone"]);
    members[0].until(&["set", "lease", "me", "--expires-in", "10m"]);
    let fence = ["set", "fenced", "1", "--fencing-token", "1700000000000:5:holder"];
    members[0].until(&fence);
    for topic in ["plant/1", "plant/2"] {
        members[1].until(&["pub", topic, "on", "--retain", "--qos", "1"]);
    }
    subscribe_durably(members);
    let mut publisher = Raw::connect(members[2].at("mqtt"), connect("publisher"));
    for message in 0..MESSAGES {
        publish_one(&mut publisher, "work/1", format!("{message}").as_bytes());
    }
    seen(&members[0])
}

/// The keys that were there before the backup, as a node shows them.
fn seen(member: &Member) -> Vec<(String, Value)> {
    let names = (0..KEYS).map(|key| format!("key-{key}"));
    let names = names.chain(["lease", "fenced"].map(str::to_owned));
    names
        .map(|name| {
            let shown = member.until(&["get", &name, "--json"]).json();
            (name, shown)
        })
        .collect()
}

fn wall(version: &str) -> u64 {
    version
        .split(':')
        .next()
        .and_then(|wall| wall.parse().ok())
        .expect("a version")
}

/// Each client finds its session wherever it connects, with all that waited, once and in order.
fn find_sessions(members: &[Member]) {
    let mut publisher = Raw::connect(members[0].at("mqtt"), connect("publisher"));
    publish_one(&mut publisher, "work/2", b"next");
    for (number, client_id) in CLIENTS.into_iter().enumerate() {
        let at = members[(number + 1) % members.len()].at("mqtt");
        let mut client = Raw::begin(at, connect_durably(client_id));
        assert!(client.accepted(), "{client_id} has its session");
        let waited = (0..MESSAGES).map(|message| message.to_string());
        for message in waited.chain(["next".to_owned()]) {
            match client.receive() {
                Packet::Publish(publish) => {
                    assert_eq!(publish.payload, message.as_bytes(), "{client_id}");
                    let id = publish.packet_id.expect("QoS 1");
                    client.send(&Packet::PubAck(Ack::new(id, ReasonCode::Success)));
                }
                other => panic!("no message: {other:?}"),
            }
        }
    }
}

/// Makes a backup while somebody writes.
fn backup_while_writing(operated: &Operated, members: &[Member], file: &str) -> Value {
    let is_over = AtomicBool::new(false);
    let (host, port) = members[1].at("mqtt").rsplit_once(':').expect("an address");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while count == 0 || !is_over.load(Ordering::Relaxed) {
                let mut set = statehold(&["set", &format!("busy-{}", count % 10), &format!("{count}")]);
                set.env("STATEHOLD_HOST", host).env("STATEHOLD_PORT", port);
                // Nobody may lead just now: the next one tries again.
                count += u32::from(run(set).code == Some(0));
            }
        });
        let made = backup(operated, members, &["create", file, "--json"]);
        is_over.store(true, Ordering::Relaxed);
        made.expect(0).json()
    })
}

/// How many of something were put back into a cluster that had none. What is sent once more, as an answer was late, is there already.
fn put_back(restored: &Value, what: &str) -> u64 {
    let count = |fate: &str| restored[what][fate].as_u64().expect("a number");
    count("restored") + count("there")
}

#[test]
fn a_backup_of_a_cluster_that_serves_comes_back_in_clusters_of_other_sizes() {
    let from = cluster("3");
    from.wait_for_silent_nodes();
    let members = from.place.start_all(3);
    let before = fill(&members);
    let messages = retained(&from, &members[0]);
    let file = from.place.path("backup");

    let made = backup_while_writing(&from, &members, &file);
    assert_eq!(
        (&made["groups"], &made["sessions"]),
        (&3.into(), &6.into()),
        "{made}"
    );
    let lacking = backup(&from, &members[..1], &["create", &from.place.path("other")]);
    assert!(lacking.stderr.contains("--also"), "{lacking:?}");
    let verified = run(statehold(&["backup", "verify", &file, "--json"]))
        .expect(0)
        .json();
    for name in ["groups", "keys", "retained", "sessions", "bytes"] {
        assert_eq!(verified[name], made[name], "{name}");
    }
    drop(members);

    for (size, groups) in [(1, "1"), (3, "2"), (5, "4")] {
        let into = cluster(groups);
        into.wait_for_silent_nodes();
        let members = into.place.start_all(size);
        members[0].set("probe", "1");
        let refused = backup(&into, &members, &["restore", &file]).expect(3);
        assert!(refused.stderr.contains("--merge"), "{refused:?}");
        let restored = backup(&into, &members, &["restore", &file, "--merge", "--json"])
            .expect(0)
            .json();
        for what in ["keys", "retained", "sessions"] {
            assert_eq!(put_back(&restored, what), made[what], "{what}: {restored}");
        }
        // Again: all of it is there.
        let again = backup(&into, &members, &["restore", &file, "--merge", "--json"])
            .expect(0)
            .json();
        for what in ["keys", "retained", "sessions"] {
            assert_eq!(again[what]["there"], made[what], "{what}: {again}");
        }
        for member in &members {
            assert_eq!(seen(member), before);
            assert_eq!(retained(&into, member), messages);
        }
        let fence = ["set", "fenced", "2", "--fencing-token", "1700000000000:4:holder"];
        members[0].run(&fence).expect(2);
        for (key, shown) in &before[..3] {
            let written = members[0].until(&["set", key, "again"]);
            let last = shown["version"].as_str().expect("a version");
            assert!(
                wall(written.text()) >= wall(last),
                "{key}: {written:?} after {last}"
            );
        }
        find_sessions(&members);
    }
}

#[test]
fn a_backup_needs_a_token_for_it_and_a_damaged_one_is_not_put_back() {
    let from = cluster("1");
    let members = from.place.start_all(1);
    members[0].set("key", "value");
    let file = from.place.path("backup");
    let made = run(statehold(&["admin-token", "nightly", "--scope", "backup"])).expect(0);
    let nightly = made.stderr.trim().rsplit(' ').next().expect("a token").to_owned();
    let tokens = std::fs::read_to_string(from.place.path("tokens")).expect("read");
    std::fs::write(from.place.path("tokens"), format!("{tokens}{}\n", made.text())).expect("written");
    let asked = |token: &str, arguments: &[&str]| {
        let mut command = statehold(&["backup"]);
        let admin = format!("http://{}", members[0].at("admin"));
        command.args(arguments).args(["--admin", &admin]);
        command.env("STATEHOLD_ADMIN_TOKEN", token);
        run(command)
    };
    assert!(
        asked("sth_wrong", &["create", &file])
            .stderr
            .contains("not known")
    );
    // The file of tokens is looked at now and then.
    let made = (0..TRIES).map(|_| asked(&nightly, &["create", &file]));
    made.into_iter()
        .find(|made| made.code == Some(0))
        .expect("a backup");
    let refused = asked(&nightly, &["restore", &file, "--merge"]).expect(2);
    assert!(refused.stderr.contains("the scope write"), "{refused:?}");

    let mut bytes = std::fs::read(&file).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).expect("written");
    for command in [&["verify", &file][..], &["restore", &file, "--merge"]] {
        let mut damaged = statehold(&["backup"]);
        damaged.args(command);
        let ran = run(damaged).expect(5);
        assert!(
            ran.stderr.contains("checksum") && ran.stderr.contains("at byte"),
            "{ran:?}"
        );
    }
}

/// States of nodes are compared by counters: a time that is made from clocks differs by a millisecond now and then.
#[test]
fn backups_of_an_idle_cluster_find_no_session_that_moved() {
    let from = cluster("3");
    from.wait_for_silent_nodes();
    let members = from.place.start_all(3);
    fill(&members);
    // The nodes may still be joining.
    backup(&from, &members, &["create", &from.place.path("first")]).expect(0);
    for number in 0..10 {
        let file = from.place.path(&format!("backup-{number}"));
        let made = backup(&from, &members, &["create", &file]).expect(0);
        assert!(!made.stderr.contains("from one node to another"), "{made:?}");
    }
}

#[test]
fn backups_succeed_while_nodes_restart_one_after_the_other_and_clients_write() {
    let from = cluster("3");
    from.wait_for_silent_nodes();
    let mut members = start_three(&from);
    fill(&members);
    let writer = members.remove(0);
    let (host, port) = writer.at("mqtt").rsplit_once(':').expect("an address");
    let is_over = AtomicBool::new(false);
    let admins = [0, 1, 2].map(|node| admin_of(&from, node));
    let files = std::thread::scope(|scope| {
        let restarting = scope.spawn(|| {
            let restarted = (1..).zip(members).map(|(node, member)| {
                assert_eq!(member.terminate(), Some(0));
                let mut back = start(&from, node);
                back.wait_ready();
                back
            });
            restarted.collect::<Vec<_>>()
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let mut set = statehold(&["set", "busy", "1"]);
                set.env("STATEHOLD_HOST", host).env("STATEHOLD_PORT", port);
                // Nobody may lead just now.
                run(set);
            }
        });
        let mut files = Vec::new();
        while !restarting.is_finished() || files.is_empty() {
            let file = from.place.path(&format!("backup-{}", files.len()));
            let made = backup_at(&from, &admins, &["create", &file, "--json"]);
            files.push((file, made));
        }
        is_over.store(true, Ordering::Release);
        restarting.join().expect("all nodes are back");
        files
    });
    for (file, made) in files {
        let made = made.expect(0).json();
        assert_eq!(made["sessions"], CLIENTS.len(), "{made}");
        run(statehold(&["backup", "verify", &file])).expect(0);
    }
}

/// Of three nodes one was away when the last keys were written, so the other two have all of them. One of these is left.
#[test]
fn the_last_surviving_disk_can_be_backed_up_without_a_majority() {
    let from = cluster("3");
    let mut members = start_three(&from);
    members.pop().expect("three").kill();
    for key in 0..KEYS {
        members[key % 2].set(&format!("key-{key}"), &format!("value-{key}"));
    }
    let retained = ["pub", "plant/1", "on", "--retain", "--qos", "1"];
    members[0].until(&retained);
    subscribe_durably(&members);
    members.into_iter().for_each(Member::kill);
    for lost in [1, 2] {
        std::fs::remove_dir_all(from.place.data(lost)).expect("removed");
    }
    let _survivor = start(&from, 0);
    let (file, admin) = (from.place.path("backup"), [admin_of(&from, 0)]);
    let create = |options: &[&str]| backup_at(&from, &admin, &[&["create", &file], options].concat());

    create(&["--unsafe"]).expect(3);
    let mut refused = (0..TRIES).map(|_| create(&["--allow-missing", "--retry-for", "0"]));
    let refused = refused.find(|refused| refused.stderr.contains("majority"));
    refused.expect("nobody leads").expect(5);
    let made = create(&["--allow-missing", "--unsafe", "--json"]).expect(0);
    assert!(made.stderr.contains("may be missing"), "{made:?}");
    let made = made.json();
    assert_eq!(
        (&made["keys"], &made["retained"]),
        (&KEYS.into(), &1.into()),
        "{made}"
    );
    assert_eq!(made["sessions"], CLIENTS.len(), "{made}");

    let into = cluster("1");
    let members = into.place.start_all(1);
    backup(&into, &members, &["restore", &file]).expect(0);
    for key in 0..KEYS {
        assert_eq!(members[0].get(&format!("key-{key}")), format!("value-{key}"));
    }
}
