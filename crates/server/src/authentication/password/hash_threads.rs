//! Threads that compute hashes of passwords, with less right to a processor than the rest of the server.
//!
//! Each keeps the memory of the most expensive hash it has computed, so all of them take as many times the largest `m` of the file.
//! Networks get their [`Turns`] in rounds, and nothing is computed for whom nobody waits any more.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::hash::{PasswordHash, Scratch};
use super::turns::{Turn, Turns};
use crate::client_address::SourceNetwork;

/// The threads while they run; they end when this is dropped.
pub(super) struct HashThreads {
    turns: Turns,
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
    #[cfg(test)]
    computed: std::cell::Cell<usize>,
}

/// A place on one of the threads.
pub(super) struct Place<'a> {
    threads: &'a HashThreads,
    turn: Turn,
}

struct Job {
    hash: PasswordHash,
    password: Bytes,
    answer: oneshot::Sender<bool>,
    /// Until the job is done, also if nobody waits for it any more.
    _turn: Turn,
}

/// More would only take memory: half of the processors are left to those who are in.
const THREADS_MAX: usize = 4;

/// As `nice` has it: next to the node, a thread with this gets a tenth of a processor that both want.
const NICENESS: i32 = 10;

impl HashThreads {
    pub(super) fn start() -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (processors / 2).clamp(1, THREADS_MAX);
        let (jobs, waiting) = sync_channel(count);
        let waiting = Arc::new(Mutex::new(waiting));
        let threads = (0..count).map(|number| {
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new()
                .name(format!("passwords-{number}"))
                .spawn(move || work(&waiting))
        });
        Ok(Self {
            turns: Turns::new(count),
            jobs: Some(jobs),
            threads: threads.collect::<Result<_, _>>()?,
            #[cfg(test)]
            computed: std::cell::Cell::default(),
        })
    }

    /// Waits for a thread that has nothing to do, and for the turn of a client of this network.
    pub(super) async fn place(&self, network: SourceNetwork) -> Option<Place<'_>> {
        Some(Place {
            threads: self,
            turn: self.turns.take(network).await?,
        })
    }

    /// How many hashes were computed.
    #[cfg(test)]
    pub(super) fn computed(&self) -> usize {
        self.computed.get()
    }
}

impl Place<'_> {
    /// Whether the hash is the password's. `None` while the server stops.
    pub(super) async fn check(self, hash: PasswordHash, password: Bytes) -> Option<bool> {
        let (answer, answered) = oneshot::channel();
        let job = Job {
            hash,
            password,
            answer,
            _turn: self.turn,
        };
        #[cfg(test)]
        self.threads.computed.set(self.threads.computed.get() + 1);
        // There is room: each job has a turn.
        self.threads.jobs.as_ref()?.try_send(job).ok()?;
        answered.await.ok()
    }
}

impl Drop for HashThreads {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for HashThreads {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("HashThreads")
            .field("threads", &self.threads.len())
            .finish_non_exhaustive()
    }
}

/// Works until there is nobody who could want something.
fn work(waiting: &Mutex<Receiver<Job>>) {
    // Without the right to be nicer it works as well.
    let _ = rustix::process::nice(NICENESS);
    let mut scratch = Scratch::default();
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        if !job.answer.is_closed() {
            // Whoever asked may have gone meanwhile.
            let _ = job.answer.send(job.hash.is_of(&job.password, &mut scratch));
        }
    }
}
