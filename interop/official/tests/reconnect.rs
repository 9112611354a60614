//! The official client over a line that breaks and a server that dies.

use azure_iot_operations_services::state_store::Operation;
use interop_official::{Actor, Relay, Server, TIMEOUT};
use tokio::time::timeout;

#[tokio::test]
async fn requests_go_on_over_a_line_that_is_cut_again_and_again() {
    let server = Server::start();
    let relay = Relay::to(server.mqtt()).await;
    let actor = Actor::connect(relay.address(), "cut").await;

    // The first request subscribes to its answers, and the client gives that up when the line breaks.
    actor.set("key", "first").await;
    for round in 0..5_u32 {
        let value = round.to_string();
        // The cut comes while the request is under way: the client sends it again with DUP, and the store
        // must not decide it twice.
        let (set, ()) = tokio::join!(actor.set("key", &value), async { relay.cut() });
        let version = set.version.expect("a version");
        let got = actor
            .store
            .get(b"key".to_vec(), TIMEOUT)
            .await
            .expect("GET is answered");
        assert_eq!(got.response, Some(value.into_bytes()));
        assert_eq!(
            got.version,
            Some(version),
            "the version that was told is the one that is stored"
        );
    }
    assert!(
        !actor.session_ended(),
        "the server still knew the session each time"
    );

    actor.leave().await;
}

#[tokio::test]
async fn a_cut_ends_observations_and_they_can_be_made_again() {
    let server = Server::start();
    let relay = Relay::to(server.mqtt()).await;
    let watcher = Actor::connect(relay.address(), "watcher").await;
    let writer = Actor::connect(server.mqtt(), "writer").await;

    let mut before = watcher
        .store
        .observe(b"key".to_vec(), TIMEOUT)
        .await
        .expect("observed")
        .response;
    writer.set("key", "1").await;
    let (told, _) = before.recv_notification().await.expect("told");
    assert_eq!(told.operation, Operation::Set(b"1".to_vec()));
    relay.cut();
    let end = timeout(TIMEOUT, before.recv_notification())
        .await
        .expect("in time");
    assert!(
        end.is_none(),
        "the client ends its observations with the connection"
    );
    watcher.monitor.connected().await;
    writer.set("key", "2").await;
    let mut after = watcher
        .store
        .observe(b"key".to_vec(), TIMEOUT)
        .await
        .expect("observed")
        .response;
    writer.set("key", "3").await;
    let (told, _) = after.recv_notification().await.expect("told");
    assert_eq!(
        told.operation,
        Operation::Set(b"3".to_vec()),
        "and nothing of the time between"
    );

    watcher.leave().await;
    writer.leave().await;
}

#[tokio::test]
async fn a_waiting_holder_waits_on_over_a_cut() {
    let server = Server::start();
    let relay = Relay::to(server.mqtt()).await;
    let waiter = Actor::connect(relay.address(), "waiter").await;
    let holder = Actor::connect(server.mqtt(), "holder").await;
    let lock = holder.lock("lock");

    lock.lock(TIMEOUT * 6, TIMEOUT, None).await.expect("free");
    let waiting = tokio::spawn({
        let theirs = waiter.lock("lock");
        async move { theirs.lock(TIMEOUT * 6, TIMEOUT, None).await }
    });
    assert_eq!(waiter.get("lock").await, Some(b"holder".to_vec()));
    relay.cut();
    waiter.monitor.disconnected().await;
    waiter.monitor.connected().await;
    assert_eq!(waiter.get("lock").await, Some(b"holder".to_vec()));
    assert!(!waiting.is_finished());
    lock.unlock(TIMEOUT).await.expect("unlocked");
    timeout(TIMEOUT * 2, waiting)
        .await
        .expect("in time")
        .expect("no panic")
        .expect("the lock");

    waiter.leave().await;
    holder.leave().await;
}

#[tokio::test]
async fn a_killed_server_comes_back_with_the_sessions_and_the_keys() {
    let mut server = Server::start();
    let actor = Actor::connect(server.mqtt(), "survivor").await;
    let version = actor.set("key", "before").await.version.expect("a version");
    let lease = actor.lease("lease");
    let token = lease.acquire(TIMEOUT * 6, TIMEOUT, None).await.expect("free");

    server.kill();
    actor.monitor.disconnected().await;
    server.start_again();
    timeout(TIMEOUT, actor.monitor.connected())
        .await
        .expect("the client comes back");

    let got = actor
        .store
        .get(b"key".to_vec(), TIMEOUT)
        .await
        .expect("GET is answered");
    assert_eq!(
        (got.response, got.version),
        (Some(b"before".to_vec()), Some(version.clone()))
    );
    assert_eq!(
        lease.get_holder(TIMEOUT).await.expect("an answer"),
        Some(b"survivor".to_vec())
    );
    let renewed = lease
        .acquire(TIMEOUT * 6, TIMEOUT, None)
        .await
        .expect("still ours");
    assert!((renewed.timestamp, renewed.counter) > (token.timestamp, token.counter));
    let next = actor.set("key", "after").await.version.expect("a version");
    assert!((next.timestamp, next.counter) > (version.timestamp, version.counter));
    assert!(!actor.session_ended(), "the server said session present");

    actor.leave().await;
}
