//! Who leads the control group.
//!
//! Whoever was elected, or an operator wants to, if its disk is not slow: a leader that waits for its own disk, for what others have on theirs,
//! hands over to one of them. Leaders of the other groups do the same (`state_service/src/service/spread.rs`).

use cluster::NodeId;
use cluster::replica;
use mqtt::now::Now;
use state_service::Output;

use super::messages::ControlMessage;
use super::{ControlGroup, to_peer};
use crate::node::Action;

impl ControlGroup {
    /// Another node says that it had better not lead.
    pub(super) fn said_unfit(&mut self, now: Now, from: NodeId) {
        if self.replica.members().contains(from) {
            self.fitness.said_unfit(now.instant, from);
        }
    }

    /// Whether another node can lead now, as far as is known here.
    pub(crate) fn can_take_over(&self, now: Now, node: NodeId) -> bool {
        self.replica.may_hand_over(node) && self.fitness.is_fit(now.instant, node)
    }

    /// Lets another node lead the group, if it can.
    pub(crate) fn transfer(
        &mut self,
        now: Now,
        to: NodeId,
        outputs: &mut Vec<Output>,
        actions: &mut Vec<Action>,
    ) {
        if self.can_take_over(now, to) {
            self.fitness.note_tried(now.instant, to);
            self.step(replica::Event::Transfer { to }, now, outputs, actions);
        }
    }

    /// The node stops: another one shall lead.
    pub(crate) fn stop(&mut self, now: Now, outputs: &mut Vec<Output>, actions: &mut Vec<Action>) {
        let mut voters = self.replica.members().voters.iter().copied();
        if let Some(to) = voters.find(|to| self.can_take_over(now, *to)) {
            self.transfer(now, to, outputs, actions);
        }
    }

    /// Says that this node had better not lead, or lets another one lead, if its disk is slow.
    pub(super) fn look_at_disk(&mut self, now: Now, outputs: &mut Vec<Output>, actions: &mut Vec<Action>) {
        if self.replica.is_alone() {
            return;
        }
        if self.fitness.timeout(now.instant, self.replica.is_slow()) {
            let leader = self.replica.leader().filter(|leader| *leader != self.node);
            outputs.extend(leader.map(|leader| to_peer(leader, &ControlMessage::Unfit)));
        }
        if self.replica.is_leader() && self.replica.is_held_up() && !self.replica.is_handing_over() {
            self.relieve_disk(now, outputs, actions);
        }
    }

    /// What this node's disk holds up others have on theirs: one of them is to lead.
    fn relieve_disk(&mut self, now: Now, outputs: &mut Vec<Output>, actions: &mut Vec<Action>) {
        let mut voters = self.replica.members().voters.iter().copied();
        let faster = voters.find(|to| {
            self.replica.is_outpaced_by(*to)
                && self.can_take_over(now, *to)
                && !self.fitness.was_tried(now.instant, *to)
        });
        if let Some(to) = faster {
            outputs.push(Output::DiskHeldUp { to });
            self.transfer(now, to, outputs, actions);
        }
    }
}
