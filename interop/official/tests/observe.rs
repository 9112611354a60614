//! KEYNOTIFY through the official client: who is told what, in which order, and when it ends.

use std::time::Duration;

use azure_iot_operations_services::state_store::{ErrorKind, KeyObservation, Operation};
use interop_official::{Actor, Server, TIMEOUT};

async fn observe(actor: &Actor, key: &str) -> KeyObservation {
    actor
        .store
        .observe(key.into(), TIMEOUT)
        .await
        .expect("KEYNOTIFY is answered")
        .response
}

async fn unobserve(actor: &Actor, key: &str) -> bool {
    actor
        .store
        .unobserve(key.into(), TIMEOUT)
        .await
        .expect("STOP is answered")
        .response
}

/// Everything that comes until the observation ends.
async fn rest(mut observation: KeyObservation) -> Vec<Operation> {
    let mut operations = Vec::new();
    while let Some((notification, _)) = observation.recv_notification().await {
        assert_eq!(notification.key, observation.key);
        operations.push(notification.operation);
    }
    operations
}

fn set(value: &str) -> Operation {
    Operation::Set(value.into())
}

#[tokio::test]
async fn only_changes_during_the_observation_are_told_each_once_and_in_order() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "watcher").await;

    actor.set("key", "1").await;
    actor.del("key").await;
    let observation = observe(&actor, "key").await;
    actor.set("key", "2").await;
    actor.del("key").await;
    actor.set("key", "3").await;
    actor.set("another", "x").await;
    assert!(unobserve(&actor, "key").await);
    actor.set("key", "4").await;
    actor.del("key").await;

    assert_eq!(rest(observation).await, [set("2"), Operation::Del, set("3")]);
    actor.leave().await;
}

#[tokio::test]
async fn changes_by_others_are_told_to_every_watcher_with_their_versions() {
    let server = Server::start();
    let writer = Actor::connect(server.mqtt(), "writer").await;
    let first = Actor::connect(server.mqtt(), "first").await;
    let second = Actor::connect(server.mqtt(), "second").await;
    let mut observations = [observe(&first, "key").await, observe(&second, "key").await];

    for value in ["1", "2", "3"] {
        let version = writer.set("key", value).await.version.expect("a version");
        for observation in &mut observations {
            let (notification, _) = observation.recv_notification().await.expect("told");
            assert_eq!(notification.operation, set(value));
            assert_eq!(
                notification.version, version,
                "the version that the writer was told"
            );
        }
    }
    let last = writer.set("key", "4").await.version.expect("a version");
    writer
        .store
        .vdel(b"key".to_vec(), b"4".to_vec(), None, TIMEOUT)
        .await
        .expect("VDEL is answered");
    for observation in &mut observations {
        let (told, _) = observation.recv_notification().await.expect("told");
        assert_eq!(told.operation, set("4"));
        let (told, _) = observation.recv_notification().await.expect("told");
        assert_eq!(told.operation, Operation::Del);
        assert!(
            (told.version.timestamp, told.version.counter) > (last.timestamp, last.counter),
            "a deletion is newer than what it deleted"
        );
    }

    for actor in [writer, first, second] {
        actor.leave().await;
    }
}

#[tokio::test]
async fn an_expiry_is_told_as_a_delete_and_a_renewal_as_a_set() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "expiry-watcher").await;
    let mut observation = observe(&actor, "key").await;

    actor.set_for("key", "1", Duration::from_millis(300)).await;
    actor.set_for("key", "1", Duration::from_millis(300)).await;
    for expected in [set("1"), set("1"), Operation::Del] {
        let (told, _) = observation.recv_notification().await.expect("told");
        assert_eq!(told.operation, expected);
    }
    assert_eq!(actor.get("key").await, None);

    actor.leave().await;
}

#[tokio::test]
async fn observing_and_stopping_twice() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "twice").await;

    assert!(!unobserve(&actor, "key").await, "it was not observed");
    let observation = observe(&actor, "key").await;
    let twice = actor.store.observe(b"key".to_vec(), TIMEOUT).await;
    assert!(matches!(
        twice.expect_err("the client forbids it").kind(),
        ErrorKind::DuplicateObserve
    ));
    drop(observation);
    assert!(unobserve(&actor, "key").await);
    assert!(!unobserve(&actor, "key").await);
    let again = observe(&actor, "key").await;
    actor.set("key", "1").await;
    assert!(unobserve(&actor, "key").await);
    assert_eq!(rest(again).await, [set("1")]);

    actor.leave().await;
}

#[tokio::test]
async fn a_shutdown_ends_the_observations() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "shutdown").await;
    let mut observation = observe(&actor, "key").await;

    actor.set("key", "1").await;
    assert!(observation.recv_notification().await.is_some());
    actor.leave().await;
    assert!(observation.recv_notification().await.is_none());
}

#[tokio::test]
async fn keys_of_any_bytes_can_be_observed() {
    let server = Server::start();
    let actor = Actor::connect(server.mqtt(), "any-bytes").await;
    for key in [b"a/b/+/#".to_vec(), vec![0, 1, 0xfe, 0xff], b" ".to_vec()] {
        let mut observation = actor
            .store
            .observe(key.clone(), TIMEOUT)
            .await
            .expect("KEYNOTIFY is answered")
            .response;
        actor
            .store
            .set(key.clone(), b"v".to_vec(), TIMEOUT, None, Default::default())
            .await
            .expect("SET is answered");
        let (told, _) = observation.recv_notification().await.expect("told");
        assert_eq!((told.key, told.operation), (key, set("v")));
    }
    actor.leave().await;
}
