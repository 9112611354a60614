//! Relay: a way round a broken link by one other node.
//!
//! The edge says which members this node can send to. Each node tells the members that it reaches this set, its link state. What is for
//! a member that is not reached goes to one that is, and whose link state has that member; that node passes it on.
//!
//! ```text
//!   node 1 --x-- node 2        node 1: Relayed { origin 1, target 2, message } -> node 3
//!        \       /             node 3: the same bytes -> node 2
//!         node 3               node 2: takes the message as one from node 1
//! ```
//!
//! *Invariants*: a relayed message is passed on once at most, so that none goes in circles. Link states are never relayed. Where every
//! node reaches every other one, nothing is sent but a link state when it changes.
//!
//! All messages to other nodes come by here when a step of the node ends (`relay/passing.rs`); their bytes are in `relay/messages.rs`.

mod messages;
mod passing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::NodeId;
use mqtt::now::Now;

pub(crate) use self::messages::RELAY;
use self::messages::{LinkState, Relayed};
use crate::node::Action;
use crate::report::Report;

/// How often link states are told again while a link is broken: one that was lost is made up for.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What was counted of messages that go round broken links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayFigures {
    /// Messages that were passed on for other nodes.
    pub passed_on: u64,
    /// Messages that were to be passed on, and could not be.
    pub dropped: u64,
}

/// Links of this node and, as they have told, of the others.
#[derive(Debug)]
pub(crate) struct Relay {
    own: NodeId,
    /// Nodes to which the edge can send; `None` before it has said so: then all messages go directly.
    reached: Option<BTreeSet<NodeId>>,
    /// Tells one value of `reached` from another one, also of runs before.
    version: u64,
    /// Link states of other members.
    told: BTreeMap<NodeId, LinkState>,
    /// The relay for each member that is not reached, as far as there is one.
    ways: BTreeMap<NodeId, NodeId>,
    /// When the link state is told again, while some link is broken.
    tell_at: Option<Instant>,
    figures: RelayFigures,
}

impl Relay {
    pub(crate) fn new(own: NodeId, incarnation: u32) -> Self {
        Self {
            own,
            reached: None,
            version: u64::from(incarnation) << 32,
            told: BTreeMap::new(),
            ways: BTreeMap::new(),
            tell_at: None,
            figures: RelayFigures::default(),
        }
    }

    /// The node that passes messages on to a member that is not reached.
    pub(crate) fn way_to(&self, node: NodeId) -> Option<NodeId> {
        self.ways.get(&node).copied()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.tell_at
    }

    pub(crate) fn figures(&self) -> RelayFigures {
        self.figures
    }

    /// Takes over what the edge says of its connections, and tells the members that are reached.
    fn set_reached(
        &mut self,
        now: Now,
        reached: BTreeSet<NodeId>,
        members: &BTreeSet<NodeId>,
        actions: &mut Vec<Action>,
    ) {
        if self.reached.as_ref() == Some(&reached) {
            return;
        }
        self.reached = Some(reached);
        self.version += 1;
        self.tell_all(now, members, actions);
        self.review(now, members, actions);
    }

    /// Takes over a link state. A member that does not know the present one of this node is told it.
    fn hear(
        &mut self,
        now: Now,
        (from, mut state): (NodeId, LinkState),
        members: &BTreeSet<NodeId>,
        actions: &mut Vec<Action>,
    ) {
        state.reached.retain(|node| members.contains(node));
        let is_behind = state.heard != self.version;
        self.told.insert(from, state);
        if is_behind && self.reaches(from) {
            actions.push(self.tell(from));
        }
        self.review(now, members, actions);
    }

    /// Tells the link state again when it is time to.
    fn timeout(&mut self, now: Now, members: &BTreeSet<NodeId>, actions: &mut Vec<Action>) {
        if self.tell_at.take_if(|at| *at <= now.instant).is_some() {
            self.tell_all(now, members, actions);
            self.review(now, members, actions);
        }
    }

