//! A node without a whole copy of a group says so while it fetches one, and its peers say the same.
//!
//! A node needs its snapshot where its log does not begin at the first entry. What the others send to the node goes through a relay, which
//! carries less at a time than a piece of the copy.

use std::io::{Seek, SeekFrom, Write};
use std::sync::atomic::Ordering;

use super::conditions::{both_say, peer_says, until_ready};
use super::growing::{CARRIED_MAX, Operated, narrow};
use super::member::{Member, TRIES};

const KEYS: u64 = 16;

/// A piece of the copy has one value at least.
const VALUE_BYTES: usize = 4 * CARRIED_MAX;

/// How often all keys are written: more than the log keeps before its snapshot.
const ROUNDS: usize = 5;

/// A log that has grown by less since its snapshot has lost its beginning.
const SINCE_SNAPSHOT_MAX: f64 = 20e6;

/// Waits until a node has all that another one has, in a snapshot for the most part.
fn until_snapshotted(member: &Member, leader: &Member) {
    let applied = |member: &Member| member.figure("statehold_log_applied_index{group=\"0\"}");
    let all = applied(leader);
    let is_so = (0..TRIES).any(|_| {
        applied(member) >= all && member.figure("statehold_log_bytes_since_snapshot") < SINCE_SNAPSHOT_MAX
    });
    assert!(is_so, "{} of {all}", applied(member));
}

/// Damages all snapshots of a node that does not run.
fn damage_snapshots(data: &str) {
    let mut damaged = 0;
    for entry in std::fs::read_dir(format!("{data}/snapshots")).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        let mut file = std::fs::File::options().write(true).open(&path).expect("opened");
        let length = file.metadata().expect("it has a length").len();
        file.seek(SeekFrom::Start(length / 2)).expect("it is that long");
        file.write_all(&[0xff; 64]).expect("written");
        damaged += 1;
    }
    assert!(damaged > 0, "no snapshots in {data}");
}

#[test]
fn a_node_that_fetches_a_copy_and_its_peers_say_so() {
    let operated = Operated::new();
    operated.set("[snapshot]\nlog_bytes_min = \"1 MiB\"\n");
    let place = &operated.place;
    let behind = place.peer(5);
    let is_bad = narrow(&place.peer(2), behind.clone());
    is_bad.store(false, Ordering::Release);
    let start_third = || {
        let mut command = place.command_for_peers_at(2, 3, ["127.0.0.1:0"; 2], &behind);
        command.args(["--peer-advertise", &place.peer(2)]);
        Member::spawn(command)
    };
    let mut members = [place.start(0, 3), place.start(1, 3), start_third()];
    members.iter_mut().for_each(Member::wait_ready);
    let value = place.path("value");
    std::fs::write(&value, "x".repeat(VALUE_BYTES)).expect("written");
    for _ in 0..ROUNDS {
        for key in 0..KEYS {
            members[0].set_file(&format!("key{key}"), &value);
        }
    }
    let [one, two, three] = members;
    until_snapshotted(&three, &one);
    three.kill();
    damage_snapshots(&place.data(2));

    is_bad.store(true, Ordering::Release);
    let mut three = start_third();
    let logged = three.logged(&["has no whole copy of group 0, and fetches another one"]);
    three.wait_ready();
    let line = both_say(&operated, &three, "has no whole copy of group 0");
    assert!(logged.contains(&line), "{logged} and {line}");
    assert!(line.contains(&place.peer(2)), "{line}");
    for peer in [&one, &two] {
        peer_says(&operated, peer, &line);
        until_ready(&operated, peer);
    }
    let status = operated.status(&two);
    let mut conditions = status["conditions"].as_array().expect("a list").iter();
    let found = conditions.find(|condition| condition["cause"] == "fetching_copy");
    assert_eq!(found.expect("the condition")["text"], line, "{status}");

    is_bad.store(false, Ordering::Release);
    until_ready(&operated, &three);
    assert_eq!(three.get("key0").len(), VALUE_BYTES);
    let is_said = |peer: &Member| operated.status(peer).to_string().contains("fetching_copy");
    assert!((0..TRIES).any(|_| !is_said(&one)), "it is over");
}
