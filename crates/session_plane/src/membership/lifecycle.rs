//! State of this node: what brings it from JOINING or MERGE_MINORITY to RUNNING.

use std::time::Instant;

use super::{Action, Membership};
use crate::NodeState;

/// Progress of the transfers that the last ring marker asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferProgress {
    /// The owners of each slot that this node holds have merged its copy.
    pub has_given: bool,
    /// Each copy that this node owns has merged with all present holders.
    pub has_received: bool,
    /// Each node that is in the ring of a present peer is present here.
    pub has_met_all: bool,
}

impl Membership {
    /// Records how far transfers are. Void while a ring marker is due: it may change owners. The
    /// node reports anew behind the marker.
    ///
    /// | state | becomes | when |
    /// |---|---|---|
    /// | JOINING | RUNNING | a peer runs, and all that peers have are met or `found_after` is over; all is given and received |
    /// | JOINING | RUNNING | no peer has run for `found_after`, or all members are JOINING; all is received |
    /// | MERGE_MINORITY | MERGING | all is given, or no peer is left |
    /// | MERGING | RUNNING | all is received |
    pub fn record_progress(&mut self, now: Instant, progress: TransferProgress, actions: &mut Vec<Action>) {
        if !self.is_changed() {
            self.progress = progress;
            self.change_state(now, actions);
        }
    }

    /// Time at which a JOINING node becomes RUNNING without a RUNNING one.
    pub(super) fn founding_at(&self) -> Option<Instant> {
        let is_ready = match self.someone_runs() {
            true => self.progress.has_given && !self.progress.has_met_all,
            false => true,
        };
        let waits = self.own.state == NodeState::Joining && self.progress.has_received && !self.is_changed();
        (waits && is_ready).then(|| match self.do_all_join() {
            true => self.joining_since,
            false => self.joining_since + self.found_after,
        })
    }

    /// All members are present and JOINING: there is no RUNNING node to wait for.
    fn do_all_join(&self) -> bool {
        let mut peers = self.peers_with_ids();
        self.is_complete() && peers.all(|(_, peer)| peer.present.state == NodeState::Joining)
    }

    pub(super) fn change_state(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.is_changed() {
            return;
        }
        let TransferProgress {
            has_given,
            has_received,
            has_met_all,
        } = self.progress;
        let has_waited = self.do_all_join() || now >= self.joining_since + self.found_after;
        let is_alone = self.peers().next().is_none();
        let has_joined = match self.someone_runs() {
            true => has_given && (has_met_all || has_waited),
            false => has_waited,
        };
        let next = match self.own.state {
            NodeState::Joining if has_received && has_joined => NodeState::Running,
            NodeState::MergeMinority if has_given || is_alone => NodeState::Merging,
            NodeState::Merging if has_received => NodeState::Running,
            state => state,
        };
        self.enter(next, actions);
    }

    /// Enters `state`, unless the node is in it.
    pub(super) fn enter(&mut self, state: NodeState, actions: &mut Vec<Action>) {
        if self.own.state != state {
            self.own.state = state;
            actions.push(Action::StateChanged { state });
        }
    }

    /// Clients may be served: this node does not start, or has met one that runs, and all whom that has
    /// (rule `serve-merged`).
    ///
    /// A node that starts meets the others in a moment. Served before, its clients would be on another
    /// side of a split than those of the others.
    pub fn may_serve(&self) -> bool {
        self.own.state != NodeState::Joining || self.someone_runs() && self.progress.has_met_all
    }

    fn someone_runs(&self) -> bool {
        let mut peers = self.peers_with_ids();
        peers.any(|(_, peer)| peer.present.state == NodeState::Running)
    }
}
