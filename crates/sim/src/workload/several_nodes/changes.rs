//! An operator who changes the cluster, while everything else goes on: nodes are added and removed, those that have lost their disks are replaced
//! by new ones at the same address, and leaders are named.
//!
//! The operator asks any node that runs, again and again until it is done, and does one thing at a time. A node that was removed goes on running
//! as long as it has power; nodes that know of its removal hear nothing of it. The budget of losses is kept over changes: a disk is only
//! lost while every group has three voters at least, all other nodes have their disks, and nothing is being changed.

use std::collections::{BTreeSet, VecDeque};

use broker::{ClusterAnswer, ClusterChange, ClusterQuestion, ClusterStatus};
use cluster::control::{CONTROL, NodeStage};
use cluster::forming::Founder;
use cluster::{GroupId, NodeId};

use super::World;
use super::faults::Fault;
use super::member::{Member, Power};
use super::network::Link;
use crate::machine::{Machine, MachineConfig, Unpowered, founder};

/// What is to be changed in the cluster.
#[derive(Debug)]
pub(super) struct Changes {
    /// As a new node is to be, its id and its seed apart.
    config: MachineConfig,
    /// One after the other.
    wanted: VecDeque<Change>,
    steps: u64,
}

#[derive(Debug, Clone)]
enum Change {
    /// A node is to be taken in, which calls from this address.
    Add { index: usize, caller: Founder },
    /// A node is to go.
    Remove { index: usize },
    /// A node is to lead a group.
    Lead { index: usize, group: GroupId },
}

/// The operator looks again after so many steps.
const LOOK_EVERY: u64 = 60;

/// More nodes are not made in a run; those that were removed count as well.
const NODES_MAX: usize = 12;

/// So many voters of a group may lose one of them for ever.
const VOTERS_MIN: usize = 3;

/// After so many rounds without faults all changes are done: 30 s. A change takes some looks of 200 ms in each group, one after the other.
const ROUNDS_MAX: usize = 6_000;

/// The operator looks again after so many rounds.
const ROUNDS_BETWEEN: usize = 20;

impl Changes {
    /// `config`: of one of the founders.
    pub(super) fn new(config: MachineConfig) -> Self {
        Self {
            config,
            wanted: VecDeque::new(),
            steps: 0,
        }
    }
}

impl World {
    /// The operator begins something, unless something else is not done.
    pub(super) fn want_change(&mut self) {
        if !self.changes.wanted.is_empty() {
            return;
        }
        let members: Vec<usize> = self.in_cluster().collect();
        let dead = members.iter().find(|index| self.nodes[**index].is_lost());
        if let Some(dead) = dead {
            return self.replace(*dead);
        }
        let any = members[self.weather.between(0, members.len())];
        let is_room = self.nodes.len() < NODES_MAX;
        match self.weather.between(0, 4) {
            0 if is_room && members.len() < self.changes.config.voters.len() + 2 => {
                let address = self.nodes.len();
                self.add(address);
            }
            1 if members.len() > VOTERS_MIN => self.want(Change::Remove { index: any }),
            2 if is_room && self.may_lose_disk(any) => {
                self.trace
                    .note(self.now, || format!("{} loses its disk", any + 1));
                self.switch_off(any);
                self.nodes[any].power = Power::Lost;
                self.leave(any);
                self.replace(any);
            }
            _ => {
                let groups = self.changes.config.groups;
                let group = self.weather.between(0, groups as usize + 1);
                let group = u32::try_from(group).ok().filter(|group| *group < groups);
                let group = group.map_or(CONTROL, GroupId);
                self.want(Change::Lead { index: any, group });
            }
        }
    }

    /// A node that is lost for ever is removed, and a new one comes to its address.
    fn replace(&mut self, index: usize) {
        self.want(Change::Remove { index });
        if self.nodes.len() < NODES_MAX {
            self.add(index);
        }
    }

