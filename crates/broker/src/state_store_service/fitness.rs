//! Who could lead a group, beyond what Raft knows of it.
//!
//! Raft knows who votes, was heard, and has the log. It does not know that a replica has no store that it could lead with, since that comes from
//! another node, nor that its disk is slow. Such a replica says so to the leader, again and again while it is so, and is not asked to lead.
//! One that was asked and did not come to lead is not asked again for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::NodeId;

use super::peers::PeerMessage;
use super::{Output, StateStoreService};
use crate::now::Now;

/// What is known of the others, and what they are told.
#[derive(Debug, Default)]
pub(super) struct Fitness {
    /// When others said last that they cannot lead.
    unfit: BTreeMap<NodeId, Instant>,
    /// When others were asked last to lead, since this replica leads.
    tried: BTreeMap<NodeId, Instant>,
    /// When this replica says again that it cannot lead.
    say_at: Option<Instant>,
}

/// How often a replica that cannot lead says so.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// A replica that has not said it for so long can lead again. Two of these messages may be lost.
const UNFIT_FOR: Duration = Duration::from_secs(3);

/// How long a replica is left alone that was asked to lead. If nothing comes of that, no requests are taken for an election timeout.
const TRIED_FOR: Duration = Duration::from_secs(30);

impl StateStoreService {
    /// Another replica says that it cannot lead.
    pub(super) fn said_unfit(&mut self, now: Now, from: NodeId) {
        if self.replica.members().contains(from) {
            let unfit = &mut self.fitness.unfit;
            unfit.retain(|_, at| now.instant < *at + UNFIT_FOR);
            unfit.insert(from, now.instant);
        }
    }

    /// Whether nothing is known that speaks against a replica.
    pub(super) fn is_fit(&self, now: Now, node: NodeId) -> bool {
        let is_recent = |at: &Instant| now.instant < *at + UNFIT_FOR;
        !self.fitness.unfit.get(&node).is_some_and(is_recent) && !self.is_another(node)
    }

    pub(super) fn can_take_over(&self, now: Now, node: NodeId) -> bool {
        self.replica.may_hand_over(node) && self.is_fit(now, node)
    }

    pub(super) fn note_tried(&mut self, now: Now, node: NodeId) {
        self.fitness.tried.insert(node, now.instant);
    }

    /// Whether a replica was asked to lead a moment ago, and this one leads on.
    pub(super) fn was_tried(&self, now: Now, node: NodeId) -> bool {
        let is_recent = |at: &Instant| now.instant < *at + TRIED_FOR;
        self.fitness.tried.get(&node).is_some_and(is_recent)
    }

    /// There is another leader, or none.
    pub(super) fn fitness_of_new_leader(&mut self) {
        self.fitness.tried.clear();
        self.fitness.say_at = None;
    }

    pub(super) fn fitness_timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let is_due = self.fitness.say_at.is_none_or(|at| at <= now.instant);
        if !self.is_unfit() {
            self.fitness.say_at = None;
        } else if is_due {
            self.fitness.say_at = Some(now.instant + SAY_EVERY);
            let leader = self.forwarding.leader.filter(|_| !self.replica.is_leader());
            outputs.extend(leader.map(|leader| self.to_peer(leader, &PeerMessage::Unfit)));
        }
    }

    pub(super) fn fitness_deadline(&self, now: Now) -> Option<Instant> {
        self.is_unfit()
            .then(|| self.fitness.say_at.unwrap_or(now.instant))
    }

    fn is_unfit(&self) -> bool {
        !self.replica.is_alone() && (self.is_stateless() || self.replica.is_slow())
    }
}
