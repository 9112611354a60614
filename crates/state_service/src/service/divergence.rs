//! Replicas of a group have equal stores behind equal entries. Here they find out if they have not.
//!
//! The leader says from time to time what its store's digest is behind an entry. Everybody else says the same to all as soon as it is there
//! itself. What a majority of the voters has is right (`divergence/votes.rs`), and each replica sees for itself whether it has that.
//!
//! One that differs says so to the operator, serves nothing from then on, lets another one lead if it leads, and gets a snapshot
//! (`snapshots.rs`); what it has on disk stays until the new one is there. It still votes and keeps the log, which is whole. A replica that
//! has no state at its start, because its snapshot cannot be read, does the same.
//!
//! Without a majority nobody knows who is right: the leader says that there is a difference, and all go on.

mod votes;

use std::time::{Duration, Instant};

use cluster::{Index, NodeId};
use mqtt::now::Now;

use self::votes::Votes;
use super::peers::PeerMessage;
use super::{Output, StateStoreService};

/// What is known of the others.
#[derive(Debug, Default)]
pub(super) struct Divergence {
    /// When this leader says again how its store is.
    announce_at: Option<Instant>,
    votes: Votes,
    /// The leader has named this entry, and this replica has not said how its store is behind it.
    expected: Option<Index>,
    /// When this leader said last that copies differ and no majority agrees.
    undecided_at: Option<Instant>,
    /// When to ask for a snapshot again.
    ask_at: Option<Instant>,
}

/// How often a replica that needs a snapshot says so.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How often an operator is told that copies differ of which none is known to be right.
const UNDECIDED_EVERY: Duration = Duration::from_secs(60);

impl StateStoreService {
    /// Something was applied: the others are to compare.
    pub(super) fn announce_soon(&mut self, now: Now) {
        let at = now.instant + self.config.digest_interval;
        self.divergence.announce_at.get_or_insert(at);
    }

    /// Another replica says how its store is behind an entry.
    pub(super) fn announced(
        &mut self,
        now: Now,
        from: NodeId,
        index: Index,
        digest: u64,
        outputs: &mut Vec<Output>,
    ) {
        let members = self.replica.members();
        if !members.contains(from) {
            return;
        }
        let is_of_leader = self.forwarding.leader == Some(from) && !self.replica.is_leader();
        let divergence = &mut self.divergence;
        divergence.votes.note(from, index, digest);
        if is_of_leader && divergence.votes.begin(index, members) {
            // Also if it has named it before: somebody has not heard of it, or of what was said then.
            divergence.expected = Some(index);
            self.compare(now, None, outputs);
        }
        self.decide(now, outputs);
    }

    /// Says how the store is, if it is where the leader's was. `next` is the entry that is about to be applied; none: all are.
    pub(super) fn compare(&mut self, now: Now, next: Option<Index>, outputs: &mut Vec<Output>) {
        let Some(index) = self.divergence.expected else {
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
        if self.is_stateless() {
            return;
        }
        let is_beyond = index < self.applied;
        let said = self.divergence.votes.digest_of(NodeId(self.config.node));
        let digest = said.or_else(|| (!is_beyond).then(|| self.store.digest()));
        if let Some(digest) = digest {
            self.say_digest(index, digest, outputs);
            self.decide(now, outputs);
        }
    }

    /// Looks whether this replica has what the majority has.
    fn decide(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let votes = &self.divergence.votes;
        let own = votes.digest_of(NodeId(self.config.node));
        let right = votes.majority(self.replica.members());
        if self.is_stateless() || own.is_none() || right.is_none() || own == right {
            return;
        }
        let index = votes.place();
        outputs.extend([Output::Differs { index }, Output::Fetches]);
        self.divergence.votes.forget(NodeId(self.config.node));
        self.replica.set_stateless(true);
        self.refuse_clients(now, outputs);
        self.divergence.ask_at = Some(now.instant);
        self.look_at_once(now);
    }

    /// Whether a replica has another store than the majority, as far as it has said.
    pub(super) fn is_another(&self, node: NodeId) -> bool {
        let votes = &self.divergence.votes;
        let right = votes.majority(self.replica.members());
        let its = votes.digest_of(node);
        right.is_some() && its.is_some() && its != right
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
            self.announce(now, outputs);
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

    fn announce(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if !self.replica.is_leader() || self.is_stateless() {
            return;
        }
        self.report_if_undecided(now, outputs);
        let index = self.replica.applied().index;
        let (votes, members) = (&mut self.divergence.votes, self.replica.members());
        if votes.place() == index && votes.is_unanimous(members) {
            return;
        }
        votes.begin(index, members);
        self.say_digest(index, self.store.digest(), outputs);
        // Who was not there, or was not heard, is asked again.
        self.announce_soon(now);
    }

    fn report_if_undecided(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let divergence = &mut self.divergence;
        let (votes, members) = (&divergence.votes, self.replica.members());
        let is_decided = votes.majority(members).is_some();
        if is_decided {
            divergence.undecided_at = None;
        }
        let is_recent = |at: Instant| now.instant < at + UNDECIDED_EVERY;
        if is_decided || !votes.is_split() || divergence.undecided_at.is_some_and(is_recent) {
            return;
        }
        divergence.undecided_at = Some(now.instant);
        let index = votes.place();
        outputs.push(Output::Undecided { index });
    }

    fn say_digest(&mut self, index: Index, digest: u64, outputs: &mut Vec<Output>) {
        let own = NodeId(self.config.node);
        self.divergence.votes.note(own, index, digest);
        let state = PeerMessage::State { index, digest };
        let peers = self.replica.peers();
        outputs.extend(peers.map(|peer| self.to_peer(peer, &state)));
    }
}
