//! Three processes that are a cluster.

mod api;
mod backup;
mod broken_links;
mod conditions;
mod fetching;
mod growing;
mod leaving;
mod lines;
mod member;
mod messages;
mod older_disks;
mod relays;
mod retained;
mod revoked;
mod sessions;
mod stranger;
mod traces;

use std::process::Command;

use crate::harness::{page, run, serve, statehold};
use member::{Member, Place};

fn copy(from: &str, to: &str) {
    let status = Command::new("cp").args(["-r", from, to]).status();
    assert!(status.expect("cp runs").success());
}

#[test]
fn nodes_that_are_started_in_any_order_form_a_cluster_and_serve_the_same_keys() {
    for order in [[0, 1, 2], [2, 0, 1]] {
        let place = Place::new();
        let [first, second, third] = order;
        let mut one = place.start(first, 3);
        one.logged(&[
            "waiting for 2 more nodes of 3",
            "cannot reach",
            &place.peer(third),
        ]);
        let mut two = place.start(second, 3);
        one.logged(&["waiting for 1 more node of 3; have node", &place.peer(second)]);
        assert!(!one.is_ready() && !two.is_ready());
        let mut three = place.start(third, 3);
        for member in [&mut one, &mut two, &mut three] {
            member.wait_ready();
            member.logged(&["the cluster is formed"]);
            member.logged(&["a group has another leader", "group=0"]);
        }
        one.set("door", "open");
        assert_eq!(two.get("door"), "open");
        assert_eq!(three.get("door"), "open");
        three.set("door", "shut");
        assert_eq!(one.get("door"), "shut");
    }
}

#[test]
fn whoever_is_killed_the_others_go_on_and_the_same_command_brings_it_back() {
    let place = Place::new();
    let mut members: Vec<_> = place.start_all(3).into_iter().map(Some).collect();
    for killed in 0..3_u16 {
        let others: Vec<_> = (0..3).filter(|node| *node != killed).collect();
        members[usize::from(killed)].take().expect("it runs").kill();
        let key = format!("key-{killed}");
        let at = |node: u16| members[usize::from(node)].as_ref().expect("it runs");
        at(others[0]).set(&key, "kept");
        assert_eq!(at(others[1]).get(&key), "kept");
        let mut back = place.start(killed, 3);
        back.wait_ready();
        assert_eq!(back.get(&key), "kept");
        members[usize::from(killed)] = Some(back);
    }
}

#[test]
fn the_example_starts_three_nodes_and_stops_them() {
    let place = Place::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/three-nodes");
    let mut command = Command::new(script);
    let ip = place.peer(0).rsplit_once(':').expect("an address").0.to_owned();
    command
        .arg(place.path("example"))
        .env("STATEHOLD", env!("CARGO_BIN_EXE_statehold"))
        .env("ADDRESS", ip)
        .env_remove("STATEHOLD_LOG");
    let mut example = Member::spawn(command);
    for _ in 0..3 {
        example.wait_ready();
    }
    example.set("k", "v");
    assert_eq!(example.terminate(), Some(0));
}

#[test]
fn a_minority_refuses_says_so_and_goes_on_with_the_others() {
    let place = Place::new();
    let mut members = place.start_all(3);
    members.pop().expect("three").kill();
    members.pop().expect("two").kill();
    members[0].logged(&["group 0 has no leader", "group=0"]);
    assert_ne!(members[0].run(&["set", "k", "v"]).code, Some(0));
    let (status, body) = page(members[0].at("admin"), "/readyz");
    assert!(
        status.contains("503") && body.contains("no leader"),
        "{status} {body}"
    );
    let mut back = place.start(1, 3);
    back.wait_ready();
    members[0].logged(&["a group has another leader"]);
    back.set("k", "v");
    assert_eq!(members[0].get("k"), "v");
}

#[test]
fn all_nodes_may_lose_power_at_once() {
    let place = Place::new();
    let members = place.start_all(3);
    members[0].set("k", "v");
    members.into_iter().for_each(Member::kill);
    let members = place.start_all(3);
    assert_eq!(members[2].get("k"), "v");
    for member in members {
        assert_eq!(member.terminate(), Some(0));
    }
}

#[test]
fn a_node_that_stands_still_is_noticed_and_comes_back() {
    let place = Place::new();
    let mut members = place.start_all(3);
    let stopped = members.pop().expect("three");
    stopped.signal("STOP");
    for member in &mut members {
        member.logged(&[
            "lost the connection to a node",
            &place.peer(2),
            "nothing was heard of it",
        ]);
    }
    members[0].set("k", "meanwhile");
    stopped.signal("CONT");
    for member in &mut members {
        member.logged(&["connected to a node", &place.peer(2)]);
    }
    assert_eq!(stopped.get("k"), "meanwhile");
}

