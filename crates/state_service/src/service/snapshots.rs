//! How a replica that lags too far behind gets the store of another one, while it goes on with everything else.
//!
//! ```text
//! leader                                     the one that lags
//! (its log begins after the other's end)
//! offer ------------------------------------>  pull, a few chunks at a time
//! chunk, chunk, ... end -------------------->  a store of its own beside the one that serves
//!                                              the replica writes down who takes part, the snapshot is written to disk,
//!                                              the log begins anew: now the new store serves
//! ```
//!
//! The image that is sent stays with its node when the leader changes, and a broken connection only costs what was on it. In memory
//! there are for a while the old store and the new one. Connections of this node that watch keys are told once of each
//! key that is another now; what happened to it in between is not told.
//!
//! The same way a replica gets a state that it does not have, or cannot trust (`divergence.rs`): then the log is whole, and the new store
//! only takes the place of the old one.

mod receiving;
mod sending;

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use cluster::replica::{self, record::LogPoint};
use cluster::{Index, NodeId, Term};
use mqtt::now::Now;
use store::Store;

use self::receiving::{Progress, Received, Receiving};
use self::sending::Sending;
use super::peers::{Chunk, Offer};
use super::{Output, StateStoreService};

/// What is sent, and what comes.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    sending: Sending,
    /// Who is to be offered a snapshot.
    behind: BTreeSet<NodeId>,
    receiving: Option<Receiving>,
    received: Option<Kept>,
    /// The newest snapshot of this replica's own store that is on disk, or on its way there.
    own: Index,
}

/// A snapshot that has come as a whole.
#[derive(Debug)]
struct Kept {
    received: Box<Received>,
    stage: Stage,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The replica looks at it.
    Asking,
    /// It is to be written to disk when the disk is free.
    Waiting,
    Writing,
    /// It is on disk.
    Written,
}

impl StateStoreService {
    /// Whether there is a state that can be looked at.
    pub(super) fn is_stateless(&self) -> bool {
        self.replica.is_stateless()
    }

    /// A follower needs a snapshot. Which one is decided when everything that is under way is applied.
    pub(super) fn is_behind(&mut self, node: NodeId) {
        self.snapshots.behind.insert(node);
    }

    /// Offers those who need it a snapshot of this moment, or the one that others are pulling.
    pub(super) fn offer_snapshots(&mut self, now: Now, outputs: &mut Vec<Output>) {
        for to in std::mem::take(&mut self.snapshots.behind) {
            let (log_start, applied) = (self.replica.log_start().index, self.replica.applied());
            if self.is_stateless() || applied.index == Index::ZERO {
                return;
            }
            if !self.snapshots.sending.has(to, log_start, applied.index) {
                let (members, image) = (self.replica.members().clone(), self.store.image());
                let run = self.config.incarnation;
                self.snapshots
                    .sending
                    .freeze(now.instant, run, applied, members, image);
                self.replica.hold_log(Some(applied.index));
            }
            if let Some(offer) = self.snapshots.sending.offer(now.instant, to, log_start) {
                outputs.push(self.to_peer(to, &offer));
            }
        }
    }

    /// Another node wants a chunk.
    pub(super) fn pulled(
        &mut self,
        now: Now,
        from: NodeId,
        number: u64,
        position: u64,
        outputs: &mut Vec<Output>,
    ) {
        let (sending, chunk_bytes) = (&mut self.snapshots.sending, self.config.snapshot_chunk_bytes);
        if let Some(answer) = sending.pull(now.instant, from, (number, position), chunk_bytes) {
            outputs.push(self.to_peer(from, &answer));
        }
    }

    /// Another node has a snapshot for this one.
    pub(super) fn offered(&mut self, now: Now, from: NodeId, offer: Offer, outputs: &mut Vec<Output>) {
        let LogPoint { index, term } = offer.point;
        let is_needed = if self.is_stateless() {
            // An own snapshot that is newer would be found first at the next start.
            index >= self.snapshots.own
        } else {
            self.replica.lacks(index, term)
        };
        if !is_needed {
            let event = replica::Event::SnapshotOffered { index, term };
            return self.replica_step(now, event, outputs);
        }
        let snapshots = &mut self.snapshots;
        let goes_on = |receiving: &Receiving| !receiving.is_outdone(now.instant, offer.log_start);
        if snapshots.received.is_some() || snapshots.receiving.as_ref().is_some_and(goes_on) {
            return;
        }
        snapshots.receiving = Some(Receiving::new(now.instant, from, offer));
        self.pull(now, outputs);
    }

