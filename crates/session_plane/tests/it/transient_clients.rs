//! Transient sessions of a history: filters that nodes tell each other, and messages that go to nodes beside
//! the slots.
//!
//! A node stands for its transient sessions: what it wants is in memory, and ends with its process. A message
//! that was acknowledged has come once to each node that wants it and is on the publisher's side.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use session_plane::interests::{Interest, InterestChange};
use session_plane::plane::TransientMessage;
use session_plane::{Dot, Recipients, TopicFilter};

use super::group_clients::part_of;
use super::machine::{Body, TestPlane};
use super::world::World;

/// Filters that there are. Each message matches one of them.
const FILTERS: u32 = 4;
/// First body of a message that is not stored.
const FIRST_UNSTORED: u32 = 500_000;

/// Filter of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OfNode {
    node: u64,
    filter: u32,
}

/// Filter that a node wants, since the client was told so.
#[derive(Debug)]
struct Wanted {
    position: u64,
    is_told: bool,
}

/// Nodes that a message is to come to.
#[derive(Debug)]
struct Promised {
    to: BTreeSet<u64>,
}

/// What nodes want, and what has come to them.
#[derive(Debug, Default)]
pub(super) struct TransientClients {
    wanted: BTreeMap<OfNode, Wanted>,
    /// Messages that are not acknowledged.
    promised: BTreeMap<Dot, Promised>,
    /// Events and numbers that have come to a node's process.
    received: BTreeMap<u64, BTreeSet<Dot>>,
    unstored: BTreeMap<u64, Vec<Body>>,
    last: u32,
    /// Nodes that a message has come to; a history in which there are none shows nothing.
    reached: usize,
}

/// Filters that nodes want, as one node knows them.
#[derive(Debug, Default)]
pub(super) struct KnownFilters(BTreeMap<NodeId, BTreeMap<TopicFilter, Interest>>);

impl KnownFilters {
    pub(super) fn learn(&mut self, node: NodeId, change: InterestChange) {
        let of_node = self.0.entry(node).or_default();
        match change.interest {
            Some(interest) => of_node.insert(change.filter, interest),
            None => of_node.remove(&change.filter),
        };
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(super) fn len(&self, node: NodeId) -> usize {
        self.0.get(&node).map_or(0, BTreeMap::len)
    }

    /// Nodes that want a message. Messages of the shared group are for its members alone.
    pub(super) fn nodes(&self, body: Body) -> BTreeSet<NodeId> {
        let filter = name(filter_of(body));
        let wanting = self.0.iter().filter(|(_, filters)| filters.contains_key(&filter));
        let wanting = wanting.filter(|_| part_of(body).is_none());
        wanting.map(|(node, _)| *node).collect()
    }
}

fn filter_of(body: Body) -> u32 {
    body.0 % FILTERS
}

fn name(filter: u32) -> TopicFilter {
    TopicFilter::new(&filter.to_be_bytes()).expect("short")
}

impl World {
    pub(super) fn act_as_transient(&mut self) {
        let node = 1 + self.random.below(self.nodes);
        let filter = u32::try_from(self.random.below(u64::from(FILTERS))).expect("few");
        if !self.machines[&node].is_up(self.now) {
            return;
        }
        match self.random.below(20) {
            0 => self.want(node, filter),
            1 => self.want_no_more(node, filter),
            2 => self.pass_unstored(node),
            _ => {}
        }
    }

    /// Sessions of a node subscribe.
    fn want(&mut self, node: u64, filter: u32) {
        let interest = if self.random.once_in(2) {
            Interest::All
        } else {
            Interest::Unstored
        };
        let of = OfNode { node, filter };
        if self.transient_clients.wanted.contains_key(&of) {
            return;
        }
        let mut position = None;
        self.with_sessions(node, |sessions, _, _| {
            position = sessions.set_interest(&name(filter), Some(interest)).ok();
        });
        let position = position.expect("there are few filters");
        let is_told = false;
        self.transient_clients
            .wanted
            .insert(of, Wanted { position, is_told });
        self.note_told(node);
    }

    /// The last session of a node that has subscribed leaves.
    fn want_no_more(&mut self, node: u64, filter: u32) {
        let of = OfNode { node, filter };
        if self.transient_clients.wanted.remove(&of).is_some() {
            self.with_sessions(node, |sessions, _, _| {
                let set = sessions.set_interest(&name(filter), None);
                assert!(set.is_ok(), "it has its place");
            });
        }
    }

    /// Publishes a message with QoS 0.
    fn pass_unstored(&mut self, id: u64) {
        self.transient_clients.last += 1;
        let body = Body(FIRST_UNSTORED + self.transient_clients.last);
        self.with_sessions(id, |sessions, _, actions| {
            let nodes = sessions.plane().recipients(&body).nodes;
            sessions.pass(nodes.into_iter(), &body, actions);
        });
    }

    /// What a node has told, clients are told.
    pub(super) fn note_told(&mut self, node: u64) {
        let sessions = self.machines[&node].sessions.as_ref();
        let told = sessions.map_or(0, |sessions| sessions.interests_told());
        let of_node = OfNode { node, filter: 0 }..OfNode {
            node,
            filter: FILTERS,
        };
        for (_, wanted) in self.transient_clients.wanted.range_mut(of_node) {
            wanted.is_told |= wanted.position <= told;
        }
    }

