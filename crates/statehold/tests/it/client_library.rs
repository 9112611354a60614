//! The client library: what it does when the server goes away, and its limits.

use std::time::Duration;

use client::{
    Client, ConnectError, ConnectionState, Lease, Lock, LockError, LockOptions, Lost, Message,
    OperationError, Options, QoS, Reconnect, SetOptions, SetOutcome, StoreError, WatchEvent,
};

use crate::harness::{Server, block_on};

async fn connect(server: &Server) -> Client {
    Client::connect(Options::new(&server.mqtt))
        .await
        .expect("connected")
}

#[test]
fn requests_and_messages_wait_for_the_server_to_come_back() {
    let mut server = Server::start();
    block_on(async {
        let client = connect(&server).await;
        let store = client.state_store();
        let mut messages = client
            .subscribe("t/#", QoS::AtLeastOnce)
            .await
            .expect("subscribed");
        let mut watch = store.watch("k").await.expect("watched");
        server.kill();
        // Asked for while nobody is there.
        let store_again = store.clone();
        let set = tokio::spawn(async move { store_again.set("k", "v", SetOptions::new()).await });
        let publish = client.publish(Message::to("t/1", "hello").expect("a topic"));
        let (outcome, server) = tokio::join!(publish, async { server.restart_after_end() });
        outcome.expect("published");
        assert!(matches!(set.await.expect("ended"), Ok(SetOutcome::Stored { .. })));
        assert_eq!(messages.recv().await.expect("a message").payload, "hello");
        assert_eq!(watch.recv().await, Some(WatchEvent::Gap));
        store.set("k", "w", SetOptions::new()).await.expect("set");
        while !matches!(watch.recv().await, Some(WatchEvent::Set { value, .. }) if value == "w") {}
        drop(server);
    });
}

#[test]
fn a_second_client_with_the_same_id_takes_over_for_good() {
    let server = Server::start();
    block_on(async {
        let options = || Options::new(&server.mqtt).client_id("same");
        let first = Client::connect(options()).await.expect("connected");
        let mut state = first.state();
        let second = Client::connect(options()).await.expect("connected");
        let ended = state
            .wait_for(|state| matches!(state, ConnectionState::Ended { .. }))
            .await
            .map(|_| ());
        ended.expect("the state is reported");
        let error = first.state_store().get("k").await.expect_err("it has ended");
        assert_eq!(error, StoreError::Operation(OperationError::Ended));
        second.state_store().get("k").await.expect("the second goes on");
    });
}

#[test]
fn without_a_server_connecting_fails_or_waits() {
    let mut server = Server::start();
    server.kill();
    block_on(async {
        let failed = Client::connect(Options::new(&server.mqtt)).await;
        assert!(matches!(failed, Err(ConnectError::Transport { .. })));
        let waiting = Client::connect(Options::new(&server.mqtt).reconnect(Reconnect::Always));
        let (client, server) = tokio::join!(waiting, async { server.restart_after_end() });
        client
            .expect("connected")
            .state_store()
            .get("k")
            .await
            .expect("answered");
        drop(server);
    });
}

#[test]
fn a_reader_that_does_not_read_loses_nothing() {
    const MESSAGES: usize = 300;
    let server = Server::start();
    block_on(async {
        let slow = Client::connect(Options::new(&server.mqtt).stream_capacity(4))
            .await
            .expect("connected");
        let mut messages = slow.subscribe("t", QoS::AtLeastOnce).await.expect("subscribed");
        let publisher = connect(&server).await;
        for number in 0..MESSAGES {
            publisher
                .publish_to("t", number.to_string())
                .await
                .expect("published");
        }
        // Its requests are still answered.
        slow.state_store().get("k").await.expect("answered");
        for number in 0..MESSAGES {
            assert_eq!(
                messages.recv().await.expect("a message").payload,
                number.to_string()
            );
        }
    });
}

#[test]
fn more_operations_than_allowed_are_refused_at_once() {
    let server = Server::start();
    block_on(async {
        let client = Client::connect(Options::new(&server.mqtt).operations_max(2))
            .await
            .expect("connected");
        let store = client.state_store();
        let (first, second, third) = tokio::join!(store.get("a"), store.get("b"), store.get("c"));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(third, Err(StoreError::Operation(OperationError::QueueFull)));
        store.get("c").await.expect("there is room again");
    });
}

#[test]
fn a_lease_is_had_renewed_and_given_back() {
    let server = Server::start();
    block_on(async {
        let store = connect(&server).await.state_store();
        let minute = Duration::from_secs(60);
        let mut lease = Lease::acquire(&store, "l", "me", minute)
            .await
            .expect("asked")
            .expect("free");
        assert!(
            Lease::acquire(&store, "l", "you", minute)
                .await
                .expect("asked")
                .is_none()
        );
        let token = lease.token().clone();
        assert!(lease.renew().await.expect("asked"));
        assert!(*lease.token() > token && lease.remaining() > Duration::from_secs(50));
        store
            .set("l", "you", SetOptions::new())
            .await
            .expect("taken by force");
        assert!(!lease.renew().await.expect("asked"));
        assert!(!lease.release().await.expect("asked"));
    });
}

#[test]
fn one_attempt_at_a_server_that_is_gone_has_no_answer_and_holds_nothing() {
    let mut server = Server::start();
    block_on(async {
        let options = Options::new(&server.mqtt).timeout(Duration::from_millis(300));
        let client = Client::connect(options).await.expect("connected");
        let store = client.state_store();
        server.kill();
        let options = LockOptions::new(Duration::from_secs(600)).wait(Duration::ZERO);
        let error = Lock::acquire(&store, "l", options.clone()).await;
        let timed_out = StoreError::Operation(OperationError::TimedOut);
        assert_eq!(error.expect_err("nobody is there"), LockError::Store(timed_out));
        let server = server.restart_after_end();
        let other = connect(&server).await.state_store();
        let options = options.wait(Duration::from_secs(60));
        Lock::acquire(&other, "l", options).await.expect("nobody has it");
    });
}

#[test]
fn a_dropped_lock_is_free_and_a_stolen_one_is_lost() {
    let server = Server::start();
    block_on(async {
        let store = connect(&server).await.state_store();
        let options = LockOptions::new(Duration::from_millis(600));
        let lock = Lock::acquire(&store, "l", options.clone()).await.expect("free");
        drop(lock);
        let lock = Lock::acquire(&store, "l", options.clone().wait(Duration::from_secs(5)))
            .await
            .expect("free again");
        assert!(lock.is_held());
        store
            .set("l", "thief", SetOptions::new())
            .await
            .expect("taken by force");
        assert_eq!(lock.lost().await, Lost::TakenOver);
        assert!(!lock.is_held());
        lock.release().await.expect("nothing to give back");
    });
}
