//! Which node leads the group.
//!
//! Leaders are spread over the nodes, so that each has its part of the work: of the voters in their order, the one at the place of
//! the group's number, counted around, leads when it can. A leader that is another one hands over to it, but only after it could have
//! led for [`READY_FOR`]: a node that comes and goes, or lags, is left alone.
//!
//! A node that stops hands over first, to any voter that can: requests then wait for a few round trips, and not for an election.

use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::replica::Event;

use super::{Output, StateStoreService};
use crate::now::Now;

/// What this node knows of who should lead instead of it.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// Since when the voter that is to lead could.
    ready_since: Option<Instant>,
    /// An operator wants this node to lead, if it votes.
    wanted: Option<NodeId>,
    /// That was not so a moment ago: there is nothing to wait for.
    is_wanted_now: bool,
    /// This node is to lead nothing any more.
    is_stopping: bool,
}

/// How long a voter has to be there, and to have what this leader has, before it is made the leader: several times as long as any
/// election, and longer than a node that stops is there without leading.
const READY_FOR: Duration = Duration::from_secs(5);

impl StateStoreService {
    /// Hands over if another voter is to lead. Called again and again while this replica leads.
    pub(super) fn spread_leaders(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if !self.replica.is_leader() || self.replica.is_alone() || self.replica.is_handing_over() {
            self.spread.ready_since = None;
            return;
        }
        if self.spread.is_stopping {
            return self.hand_over(now, outputs);
        }
        let ready = self
            .successors()
            .first()
            .copied()
            .filter(|first| self.replica.may_hand_over(*first));
        let Some(to) = ready else {
            self.spread.ready_since = None;
            return;
        };
        let since = *self.spread.ready_since.get_or_insert(now.instant);
        if since + READY_FOR <= now.instant || self.spread.is_wanted_now {
            self.spread.ready_since = None;
            self.spread.is_wanted_now = false;
            self.replica_step(now, Event::Transfer { to }, outputs);
        }
    }

    /// An operator wants a node to lead.
    pub(crate) fn want_leader(&mut self, wanted: Option<NodeId>) {
        if self.spread.wanted != wanted {
            self.spread.wanted = wanted;
            self.spread.is_wanted_now = true;
        }
    }

    /// Lets another node lead, if it can.
    pub(crate) fn transfer(&mut self, now: Now, to: NodeId, outputs: &mut Vec<Output>) {
        self.replica_step(now, Event::Transfer { to }, outputs);
    }

    /// The node stops: another one shall lead.
    pub(crate) fn stop(&mut self, now: Now, outputs: &mut Vec<Output>) {
        self.spread.is_stopping = true;
        if self.replica.is_leader() && !self.replica.is_alone() {
            self.hand_over(now, outputs);
        }
    }

    /// Whether nothing here is waited for any more: another node leads, and everything that this one took is decided.
    pub(crate) fn has_stopped(&self) -> bool {
        let is_led_elsewhere = self.forwarding.leader.is_some() && !self.replica.is_leader();
        self.replica.is_alone() || is_led_elsewhere && self.pending_len() == 0
    }

    fn hand_over(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let successors = self.successors();
        let to = successors.iter().find(|to| self.replica.may_hand_over(**to));
        if let Some(to) = to.copied() {
            self.replica_step(now, Event::Transfer { to }, outputs);
        }
    }

    /// The voters, the one that is to lead first.
    fn successors(&self) -> Vec<NodeId> {
        let mut voters: Vec<NodeId> = self.replica.members().voters.iter().copied().collect();
        if !voters.is_empty() {
            let place = self.replica.group().0 as usize % voters.len();
            voters.rotate_left(place);
        }
        let wanted = voters.iter().position(|voter| Some(*voter) == self.spread.wanted);
        if let Some(place) = wanted {
            voters[..=place].rotate_right(1);
        }
        voters
    }
}
