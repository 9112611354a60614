//! The one thread that writes: everything that waits goes to disk with one sync.
//!
//! While a sync runs, batches collect; the next sync covers all of them. Batches are written in the order in which
//! they were sent, so a confirmation covers all earlier ones.
//!
//! In a cluster the node's own thread writes small batches of logs itself while the disk is quick and has nothing else to do
//! ([`DiskThread::write`]): waking one thread and being woken by it takes as long as such a disk does.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use broker::DiskTicket;
use cluster::{Keyspace, Write};
use storage::{ClockMark, Fault, Storage};
use tokio::sync::mpsc;

use crate::clock::{self, Clock, MARK_INTERVAL};

/// What the disk has done.
#[derive(Debug)]
pub(crate) enum DiskEvent {
    /// All batches up to this one are durable.
    Durable {
        ticket: DiskTicket,
        /// How many batches went with one sync.
        batches: u64,
        /// How long writing and syncing them took.
        sync_micros: u64,
        /// Bytes of changes that are not in tables yet.
        held: u64,
    },
    /// The disk cannot be trusted any more: the node must stop.
    Failed(Fault),
}

/// How far a batch must have come before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// On the disk.
    Always,
    /// With the operating system; it is synced when the server stops.
    AtStop,
}

/// Writes that take effect together.
pub(crate) struct Batch {
    pub(crate) ticket: DiskTicket,
    pub(crate) writes: Vec<Write>,
    /// It is synced whatever the durability is.
    pub(crate) needs_disk: bool,
}

/// The thread's end that the driver holds.
#[derive(Debug)]
pub(crate) struct DiskThread {
    batches: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<()>>,
    disk: Disk,
    pace: Cell<Pace>,
}

/// Writes down the highest time that the node's clock has said.
#[derive(Debug)]
pub(crate) struct ClockMarks {
    clock: Clock,
    highest: u64,
}

/// A batch has a mark with it if the last one is older than that.
const MARK_AGE: Duration = Duration::from_secs(1);

/// The disk, for one thread at a time.
#[derive(Clone)]
struct Disk {
    storage: Arc<Mutex<Box<dyn Storage>>>,
    sync: Sync,
}

/// Whether the node's thread may write a batch itself.
#[derive(Debug, Clone, Copy)]
struct Pace {
    is_wanted: bool,
    /// Batches that the thread was given and has not confirmed.
    on_the_way: u64,
    /// How long writing and syncing takes, on average; zero: nothing was written yet.
    usual_micros: u64,
}

/// A disk that takes longer is left to its thread: as much as waking and being woken takes at most, where processors are shared.
const QUICK_MICROS_MAX: u64 = 500;

/// Larger batches are left to the thread: where so much comes at once, there is something to do meanwhile.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// One time counts for one part in so many of the average.
const USUAL_OF: u64 = 8;

/// Batches on their way. The node keeps fewer than that; see `broker::commits`.
const BATCHES_MAX: usize = 64;

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("ticket", &self.ticket)
            .field("writes", &self.writes.len())
            .finish()
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk")
            .field("sync", &self.sync)
            .finish_non_exhaustive()
    }
}

impl Batch {
    /// Whether it is entries of logs, and little more than their keys.
    fn is_small_log(&self) -> bool {
        let bytes_of = |write: &Write| match write {
            Write::Put {
                keyspace: Keyspace::Log | Keyspace::Meta,
                key,
                value,
            } => Some(key.len() + value.len()),
            _ => None,
        };
        let bytes: Option<usize> = self.writes.iter().map(bytes_of).sum();
        bytes.is_some_and(|bytes| bytes <= SMALL_BYTES_MAX)
    }

    /// Both together, confirmed by the later one's ticket.
    pub(crate) fn with(mut self, later: Self) -> Self {
        assert!(
            self.ticket < later.ticket,
            "batches come in the order of their tickets"
        );
        self.writes.extend(later.writes);
        Self {
            ticket: later.ticket,
            writes: self.writes,
            needs_disk: self.needs_disk || later.needs_disk,
        }
    }
}

