//! The thread that moves changes to tables, so that no commit waits for it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::changes::Changes;
use super::tables::Tables;
use crate::fault::{Doing, Fault};

struct Job {
    changes: Arc<Changes>,
    /// The last record whose changes are among them.
    through: u64,
}

/// The thread's end that the engine holds. One job at a time.
#[derive(Debug)]
pub(super) struct Checkpointer {
    jobs: Option<Sender<Job>>,
    results: Receiver<Result<u64, Fault>>,
    is_busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("through", &self.through)
            .finish_non_exhaustive()
    }
}

impl Checkpointer {
    pub(super) fn start(tables: Tables) -> std::io::Result<Checkpointer> {
        let (jobs, received) = channel::<Job>();
        let (sender, results) = channel();
        let thread = std::thread::Builder::new()
            .name("statehold-table".to_owned())
            .spawn(move || {
                for job in received {
                    let result = tables.take_in(&job.changes).map(|()| job.through);
                    drop(job);
                    if sender.send(result).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Checkpointer {
            jobs: Some(jobs),
            results,
            is_busy: false,
            thread: Some(thread),
        })
    }

    /// Hands over changes. The one before must have come back.
    pub(super) fn begin(&mut self, changes: Arc<Changes>, through: u64) {
        assert!(!self.is_busy, "one checkpoint at a time");
        self.is_busy = true;
        if let Some(jobs) = &self.jobs {
            // If the thread has ended, no result comes, and that is a fault.
            let _ = jobs.send(Job { changes, through });
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The record through which tables have everything, if a job has ended.
    pub(super) fn ended(&mut self) -> Result<Option<u64>, Fault> {
        match self.results.try_recv() {
            Ok(result) => {
                self.is_busy = false;
                result.map(Some)
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => Ok(None),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Err(thread_ended()),
        }
    }

    /// Waits for the job that runs.
    pub(super) fn wait(&mut self) -> Result<u64, Fault> {
        assert!(self.is_busy, "somebody works on what is waited for");
        self.is_busy = false;
        self.results.recv().unwrap_or_else(|_| Err(thread_ended()))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its thread, and what it did not finish is in the log.
            let _ = thread.join();
        }
    }
}

fn thread_ended() -> Fault {
    Fault::Engine {
        doing: Doing::Writing,
        detail: "the thread that writes tables has ended".to_owned(),
    }
}
