//! Conditions of this node, and whether one of them keeps clients away.

use broker::GroupAvailability;
use cluster::GroupId;
use cluster::control::CONTROL;

use super::Driver;
use crate::admin::Health;
use crate::condition::Condition;
use crate::peers::conditions::Leaders;

impl Driver {
    /// Health for `/healthz` and `/readyz`: nothing while clients are served, else all conditions.
    pub(crate) fn health(&self) -> Health {
        let groups = self.node.borrow().availability();
        let mut stores = groups.iter().filter(|group| group.group != CONTROL);
        let is_ready = !self.observed.borrow().is_stopping
            && self.rolled_back_cause().is_none()
            && !self.node.borrow().is_leaving()
            && stores.all(|group| self.serves(group));
        let conditions = if is_ready { Vec::new() } else { self.conditions() };
        Health {
            not_ready: conditions.iter().map(Condition::line).collect(),
        }
    }

    /// Conditions of this node and of its links: what explains the most comes first.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        if let Some(cause) = self.rolled_back_cause() {
            return vec![Condition::RolledBack(cause)];
        }
        let groups = self.node.borrow().availability();
        let is_stopping = self.observed.borrow().is_stopping;
        let mut conditions: Vec<_> = is_stopping.then_some(Condition::Stopping).into_iter().collect();
        let is_leaving = self.node.borrow().is_leaving();
        conditions.extend(is_leaving.then_some(Condition::Leaving));
        if let Some(peers) = &self.peers {
            let mut leaders = leaders(&groups);
            // Requests to those that another node reaches do not fail.
            leaders.retain(|leader, _| self.node.borrow().relay_to(*leader).is_none());
            conditions.extend(peers.conditions(&leaders));
        }
        let leaderless = groups.iter().filter(|group| group.leader.is_none());
        conditions.extend(self.no_leader(leaderless));
        let broken = those(&groups, |group| !group.is_whole);
        conditions.extend(broken.and_then(|groups| self.fetching_here(groups)));
        conditions.extend(self.fetching_elsewhere());
        conditions
    }

    /// Condition of groups of which this node has no whole copy. A node without others does not start without one.
    pub(super) fn fetching_here(&self, groups: Vec<GroupId>) -> Option<Condition> {
        let node = self.peers.as_ref()?.own();
        Some(Condition::FetchingCopy { node, groups })
    }

    /// Conditions of other nodes that have no whole copy of a group, as these nodes report them.
    fn fetching_elsewhere(&self) -> Vec<Condition> {
        let Some(peers) = &self.peers else {
            return Vec::new();
        };
        let reported = self.node.borrow().fetching_elsewhere(self.now());
        let conditions = reported.into_iter().filter_map(|(node, groups)| {
            let node = peers.member(node)?;
            let groups = groups.into_iter().collect();
            Some(Condition::FetchingCopy { node, groups })
        });
        conditions.collect()
    }

    pub(super) fn log_condition(&self, condition: &Condition) {
        tracing::warn!("{}", condition.line());
    }

    /// Condition of one group that has lost its leader.
    pub(super) fn leader_lost(&self, lost: GroupId) -> Option<Condition> {
        let groups = self.node.borrow().availability();
        self.no_leader(groups.iter().filter(|group| group.group == lost))
    }

    fn no_leader<'a>(&self, groups: impl Iterator<Item = &'a GroupAvailability>) -> Option<Condition> {
        let groups: Vec<_> = groups.collect();
        let mut voters: Vec<_> = groups
            .iter()
            .flat_map(|group| group.voters.iter().copied())
            .collect();
        voters.sort_unstable();
        voters.dedup();
        let peers = self.peers.iter();
        let unreached = peers.flat_map(|peers| {
            let unreached = voters.iter().filter(|node| !peers.reaches(**node));
            unreached.filter_map(|node| peers.member(*node))
        });
        let unreached = unreached.collect();
        let groups: Vec<_> = groups.iter().map(|group| group.group).collect();
        (!groups.is_empty()).then_some(Condition::NoLeader { groups, unreached })
    }

    /// Whether requests about the keys of a group come to their leader.
    fn serves(&self, group: &GroupAvailability) -> bool {
        let peers = self.peers.as_ref();
        let has_link = |leader| peers.is_none_or(|peers| peers.reaches(leader));
        let has_way = |leader| has_link(leader) || self.node.borrow().relay_to(leader).is_some();
        group.is_whole && group.leader.is_some_and(has_way)
    }
}

/// Groups of which something is true, if there is any.
fn those(groups: &[GroupAvailability], is_one: impl Fn(&GroupAvailability) -> bool) -> Option<Vec<GroupId>> {
    let found = groups.iter().filter(|group| is_one(group));
    let found: Vec<_> = found.map(|group| group.group).collect();
    (!found.is_empty()).then_some(found)
}

fn leaders(groups: &[GroupAvailability]) -> Leaders {
    let mut leaders = Leaders::new();
    for group in groups {
        if let Some(leader) = group.leader {
            leaders.entry(leader).or_default().push(group.group);
        }
    }
    leaders
}