    /// A new node, at its own address or at that of one that is gone.
    fn add(&mut self, address: usize) {
        let index = self.nodes.len();
        let mut config = self.changes.config.clone();
        config.node = node(index);
        config.seed ^= (index as u64 + 1) << 48;
        let member = Member::outside(Unpowered::new(config, self.origin), self.now);
        self.nodes.push(member);
        let caller = Founder {
            node: node(index),
            address: founder(node(address)).address,
        };
        self.want(Change::Add { index, caller });
    }

    fn want(&mut self, change: Change) {
        self.trace.note(self.now, || format!("wanted: {change:?}"));
        self.changes.wanted.push_back(change);
    }

    /// A step of the storm is over.
    pub(super) fn operate_sometimes(&mut self) -> Result<(), String> {
        self.changes.steps += 1;
        if self.changes.steps.is_multiple_of(LOOK_EVERY) {
            self.operate()?;
        }
        Ok(())
    }

    /// Everything that is wanted is done within a bounded time when nothing else goes wrong.
    pub(super) fn finish_changes(&mut self) -> Result<(), String> {
        for round in 0..ROUNDS_MAX {
            if self.changes.wanted.is_empty() {
                return Ok(());
            }
            if round.is_multiple_of(ROUNDS_BETWEEN) {
                self.operate()?;
            }
            for index in 0..self.nodes.len() {
                self.forget_removed(index);
            }
            self.round()?;
        }
        let status = self.newest_status();
        let wanted = self.changes.wanted.front();
        Err(format!("liveness: a change is not done: {wanted:?}, {status:#?}"))
    }

    /// The operator looks whether something is done, and asks for it if it is not decided.
    fn operate(&mut self) -> Result<(), String> {
        let Some(change) = self.changes.wanted.front().cloned() else {
            return Ok(());
        };
        let Some(through) = self.any_running(&change) else {
            return Ok(());
        };
        let is_done = match change {
            Change::Add { index, caller } => self.is_added(through, index, caller)?,
            Change::Remove { index } => self.is_removed(through, index),
            Change::Lead { index, group } => {
                let to = node(index);
                self.ask_for(through, ClusterChange::Transfer { group, to });
                true
            }
        };
        if is_done {
            self.trace.note(self.now, || "that is done".to_owned());
            self.changes.wanted.pop_front();
        }
        Ok(())
    }

    fn is_added(&mut self, through: usize, index: usize, caller: Founder) -> Result<bool, String> {
        match self.stage(through, index) {
            Some(NodeStage::Member) => {
                self.summary.added += 1;
                return Ok(true);
            }
            Some(NodeStage::Joining | NodeStage::Leaving) => {
                if std::mem::take(&mut self.nodes[index].is_outside) {
                    self.switch_on(index)?;
                }
            }
            None => {
                if let Some(machine) = self.nodes[through].running() {
                    let who = caller.node.to_string();
                    machine.hear_caller(caller);
                    machine.ask_cluster(ClusterQuestion::Add { who });
                }
            }
        }
        Ok(false)
    }

    fn is_removed(&mut self, through: usize, index: usize) -> bool {
        let machine = self.nodes[through].machine();
        if machine.is_some_and(|machine| machine.removed.contains(&node(index))) {
            self.nodes[index].is_outside = true;
            self.leave(index);
            self.summary.removed += 1;
            return true;
        }
        if let Some(NodeStage::Joining | NodeStage::Member) = self.stage(through, index) {
            let is_forced = self.nodes[index].has_no_disk();
            self.ask_for(
                through,
                ClusterChange::Remove {
                    node: node(index),
                    is_forced,
                },
            );
        }
        false
    }

    fn ask_for(&mut self, through: usize, change: ClusterChange) {
        if let Some(machine) = self.nodes[through].running() {
            machine.ask_cluster(ClusterQuestion::Change(change));
        }
    }

    fn stage(&mut self, through: usize, index: usize) -> Option<NodeStage> {
        let status = status(self.nodes[through].running()?)?;
        let found = status.nodes.iter().find(|found| found.node == node(index));
        found.map(|found| found.stage)
    }

