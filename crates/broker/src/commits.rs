//! What waits for the disk.
//!
//! The node collects durable writes while it works through what has arrived, and sends them to the disk as one
//! batch. Whatever says "done" to somebody (an acknowledgement, a CONNACK) waits here until its batch is durable.
//! Batches are carried out and confirmed in the order of their tickets, so waiting for the last ticket is waiting
//! for all.

use std::collections::VecDeque;

use cluster::{GroupId, Write};

use crate::routes::WaitId;

/// A batch of writes on its way to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskTicket(pub u64);

/// A moment in the order of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteMark(u64);

/// What a ticket was for.
#[derive(Debug)]
pub(crate) enum Committed<W> {
    /// The node's own records; `W`: who waited, and for which other nodes as well.
    Records(Vec<W>, Option<WaitId>),
    /// The log of a group of the state store.
    Log(GroupId, cluster::replica::Ticket),
}

/// Collects writes and remembers who waits for them.
#[derive(Debug)]
pub(crate) struct Commits<W> {
    writes: Vec<Write>,
    /// What `writes` count for.
    open_bytes: u64,
    /// Where the value of the latest write is: one that the next write shares counts once.
    latest_value: Option<(usize, usize)>,
    /// What all writes count for that are not durable.
    bytes: u64,
    waiters: Vec<W>,
    /// Writes added since the start, and those that were not needed because an earlier one did the same.
    written: u64,
    /// With what the writes of each count for.
    on_the_way: VecDeque<(DiskTicket, Committed<W>, u64)>,
    next: u64,
    /// What is durable here, and waits for other nodes or for what was written before it.
    settling: VecDeque<(Vec<W>, Option<WaitId>)>,
}

/// The memory of a write without its value, in bytes, with what waits for it.
const WRITE: u64 = 128;

/// One batch is being synced, one waits for the next sync.
const RECORD_BATCHES_MAX: usize = 2;

impl<W> Default for Commits<W> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            open_bytes: 0,
            latest_value: None,
            bytes: 0,
            waiters: Vec::new(),
            written: 0,
            on_the_way: VecDeque::new(),
            next: 1,
            settling: VecDeque::new(),
        }
    }
}

impl<W> Commits<W> {
    /// Adds a write to the open batch.
    pub(crate) fn write(&mut self, write: Write) {
        let bytes = self.size(&write);
        self.open_bytes += bytes;
        self.bytes += bytes;
        self.writes.push(write);
        self.written += 1;
    }

    /// What this step says rests on what was written before it, although it adds nothing: what is in memory already
    /// may not be on disk yet. [`Commits::wait_since`] waits then too.
    pub(crate) fn rely_on_earlier(&mut self) {
        self.written += 1;
    }

    /// The present moment, for [`Commits::wait_since`].
    pub(crate) fn mark(&self) -> WriteMark {
        WriteMark(self.written)
    }

    /// Lets `waiter` wait if anything was written or relied on since `mark`, or gives it back: what others wrote does not
    /// concern it.
    pub(crate) fn wait_since(&mut self, mark: WriteMark, waiter: W) -> Option<W> {
        if mark == self.mark() {
            Some(waiter)
        } else {
            self.wait(waiter)
        }
    }

    /// Lets `waiter` wait for everything written so far, or gives it back if everything is durable.
    pub(crate) fn wait(&mut self, waiter: W) -> Option<W> {
        let waiter = self.wait_for_disk(waiter)?;
        match self.settling.back_mut() {
            Some((waiters, _)) => {
                waiters.push(waiter);
                None
            }
            None => Some(waiter),
        }
    }