    pub(super) fn chunk_came(&mut self, now: Now, from: NodeId, chunk: Chunk, outputs: &mut Vec<Output>) {
        let Some(receiving) = &mut self.snapshots.receiving else {
            return;
        };
        let progress = receiving.chunk(now.instant, from, chunk);
        self.progressed(now, progress, outputs);
    }

    pub(super) fn chunks_ended(
        &mut self,
        now: Now,
        from: NodeId,
        (number, chunks, digest): (u64, u64, u64),
        outputs: &mut Vec<Output>,
    ) {
        let receiving = self.snapshots.receiving.take();
        match receiving {
            Some(receiving) if receiving.ends_with(from, number, chunks) => {
                let progress = receiving.end(chunks, digest);
                self.progressed(now, progress, outputs);
            }
            other => self.snapshots.receiving = other,
        }
    }

    /// What is being pulled is not there any more.
    pub(super) fn snapshot_gone(&mut self, from: NodeId, number: u64) {
        let receiving = &mut self.snapshots.receiving;
        receiving.take_if(|receiving| receiving.is_of(from, number));
    }

    fn progressed(&mut self, now: Now, progress: Progress, outputs: &mut Vec<Output>) {
        match progress {
            Progress::Pulling => self.pull(now, outputs),
            Progress::Unreadable => {
                self.snapshots.receiving = None;
                outputs.push(Output::SnapshotUnreadable);
            }
            Progress::Whole(received) => {
                let LogPoint { index, term } = received.point;
                let members = received.members.clone();
                let stage = Stage::Asking;
                self.snapshots.received = Some(Kept { received, stage });
                // Who takes part must not be forgotten, even where votes may be.
                self.persist_needs_disk = true;
                let event = replica::Event::SnapshotReceived { index, term, members };
                self.replica_step(now, event, outputs);
            }
        }
    }

    fn pull(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let Some(receiving) = &mut self.snapshots.receiving else {
            return;
        };
        let (from, pulls) = (receiving.from(), receiving.pulls(now.instant));
        outputs.extend(pulls.iter().map(|pull| self.to_peer(from, pull)));
    }

    /// The replica wants the received snapshot on disk.
    pub(super) fn keep_snapshot(&mut self, outputs: &mut Vec<Output>) {
        if let Some(kept) = &mut self.snapshots.received {
            kept.stage = Stage::Waiting;
        }
        self.write_received(outputs);
    }

    /// Writes the received snapshot, if no other one is being written.
    fn write_received(&mut self, outputs: &mut Vec<Output>) {
        let received = self.snapshots.received.as_mut();
        let Some(kept) = received.filter(|kept| kept.stage == Stage::Waiting && !self.snapshotting) else {
            return;
        };
        self.snapshotting = true;
        kept.stage = Stage::Writing;
        let LogPoint { index, term } = kept.received.point;
        let image = kept.received.store.image();
        outputs.push(Output::Snapshot { index, term, image });
    }

    /// Takes note of a snapshot of this replica's own store.
    pub(super) fn own_snapshot(&mut self, index: Index) {
        self.snapshots.own = self.snapshots.own.max(index);
    }

    /// A snapshot is on disk. False if it is one of this replica's own store.
    pub(super) fn received_written(&mut self, now: Now, point: LogPoint, outputs: &mut Vec<Output>) -> bool {
        let LogPoint { index, term } = point;
        let is_this = |kept: &&mut Kept| kept.stage == Stage::Writing && kept.received.point == point;
        let written = self.snapshots.received.as_mut().filter(is_this);
        let is_received = written.map(|kept| kept.stage = Stage::Written).is_some();
        if is_received {
            self.replica_step(now, replica::Event::SnapshotKept { index, term }, outputs);
            self.take_place(now, outputs);
        }
        self.write_received(outputs);
        is_received
    }

