//! Handing the leadership to another voter: before a clean stop, and to spread the leaders of groups over the nodes.
//!
//! The leader takes no proposals until the other has everything, then tells it to campaign at once, and is voted out. If
//! nothing comes of it within an election timeout, it leads on. The other is asked only if that is soon done: it was heard of
//! lately, and lacks few entries.

use raft::ProgressState;
use raft::eraftpb::{Message, MessageType};

use super::{Action, Refusal, Replica, Request};
use crate::NodeId;

/// How many entries a voter may lack that is to lead: those that are on their way to it.
const LACKING_MAX: u64 = 64;

impl Replica {
    /// Whether this leader hands its leadership over, and takes no proposals meanwhile.
    pub fn is_handing_over(&self) -> bool {
        self.raft.raft.lead_transferee.is_some()
    }

    /// Whether this leader could hand over to that node at this moment.
    pub fn may_hand_over(&self, to: NodeId) -> bool {
        let raft = &self.raft.raft;
        let progress = raft.prs().get(to.0);
        let has_most = progress.is_some_and(|progress| {
            progress.state == ProgressState::Replicate
                && progress.matched + LACKING_MAX >= raft.raft_log.last_index()
        });
        let is_voter = self.members.voters.contains(&to) && !self.members.is_joint();
        to != self.config.node && is_voter && has_most && self.is_active(to)
    }

    pub(super) fn transfer(&mut self, to: NodeId, actions: &mut Vec<Action>) {
        let refusal = if !self.takes_requests() {
            Some(Refusal::NotLeader {
                leader: self.leader(),
            })
        } else if self.is_handing_over() || !self.may_hand_over(to) {
            Some(Refusal::NotCaughtUp)
        } else {
            None
        };
        match refusal {
            None => self.raft.transfer_leader(to.0),
            Some(refusal) => actions.push(Action::Refused {
                request: Request::Transfer { to },
                refusal,
            }),
        }
    }

    /// Whether a message tells this replica to campaign at once, and does not come from who leads: it was on its way for too long.
    pub(super) fn is_late_word_to_lead(&self, message: &Message) -> bool {
        let raft = &self.raft.raft;
        message.msg_type() == MessageType::MsgTimeoutNow
            && (message.term != raft.term || message.from != raft.leader_id)
    }
}