impl DiskThread {
    /// Starts the thread; its events come out of the receiver. `shares`: it leaves some batches to the node's thread.
    pub(crate) fn start(
        storage: Box<dyn Storage>,
        sync: Sync,
        shares: bool,
        marks: ClockMarks,
    ) -> std::io::Result<(Self, mpsc::Receiver<DiskEvent>)> {
        let (batches, received) = sync_channel(BATCHES_MAX);
        // At most one event for each batch on its way, so it is as bounded as the batches are.
        let (events, events_out) = mpsc::channel(BATCHES_MAX);
        let disk = Disk {
            storage: Arc::new(Mutex::new(storage)),
            sync,
        };
        let of_thread = disk.clone();
        let thread = std::thread::Builder::new()
            .name("statehold-disk".to_owned())
            .spawn(move || run(&of_thread, marks, &received, &events))?;
        Ok((
            Self {
                batches: Some(batches),
                thread: Some(thread),
                disk,
                pace: Cell::new(Pace::new(shares)),
            },
            events_out,
        ))
    }

    /// Hands over a batch, or gives it back: it had better be given to [`DiskThread::write`] when nothing else waits.
    /// After a fault the thread takes nothing more; [`DiskEvent::Failed`] has said why.
    pub(crate) fn persist(&self, batch: Batch) -> Option<Batch> {
        if self.pace.get().lets_write(&batch) {
            return Some(batch);
        }
        self.hand_over(batch);
        None
    }

    /// Hands over a batch in any case.
    pub(crate) fn hand_over(&self, batch: Batch) {
        self.pace.set(self.pace.get().handed_over());
        if let Some(batches) = &self.batches {
            let _ = batches.send(batch);
        }
    }

    /// Writes a batch that was given back, on the caller's thread.
    pub(crate) fn write(&self, batch: Batch) -> DiskEvent {
        let mut waiting = vec![batch];
        // The thread has nothing to do: everything that it was given is confirmed.
        match self.disk.commit(&mut waiting) {
            Ok(event) => event,
            Err(fault) => DiskEvent::Failed(fault),
        }
    }

    /// Writes something that no ticket is for, and syncs it.
    pub(crate) fn put(&self, write: Write) -> Result<(), Fault> {
        let mut storage = self.disk.storage();
        storage.write(&[write])?;
        storage.sync()
    }

    /// So many batches are durable, and it took so long.
    pub(crate) fn confirmed(&self, batches: u64, micros: u64) {
        self.pace.set(self.pace.get().confirmed(batches, micros));
    }

    /// Writes what is on its way, syncs, and ends.
    pub(crate) fn stop(mut self) {
        self.batches = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the disk thread panicked");
        }
    }
}

impl Pace {
    fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            on_the_way: 0,
            usual_micros: 0,
        }
    }

    fn lets_write(self, batch: &Batch) -> bool {
        self.is_wanted
            && self.on_the_way == 0
            && (1..=QUICK_MICROS_MAX).contains(&self.usual_micros)
            && batch.is_small_log()
    }

    fn handed_over(self) -> Self {
        Self {
            on_the_way: self.on_the_way + 1,
            ..self
        }
    }

    fn confirmed(self, batches: u64, micros: u64) -> Self {
        let usual = match self.usual_micros {
            0 => micros,
            usual => (usual * (USUAL_OF - 1) + micros) / USUAL_OF,
        };
        Self {
            // What the node's thread wrote itself was never on the way.
            on_the_way: self.on_the_way.saturating_sub(batches),
            usual_micros: usual.max(1),
            ..self
        }
    }
}

impl ClockMarks {
    /// `mark`: the latest in the data directory.
    pub(crate) fn new(clock: Clock, mark: Option<ClockMark>) -> Self {
        Self {
            clock,
            highest: mark.map_or(0, |mark| mark.wall),
        }
    }

