//! The one thread that writes: everything that waits goes to disk with one sync.
//!
//! While a sync runs, batches collect; the next sync covers all of them. Batches are written in the order in which
//! they were sent, so a confirmation covers all earlier ones.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use broker::DiskTicket;
use cluster::Write;
use storage::{Fault, Storage};
use tokio::sync::mpsc;

use crate::clock;

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
}

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

impl Batch {
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
    /// Starts the thread; its events come out of the receiver.
    pub(crate) fn start(
        storage: Box<dyn Storage>,
        sync: Sync,
    ) -> std::io::Result<(Self, mpsc::Receiver<DiskEvent>)> {
        let (batches, received) = sync_channel(BATCHES_MAX);
        // At most one event for each batch on its way, so it is as bounded as the batches are.
        let (events, events_out) = mpsc::channel(BATCHES_MAX);
        let thread = std::thread::Builder::new()
            .name("statehold-disk".to_owned())
            .spawn(move || run(storage, sync, &received, &events))?;
        Ok((
            Self {
                batches: Some(batches),
                thread: Some(thread),
            },
            events_out,
        ))
    }

    /// Hands over a batch. After a fault the thread takes nothing more; [`DiskEvent::Failed`] has said why.
    pub(crate) fn persist(&self, batch: Batch) {
        if let Some(batches) = &self.batches {
            let _ = batches.send(batch);
        }
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

fn run(
    mut storage: Box<dyn Storage>,
    sync: Sync,
    batches: &Receiver<Batch>,
    events: &mpsc::Sender<DiskEvent>,
) {
    let mut waiting = Vec::new();
    while let Ok(first) = batches.recv() {
        waiting.push(first);
        waiting.extend(batches.try_iter());
        let event = match commit(storage.as_mut(), sync, &mut waiting) {
            Ok(event) => event,
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
    if let Err(fault) = storage.sync() {
        tracing::error!(%fault, "the last sync failed");
    }
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
    })
}

#[cfg(test)]
mod tests {
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