    /// Whether a message that came from `from` is passed on: from one member to another one that is reached. Counts it.
    fn passes_on(&mut self, from: NodeId, relayed: &Relayed, members: &BTreeSet<NodeId>) -> bool {
        let Relayed { origin, target, .. } = *relayed;
        // One that was passed on before does not come from its origin.
        let is_first = from == origin && origin != target;
        let is_known = members.contains(&origin) && members.contains(&target);
        let may_pass = is_first && is_known && self.reaches(target);
        let counted = if may_pass {
            &mut self.figures.passed_on
        } else {
            &mut self.figures.dropped
        };
        *counted += 1;
        may_pass
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.reached
            .as_ref()
            .is_some_and(|reached| reached.contains(&node))
    }

    /// Members that are reached.
    fn neighbours<'a>(&'a self, members: &'a BTreeSet<NodeId>) -> impl Iterator<Item = NodeId> + 'a {
        let reached = self.reached.iter().flatten().copied();
        reached.filter(|node| *node != self.own && members.contains(node))
    }

    fn tell_all(&mut self, now: Now, members: &BTreeSet<NodeId>, actions: &mut Vec<Action>) {
        actions.extend(self.neighbours(members).map(|to| self.tell(to)));
        self.tell_at = Some(now.instant + TELL_EVERY);
    }

    fn tell(&self, to: NodeId) -> Action {
        let heard = self.told.get(&to).map_or(0, |state| state.version);
        let state = LinkState {
            version: self.version,
            heard,
            reached: self.reached.clone().unwrap_or_default(),
        };
        let message = state.encode().into();
        Action::ToPeer { to, message }
    }

    /// Finds the ways again after something has changed.
    fn review(&mut self, now: Now, members: &BTreeSet<NodeId>, actions: &mut Vec<Action>) {
        self.told.retain(|node, _| members.contains(node));
        let ways = self.find_ways(members);
        let before = std::mem::replace(&mut self.ways, ways);
        for (node, by) in &self.ways {
            if before.get(node) != Some(by) {
                let (node, by) = (*node, Some(*by));
                actions.push(Action::Report(Report::Relay { node, by }));
            }
        }
        for node in before.into_keys().filter(|node| !self.ways.contains_key(node)) {
            actions.push(Action::Report(Report::Relay { node, by: None }));
        }
        let tell_at = self.tell_at.unwrap_or(now.instant + TELL_EVERY);
        self.tell_at = self.is_degraded(members).then_some(tell_at);
    }

    /// A relay for each member that is not reached: the one that it had, else the first.
    fn find_ways(&self, members: &BTreeSet<NodeId>) -> BTreeMap<NodeId, NodeId> {
        let Some(reached) = &self.reached else {
            return BTreeMap::new();
        };
        let is_way = |by: &NodeId, to: NodeId| {
            let told = self.told.get(by);
            *by != to && told.is_some_and(|state| state.reached.contains(&to))
        };
        let unreached = members.difference(reached).copied();
        let ways = unreached.filter(|node| *node != self.own).filter_map(|node| {
            let relays: BTreeSet<NodeId> = self.neighbours(members).filter(|by| is_way(by, node)).collect();
            let kept = self.way_to(node).filter(|by| relays.contains(by));
            Some((node, kept.or_else(|| relays.first().copied())?))
        });
        ways.collect()
    }

    /// Whether some link between members is broken, or may be, as far as this node knows.
    fn is_degraded(&self, members: &BTreeSet<NodeId>) -> bool {
        let Some(reached) = &self.reached else {
            return false;
        };
        let is_whole = |of: NodeId, links: &BTreeSet<NodeId>| {
            let mut others = members.iter().filter(|node| **node != of);
            others.all(|node| links.contains(node))
        };
        let mut neighbours = self.neighbours(members);
        let are_others_whole = neighbours.all(|node| {
            let told = self.told.get(&node);
            told.is_some_and(|state| is_whole(node, &state.reached))
        });
        !are_others_whole || !is_whole(self.own, reached)
    }
}

#[cfg(test)]
mod tests;
