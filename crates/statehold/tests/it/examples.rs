//! The examples of the client library, against a server that runs.

use std::error::Error;
use std::future::Future;

use crate::harness::Server;

#[path = "../../../client/examples/first_steps.rs"]
#[expect(dead_code, reason = "examples are programs of their own")]
mod first_steps;
#[path = "../../../client/examples/leader_election.rs"]
#[expect(dead_code, reason = "examples are programs of their own")]
mod leader_election;
#[path = "../../../client/examples/lock.rs"]
#[expect(dead_code, reason = "examples are programs of their own")]
mod lock;
#[path = "../../../client/examples/publish_subscribe.rs"]
#[expect(dead_code, reason = "examples are programs of their own")]
mod publish_subscribe;
#[path = "../../../client/examples/state_store.rs"]
#[expect(dead_code, reason = "examples are programs of their own")]
mod state_store;
#[path = "../../../client/examples/watch.rs"]
#[expect(dead_code, reason = "examples are programs of their own")]
mod watch;

fn check<F: Future<Output = Result<(), Box<dyn Error>>>>(example: impl FnOnce(String) -> F) {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime
        .block_on(example(server.mqtt.clone()))
        .expect("the example runs to its end");
}

#[test]
fn first_steps_runs() {
    check(|address| async move { first_steps::run(&address).await });
}

#[test]
fn state_store_runs() {
    check(|address| async move { state_store::run(&address).await });
}

#[test]
fn publish_subscribe_runs() {
    check(|address| async move { publish_subscribe::run(&address).await });
}

#[test]
fn watch_runs() {
    check(|address| async move { watch::run(&address).await });
}

#[test]
fn lock_runs() {
    check(|address| async move { lock::run(&address).await });
}

#[test]
fn leader_election_runs() {
    check(|address| async move { leader_election::run(&address).await });
}
