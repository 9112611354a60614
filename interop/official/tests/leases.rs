//! Leases and locks through the official client.

use std::time::Duration;

use azure_iot_operations_protocol::common::hybrid_logical_clock::HybridLogicalClock;
use azure_iot_operations_services::leased_lock::ErrorKind;
use azure_iot_operations_services::state_store::Operation;
use interop_official::{Actor, Server, TIMEOUT};
use tokio::time::timeout;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(500);

fn is_newer(later: &HybridLogicalClock, earlier: &HybridLogicalClock) -> bool {
    (later.timestamp, later.counter) > (earlier.timestamp, earlier.counter)
}

#[tokio::test]
async fn a_lease_has_one_holder_until_it_is_released() {
    let server = Server::start();
    let (first, second) = (
        Actor::connect(server.mqtt(), "first").await,
        Actor::connect(server.mqtt(), "second").await,
    );
    let (mine, theirs) = (first.lease("lease"), second.lease("lease"));

    assert_eq!(mine.get_holder(TIMEOUT).await.expect("an answer"), None);
    let token = mine.acquire(LONG, TIMEOUT, None).await.expect("free");
    assert_eq!(mine.current_lease_fencing_token(), Some(token.clone()));
    let refused = theirs.acquire(LONG, TIMEOUT, None).await.expect_err("held");
    assert!(matches!(refused.kind(), ErrorKind::LeaseAlreadyHeld), "{refused}");
    assert_eq!(
        theirs.get_holder(TIMEOUT).await.expect("an answer"),
        Some(b"first".to_vec())
    );
    let renewed = mine.acquire(LONG, TIMEOUT, None).await.expect("a renewal");
    assert!(is_newer(&renewed, &token));

    theirs.release(TIMEOUT).await.expect("an answer");
    assert_eq!(
        mine.get_holder(TIMEOUT).await.expect("an answer"),
        Some(b"first".to_vec()),
        "not theirs"
    );
    mine.release(TIMEOUT).await.expect("released");
    mine.release(TIMEOUT).await.expect("twice is no error");
    assert_eq!(mine.current_lease_fencing_token(), None);
    let next = theirs.acquire(LONG, TIMEOUT, None).await.expect("free again");
    assert!(is_newer(&next, &renewed), "a later holder has a newer token");

    first.leave().await;
    second.leave().await;
}

#[tokio::test]
async fn the_token_of_a_later_holder_fences_off_the_earlier_one() {
    let server = Server::start();
    let (first, second) = (
        Actor::connect(server.mqtt(), "old").await,
        Actor::connect(server.mqtt(), "new").await,
    );
    let old = first
        .lease("lease")
        .acquire(LONG, TIMEOUT, None)
        .await
        .expect("free");
    first.lease("lease").release(TIMEOUT).await.expect("released");
    let new = second
        .lease("lease")
        .acquire(LONG, TIMEOUT, None)
        .await
        .expect("free");

    let set = async |actor: &Actor, token: &HybridLogicalClock| {
        actor
            .store
            .set(
                b"guarded".to_vec(),
                b"v".to_vec(),
                TIMEOUT,
                Some(token.clone()),
                Default::default(),
            )
            .await
            .is_ok_and(|set| set.response)
    };
    assert!(set(&first, &old).await);
    assert!(set(&second, &new).await);
    assert!(!set(&first, &old).await);

    first.leave().await;
    second.leave().await;
}

#[tokio::test]
async fn an_observer_is_told_of_release_and_of_expiry() {
    let server = Server::start();
    let (holder, observer) = (
        Actor::connect(server.mqtt(), "holder").await,
        Actor::connect(server.mqtt(), "observer").await,
    );
    let lease = holder.lease("lease");
    let mut told = observer.lease("lease").observe(TIMEOUT).await.expect("observed");

    lease.acquire(LONG, TIMEOUT, None).await.expect("free");
    lease.release(TIMEOUT).await.expect("released");
    lease.acquire(SHORT, TIMEOUT, None).await.expect("free again");
    for expected in [
        Operation::Set(b"holder".to_vec()),
        Operation::Del,
        Operation::Set(b"holder".to_vec()),
        Operation::Del,
    ] {
        let next = timeout(TIMEOUT, told.recv_notification()).await.expect("in time");
        assert_eq!(next.expect("told").0.operation, expected);
    }
    assert_eq!(
        lease.get_holder(TIMEOUT).await.expect("an answer"),
        None,
        "expired"
    );
    observer
        .lease("lease")
        .acquire(LONG, TIMEOUT, None)
        .await
        .expect("free after the expiry");

    holder.leave().await;
    observer.leave().await;
}

