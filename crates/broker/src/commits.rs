//! Commits: batches of writes on their way to the disk.
//!
//! The node collects durable writes while it works through what has arrived, and sends them to the disk as one
//! batch. The session plane waits here until its records are durable, and so does the control group. Batches are
//! confirmed in the order of their tickets, so waiting for the last ticket is waiting for all.

use std::collections::VecDeque;

use cluster::control::CONTROL;
use cluster::{GroupId, Write};
use mqtt::now::Now;

use crate::node::{Action, Node};
use crate::replication::Waiter;

/// Batch of writes on its way to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskTicket(pub u64);

/// Content of a batch.
#[derive(Debug)]
enum Committed {
    /// Records of the node itself, with who waits for them.
    Records(Vec<Waiter>),
    /// Log of a group of the state store.
    Log(GroupId, cluster::replica::Ticket),
}

#[derive(Debug)]
struct Batch {
    ticket: DiskTicket,
    committed: Committed,
    /// Memory that the writes count for.
    bytes: u64,
}

/// Writes that are not durable, and who waits for them.
#[derive(Debug)]
pub(crate) struct Commits {
    writes: Vec<Write>,
    /// Bytes that `writes` count for.
    open_bytes: u64,
    /// Place of the latest write's value: one that the next write shares counts once.
    latest_value: Option<(usize, usize)>,
    /// Bytes that all writes count for.
    bytes: u64,
    waiters: Vec<Waiter>,
    on_the_way: VecDeque<Batch>,
    next: u64,
}

/// Memory of a write without its value, in bytes, with what waits for it.
const WRITE: u64 = 128;

/// Batches of records on their way at most: one is being synced, one waits for the next sync.
const RECORD_BATCHES_MAX: usize = 2;

impl Default for Commits {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            open_bytes: 0,
            latest_value: None,
            bytes: 0,
            waiters: Vec::new(),
            on_the_way: VecDeque::new(),
            next: 1,
        }
    }
}

impl Commits {
    /// Adds a write to the open batch.
    pub(crate) fn write(&mut self, write: Write) {
        let bytes = self.size(&write);
        self.open_bytes += bytes;
        self.bytes += bytes;
        self.writes.push(write);
    }

    /// Lets `waiter` wait for everything written so far, or gives it back if everything is durable.
    pub(crate) fn wait(&mut self, waiter: Waiter) -> Option<Waiter> {
        if !self.writes.is_empty() {
            self.waiters.push(waiter);
            return None;
        }
        let mut latest = self.on_the_way.iter_mut().rev();
        let last = latest.find_map(|batch| match &mut batch.committed {
            Committed::Records(waiters) => Some(waiters),
            Committed::Log(..) => None,
        });
        match last {
            Some(waiters) => {
                waiters.push(waiter);
                None
            }
            None => Some(waiter),
        }
    }

    /// Everything that was written is on the disk.
    pub(crate) fn is_settled(&self) -> bool {
        self.writes.is_empty() && !self.on_the_way.iter().any(Batch::is_records)
    }

    /// The disk can take another batch: what joins the open one now goes with it.
    pub(crate) fn has_room(&self) -> bool {
        self.on_the_way.iter().filter(|batch| batch.is_records()).count() < RECORD_BATCHES_MAX
    }

    /// Closes the open batch, unless it is empty or the disk is busy with earlier ones: what comes meanwhile
    /// joins it, so one sync serves more.
    fn close(&mut self) -> Option<(DiskTicket, Vec<Write>)> {
        if self.writes.is_empty() || !self.has_room() {
            return None;
        }
        let waiters = std::mem::take(&mut self.waiters);
        self.latest_value = None;
        let bytes = std::mem::take(&mut self.open_bytes);
        let ticket = self.issue(Committed::Records(waiters), bytes);
        Some((ticket, std::mem::take(&mut self.writes)))
    }

    /// Issues a ticket for writes of a group's log.
    pub(crate) fn log(&mut self, group: GroupId, ticket: cluster::replica::Ticket) -> DiskTicket {
        self.issue(Committed::Log(group, ticket), 0)
    }

    /// Takes what `ticket` and everything before it has made durable; call until `None`.
    fn durable(&mut self, ticket: DiskTicket) -> Option<Committed> {
        let batch = self.on_the_way.pop_front_if(|batch| batch.ticket <= ticket)?;
        self.bytes -= batch.bytes;
        Some(batch.committed)
    }

    /// Bytes that the writes count for that are not durable.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn issue(&mut self, committed: Committed, bytes: u64) -> DiskTicket {
        let ticket = DiskTicket(self.next);
        self.next += 1;
        self.on_the_way.push_back(Batch {
            ticket,
            committed,
            bytes,
        });
        ticket
    }

    /// Bytes that a write counts for: a value that is in several records is one in memory.
    fn size(&mut self, write: &Write) -> u64 {
        let Write::Put { key, value, .. } = write else {
            return WRITE;
        };
        let place = Some((value.as_ptr().addr(), value.len()));
        let is_shared = std::mem::replace(&mut self.latest_value, place) == place;
        WRITE + (key.len() + if is_shared { 0 } else { value.len() }) as u64
    }
}

impl Batch {
    fn is_records(&self) -> bool {
        matches!(self.committed, Committed::Records(_))
    }
}

impl Node {
    /// Everything up to `ticket` is on the disk.
    pub(crate) fn durable(&mut self, now: Now, ticket: DiskTicket, actions: &mut Vec<Action>) {
        while let Some(committed) = self.commits.durable(ticket) {
            match committed {
                Committed::Records(waiters) => {
                    for waiter in waiters {
                        self.release(now, waiter, actions);
                    }
                }
                Committed::Log(CONTROL, ticket) => {
                    self.with_control(now, actions, |control, _, outputs, actions| {
                        control.persisted(now, ticket, outputs, actions);
                    });
                }
                Committed::Log(group, ticket) => {
                    self.with_group(now, group, actions, |service, outputs| {
                        service.persisted(now, ticket, outputs);
                    });
                }
            }
        }
    }

    /// Hands the open batch to the disk, if it is free.
    pub(crate) fn close_batch(&mut self, actions: &mut Vec<Action>) {
        if let Some((ticket, writes)) = self.commits.close() {
            let needs_disk = false;
            actions.push(Action::Persist {
                ticket,
                writes,
                needs_disk,
            });
        }
    }
}
