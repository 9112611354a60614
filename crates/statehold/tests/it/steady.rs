//! Clients that behave, while others do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use client::{Client, Options, QoS, Reconnect, SetOptions};

use crate::configured::Configured;

/// A publisher, a subscriber and a client of the state store, on a thread of their own. In each round a message goes from one to the
/// other, and a key is set and read. Any of it that is lost, late beyond a long bound or out of order ends the thread with a panic.
pub(crate) struct Steady {
    rounds: Receiver<()>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Longer than any round takes on a machine that has much else to do.
const ROUND_WITHIN: Duration = Duration::from_secs(60);

impl Steady {
    /// Returns when the first round is done.
    pub(crate) fn start(server: &Configured) -> Self {
        let (done, rounds) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let (address, ends) = (server.at("mqtt").to_owned(), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(run(&address, &done, &ends));
        });
        let mut steady = Self {
            rounds,
            is_over,
            thread: Some(thread),
        };
        steady.rounds(1);
        steady
    }

    /// Waits for so many rounds from now on.
    pub(crate) fn rounds(&mut self, count: usize) {
        while self.rounds.try_recv().is_ok() {}
        // What was under way when this was called does not count.
        for _ in 0..=count {
            self.rounds
                .recv_timeout(ROUND_WITHIN)
                .expect("clients that behave are served");
        }
    }

    /// Whether everything was in order until now.
    pub(crate) fn end(mut self) {
        self.is_over.store(true, Ordering::Release);
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("nothing was lost, late or out of order");
    }
}

async fn run(address: &str, done: &Sender<()>, is_over: &AtomicBool) {
    let connect = || Client::connect(Options::new(address).reconnect(Reconnect::Never));
    let publisher = connect().await.expect("connected");
    let subscriber = connect().await.expect("connected");
    let store = connect().await.expect("connected").state_store();
    let mut messages = subscriber
        .subscribe("steady", QoS::AtLeastOnce)
        .await
        .expect("subscribed");
    for number in 0_u64.. {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        let text = number.to_string();
        publisher
            .publish_to("steady", text.clone())
            .await
            .expect("published");
        assert_eq!(messages.recv().await.expect("a message").payload, text);
        store
            .set("steady", text.clone(), SetOptions::new())
            .await
            .expect("set");
        let found = store.get("steady").await.expect("asked");
        assert_eq!(found.expect("it was set").value, text);
        // Nobody may want to know.
        let _ = done.send(());
    }
}