    /// A mark, if so much time has passed since the last one.
    fn due(&mut self, age: Duration) -> Option<ClockMark> {
        let age = u64::try_from(age.as_millis()).expect("it is short");
        let wall = self.clock.now().wall;
        if wall < self.highest.saturating_add(age) {
            return None;
        }
        self.highest = wall;
        Some(ClockMark { wall, is_last: false })
    }

    /// The mark of a node that stops in order.
    fn last(&mut self) -> ClockMark {
        self.highest = self.highest.max(self.clock.now().wall);
        ClockMark {
            wall: self.highest,
            is_last: true,
        }
    }
}

impl Disk {
    /// A thread that panicked while it wrote has left what nobody can trust; its panic ends the process.
    fn storage(&self) -> MutexGuard<'_, Box<dyn Storage>> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, mark: ClockMark) -> Result<(), Fault> {
        let mut storage = self.storage();
        storage.write(&[mark.put()])?;
        match self.sync {
            Sync::Always => storage.sync(),
            Sync::AtStop => storage.flush(),
        }
    }

    fn commit(&self, waiting: &mut Vec<Batch>) -> Result<DiskEvent, Fault> {
        commit(self.storage().as_mut(), self.sync, waiting)
    }
}

fn run(disk: &Disk, mut marks: ClockMarks, batches: &Receiver<Batch>, events: &mpsc::Sender<DiskEvent>) {
    let mut waiting = Vec::new();
    loop {
        match batches.recv_timeout(MARK_INTERVAL) {
            Ok(first) => {
                waiting.push(first);
                waiting.extend(batches.try_iter());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let event = match commit_with_mark(disk, &mut marks, &mut waiting) {
            Ok(None) => continue,
            Ok(Some(event)) => event,
            Err(fault) => {
                // Whoever waits is never confirmed: the driver stops the node.
                let _ = events.blocking_send(DiskEvent::Failed(fault));
                return;
            }
        };
        if events.blocking_send(event).is_err() {
            break;
        }
    }
    let mut storage = disk.storage();
    let stopped = storage.write(&[marks.last().put()]).and_then(|()| storage.sync());
    if let Err(fault) = stopped {
        tracing::error!(%fault, "the last sync failed");
    }
}

/// Commits what waits, with a mark if one is due; `None`: nothing waited.
fn commit_with_mark(
    disk: &Disk,
    marks: &mut ClockMarks,
    waiting: &mut Vec<Batch>,
) -> Result<Option<DiskEvent>, Fault> {
    let age = if waiting.is_empty() {
        MARK_INTERVAL
    } else {
        MARK_AGE
    };
    if let Some(mark) = marks.due(age) {
        match waiting.last_mut() {
            Some(batch) => batch.writes.push(mark.put()),
            None => disk.mark(mark)?,
        }
    }
    if waiting.is_empty() {
        return Ok(None);
    }
    disk.commit(waiting).map(Some)
}

fn commit(storage: &mut dyn Storage, sync: Sync, waiting: &mut Vec<Batch>) -> Result<DiskEvent, Fault> {
    let started: Instant = clock::instant();
    let mut last = DiskTicket(0);
    let batches = waiting.len() as u64;
    let mut needs_disk = sync == Sync::Always;
    for batch in waiting.drain(..) {
        storage.write(&batch.writes)?;
        needs_disk |= batch.needs_disk;
        last = batch.ticket;
    }
    if needs_disk {
        storage.sync()?;
    } else {
        storage.flush()?;
    }
    let sync_micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(DiskEvent::Durable {
        ticket: last,
        batches,
        sync_micros,
        held: storage.held_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use storage::SimulatedDisk;

    use super::*;

    fn syncs_of(sync: Sync, needs_disk: &[bool]) -> u64 {
        let mut disk = SimulatedDisk::new(1);
        let batch = |needs_disk: &bool| Batch {
            ticket: DiskTicket(1),
            writes: vec![],
            needs_disk: *needs_disk,
        };
        let mut waiting: Vec<_> = needs_disk.iter().map(batch).collect();
        commit(&mut disk, sync, &mut waiting).unwrap();
        disk.syncs()
    }

    fn marks(mark: Option<ClockMark>) -> ClockMarks {
        ClockMarks::new(Clock::new(Duration::ZERO), mark)
    }

    #[test]
    fn the_clock_is_written_with_batches_once_a_second_and_at_the_stop() {
        let mut marks = marks(None);
        let first = marks.due(MARK_AGE).expect("there was none");
        assert!(!first.is_last);
        assert_eq!(marks.due(MARK_AGE), None, "a second has not passed");
        assert!(marks.due(Duration::ZERO).expect("it is due at once").wall >= first.wall);
        assert!(marks.last().is_last);
    }

    #[test]
    fn a_mark_never_goes_back() {
        let ahead = clock::now().wall + 3_600_000;
        let mark = ClockMark {
            wall: ahead,
            is_last: true,
        };
        let mut marks = marks(Some(mark));
        assert_eq!(marks.due(Duration::ZERO), None);
        assert_eq!(marks.last(), mark);
    }

    fn log_of(bytes: usize) -> Batch {
        Batch {
            ticket: DiskTicket(1),
            writes: vec![Write::Put {
                keyspace: Keyspace::Log,
                key: Bytes::new(),
                value: Bytes::from(vec![0; bytes]),
            }],
            needs_disk: false,
        }
    }

    #[test]
    fn small_entries_are_left_to_the_caller_while_the_disk_is_quick_and_idle() {
        let quick = Pace::new(true).handed_over().confirmed(1, 400);
        assert!(quick.lets_write(&log_of(SMALL_BYTES_MAX)));
        assert!(!quick.lets_write(&log_of(SMALL_BYTES_MAX + 1)));
        assert!(!quick.handed_over().lets_write(&log_of(1)), "the thread writes");
        assert!(!Pace::new(true).lets_write(&log_of(1)), "nobody knows yet");
        let alone = Pace::new(false).confirmed(1, 400);
        assert!(!alone.lets_write(&log_of(1)));
        let records = Batch {
            writes: vec![Write::Remove {
                keyspace: Keyspace::Queue,
                key: Bytes::new(),
            }],
            ..log_of(1)
        };
        assert!(!quick.lets_write(&records));
    }

    #[test]
    fn a_disk_that_was_slow_once_is_left_to_the_thread_for_a_while() {
        let mut pace = Pace::new(true).confirmed(1, 200).confirmed(1, 1_000_000);
        let mut syncs = 0;
        while !pace.lets_write(&log_of(1)) {
            pace = pace.handed_over().confirmed(1, 200);
            syncs += 1;
        }
        assert!((40..60).contains(&syncs), "{syncs}");
    }

    #[test]
    fn what_the_caller_writes_is_as_durable_as_what_the_thread_writes() {
        let (disk, mut events) =
            DiskThread::start(Box::new(SimulatedDisk::new(1)), Sync::Always, true, marks(None)).unwrap();
        disk.hand_over(log_of(1));
        let DiskEvent::Durable { batches, .. } = events.blocking_recv().unwrap() else {
            panic!("a simulated disk does not fail");
        };
        disk.confirmed(batches, 1);
        let batch = disk.persist(log_of(1)).expect("the disk is quick and idle");
        assert!(matches!(disk.write(batch), DiskEvent::Durable { batches: 1, .. }));
        disk.stop();
    }

    #[test]
    fn one_sync_serves_all_that_wait() {
        assert_eq!(syncs_of(Sync::Always, &[false, false, true, false]), 1);
    }

    #[test]
    fn with_memory_durability_only_what_asks_for_the_disk_is_synced() {
        assert_eq!(syncs_of(Sync::AtStop, &[false, false]), 0);
        assert_eq!(syncs_of(Sync::AtStop, &[false, true]), 1);
    }
}