    /// A node that can be asked, and is not the one that it is about.
    fn any_running(&mut self, change: &Change) -> Option<usize> {
        let (Change::Add { index: about, .. }
        | Change::Remove { index: about }
        | Change::Lead { index: about, .. }) = *change;
        let mut running: Vec<usize> = self.in_cluster().filter(|index| *index != about).collect();
        running.retain(|index| self.nodes[*index].running().is_some());
        if running.is_empty() {
            return None;
        }
        Some(running[self.weather.between(0, running.len())])
    }

    fn in_cluster(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.nodes.len()).filter(|index| !self.nodes[*index].is_outside)
    }

    /// A node that is in the cluster no more ends with the storm.
    pub(super) fn forget_removed(&mut self, index: usize) {
        if self.nodes[index].is_outside && self.nodes[index].machine().is_some() {
            self.switch_off(index);
            self.nodes[index].power = Power::Lost;
        }
    }

    /// Whether one end of a connection knows that the other end was removed, and has hung up.
    pub(super) fn is_hung_up(&self, (from, to): Link) -> bool {
        let has_removed = |at: usize, other: usize| {
            let machine = self.nodes[at].machine();
            machine.is_some_and(|machine| machine.removed.contains(&node(other)))
        };
        self.faults.has(Fault::Members) && (has_removed(from, to) || has_removed(to, from))
    }

    /// Whether a node may lose its disk.
    pub(super) fn may_lose_disk(&mut self, index: usize) -> bool {
        if !self.changes.wanted.is_empty() {
            return false;
        }
        let others: Vec<usize> = self.in_cluster().filter(|other| *other != index).collect();
        others.into_iter().all(|other| {
            let found = self.nodes[other].machine_mut().and_then(status);
            found.is_some_and(|status| {
                let mut groups = status.groups.iter().map(|group| &group.members);
                groups.all(|members| members.voters.len() >= VOTERS_MIN && !members.is_joint())
            })
        })
    }

    /// Whether the cluster promises to go on without this node as well, when all is at rest.
    pub(super) fn may_be_lost(&mut self, index: usize) -> bool {
        let sides: Vec<BTreeSet<NodeId>> = match self.newest_status() {
            Some(status) => {
                let groups = status.groups.into_iter();
                groups.map(|group| group.members.voters).collect()
            }
            None => vec![self.changes.config.voters.iter().copied().collect()],
        };
        let is_gone = |voter: &NodeId| {
            let other = usize::try_from(voter.0 - 1).expect("few nodes");
            other == index || self.nodes[other].is_lost()
        };
        sides
            .iter()
            .all(|voters| voters.iter().filter(|voter| is_gone(voter)).count() <= (voters.len() - 1) / 2)
    }

    /// All nodes know the same nodes, which are those that there are.
    pub(super) fn check_members(&self) -> Result<(), String> {
        if !self.faults.has(Fault::Members) {
            return Ok(());
        }
        let expected: BTreeSet<NodeId> = self.in_cluster().map(node).collect();
        for (machine, number) in self.machines() {
            let known: BTreeSet<NodeId> = machine.peers.iter().map(|peer| peer.node).collect();
            if known != expected {
                return Err(format!(
                    "members: node {number} knows {known:?}, and there are {expected:?}"
                ));
            }
        }
        Ok(())
    }

    fn newest_status(&mut self) -> Option<ClusterStatus> {
        let mut members = self.nodes.iter_mut().filter(|member| !member.is_outside);
        members.find_map(|member| status(member.machine_mut()?))
    }
}

/// How the cluster stands, as a node sees it; `None`: it knows of none.
fn status(machine: &mut Machine) -> Option<ClusterStatus> {
    machine.ask_cluster(ClusterQuestion::Status);
    let mut answers = machine.take_cluster_answers().into_iter();
    answers.find_map(|answer| match answer {
        ClusterAnswer::Status(status) => Some(*status),
        ClusterAnswer::Taken(_)
        | ClusterAnswer::Refused(_)
        | ClusterAnswer::Open(_)
        | ClusterAnswer::NoCluster => None,
    })
}

fn node(index: usize) -> NodeId {
    NodeId(index as u64 + 1)
}
