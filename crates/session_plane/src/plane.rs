//! Plane: the replication of sessions, routes and retained messages at one run of one node.
//!
//! ```text
//!   node: change, publish                      connections to peers
//!      |            ^ Durable, Queued              |            ^
//!      v            |                              v receive    | Send, next_message
//!   .------------------------------- Plane ---------------------------------.
//!   | Membership   who is present          Streams    events out and in     |
//!   | Holdings     copies, what is known   Transfers  becoming whole        |
//!   '------------------------------------------------------------------------'
//!                     | persist_point               ^ persisted
//!                     v                             |
//!                           disk of the node
//! ```
//!
//! A change gets its dot, goes to the owners of its slots, and is durable when their disks have it.
//! What comes from others is taken into the copies at once, and confirmed once this node's disk has
//! it. [`Plane::tick`] does what is due. The rules are those of `docs/internals/session-plane.md`.
//!
//! *Invariants*: the plane does no I/O and reads no clock. A message of a peer is read in the
//! peer's present stay only. A refused message changes nothing beyond what its sender had made
//! before.

mod action;
mod changing;
mod clock;
mod collecting;
mod config;
mod content;
mod copies;
mod deciding;
mod error;
mod flushing;
mod giving;
mod heartbeats;
mod holdings;
mod holes;
mod image;
mod joining;
mod knowledge;
mod numbers;
mod reading;
mod receiving;
mod retaining;
mod ring_changes;
mod rings;
mod routes;
mod streams;
mod taking;
mod transferring;
mod transfers;
mod transient_numbers;
mod values;

pub use action::{ChangedSession, PlaneAction, PlaneMessage, RemovedEntry, RunEnd, TransientMessage};
pub use config::{Limits, Now, PlaneConfig, Timing};
pub use content::{EventContent, MessageMove, NewBirth, NewChange, NewEntry, SessionChange};
pub use copies::{ClaimedMessage, Copies, CopyRef, Effect, SlotEffect, TakenNumbers};
pub use error::PlaneError;
pub use giving::OwnEntry;
pub use holdings::Matching;
pub use image::PlaneImage;
pub(crate) use numbers::use_entry;
pub use retaining::{RetainedEntry, RetainedTopic, TopicWrite};
pub use streams::PersistPoint;
pub use values::{NumberedValue, PlaneValue};

use std::time::Instant;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use crate::membership::{MembersError, Membership};
use crate::transfer::TransferBytes;
use crate::{Dot, Garbage, NodeState, Retiring, Run, Slot, SlotSet, VersionVector};

use clock::HybridClock;
use holdings::Holdings;
use knowledge::{DurableKnowledge, Knowledge};
use numbers::Numbers;
use rings::Rings;
use streams::Streams;
use transfers::Transfers;
use transient_numbers::TransientNumbers;

/// States that a node may pass through in one call.
const NODE_STATES: usize = 4;

