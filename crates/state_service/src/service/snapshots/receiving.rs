//! The snapshot that a node gets from another: pulled chunk by chunk, a few at a time, and read as it comes.
//!
//! What is lost on the way is asked for again. A snapshot that is nowhere any more, or does not read well, is given up; the
//! leader offers another one as long as this node needs it.

use std::time::{Duration, Instant};

use cluster::replica::Members;
use cluster::replica::record::LogPoint;
use cluster::{Index, NodeId};
use store::{Restoring, Store};

use crate::service::peers::{Chunk, Offer, PeerMessage, digest_after};

/// A snapshot on its way.
#[derive(Debug)]
pub(super) struct Receiving {
    from: NodeId,
    number: u64,
    point: LogPoint,
    members: Members,
    restoring: Restoring,
    digest: u64,
    /// The chunk that is needed next, and the first that was not asked for.
    next: u64,
    asked: u64,
    heard_at: Instant,
    asked_at: Instant,
}

/// A snapshot that is whole, in memory.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) point: LogPoint,
    pub(super) members: Members,
    pub(super) store: Store,
}

/// What came of a message.
#[derive(Debug)]
pub(super) enum Progress {
    /// It goes on.
    Pulling,
    Whole(Box<Received>),
    /// It cannot be read: it was damaged, or written by a newer version of the program.
    Unreadable,
}

/// Chunks that are asked for at the same time.
const PULLED_MAX: u64 = 4;

/// What was not answered by then is lost.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// A node that is silent for so long is not waited for if another one offers a snapshot.
const SILENT_AFTER: Duration = Duration::from_secs(2);

/// And not at all after this: it has given up its image by then.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

impl Receiving {
    /// Begins with what was offered.
    pub(super) fn new(now: Instant, from: NodeId, offer: Offer) -> Self {
        Self {
            from,
            number: offer.number,
            point: offer.point,
            members: offer.members,
            restoring: Restoring::new(),
            digest: 0,
            next: 0,
            asked: 0,
            heard_at: now,
            asked_at: now,
        }
    }

    /// Whom to ask.
    pub(super) fn from(&self) -> NodeId {
        self.from
    }

    /// Whether this offer is better than to go on: what comes is of no use to a log that begins behind it, or does not come.
    pub(super) fn is_outdone(&self, now: Instant, log_start: Index) -> bool {
        self.point.index < log_start || self.heard_at + SILENT_AFTER <= now
    }

    /// What to ask for now.
    pub(super) fn pulls(&mut self, now: Instant) -> Vec<PeerMessage> {
        let asked = self.asked..self.next + PULLED_MAX;
        if !asked.is_empty() {
            self.asked_at = now;
        }
        self.asked = asked.end.max(self.asked);
        let number = self.number;
        asked
            .map(|position| PeerMessage::Pull { number, position })
            .collect()
    }

    /// A chunk came. One that came before, or comes too early, changes nothing.
    pub(super) fn chunk(&mut self, now: Instant, from: NodeId, chunk: Chunk) -> Progress {
        if (from, chunk.number, chunk.position) != (self.from, self.number, self.next) {
            return Progress::Pulling;
        }
        self.heard_at = now;
        self.next += 1;
        self.digest = digest_after(self.digest, &chunk.data);
        match self.restoring.push(chunk.data) {
            Ok(()) => Progress::Pulling,
            Err(_) => Progress::Unreadable,
        }
    }

    /// All chunks were sent.
    pub(super) fn end(self, chunks: u64, digest: u64) -> Progress {
        if self.next != chunks || self.digest != digest {
            return Progress::Unreadable;
        }
        match self.restoring.finish() {
            Ok(store) => Progress::Whole(Box::new(Received {
                point: self.point,
                members: self.members,
                store,
            })),
            Err(_) => Progress::Unreadable,
        }
    }

    /// Whether the end that this node announces is the end of what is being pulled.
    pub(super) fn ends_with(&self, from: NodeId, number: u64, chunks: u64) -> bool {
        (from, number, chunks) == (self.from, self.number, self.next)
    }

    pub(super) fn is_of(&self, from: NodeId, number: u64) -> bool {
        (from, number) == (self.from, self.number)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.asked_at + AGAIN_AFTER
    }

    /// Asks again for what did not come. False if nobody answers any more.
    pub(super) fn timeout(&mut self, now: Instant) -> bool {
        if self.deadline() <= now {
            self.asked = self.next;
        }
        now < self.heard_at + GIVEN_UP_AFTER
    }
}
