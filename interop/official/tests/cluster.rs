//! The official lock client through all nodes of a cluster, while that is disturbed.
//!
//! `STATEHOLD_NODES`: addresses, separated by commas; without them a server is started. `STATEHOLD_SECONDS`: for how long, by default 3.
//! `STATEHOLD_HISTORY`: a file for lines of JSON which `sim check` reads. bench/faults sets all of them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use azure_iot_operations_protocol::common::hybrid_logical_clock::HybridLogicalClock;
use interop_official::{Actor, Server};
use tokio::time::{Instant, timeout};

const LEASE: Duration = Duration::from_secs(2);
/// How long a request may take, and a connection: a node may be away.
const PATIENCE: Duration = Duration::from_secs(3);
/// Half of the skew of nodes that disturb each other's clocks, twice.
const SKEW: Duration = Duration::from_millis(500);
const HOLDERS_PER_NODE: usize = 2;

/// Who held the lock, as its holder knows it.
struct Held {
    holder: String,
    token: HybridLogicalClock,
    from: SystemTime,
    until: SystemTime,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_never_held_twice_through_any_nodes() {
    let server = std::env::var("STATEHOLD_NODES").is_err().then(Server::start);
    let nodes: Vec<SocketAddr> = match &server {
        Some(server) => vec![server.mqtt()],
        None => variable("STATEHOLD_NODES", String::new())
            .split(',')
            .map(|node| node.parse().expect("an address"))
            .collect(),
    };
    let seconds: f64 = variable("STATEHOLD_SECONDS", "3".to_owned())
        .parse()
        .expect("a number");
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let lock = format!("official:{}", nanoseconds(SystemTime::now()));
    let held = Arc::new(Mutex::new(Vec::new()));
    let holders: Vec<_> = (0..HOLDERS_PER_NODE * nodes.len())
        .map(|number| {
            let (node, lock, held) = (nodes[number % nodes.len()], lock.clone(), held.clone());
            tokio::spawn(async move { hold(node, number, &lock, &held, end).await })
        })
        .collect();
    for holder in holders {
        holder.await.expect("no panic");
    }
    let mut held = held.lock().expect("nobody panicked");
    held.sort_by_key(|held| held.from);
    if let Ok(file) = std::env::var("STATEHOLD_HISTORY") {
        let lines: String = held.iter().map(|held| line(&lock, held)).collect();
        std::fs::write(file, lines).expect("written");
    }
    assert!(!held.is_empty(), "nobody ever had the lock");
    for pair in held.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        let (earlier, later) = (&first.token, &second.token);
        assert!(
            first.until <= second.from + SKEW,
            "{} and {} had it at once",
            first.holder,
            second.holder
        );
        assert!((later.timestamp, later.counter) > (earlier.timestamp, earlier.counter));
    }
}

/// Takes the lock again and again, writes with its token, and gives it back. What cannot be reached is tried again.
async fn hold(node: SocketAddr, number: usize, lock: &str, held: &Mutex<Vec<Held>>, end: Instant) {
    let mut turns = 0;
    while Instant::now() < end {
        // A session that the server does not know any more ends the official client for good.
        turns += 1;
        let name = format!("official-{number}-{turns}");
        let Some(actor) = Actor::connect_within(PATIENCE, node, &name).await else {
            continue;
        };
        // What is not known to be given back may be given back later: nobody may have it under this name then.
        while Instant::now() < end && !actor.session_ended() {
            if !take_turn(&actor, lock, held).await {
                break;
            }
        }
        actor.abandon();
    }
}

/// False: it is not known whether this name still has the lock.
async fn take_turn(actor: &Actor, lock: &str, held: &Mutex<Vec<Held>>) -> bool {
    let client = actor.lock(lock);
    let Ok(Ok(token)) = timeout(2 * PATIENCE, client.lock(LEASE, PATIENCE, None)).await else {
        return false;
    };
    let (from, lease_ends) = (SystemTime::now(), token.timestamp + LEASE);
    let guarded = format!("{lock}:guarded").into_bytes();
    let value = actor.name.clone().into_bytes();
    // It may fail, and it may be refused when the lease is over by then.
    let options = Default::default();
    let _ = actor
        .store
        .set(guarded, value, PATIENCE, Some(token.clone()), options)
        .await;
    let until = SystemTime::now().min(lease_ends);
    if from < until {
        held.lock().expect("nobody panicked").push(Held {
            holder: actor.name.clone(),
            token,
            from,
            until,
        });
    }
    client.unlock(PATIENCE).await.is_ok()
}

fn line(lock: &str, held: &Held) -> String {
    let milliseconds = nanoseconds(held.token.timestamp) / 1_000_000;
    format!(
        "{{\"kind\":\"held\",\"lock\":\"{lock}\",\"holder\":\"{}\",\"token\":[{milliseconds},{}],\"from\":{},\"until\":{}}}\n",
        held.holder,
        held.token.counter,
        nanoseconds(held.from),
        nanoseconds(held.until)
    )
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn variable(name: &str, default: String) -> String {
    std::env::var(name).unwrap_or(default)
}
