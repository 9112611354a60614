//! A node without a link to the leader: its messages go by another node, and without one it says why it is not ready.
//!
//! What one node sends to another one goes through a relay in this process, which cuts it.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::broken_links::{carry, pair};
use super::conditions::{both_say, peer_says, until_ready};
use super::growing::Operated;
use super::member::Member;

/// Says its token, then waits for a line.
const HOLD: &str = "echo $STATEHOLD_FENCING_TOKEN; read line";

/// Ends connections to an address that come from one node, while `is_cut`.
fn relay(at: &str, to: String, from_node: String) -> Arc<AtomicBool> {
    let is_cut = Arc::new(AtomicBool::default());
    let listener = TcpListener::bind(at).expect("bound");
    let cut = Arc::clone(&is_cut);
    std::thread::spawn(move || {
        for from in listener.incoming().flatten() {
            let Ok(to) = TcpStream::connect(&to) else { continue };
            let (back, forth) = (pair(&to, &from), pair(&from, &to));
            std::thread::spawn(move || carry(back, |_| true));
            let (cut, from_node) = (Arc::clone(&cut), from_node.clone());
            let mut is_from_node = None;
            // A node says its address in its hello, which comes first.
            let may_pass = move |bytes: &mut [u8]| {
                let said = || {
                    bytes
                        .windows(from_node.len())
                        .any(|part| part == from_node.as_bytes())
                };
                !(*is_from_node.get_or_insert_with(said) && cut.load(Ordering::Acquire))
            };
            std::thread::spawn(move || carry(forth, may_pass));
        }
    });
    is_cut
}

/// A client of one node holds a lock and watches a key, while one of another node wants the lock and changes the key.
#[track_caller]
fn assert_locks_and_watches(member: &Member, other: &Member) {
    let mut watch = member.begin(&["watch", "key", "--initial", "--count", "1"]);
    // With this line the watch is in force.
    assert!(watch.line().starts_with("set key "));
    let mut lock = member.begin(&["lock", "job", "--", "sh", "-c", HOLD]);
    let token = lock.line();
    assert!(token.ends_with(":StateStore"), "{token}");
    other.until_code(&["lock", "job", "--wait", "0", "--", "true"], 1);
    other.set("key", "seen");
    assert!(watch.line().ends_with(" seen"));
    assert_eq!(watch.wait(), Some(0));
    lock.write_line("");
    assert_eq!(lock.wait(), Some(0));
    other.until(&["lock", "job", "--wait", "0", "--", "true"]);
}

#[test]
fn a_node_without_a_link_to_the_leader_goes_by_another_node_and_is_not_ready_without_one() {
    let operated = Operated::new();
    let place = &operated.place;
    let behind = place.peer(5);
    let is_cut = relay(&place.peer(2), behind.clone(), place.peer(0));
    let mut command = place.command_for_peers_at(2, 3, ["127.0.0.1:0"; 2], &behind);
    command.args(["--peer-advertise", &place.peer(2)]);
    let mut members = vec![place.start(0, 3), place.start(1, 3), Member::spawn(command)];
    members.iter_mut().for_each(Member::wait_ready);
    operated.until(&members[0], &["transfer", "0", &place.peer(2)], "leads group 0");

    is_cut.store(true, Ordering::Release);
    let broken = format!(" at {} cannot send to ", place.peer(0));
    peer_says(&operated, &members[0], &broken);
    until_ready(&operated, &members[0]);
    for number in 0..20 {
        members[0].set("key", &number.to_string());
        assert_eq!(members[0].get("key"), number.to_string());
    }
    assert_locks_and_watches(&members[0], &members[2]);
    peer_says(&operated, &members[0], &broken);
    members[0].logged(&["messages go by another node"]);

    members.remove(1).kill();
    let line = both_say(&operated, &members[0], &format!(" at {}: ", place.peer(2)));
    let ends = line.split_once(" cannot send to ").expect("two ends");
    assert!(
        ends.0.ends_with(&place.peer(0)) && ends.1.contains(&place.peer(2)),
        "{line}"
    );
    peer_says(&operated, &members[1], &format!("{} cannot send to ", ends.0));
    is_cut.store(false, Ordering::Release);
    until_ready(&operated, &members[0]);
}
