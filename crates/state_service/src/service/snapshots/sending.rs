//! The snapshot that a node gives to others: a frozen image of its store, encoded piece by piece as it is pulled.
//!
//! One image is kept for all who pull, as long as anybody does. Each of them has a place of its own in it and the last chunks before
//! that, in case they are lost on their way. Who asks for anything else has to begin again.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::replica::Members;
use cluster::replica::record::LogPoint;
use cluster::{Index, NodeId};
use store::{Chunks, Image};

use crate::service::peers::{Chunk, Offer, PeerMessage, digest_after};

/// What others can pull.
#[derive(Debug, Default)]
pub(super) struct Sending {
    frozen: Option<Frozen>,
    last_number: u64,
}

#[derive(Debug)]
struct Frozen {
    number: u64,
    point: LogPoint,
    members: Members,
    image: Image,
    offered: BTreeMap<NodeId, Instant>,
    pulls: BTreeMap<NodeId, Pull>,
    used_at: Instant,
}

/// How far one node is.
#[derive(Debug)]
struct Pull {
    chunks: Chunks,
    /// The last chunks, and the position of the first of them.
    recent: VecDeque<Bytes>,
    first: u64,
    digest: u64,
}

/// The image is given up when nobody has pulled for so long.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The same node is not offered a snapshot more often.
const OFFERED_EVERY: Duration = Duration::from_millis(100);

/// As many chunks may be lost together; more than anybody asks for at once.
const RECENT_MAX: usize = 8;

/// Nodes that pull at the same time; the next one has to wait until one has ended.
const PULLS_MAX: usize = 8;

impl Sending {
    /// Whether there is an image that a log which begins after `log_start` can follow, of a moment at which the node took part. One
    /// that nobody pulls is only kept if it is of this moment.
    pub(super) fn has(&self, to: NodeId, log_start: Index, applied: Index) -> bool {
        let is_good = |frozen: &Frozen| {
            let is_used = !frozen.pulls.is_empty();
            let is_for = frozen.members.contains(to) && frozen.point.index >= log_start;
            is_for && (is_used || frozen.point.index == applied)
        };
        self.frozen.as_ref().is_some_and(is_good)
    }

    /// Takes an image in the place of the one before. `run` tells those of different runs of the node apart.
    pub(super) fn freeze(&mut self, now: Instant, run: u32, point: LogPoint, members: Members, image: Image) {
        self.last_number = (self.last_number + 1) & u64::from(u32::MAX);
        let offered = self.frozen.take().map(|before| before.offered);
        self.frozen = Some(Frozen {
            number: u64::from(run) << 32 | self.last_number,
            point,
            members,
            image,
            offered: offered.unwrap_or_default(),
            pulls: BTreeMap::new(),
            used_at: now,
        });
    }

    /// What to offer to a node, unless it was just offered something.
    pub(super) fn offer(&mut self, now: Instant, to: NodeId, log_start: Index) -> Option<PeerMessage> {
        let frozen = self.frozen.as_mut()?;
        let is_recent = |at: &Instant| now < *at + OFFERED_EVERY;
        if frozen.offered.get(&to).is_some_and(is_recent) {
            return None;
        }
        frozen.offered.insert(to, now);
        Some(PeerMessage::Offer(Offer {
            number: frozen.number,
            point: frozen.point,
            log_start,
            members: frozen.members.clone(),
        }))
    }

    /// A node asks for a chunk.
    pub(super) fn pull(
        &mut self,
        now: Instant,
        from: NodeId,
        (number, position): (u64, u64),
        chunk_bytes: usize,
    ) -> Option<PeerMessage> {
        let gone = Some(PeerMessage::Gone { number });
        let Some(frozen) = self.frozen.as_mut().filter(|frozen| frozen.number == number) else {
            return gone;
        };
        frozen.used_at = now;
        let is_lost = frozen.pulls.get(&from).is_none_or(|pull| position < pull.first);
        if is_lost {
            if position > 0 || frozen.pulls.len() >= PULLS_MAX {
                return gone;
            }
            let chunks = frozen.image.clone().into_chunks_of(chunk_bytes);
            frozen.pulls.insert(from, Pull::new(chunks));
        }
        frozen.pulls.get_mut(&from)?.answer(number, position)
    }

    /// Where the image stands that somebody may pull.
    pub(super) fn point(&self) -> Option<LogPoint> {
        self.frozen.as_ref().map(|frozen| frozen.point)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.frozen.as_ref().map(|frozen| frozen.used_at + IDLE_MAX)
    }

    /// Gives up an image that nobody pulls.
    pub(super) fn timeout(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.frozen = None;
        }
    }
}

impl Pull {
    fn new(chunks: Chunks) -> Self {
        Self {
            chunks,
            recent: VecDeque::new(),
            first: 0,
            digest: 0,
        }
    }

    /// The chunk at this position, or the end. Nothing, if chunks before it were not asked for yet.
    fn answer(&mut self, number: u64, position: u64) -> Option<PeerMessage> {
        let offset = usize::try_from(position - self.first).ok()?;
        if offset > self.recent.len() {
            return None;
        }
        if offset == self.recent.len() {
            let Some(chunk) = self.chunks.next() else {
                return Some(PeerMessage::End {
                    number,
                    chunks: position,
                    digest: self.digest,
                });
            };
            self.digest = digest_after(self.digest, &chunk);
            self.recent.push_back(chunk);
        }
        let data = self.recent[offset].clone();
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
            self.first += 1;
        }
        Some(PeerMessage::Chunk(Chunk {
            number,
            position,
            data,
        }))
    }
}