    /// Lets `waiter` wait until everything written so far is on disk here, or gives it back if it is.
    pub(crate) fn wait_for_disk(&mut self, waiter: W) -> Option<W> {
        if !self.writes.is_empty() {
            self.waiters.push(waiter);
            return None;
        }
        let mut latest = self.on_the_way.iter_mut().rev();
        let last = latest.find_map(|(_, committed, _)| match committed {
            Committed::Records(waiters, _) => Some(waiters),
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

    /// Whether everything is durable that was written, and wherever it has to be.
    pub(crate) fn is_settled(&self) -> bool {
        self.settling.is_empty() && self.is_on_disk()
    }

    /// Whether everything that was written is on disk here.
    pub(crate) fn is_on_disk(&self) -> bool {
        let is_records =
            |(_, committed, _): &(DiskTicket, Committed<W>, u64)| matches!(committed, Committed::Records(..));
        self.writes.is_empty() && !self.on_the_way.iter().any(is_records)
    }

    /// What is in the open batch.
    pub(crate) fn open(&self) -> &[Write] {
        &self.writes
    }

    /// Whether there is anything in the open batch and the disk is not busy with earlier ones: what comes
    /// meanwhile joins it, so one sync serves more, and the number of batches on their way is bounded.
    pub(crate) fn may_close(&self) -> bool {
        if self.writes.is_empty() {
            assert!(self.waiters.is_empty(), "nobody waits for nothing");
            return false;
        }
        self.has_room()
    }

    /// Whether the disk can take another batch: what joins the open one now goes with it.
    pub(crate) fn has_room(&self) -> bool {
        let is_records = |(_, committed, _): &&(DiskTicket, Committed<W>, u64)| {
            matches!(committed, Committed::Records(..))
        };
        self.on_the_way.iter().filter(is_records).count() < RECORD_BATCHES_MAX
    }

    /// Closes the open batch, which may be closed. Who waits for it waits for other nodes as well, if there is something to wait for.
    pub(crate) fn close(&mut self, wait: Option<WaitId>) -> (DiskTicket, Vec<Write>) {
        let waiters = std::mem::take(&mut self.waiters);
        self.latest_value = None;
        let bytes = std::mem::take(&mut self.open_bytes);
        let ticket = self.issue(Committed::Records(waiters, wait), bytes);
        (ticket, std::mem::take(&mut self.writes))
    }

    /// A batch is on disk. Its waiters go on when other nodes have it, too, and those of all batches before it have gone on.
    pub(crate) fn settle(&mut self, waiters: Vec<W>, wait: Option<WaitId>) {
        self.settling.push_back((waiters, wait));
    }

    /// The waiters of the next batch that waits for nothing any more; call until `None`.
    pub(crate) fn settled(&mut self, is_open: impl Fn(WaitId) -> bool) -> Option<Vec<W>> {
        let is_over = |(_, wait): &mut (Vec<W>, Option<WaitId>)| !wait.is_some_and(&is_open);
        let (waiters, _) = self.settling.pop_front_if(is_over)?;
        Some(waiters)
    }

    /// Issues a ticket for writes of a group's log.
    pub(crate) fn log(&mut self, group: GroupId, ticket: cluster::replica::Ticket) -> DiskTicket {
        self.issue(Committed::Log(group, ticket), 0)
    }

    /// Takes note that `ticket` and everything before it are durable; call until `None`.
    pub(crate) fn durable(&mut self, ticket: DiskTicket) -> Option<Committed<W>> {
        let (first, _, _) = self.on_the_way.front()?;
        if *first > ticket {
            return None;
        }
        let (_, committed, bytes) = self.on_the_way.pop_front()?;
        self.bytes -= bytes;
        Some(committed)
    }

    /// What the writes count for that are not durable.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn issue(&mut self, committed: Committed<W>, bytes: u64) -> DiskTicket {
        let ticket = DiskTicket(self.next);
        self.next += 1;
        self.on_the_way.push_back((ticket, committed, bytes));
        ticket
    }

    /// What a write counts for: a message to many sessions is one value in all their records.
    fn size(&mut self, write: &Write) -> u64 {
        let Write::Put { key, value, .. } = write else {
            return WRITE;
        };
        let place = Some((value.as_ptr().addr(), value.len()));
        let is_shared = std::mem::replace(&mut self.latest_value, place) == place;
        WRITE + (key.len() + if is_shared { 0 } else { value.len() }) as u64
    }
}
