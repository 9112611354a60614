//! Who could lead a group of the state store: its part of `cluster::fitness`.

use std::time::Instant;

use cluster::NodeId;
use mqtt::now::Now;

use super::peers::PeerMessage;
use super::{Output, StateStoreService};

impl StateStoreService {
    /// Another replica says that it cannot lead.
    pub(super) fn said_unfit(&mut self, now: Now, from: NodeId) {
        if self.replica.members().contains(from) {
            self.fitness.said_unfit(now.instant, from);
        }
    }

    /// Whether nothing is known that speaks against a replica.
    pub(super) fn is_fit(&self, now: Now, node: NodeId) -> bool {
        self.fitness.is_fit(now.instant, node) && !self.is_another(node)
    }

    pub(super) fn can_take_over(&self, now: Now, node: NodeId) -> bool {
        self.replica.may_hand_over(node) && self.is_fit(now, node)
    }

    pub(super) fn note_tried(&mut self, now: Now, node: NodeId) {
        self.fitness.note_tried(now.instant, node);
    }

    pub(super) fn was_tried(&self, now: Now, node: NodeId) -> bool {
        self.fitness.was_tried(now.instant, node)
    }

    /// There is another leader, or none.
    pub(super) fn fitness_of_new_leader(&mut self) {
        self.fitness.has_new_leader();
    }

    pub(super) fn fitness_timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.fitness.timeout(now.instant, self.is_unfit()) {
            let leader = self.forwarding.leader.filter(|_| !self.replica.is_leader());
            outputs.extend(leader.map(|leader| self.to_peer(leader, &PeerMessage::Unfit)));
        }
    }

    pub(super) fn fitness_deadline(&self, now: Now) -> Option<Instant> {
        self.is_unfit().then(|| self.fitness.say_at(now.instant))
    }

    fn is_unfit(&self) -> bool {
        !self.replica.is_alone() && (self.is_stateless() || self.replica.is_slow())
    }
}