#[test]
fn a_node_whose_data_is_lost_is_a_new_one_and_waits() {
    let place = Place::new();
    let mut members = place.start_all(3);
    members.pop().expect("three").kill();
    std::fs::remove_dir_all(place.data(2)).expect("removed");
    let mut new = place.start(2, 3);
    let line = new.logged(&[
        "a node refuses this one",
        "is no member of cluster",
        "statehold cluster add",
    ]);
    assert!(line.contains(&place.peer(2)), "{line}");
    new.logged(&["is a cluster that is formed and does not know this node"]);
    assert!(!new.is_ready());
    members[0].logged(&[
        "refused a node",
        "is no member of cluster",
        "statehold cluster add",
    ]);
    members[0].set("k", "v");
    assert_eq!(members[1].get("k"), "v");
}

#[test]
fn while_a_node_waits_clients_are_turned_away_and_readyz_says_why() {
    let place = Place::new();
    // Addresses that are known before the node is ready.
    let (mqtt, admin) = (place.peer(8), place.peer(9));
    let mut member = Member::spawn(place.command_at(0, 3, [&mqtt, &admin]));
    member.logged(&["waiting for 2 more nodes of 3"]);
    assert!(std::net::TcpStream::connect(&mqtt).is_err());
    let (status, body) = page(&admin, "/readyz");
    assert!(status.contains("503"), "{status}");
    assert!(body.contains("waiting for 2 more nodes of 3"), "{body}");
    let (status, _) = page(&admin, "/healthz");
    assert!(status.contains("200"), "{status}");
    let (_, metrics) = page(&admin, "/metrics");
    assert!(metrics.contains("statehold_peers_connected 0"), "{metrics}");
    assert_eq!(member.terminate(), Some(0));
}

#[test]
fn nodes_that_want_different_clusters_say_so_on_both_sides() {
    let place = Place::new();
    let mut three = place.start(0, 3);
    let mut two = place.start(1, 2);
    for member in [&mut three, &mut two] {
        member.logged(&["clusters of different sizes", "cluster.size = "]);
        assert!(!member.is_ready());
    }

    let place = Place::new();
    let mut one = place.start(0, 2);
    let mut command = place.command(1, 2);
    command.args(["--groups", "4"]);
    let mut four = Member::spawn(command);
    for member in [&mut one, &mut four] {
        member.logged(&["different numbers of groups", "cluster.groups = "]);
        assert!(!member.is_ready());
    }
}

#[test]
fn nodes_of_two_clusters_do_not_talk() {
    let place = Place::new();
    let alone = |node: u16| {
        let mut command = place.command(node, 1);
        command.args(["--join", &place.peer(0), "--join", &place.peer(1)]);
        Member::spawn(command)
    };
    let (mut one, mut two) = (alone(0), alone(1));
    for member in [&mut one, &mut two] {
        member.wait_ready();
        member.logged(&[
            "they belong to different clusters",
            "check the addresses in cluster.join",
        ]);
    }
    one.set("k", "v");
    assert_eq!(two.run(&["get", "k"]).code, Some(1));
    assert!(one.figure("statehold_peer_connections_refused_total{cause=\"cluster\"}") > 0.0);
}

/// The last of three nodes, started again, and a process that has a copy of its data directory.
fn with_a_clone(place: &Place, members: &mut Vec<Member>) -> (Member, Member) {
    members.pop().expect("three").kill();
    copy(&place.data(2), &place.data(3));
    let mut original = place.start(2, 3);
    original.wait_ready();
    for member in members {
        member.logged(&["connected to a node", &place.peer(2)]);
    }
    let mut command = place.command(3, 3);
    command.args(["--join", &place.peer(0)]);
    let clone = Member::spawn(command);
    (original, clone)
}

#[test]
fn a_copy_of_a_node_is_refused() {
    let place = Place::new();
    let mut members = place.start_all(3);
    let (original, mut twin) = with_a_clone(&place, &mut members);
    twin.logged(&["there are two nodes with the id", &place.peer(2), &place.peer(3)]);
    members[0].logged(&["refused a node", "there are two nodes with the id"]);
    original.set("k", "v");
    assert_eq!(members[1].get("k"), "v");
}

#[test]
fn a_data_directory_is_of_a_cluster_or_not() {
    let place = Place::new();
    let mut server = Member::spawn({
        let mut command = serve(place.data(0).as_ref(), "127.0.0.1:0");
        command.env_remove("STATEHOLD_LOG");
        command
    });
    server.wait_ready();
    server.set("k", "v");
    server.kill();
    let refused = run(place.command(0, 3));
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.stderr.contains("was used by a server without a cluster"),
        "{}",
        refused.stderr
    );

    let place = Place::new();
    let mut member = place.start(0, 1);
    member.wait_ready();
    member.kill();
    let refused = run(serve(place.data(0).as_ref(), "127.0.0.1:0"));
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("belongs to node"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--peer-listen"), "{}", refused.stderr);
}

