//! Replicas of a group have equal stores behind equal entries. Here they find out if they have not.
//!
//! The leader says from time to time what its store's digest is behind an entry. A follower compares when it is there itself. One
//! that differs says so to the operator, serves nothing from then on, and gets a snapshot (`snapshots.rs`); what it has on
//! disk stays until the new one is there. It still votes and keeps the log, which is whole. A replica that has no state at its start,
//! because its snapshot cannot be read, does the same.
//!
//! Who is right is not decided by a majority: the leader's store is the one that clients have read.

use std::time::{Duration, Instant};

use cluster::{Index, NodeId};

use super::peers::PeerMessage;
use super::{Output, StateStoreService};
use crate::now::Now;

/// What is known of the others.
#[derive(Debug, Default)]
pub(super) struct Divergence {
    /// When this leader says again how its store is.
    announce_at: Option<Instant>,
    announced: Index,
    /// What the leader said of a place that this replica has not reached.
    expected: Option<(Index, u64)>,
    /// When to ask for a snapshot again.
    ask_at: Option<Instant>,
}

/// How often a replica that needs a snapshot says so.
const ASK_EVERY: Duration = Duration::from_secs(1);

impl StateStoreService {
    /// Something was applied: the others are to compare.
    pub(super) fn announce_soon(&mut self, now: Now) {
        let at = now.instant + self.config.digest_interval;
        self.divergence.announce_at.get_or_insert(at);
    }

    /// The leader says how its store is behind an entry.
    pub(super) fn announced(
        &mut self,
        now: Now,
        from: NodeId,
        index: Index,
        digest: u64,
        outputs: &mut Vec<Output>,
    ) {
        if self.forwarding.leader == Some(from) && !self.replica.is_leader() {
            self.divergence.expected = Some((index, digest));
            self.compare(now, None, outputs);
        }
    }

    /// Compares, if the store is where the leader's was. `next` is the entry that is about to be applied; none: all are.
    pub(super) fn compare(&mut self, now: Now, next: Option<Index>, outputs: &mut Vec<Output>) {
        let Some((index, digest)) = self.divergence.expected else {
            return;
        };
        let is_there = match next {
            Some(next) => index < next,
            None => index <= self.replica.applied().index,
        };
        if !is_there {
            return;
        }
        self.divergence.expected = None;
        let is_beyond = self.applied.is_some_and(|(applied, _)| index < applied);
        if is_beyond || self.is_stateless() || self.store.digest() == digest {
            return;
        }
        outputs.push(Output::Differs { index });
        self.replica.set_stateless(true);
        self.refuse_clients(now, outputs);
        self.divergence.ask_at = Some(now.instant);
    }

    /// Another replica has no state that it can trust.
    pub(super) fn wanted_by(&mut self, now: Now, from: NodeId, outputs: &mut Vec<Output>) {
        if self.replica.is_leader() {
            self.is_behind(from);
            self.offer_snapshots(now, outputs);
        }
    }

    pub(super) fn divergence_timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now.instant);
        if is_due(self.divergence.announce_at) {
            self.divergence.announce_at = None;
            self.announce(outputs);
        }
        if !self.is_stateless() {
            self.divergence.ask_at = None;
        } else if self.divergence.ask_at.is_none() || is_due(self.divergence.ask_at) {
            self.divergence.ask_at = Some(now.instant + ASK_EVERY);
            let leader = self.forwarding.leader.filter(|_| !self.is_receiving());
            outputs.extend(leader.map(|leader| self.to_peer(leader, &PeerMessage::Wanted)));
        }
    }

    pub(super) fn divergence_deadline(&self, now: Now) -> Option<Instant> {
        let ask_at = self
            .is_stateless()
            .then(|| self.divergence.ask_at.unwrap_or(now.instant));
        ask_at.into_iter().chain(self.divergence.announce_at).min()
    }

    fn announce(&mut self, outputs: &mut Vec<Output>) {
        let index = self.replica.applied().index;
        if !self.replica.is_leader() || self.divergence.announced == index {
            return;
        }
        self.divergence.announced = index;
        let state = PeerMessage::State {
            index,
            digest: self.store.digest(),
        };
        let peers = self.replica.peers();
        outputs.extend(peers.map(|peer| self.to_peer(peer, &state)));
    }
}