    /// Nodes that a message of a node goes to, and those that are to have it.
    pub(super) fn recipients_of(&self, id: u64, recipients: &mut Recipients, body: Body) -> BTreeSet<u64> {
        let Some(sessions) = &self.machines[&id].sessions else {
            return BTreeSet::new();
        };
        recipients.nodes = sessions.plane().recipients(&body).nodes;
        let has = |node: u64, peer: u64| {
            let plane = self.machines[&node].plane();
            plane.is_some_and(|plane| plane.membership().is_present(NodeId(peer)))
        };
        let is_same_side = |node: u64| node == id || has(id, node) && has(node, id);
        let wanting = self.transient_clients.wanted.iter();
        let wanting = wanting.filter(|(of, wanted)| of.filter == filter_of(body) && wanted.is_told);
        let promised = wanting.filter(|(of, _)| sessions.knows_recipients() && is_same_side(of.node));
        promised.map(|(of, _)| of.node).collect()
    }

    pub(super) fn promise_to_nodes(&mut self, message: Dot, to: BTreeSet<u64>) {
        self.transient_clients.promised.insert(message, Promised { to });
    }

    /// A message has come to a node beside the slots.
    pub(super) fn transient_received(&mut self, id: u64, message: &TransientMessage<Body>) {
        let received = self.transient_clients.received.entry(id).or_default();
        let is_new = received.insert(message.message);
        self.transient_clients.reached += 1;
        if !is_new {
            self.fail(format!("{id} gets {message:?} again"));
        }
    }

    pub(super) fn unstored_received(&mut self, id: u64, body: Body) {
        let received = self.transient_clients.unstored.entry(id).or_default();
        let is_later = received.last().is_none_or(|last| last.0 != body.0);
        received.push(body);
        if !is_later {
            self.fail(format!("{id} gets {body:?} again"));
        }
    }

    /// A message was acknowledged: it has come to the nodes that were to have it.
    pub(super) fn check_promised(&mut self, message: Dot) {
        let Some(Promised { to }) = self.transient_clients.promised.remove(&message) else {
            return;
        };
        let received = &self.transient_clients.received;
        let has_it = |node: &u64| received.get(node).is_some_and(|dots| dots.contains(&message));
        if let Some(node) = to.into_iter().find(|node| !has_it(node)) {
            self.fail(format!(
                "{message:?} was acknowledged, and has not come to {node}"
            ));
        }
    }

    /// A node gives another one up: what it publishes need not come there.
    pub(super) fn forget_node(&mut self, id: u64, peer: u64) {
        for (message, promised) in &mut self.transient_clients.promised {
            if message.run.node.0 == id {
                promised.to.remove(&peer);
            }
        }
    }

    /// A process ends, with its sessions and what it waits for.
    pub(super) fn lose_transient(&mut self, id: u64) {
        let transient = &mut self.transient_clients;
        transient.wanted.retain(|of, _| of.node != id);
        transient.received.remove(&id);
        transient.unstored.remove(&id);
        transient.promised.retain(|message, _| message.run.node.0 != id);
        for promised in transient.promised.values_mut() {
            promised.to.remove(&id);
        }
    }

    /// At rest each node knows what each other one wants.
    pub(super) fn is_transient_at_rest(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            if !sessions.knows_recipients() {
                return Err(format!("{id} does not know what others want"));
            }
            let of_node = self.transient_clients.wanted.keys().filter(|of| of.node == *id);
            let count = of_node.count();
            if sessions.interests().len() != count {
                return Err(format!(
                    "{id} has {} filters, not {count}",
                    sessions.interests().len()
                ));
            }
            for filter in 0..FILTERS {
                self.is_filter_at_rest(*id, sessions.plane(), filter)?;
            }
        }
        Ok(())
    }

    fn is_filter_at_rest(&self, id: u64, plane: &TestPlane, filter: u32) -> Result<(), String> {
        let known = plane.recipients(&Body(filter)).nodes;
        let wanted = self
            .transient_clients
            .wanted
            .keys()
            .filter(|of| of.filter == filter);
        let wanted: BTreeSet<NodeId> = wanted.map(|of| NodeId(of.node)).collect();
        if known != wanted {
            return Err(format!(
                "{id} knows {filter} of {known:?}, and {wanted:?} want it"
            ));
        }
        Ok(())
    }

    /// Without faults every message that is not stored comes to all nodes that want it.
    pub(super) fn pass_everywhere(&mut self) -> BTreeMap<u64, Body> {
        let ids = 1..=self.nodes;
        ids.map(|id| {
            self.pass_unstored(id);
            (id, Body(FIRST_UNSTORED + self.transient_clients.last))
        })
        .collect()
    }

    pub(super) fn check_passed(&self, passed: &BTreeMap<u64, Body>) -> Result<(), String> {
        for (from, body) in passed {
            let wanting = self.transient_clients.wanted.keys();
            let wanting = wanting.filter(|of| of.filter == filter_of(*body) && of.node != *from);
            for OfNode { node, .. } in wanting {
                let received = self.transient_clients.unstored.get(node);
                if !received.is_some_and(|received| received.contains(body)) {
                    return Err(format!("{body:?} of {from} has not come to {node}"));
                }
            }
        }
        Ok(())
    }
}