    /// A snapshot could not be written. If it is the received one, it is given up, and comes again.
    pub(super) fn received_failed(&mut self, outputs: &mut Vec<Output>) {
        let received = &mut self.snapshots.received;
        received.take_if(|kept| kept.stage == Stage::Writing);
        self.write_received(outputs);
    }

    /// The replica does not need the received snapshot. Its owner may: for a state that it does not have.
    pub(super) fn unneeded(&mut self, index: Index, outputs: &mut Vec<Output>) {
        let is_stateless = self.is_stateless();
        let received = &mut self.snapshots.received;
        let Some(kept) = received
            .as_mut()
            .filter(|kept| kept.received.point.index == index)
        else {
            return;
        };
        if !is_stateless {
            *received = None;
        } else if kept.stage == Stage::Asking {
            kept.stage = Stage::Waiting;
            self.write_received(outputs);
        }
    }

    /// The log begins anew after the received snapshot: its store is the one that counts.
    pub(super) fn restored(&mut self, now: Now, index: Index, term: Term, outputs: &mut Vec<Output>) {
        self.persist_needs_disk = true;
        let kept = self.snapshots.received.take();
        let received = kept.expect("the replica was given one").received;
        assert!(
            received.point == LogPoint { index, term },
            "the replica was given this one"
        );
        self.replace_store(now, received.store, outputs);
        self.time_of_entry(now, term, self.store.stamp());
        self.applied = index;
    }

    /// Puts the received store in the place of one that is lost or cannot be trusted, as soon as the log has come that far.
    pub(super) fn take_place(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let applied = self.replica.applied().index;
        let is_ready = |kept: &&Kept| kept.stage == Stage::Written && kept.received.point.index <= applied;
        let received = self.snapshots.received.as_ref();
        if !self.is_stateless() || self.is_draining || received.filter(is_ready).is_none() {
            return;
        }
        let Some(kept) = self.snapshots.received.take() else {
            return;
        };
        let Received { point, mut store, .. } = *kept.received;
        let Some(entries) = self.replica.applied_after(point.index) else {
            // The log was cut meanwhile: another snapshot is needed.
            return;
        };
        apply_all(&mut store, entries);
        self.replace_store(now, store, outputs);
    }

    /// From here on another store serves. Who watches is told what is another now; who waits for something that may have been
    /// executed without anybody remembering its outcome is told that nobody knows.
    fn replace_store(&mut self, now: Now, store: Store, outputs: &mut Vec<Output>) {
        let before = std::mem::replace(&mut self.store, store);
        self.replica.set_stateless(false);
        self.expiring = false;
        let (node, run) = (self.config.node, self.config.incarnation);
        let changes = self.store.changes_since(&before, node, run);
        outputs.extend(changes.into_iter().map(Output::Effect));
        let in_doubt = self
            .forwarding
            .take_clients(|action| self.store.may_have_forgotten(&before, action));
        self.leave_in_doubt(now, in_doubt, outputs);
        self.ask_again_at_once(now);
        outputs.push(Output::StoreReplaced);
    }

    pub(super) fn snapshots_timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.snapshots.sending.timeout(now.instant);
        if self.snapshots.sending.point().is_none() {
            self.replica.hold_log(None);
        }
        let receiving = &mut self.snapshots.receiving;
        receiving.take_if(|receiving| !receiving.timeout(now.instant));
        self.pull(now, outputs);
    }

    pub(super) fn snapshots_deadline(&self) -> Option<Instant> {
        let receiving = self.snapshots.receiving.as_ref().map(Receiving::deadline);
        receiving
            .into_iter()
            .chain(self.snapshots.sending.deadline())
            .min()
    }

    /// Whether a snapshot is on its way here.
    pub(super) fn is_receiving(&self) -> bool {
        self.snapshots.receiving.is_some() || self.snapshots.received.is_some()
    }
}

/// Brings a store behind entries of the log that it has not got. Nobody is told of the changes.
pub(super) fn apply_all(store: &mut Store, entries: Vec<(Index, Bytes)>) {
    let mut effects = Vec::new();
    for (_, data) in entries {
        let entry = store::decode_entry(data).expect("what is in the log was checked when it was written");
        store.begin(entry.stamp);
        for command in entry.commands {
            store.apply(command, &mut effects);
        }
        effects.clear();
    }
}