#[test]
fn settings_that_would_let_anybody_in_are_refused() {
    let refused = |arguments: &[&str], expected: &str| {
        let mut command = statehold(&["serve", "--data-dir", "/nowhere"]);
        command.args(arguments);
        let ran = run(command);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    };
    let open = [
        "--peer-listen",
        "10.0.0.1:7000",
        "--join",
        "10.0.0.2:7000",
        "--cluster-size",
        "3",
    ];
    refused(
        &open,
        "`cluster.tls`: whoever reaches 10.0.0.1:7000 would be believed",
    );
    refused(
        &[&open[..], &["--insecure-peers"]].concat(),
        "`cluster.insecure_peers`: 10.0.0.2:7000 is not a loopback address",
    );
    let local = [
        "--peer-listen",
        "127.0.0.1:7000",
        "--join",
        "127.0.0.1:7001",
        "--cluster-size",
        "3",
    ];
    refused(&local, "(--insecure-peers)");
    refused(&["--join", "127.0.0.1:7001"], "`cluster.peer_listen`");
    refused(
        &["--peer-listen", "127.0.0.1:7000", "--insecure-peers"],
        "`cluster.size`",
    );
}

/// Makes an authority and a certificate for each of three nodes.
fn certificates(place: &Place, authority: &str) -> impl Fn(u16) -> Vec<String> {
    let directory = place.path(authority);
    run(statehold(&["certs", "ca", "--out", &directory])).expect(0);
    for node in 0..3 {
        // The name is none that anybody asks for.
        let name = format!("node-{node}.example");
        run(statehold(&["certs", "node", &name, "--out", &directory])).expect(0);
    }
    move |node| {
        vec![
            "--peer-cert".to_owned(),
            format!("{directory}/node-{node}.example.pem"),
            "--peer-key".to_owned(),
            format!("{directory}/node-{node}.example.key"),
            "--peer-ca".to_owned(),
            format!("{directory}/ca.pem"),
        ]
    }
}

#[test]
fn nodes_show_each_other_certificates_and_a_stranger_stays_outside() {
    let mut place = Place::new();
    place.options.clear();
    let (ours, theirs) = (certificates(&place, "ours"), certificates(&place, "theirs"));
    let start = |node: u16, options: Vec<String>| {
        let mut command = place.command(node, 3);
        command.args(options);
        Member::spawn(command)
    };
    let (mut one, mut two) = (start(0, ours(0)), start(1, ours(1)));
    let mut stranger = start(2, theirs(2));
    stranger.logged(&["no connection to a node", &place.peer(0), "TLS"]);
    one.logged(&["refused a connection at cluster.peer_listen", "TLS"]);
    one.logged(&["waiting for 1 more node of 3"]);
    stranger.kill();

    let mut three = start(2, ours(2));
    for member in [&mut one, &mut two, &mut three] {
        member.wait_ready();
    }
    one.set("k", "v");
    assert_eq!(three.get("k"), "v");
    // What goes over the wire is larger than one record of TLS, and than the buffers of the system.
    let large = "x".repeat(300_000);
    let file = place.path("large");
    std::fs::write(&file, &large).expect("written");
    for _ in 0..5 {
        two.set_file("large", &file);
    }
    assert!(one.figure("statehold_peer_connections_refused_total{cause=\"tls\"}") > 0.0);
}

#[test]
fn groups_are_led_by_all_nodes_and_a_clean_stop_is_noticed_by_nobody() {
    let mut place = Place::new();
    place.options.extend(["--groups".to_owned(), "3".to_owned()]);
    let mut members = place.start_all(3);
    let keys: Vec<String> = (0..12).map(|number| format!("key{number:02}")).collect();
    for (key, member) in keys.iter().zip(members.iter().cycle()) {
        member.set(key, "v");
    }
    for member in &members {
        let ran = member.until(&["scan", "key*"]);
        let mut listed: Vec<&str> = ran.text().lines().collect();
        listed.sort_unstable();
        assert_eq!(listed, keys);
    }
    let led = |member: &Member| -> f64 {
        let leads = |group| member.figure(&format!("statehold_log_leader{{group=\"{group}\"}}"));
        (0..3).map(leads).sum()
    };
    while members.iter().any(|member| led(member) != 1.0) {
        // Each look is a request; the harness ends what takes too long.
    }
    assert_eq!(members.remove(0).terminate(), Some(0));
    for (key, member) in keys.iter().zip(members.iter().cycle()) {
        member.run(&["set", key, "w"]).expect(0);
    }
}
