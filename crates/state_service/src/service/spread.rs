//! Which node leads the group.
//!
//! Leaders are spread over the nodes, so that each has its part of the work: of the voters in their order, the one at the place of
//! the group's number, counted around, leads when it can. A leader that is another one hands over to it, but only after it could have
//! led for [`READY_FOR`]: a node that comes and goes, or lags, is left alone.
//!
//! A node that stops hands over first, to any voter that can: requests then wait for a few round trips, and not for an election. So does
//! one whose store cannot be trusted, and one whose own disk holds up what others have on theirs. Who can lead is in `fitness.rs`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::replica::Event;
use mqtt::now::Now;

use super::{Output, StateStoreService};

/// What this node knows of who should lead instead of it.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// When to look again whether another one should lead.
    look_at: Option<Instant>,
    /// Since when the voter that is to lead could.
    ready_since: Option<Instant>,
    /// An operator wants this node to lead, if it votes.
    wanted: Option<NodeId>,
    /// That was not so a moment ago: there is nothing to wait for.
    is_wanted_now: bool,
    /// Nodes that leave the cluster, and are to lead nothing any more.
    leaving: BTreeSet<NodeId>,
    /// This node is to lead nothing any more.
    is_stopping: bool,
}

/// How long a voter has to be there, and to have what this leader has, before it is made the leader: several times as long as any
/// election, and longer than a node that stops is there without leading.
const READY_FOR: Duration = Duration::from_secs(5);

/// How often a leader looks whether another one should lead.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl StateStoreService {
    /// Somebody leads, or something has happened after which another one should.
    pub(super) fn look_at_once(&mut self, now: Now) {
        self.spread.look_at = self.replica.is_leader().then_some(now.instant);
    }

    pub(super) fn spread_deadline(&self) -> Option<Instant> {
        self.spread.look_at
    }

    pub(super) fn spread_timeout(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.spread.look_at.is_none_or(|at| now.instant < at) {
            return;
        }
        let leads_others = self.replica.is_leader() && !self.replica.is_alone();
        self.spread.look_at = leads_others.then(|| now.instant + LOOK_EVERY);
        if leads_others && !self.replica.is_handing_over() {
            self.spread_leaders(now, outputs);
        } else {
            self.spread.ready_since = None;
        }
    }

    /// Hands over if another voter is to lead.
    fn spread_leaders(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.spread.is_stopping || self.is_stateless() {
            return self.hand_over(now, outputs);
        }
        if self.replica.is_held_up() {
            return self.relieve_disk(now, outputs);
        }
        let ready = self
            .successors()
            .first()
            .copied()
            .filter(|first| self.can_take_over(now, *first) && !self.was_tried(now, *first));
        let Some(to) = ready else {
            self.spread.ready_since = None;
            return;
        };
        let since = *self.spread.ready_since.get_or_insert(now.instant);
        if since + READY_FOR <= now.instant || self.spread.is_wanted_now {
            self.spread.ready_since = None;
            self.spread.is_wanted_now = false;
            self.hand_over_to(now, to, outputs);
        }
    }

    /// An operator wants a node to lead, and nodes leave the cluster.
    pub fn want_leader(&mut self, wanted: Option<NodeId>, leaving: &BTreeSet<NodeId>) {
        if self.spread.leaving != *leaving {
            self.spread.leaving.clone_from(leaving);
        }
        if self.spread.wanted != wanted {
            self.spread.wanted = wanted;
            self.spread.is_wanted_now = true;
        }
    }

    /// Lets another node lead, if it can.
    pub fn transfer(&mut self, now: Now, to: NodeId, outputs: &mut Vec<Output>) {
        if self.is_fit(now, to) {
            self.hand_over_to(now, to, outputs);
        }
    }

    /// The node stops: another one shall lead.
    pub fn stop(&mut self, now: Now, outputs: &mut Vec<Output>) {
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

    /// Another one is to lead, whoever it is: one that was not asked lately, if there is one.
    fn hand_over(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let mut successors = self.successors();
        successors.retain(|to| self.can_take_over(now, *to));
        successors.sort_by_key(|to| self.was_tried(now, *to));
        if let Some(to) = successors.first() {
            self.hand_over_to(now, *to, outputs);
        }
    }

    /// What this node's disk holds up others have on theirs: one of them is to lead.
    fn relieve_disk(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let successors = self.successors().into_iter();
        let mut faster = successors.filter(|to| {
            self.replica.is_outpaced_by(*to) && self.can_take_over(now, *to) && !self.was_tried(now, *to)
        });
        if let Some(to) = faster.next() {
            outputs.push(Output::DiskHeldUp { to });
            self.hand_over_to(now, to, outputs);
        }
    }

    fn hand_over_to(&mut self, now: Now, to: NodeId, outputs: &mut Vec<Output>) {
        self.note_tried(now, to);
        self.replica_step(now, Event::Transfer { to }, outputs);
    }

    /// The voters that stay, the one that is to lead first.
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
        voters.retain(|voter| !self.spread.leaving.contains(voter));
        voters
    }
}