#[tokio::test]
async fn renewals_keep_a_lease_beyond_its_expiry_and_move_only_the_wall_of_its_token() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "renewer").await;
    let lease = actor.lease("lease");
    let mut told = actor.lease("lease").observe(TIMEOUT).await.expect("observed");

    let mut last = lease
        .acquire(SHORT, TIMEOUT, Some(Duration::from_millis(200)))
        .await
        .expect("free");
    // The first is the acquisition; five renewals 200 ms apart pass the 500 ms of the lease twice.
    for _ in 0..6 {
        let (next, _) = timeout(TIMEOUT, told.recv_notification())
            .await
            .expect("in time")
            .expect("told");
        assert_eq!(
            next.operation,
            Operation::Set(b"renewer".to_vec()),
            "it never expires in between"
        );
        assert!(next.version.timestamp >= last.timestamp);
        assert_eq!(
            next.version.counter, last.counter,
            "official tests need the counter to stay"
        );
        last = next.version;
    }
    assert_eq!(
        lease.get_holder(TIMEOUT).await.expect("an answer"),
        Some(b"renewer".to_vec())
    );
    lease.release(TIMEOUT).await.expect("released");
    loop {
        let (next, _) = timeout(TIMEOUT, told.recv_notification())
            .await
            .expect("in time")
            .expect("told");
        if next.operation == Operation::Del {
            break;
        }
    }
    assert_eq!(lease.get_holder(TIMEOUT).await.expect("an answer"), None);

    actor.leave().await;
}

#[tokio::test]
async fn a_waiting_second_holder_gets_the_lock_when_it_is_unlocked() {
    let server = Server::start();
    let (first, second) = (
        Actor::connect(server.mqtt(), "one").await,
        Actor::connect(server.mqtt(), "two").await,
    );
    let (mine, theirs) = (first.lock("lock"), second.lock("lock"));

    let token = mine.lock(LONG, TIMEOUT, None).await.expect("free");
    let waiting = tokio::spawn({
        let theirs = theirs.clone();
        async move { theirs.lock(LONG, TIMEOUT, None).await }
    });
    // The second one watches before it tries, so once it was refused it waits for the notification. That
    // it was refused shows as its registration: a notification reaches it only then. Unlock after a full
    // round trip of its connection behind the spawn.
    assert_eq!(second.get("unrelated").await, None);
    assert!(!waiting.is_finished());
    mine.unlock(TIMEOUT).await.expect("unlocked");
    assert_eq!(mine.current_lock_fencing_token(), None);
    let next = waiting.await.expect("no panic").expect("the lock");
    assert!(is_newer(&next, &token));
    assert_eq!(first.get("lock").await, Some(b"two".to_vec()));
    theirs.unlock(TIMEOUT).await.expect("unlocked");

    first.leave().await;
    second.leave().await;
}

#[tokio::test]
async fn a_waiting_second_holder_gets_the_lock_when_the_first_dies() {
    let server = Server::start();
    let (first, second) = (
        Actor::connect(server.mqtt(), "dies").await,
        Actor::connect(server.mqtt(), "waits").await,
    );

    first
        .lock("lock")
        .lock(Duration::from_secs(1), TIMEOUT, None)
        .await
        .expect("free");
    first.leave().await;
    let theirs = second.lock("lock");
    assert_eq!(
        second.get("lock").await,
        Some(b"dies".to_vec()),
        "a lock outlives its holder's connection"
    );
    let next = timeout(TIMEOUT, theirs.lock(LONG, TIMEOUT, None))
        .await
        .expect("in time");
    assert!(next.is_ok(), "{next:?}");
    assert_eq!(second.get("lock").await, Some(b"waits".to_vec()));

    second.leave().await;
}

#[tokio::test]
async fn many_holders_take_turns_and_never_hold_together() {
    const HOLDERS: usize = 8;
    const TURNS: usize = 5;
    let server = Server::start();
    let counter = Actor::connect(server.mqtt(), "counter").await;
    counter.set("turns", "0").await;

    let mut holders = Vec::new();
    for number in 0..HOLDERS {
        let actor = Actor::connect(server.mqtt(), &format!("holder-{number}")).await;
        holders.push(tokio::spawn(async move {
            let lock = actor.lock("lock");
            for _ in 0..TURNS {
                let token = lock.lock(LONG, LONG, None).await.expect("a turn");
                // Read and write back: two holders at once would lose a turn.
                let read = actor.get("turns").await.expect("there");
                let turns: usize = String::from_utf8_lossy(&read).parse().expect("a number");
                let next = (turns + 1).to_string().into_bytes();
                actor
                    .store
                    .set(b"turns".to_vec(), next, TIMEOUT, Some(token), Default::default())
                    .await
                    .expect("a later holder's token is never older");
                lock.unlock(TIMEOUT).await.expect("unlocked");
            }
            actor.leave().await;
        }));
    }
    for holder in holders {
        timeout(LONG, holder)
            .await
            .expect("everybody gets a turn")
            .expect("no panic");
    }
    assert_eq!(
        counter.get("turns").await,
        Some((HOLDERS * TURNS).to_string().into_bytes())
    );
    counter.leave().await;
}
