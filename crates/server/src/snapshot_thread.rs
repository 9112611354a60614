//! Writes snapshots of the state store beside everything else.
//!
//! The image is frozen, so the store goes on while it is written. The thread pauses between chunks: on a small
//! machine a snapshot at full speed would take a core, and the disk, away from requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use cluster::replica::record::LogPoint;
use cluster::{GroupId, Index, Term};
use storage::{Fault, SnapshotFiles};
use store::Image;
use tokio::sync::mpsc;

/// What became of a snapshot.
#[derive(Debug)]
pub(crate) enum SnapshotEvent {
    /// It is on disk.
    Written {
        group: GroupId,
        index: Index,
        term: Term,
    },
    /// It is not; the log still has everything.
    Failed { group: GroupId, fault: Fault },
}

struct Job {
    group: GroupId,
    point: LogPoint,
    image: Image,
}

/// The thread's end that the driver holds.
#[derive(Debug)]
pub(crate) struct SnapshotThread {
    jobs: Option<SyncSender<Job>>,
    /// Set when the server stops: a snapshot under way is given up.
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The thread works at most this share of the time: one part of work, then so many parts of rest.
const REST_PER_WORK: u32 = 2;

/// A rest is never longer, however long the disk took for a chunk.
const REST_MAX: Duration = Duration::from_millis(20);

impl SnapshotThread {
    /// Starts the thread; its events come out of the receiver.
    pub(crate) fn start(files: SnapshotFiles) -> std::io::Result<(Self, mpsc::Receiver<SnapshotEvent>)> {
        let (jobs, received) = sync_channel::<Job>(state_service::GROUPS_MAX as usize);
        let (events, events_out) = mpsc::channel(2);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        let thread = std::thread::Builder::new()
            .name("statehold-snapshot".to_owned())
            .spawn(move || run(&files, &received, &events, &stop))?;
        Ok((
            Self {
                jobs: Some(jobs),
                is_stopping,
                thread: Some(thread),
            },
            events_out,
        ))
    }

    /// Hands over an image. A group asks for one snapshot at a time, so there is room.
    pub(crate) fn write(&self, group: GroupId, point: LogPoint, image: Image) {
        let Some(jobs) = &self.jobs else { return };
        match jobs.try_send(Job { group, point, image }) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                tracing::error!("the snapshot thread does not take a snapshot");
            }
        }
    }

    /// Ends the thread. A snapshot that is being written is given up: the log has everything.
    pub(crate) fn stop(mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the snapshot thread panicked");
        }
    }
}

fn run(files: &SnapshotFiles, jobs: &Receiver<Job>, events: &mpsc::Sender<SnapshotEvent>, stop: &AtomicBool) {
    while let Ok(Job { group, point, image }) = jobs.recv() {
        let LogPoint { index, term } = point;
        let event = match write(files, group, point, image, stop) {
            Ok(true) => SnapshotEvent::Written { group, index, term },
            Ok(false) => return,
            Err(fault) => SnapshotEvent::Failed { group, fault },
        };
        if events.blocking_send(event).is_err() {
            return;
        }
    }
}

/// False if it was given up.
fn write(
    files: &SnapshotFiles,
    group: GroupId,
    point: LogPoint,
    image: Image,
    stop: &AtomicBool,
) -> Result<bool, Fault> {
    let mut writer = files.writer(group, point)?;
    let mut started = crate::clock::instant();
    for chunk in image.into_chunks() {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        writer.chunk(&chunk)?;
        std::thread::sleep((started.elapsed() * REST_PER_WORK).min(REST_MAX));
        started = crate::clock::instant();
    }
    writer.finish()?;
    Ok(true)
}