/// Replicated state of one node.
///
/// `V` is the value of entries, `M` the content of messages, `R` finds the sessions that a message
/// matches.
#[derive(Debug)]
pub struct Plane<V, M, R> {
    run: Run,
    /// Slots that the plane has copies of. None: all.
    slots: Option<SlotSet>,
    timing: Timing,
    clock: HybridClock,
    knowledge: DurableKnowledge,
    membership: Membership,
    rings: Rings,
    streams: Streams<EventContent<V, M>>,
    holdings: Holdings<V, M, R>,
    transfers: Transfers<V, M>,
    numbers: Numbers,
    transient_numbers: TransientNumbers,
    garbage: Garbage,
    retiring: Retiring,
    heartbeat_at: Instant,
    offer_at: Instant,
}

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Plane of a run that begins with what is on the disk: JOINING, and alone.
    ///
    /// # Errors
    ///
    /// [`MembersError`] where the configured members are no cluster.
    pub fn new(
        now: Now,
        config: &PlaneConfig,
        image: PlaneImage<V, M>,
        matching: R,
    ) -> Result<Plane<V, M, R>, MembersError> {
        let membership = Membership::new(now.monotonic, &config.membership)?;
        let mut rings = Rings::default();
        let routing = rings.routing(membership.view());
        let run = config.membership.run;
        let (clock, copies) = image.into_parts();
        let holdings = Holdings::new(copies, matching).expect("the disk has what fitted before");
        let known = holdings.known().clone();
        let transient_numbers = TransientNumbers::new(&known);
        let mut plane = Plane {
            run,
            slots: config.slots.clone(),
            timing: config.timing,
            clock: HybridClock::new(clock),
            knowledge: DurableKnowledge::new(Knowledge { known, clock }),
            membership,
            rings,
            streams: Streams::new(run, routing, config.limits.outgoing, config.limits.incoming),
            holdings,
            transfers: Transfers::new(&config.limits, &config.timing),
            numbers: Numbers::default(),
            transient_numbers,
            garbage: Garbage::default(),
            retiring: Retiring::new(run.node),
            heartbeat_at: now.monotonic,
            offer_at: now.monotonic,
        };
        plane.found().expect("the disk has what fitted before");
        Ok(plane)
    }

    /// Does what is due at `now`, after everything that has arrived was handed in.
    pub fn tick(&mut self, now: Now, actions: &mut Vec<PlaneAction<V, M>>) {
        let mut of_membership = Vec::new();
        self.membership.tick(now.monotonic, &mut of_membership);
        self.apply(now, of_membership, actions);
        if now.monotonic >= self.heartbeat_at {
            self.heartbeat_at = now.monotonic + self.timing.heartbeat_every;
            self.send_heartbeats(now, actions);
        }
        self.watch_holes(now, actions);
        self.collect_garbage(actions);
        self.review_copies(now, actions);
        self.settle(now, actions);
        for _ in 0..NODE_STATES {
            if !self.report_progress(now, actions) {
                return;
            }
            self.settle(now, actions);
        }
    }

    /// Time at which [`Plane::tick`] has something to do.
    pub fn deadline(&self) -> Instant {
        let due = self.membership.deadline().into_iter();
        due.chain([self.heartbeat_at, self.offer_at])
            .min()
            .unwrap_or(self.heartbeat_at)
    }

    /// This run.
    pub fn run(&self) -> Run {
        self.run
    }

    /// Last event of this run; the number is 0 before the first.
    pub fn last(&self) -> Dot {
        self.streams.outgoing.last()
    }

    /// State of this node in its cluster.
    pub fn state(&self) -> NodeState {
        self.membership.own().state
    }

    /// Hybrid logical clock of the last event that this node has made or seen.
    pub fn clock(&self) -> Hlc {
        self.clock.latest()
    }

    /// Events that copies of this node have decided upon or taken. What a client is told goes by
    /// these.
    pub fn known(&self) -> &VersionVector {
        self.holdings.known()
    }

    /// Own events that are not durable, or that are being resent; a gauge.
    pub fn kept_events(&self) -> usize {
        self.streams.outgoing.kept().count()
    }

    /// Nodes that are present.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Copy of a slot.
    pub fn copy(&self, slot: Slot) -> Option<CopyRef<'_, V>> {
        self.holdings.copies.get(slot)
    }

    /// Number of owned slots whose copies have not merged with every present holder.
    pub fn unmerged_slots(&self) -> usize {
        self.transfers.asker.unmerged_len()
    }

    /// This node owns the slot, and its copy has merged with every present holder: sessions are
    /// served from it (rule `serve-merged`).
    pub fn is_merged(&self, slot: Slot) -> bool {
        self.transfers.is_merged(slot)
    }

    /// Those of `slots` that the plane has copies of.
    fn within(&self, slots: &SlotSet) -> SlotSet {
        match &self.slots {
            Some(own) => own.intersection(slots),
            None => slots.clone(),
        }
    }

    /// Owners of a slot by the view in force, the primary owner first.
    pub fn owners(&self, slot: Slot) -> impl Iterator<Item = NodeId> + '_ {
        self.streams.outgoing.routing().ring().owners(slot)
    }
}
