//! Locks whose attempt or holder was given up while the client did not reach the server. A gate between the two
//! loses a request or its answer, so that nothing depends on when a process notices what.

use std::time::Duration;

use client::{
    Client, ConnectionState, Lock, LockError, LockOptions, OperationError, Options, StateStore, StoreError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::{Server, block_on};

/// What becomes of the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// It goes through, and so does its answer.
    Open,
    /// It is lost, and the connection with it. No other is let through.
    LosesRequest,
    /// It goes through. Its answer is lost, and the connection with it. No other is let through.
    LosesAnswer,
}

/// Relays connections to `server` as the gate says. The address to connect to.
async fn relay(server: String, gate: watch::Receiver<Gate>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            if *gate.borrow() == Gate::Open {
                let server = TcpStream::connect(&server).await.expect("the server is there");
                tokio::spawn(relay_one(client, server, gate.clone()));
            }
        }
    });
    address
}

async fn relay_one(mut client: TcpStream, mut server: TcpStream, gate: watch::Receiver<Gate>) {
    let (mut from_client, mut from_server) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            Ok(length @ 1..) = client.read(&mut from_client) => {
                let is_lost = *gate.borrow() == Gate::LosesRequest;
                if is_lost || server.write_all(&from_client[..length]).await.is_err() {
                    return;
                }
            }
            Ok(length @ 1..) = server.read(&mut from_server) => {
                let is_lost = *gate.borrow() == Gate::LosesAnswer;
                if is_lost || client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
            else => return,
        }
    }
}

/// Waits until requests have had time to be given up, lets the client through again, and until what it still has
/// to say has been answered: requests of a client are answered in their order.
async fn come_back(store: &StateStore, gate: &watch::Sender<Gate>) {
    let timed_out = Err(StoreError::Operation(OperationError::TimedOut));
    for _ in 0..2 {
        assert_eq!(store.get("l").await, timed_out, "the gate is closed");
    }
    gate.send_replace(Gate::Open);
    let is_up = |state: &ConnectionState| matches!(state, ConnectionState::Connected { .. });
    let mut state = store.client().state();
    state.wait_for(is_up).await.expect("connected");
    while store.get("l").await == timed_out {}
}

async fn assert_free(server: &Server, after: Gate) {
    let other = Client::connect(Options::new(&server.mqtt))
        .await
        .expect("connected");
    let options = LockOptions::new(Duration::from_secs(600)).wait(Duration::ZERO);
    let lock = Lock::acquire(&other.state_store(), "l", options).await;
    let lock = lock.unwrap_or_else(|error| panic!("{error}: somebody has the lock after {after:?}"));
    lock.release().await.expect("released");
}

/// A client behind the gate that gives up after a moment.
async fn connect(server: &Server, gate: &watch::Sender<Gate>) -> StateStore {
    let address = relay(server.mqtt.clone(), gate.subscribe()).await;
    let options = Options::new(address).timeout(Duration::from_millis(300));
    let store = Client::connect(options).await.expect("connected").state_store();
    while store.get("l").await != Ok(None) {}
    store
}

#[test]
fn an_attempt_without_an_answer_holds_nothing_when_its_client_is_back() {
    let server = Server::start();
    for lossy in [Gate::LosesRequest, Gate::LosesAnswer] {
        block_on(async {
            let gate = watch::Sender::new(Gate::Open);
            let store = connect(&server, &gate).await;
            gate.send_replace(lossy);
            let options = LockOptions::new(Duration::from_secs(600)).wait(Duration::ZERO);
            let error = Lock::acquire(&store, "l", options).await.expect_err("no answer");
            let timed_out = StoreError::Operation(OperationError::TimedOut);
            assert_eq!(error, LockError::Store(timed_out));
            come_back(&store, &gate).await;
            assert_free(&server, lossy).await;
        });
    }
}

#[test]
fn a_lock_released_without_an_answer_is_free_when_its_client_is_back() {
    let server = Server::start();
    for lossy in [Gate::LosesRequest, Gate::LosesAnswer] {
        block_on(async {
            let gate = watch::Sender::new(Gate::Open);
            let store = connect(&server, &gate).await;
            let options = LockOptions::new(Duration::from_secs(600));
            let lock = Lock::acquire(&store, "l", options).await.expect("free");
            gate.send_replace(lossy);
            let timed_out = StoreError::Operation(OperationError::TimedOut);
            assert_eq!(lock.release().await, Err(timed_out));
            come_back(&store, &gate).await;
            assert_free(&server, lossy).await;
        });
    }
}
