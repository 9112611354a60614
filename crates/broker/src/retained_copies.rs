//! Retained messages are on every node of a cluster.
//!
//! Each write of a topic, a message or its removal, is an [`Edition`]: the node that makes it tells all others that it reaches, and whoever asked for it is told when they
//! have it on their disks. Everywhere the later edition counts, so the order in which nodes hear of two does not matter. What a node did not hear of because it was
//! away is found by comparing (`comparison.rs`). A removal leaves a tombstone as long as some node may not know of it (`tombstones.rs`).
//!
//! A retained message that expires does so on each node by itself, and becomes a tombstone of the same edition: what it had replaced must not come back either.
//!
//! *Invariant*: the edition of a topic on one node never becomes an earlier one, as long as some node may have that.

mod comparison;
mod digests;
mod messages;
mod taking;
mod tombstones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cluster::NodeId;
use cluster::session_plane::{Actor, Hlc};
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::records;
use mqtt::retained::{Edition, Retained};
use protocol::{ReasonCode, TopicName};

use self::comparison::Comparison;
use self::digests::Digests;
use self::messages::Said;
use self::tombstones::{Forgetting, Postponed, Tombstones};
use crate::node::{Action, Node};
use crate::routes::{Elsewhere, LinkChange, Subject, WaitId};

/// What was counted of retained messages in a cluster, and how many there are of what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetainedFigures {
    /// Topics whose retained message was taken away, which some node may not know yet.
    pub tombstones: usize,
    /// Topics in which this node was behind another one when it last compared, over all nodes.
    pub differing: u64,
    /// Messages that other nodes have sent and that count here now.
    pub taken: u64,
    /// Of these, kept although a limit was reached.
    pub over_limit: u64,
    /// Tombstones that were one too many, and forgotten before all nodes knew them.
    pub tombstones_dropped: u64,
}

/// What this node knows beside its retained messages themselves.
#[derive(Debug)]
pub(crate) struct RetainedCopies {
    own: Actor,
    /// No edition that was heard of is later.
    latest: Hlc,
    digests: Digests,
    tombstones: Tombstones,
    /// Of each other node of the cluster.
    comparisons: BTreeMap<NodeId, Comparison>,
    forgetting: Forgetting,
    /// A question about tombstones that cannot be answered yet: there is one at a time, the last one.
    postponed: Option<Postponed>,
    figures: RetainedFigures,
}

impl RetainedCopies {
    fn new(now: Now, own: Actor, retained: &Retained, tombstones: Vec<(TopicName, Edition)>) -> Self {
        let mut copies = Self {
            own,
            latest: Hlc::ZERO,
            digests: Digests::default(),
            tombstones: Tombstones::default(),
            comparisons: BTreeMap::new(),
            forgetting: Forgetting::new(first_number(own)),
            postponed: None,
            figures: RetainedFigures::default(),
        };
        for (_, message, edition) in retained.editions_after(&[]) {
            copies.counts(message.topic.as_str(), edition);
        }
        for (topic, edition) in tombstones {
            copies.counts(topic.as_str(), edition);
            copies.tombstones.insert(now.instant, topic, edition);
        }
        copies
    }

    /// The edition of a write that is made now.
    fn next_edition(&mut self, now: Now) -> Edition {
        let at = self.latest.next().max(Hlc::at(now.wall));
        self.latest = at;
        Edition { at, by: self.own }
    }

    /// This edition of a topic counts from now on.
    fn counts(&mut self, topic: &str, edition: Edition) {
        self.latest = self.latest.max(edition.at);
        self.digests.add(topic, edition);
    }

    /// What counts for a topic, and whether that is a tombstone.
    fn edition(&self, retained: &Retained, topic: &TopicName) -> Option<(Edition, bool)> {
        let tombstone = self.tombstones.get(topic).map(|edition| (edition, true));
        tombstone.or_else(|| Some((retained.edition(topic.as_str())?, false)))
    }

    /// These are the other nodes of the cluster.
    fn set_nodes(&mut self, now: Instant, nodes: &BTreeSet<NodeId>) {
        let others = || nodes.iter().filter(|node| **node != self.own.node);
        if others().eq(self.comparisons.keys()) {
            return;
        }
        self.forgetting.break_off();
        self.comparisons.retain(|node, _| nodes.contains(node));
        let first = first_number(self.own);
        for node in others() {
            self.comparisons
                .entry(*node)
                .or_insert_with(|| Comparison::new(now, first));
        }
    }

    /// Whether this node asks all others whether tombstones may go: all of them must be there.
    fn may_forget(&self) -> bool {
        let is_lowest = self.comparisons.keys().all(|node| *node > self.own.node);
        is_lowest && self.comparisons.values().all(Comparison::is_reached) && !self.forgetting.is_open()
    }

    fn deadline(&self, grace: std::time::Duration) -> Option<Instant> {
        let own = self.own.node;
        let begun_here = self.comparisons.iter().filter(|(node, _)| own < **node);
        let comparisons = begun_here.filter_map(|(_, comparison)| comparison.deadline());
        let forgetting = self.tombstones.due(grace).filter(|_| self.may_forget());
        let postponed = self.postponed.as_ref().map(|postponed| postponed.again_at);
        comparisons.chain(forgetting).chain(postponed).min()
    }

    fn figures(&self) -> RetainedFigures {
        let differing = self.comparisons.values().map(|comparison| comparison.differing);
        RetainedFigures {
            tombstones: self.tombstones.len(),
            differing: differing.sum(),
            ..self.figures
        }
    }
}

impl Node {
    /// Where the node is a member of a cluster: what it retains is told to the others from here on.
    pub(crate) fn begin_retained_copies(
        &mut self,
        now: Now,
        own: Actor,
        tombstones: Vec<(TopicName, Edition)>,
    ) {
        if self.control.is_none() {
            // It was a member of a cluster, and is alone now.
            for (topic, _) in tombstones {
                self.commits.write(records::retained::remove(&topic));
            }
            return;
        }
        self.retained.give_editions(Edition::of_old(own.node));
        let copies = RetainedCopies::new(now, own, &self.retained, tombstones);
        self.retained_copies = Some(Box::new(copies));
    }

    /// What a node of a cluster knows of its retained messages. All zero on a single one.
    pub(crate) fn retained_figures(&self) -> RetainedFigures {
        let copies = self.retained_copies.as_ref();
        copies.map(|copies| copies.figures()).unwrap_or_default()
    }

    /// What tombstones count for, in bytes.
    pub(crate) fn tombstone_bytes(&self) -> u64 {
        let copies = self.retained_copies.as_ref();
        copies.map_or(0, |copies| copies.tombstones.bytes())
    }

    /// Every topic for which a node of a cluster knows something, with the edition that counts, and the message unless it is a tombstone; for a simulator to
    /// look at.
    pub fn retained_editions(&self) -> BTreeMap<TopicName, (Edition, Option<Arc<Message>>)> {
        let Some(copies) = &self.retained_copies else {
            return BTreeMap::new();
        };
        let tombstones = copies.tombstones.iter();
        let tombstones = tombstones.map(|(topic, edition)| (topic.clone(), (edition, None)));
        let messages = self.retained.editions_after(&[]);
        messages
            .map(|(_, message, edition)| (message.topic.clone(), (edition, Some(Arc::clone(message)))))
            .chain(tombstones)
            .collect()
    }

    /// Retains a message, or nothing, here and on all nodes that are reached; `wait` is over when they have it. `elsewhere`: who gets the message itself, too.
    pub(crate) fn retain_everywhere(
        &mut self,
        now: Now,
        message: Arc<Message>,
        (elsewhere, wait): (&Elsewhere, Option<WaitId>),
    ) -> ReasonCode {
        let topic = message.topic.clone();
        let message = (!message.payload.is_empty()).then_some(message);
        if let Some(message) = &message
            && self.retained.check_room(topic.as_str(), message.size()).is_err()
        {
            self.counters.dropped.retained_full += 1;
            return ReasonCode::QuotaExceeded;
        }
        let Some(copies) = &mut self.retained_copies else {
            return ReasonCode::Success;
        };
        let edition = copies.next_edition(now);
        let mut record = Vec::new();
        records::retained::append_value(&mut record, edition, message.as_deref(), now);
        let record = Bytes::from(record);
        self.keep_edition(now, (&topic, edition), message, record.clone());
        self.tell_edition(&topic, &record, (elsewhere, wait));
        ReasonCode::Success
    }

    /// A retained message has expired.
    pub(crate) fn retained_expired(&mut self, now: Now, topic: &TopicName, edition: Edition) {
        let mut record = Vec::new();
        records::retained::append_value(&mut record, edition, None, now);
        if let Some(copies) = &mut self.retained_copies {
            copies.tombstones.insert(now.instant, topic.clone(), edition);
            self.commits
                .write(records::retained::put_value(topic, record.into()));
            self.drop_tombstones();
        }
    }

    /// This edition of a topic counts from now on, and what counted before does not.
    fn keep_edition(
        &mut self,
        now: Now,
        (topic, edition): (&TopicName, Edition),
        message: Option<Arc<Message>>,
        record: Bytes,
    ) {
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        if let Some((before, _)) = copies.edition(&self.retained, topic) {
            copies.digests.remove(topic.as_str(), before);
        }
        copies.counts(topic.as_str(), edition);
        copies.tombstones.remove(topic);
        match message {
            Some(message) => {
                self.retained.keep(message, Some(edition));
            }
            None => {
                self.retained.remove(topic);
                copies.tombstones.insert(now.instant, topic.detached(), edition);
            }
        }
        self.commits.write(records::retained::put_value(topic, record));
        self.drop_tombstones();
    }

    /// Forgets the oldest tombstones if there are too many: what they stand for may come back with a node that is away.
    fn drop_tombstones(&mut self) {
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        let tombstones_max = self.config.limits.retained_messages_max;
        while copies.tombstones.len() as u64 > tombstones_max {
            let Some(topic) = copies.tombstones.oldest().cloned() else {
                return;
            };
            if let Some(edition) = copies.tombstones.remove(&topic) {
                copies.digests.remove(topic.as_str(), edition);
            }
            copies.figures.tombstones_dropped += 1;
            self.commits.write(records::retained::remove(&topic));
        }
    }

    /// Tells the other nodes of a write that was made here. Who is told the message itself hears of both in this order: so a client that subscribes there between
    /// the two gets it twice rather than not at all.
    fn tell_edition(
        &mut self,
        topic: &TopicName,
        record: &Bytes,
        (elsewhere, wait): (&Elsewhere, Option<WaitId>),
    ) {
        let (Some(copies), Some(peers)) = (&mut self.retained_copies, &mut self.peers) else {
            return;
        };
        let mut bodies: [Option<Bytes>; 2] = [None, None];
        for (node, comparison) in &mut copies.comparisons {
            if !comparison.is_reached() {
                continue;
            }
            // Whoever waits is not read from; wills come whenever they are due.
            if wait.is_none() && peers.is_far_behind(*node) {
                comparison.is_missing_some = true;
                continue;
            }
            let is_new = !peers.is_for(elsewhere, *node);
            let body = bodies[usize::from(is_new)].get_or_insert_with(|| {
                let mut body = messages::set(is_new, topic, record.len());
                body.extend_from_slice(record);
                body.into()
            });
            peers.tell(*node, (Subject::Retained, body.clone()), wait);
        }
    }

    /// What becomes of a link is what becomes of comparing with the node.
    pub(crate) fn note_link_of_retained(&mut self, now: Now, (node, change): (NodeId, LinkChange)) {
        self.look_for_nodes_of_retained(now);
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        copies.forgetting.break_off();
        let Some(comparison) = copies.comparisons.get_mut(&node) else {
            return;
        };
        let mut out = Vec::new();
        match change {
            LinkChange::Reached | LinkChange::Started | LinkChange::Asked => {
                comparison.reached(now.instant, &copies.digests, &mut out);
            }
            LinkChange::Lost => comparison.lost(),
            LinkChange::Answers | LinkChange::Silent => {}
        }
        self.tell_of_retained(node, out);
    }

    /// Does what is due.
    pub(crate) fn retained_copies_timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.look_for_nodes_of_retained(now);
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        let own = copies.own.node;
        let mut all = Vec::new();
        for (node, comparison) in &mut copies.comparisons {
            let mut out = Vec::new();
            let has_caught_up = self.peers.as_ref().is_some_and(|peers| !peers.is_behind(*node));
            if comparison.is_missing_some && has_caught_up {
                comparison.restart(now.instant, &copies.digests, &mut out);
            } else if own < *node {
                comparison.tick(now.instant, &copies.digests, &mut out);
            }
            all.push((*node, out));
        }
        for (node, out) in all {
            self.tell_of_retained(node, out);
        }
        self.begin_forgetting(now, actions);
        let postponed = self.retained_copies.as_mut();
        let is_due = |postponed: &mut Postponed| postponed.again_at <= now.instant;
        if let Some(postponed) = postponed.and_then(|copies| copies.postponed.take_if(is_due)) {
            self.answer_question(now, postponed.question, actions);
        }
    }

    /// When that is.
    pub(crate) fn retained_copies_deadline(&self) -> Option<Instant> {
        let copies = self.retained_copies.as_ref()?;
        copies.deadline(self.config.routes.tombstone_grace)
    }

    /// Compares with all nodes from now on, for a node that joins or merges.
    pub(crate) fn hand_over_retained(&mut self, now: Now) {
        let Some(copies) = &mut self.retained_copies else {
            return;
        };
        let mut all = Vec::new();
        for (node, comparison) in &mut copies.comparisons {
            let mut out = Vec::new();
            comparison.restart(now.instant, &copies.digests, &mut out);
            all.push((*node, out));
        }
        for (node, out) in all {
            self.tell_of_retained(node, out);
        }
    }

    /// Whether these nodes and this one have the same, since it last began to compare.
    pub(crate) fn is_retained_handed_over(&self, nodes: &mut impl Iterator<Item = NodeId>) -> bool {
        let Some(copies) = &self.retained_copies else {
            return true;
        };
        nodes.all(|node| {
            let comparison = copies.comparisons.get(&node);
            comparison.is_none_or(|comparison| comparison.is_complete)
        })
    }

    fn tell_of_retained(&mut self, node: NodeId, said: Vec<Said>) {
        let Some(peers) = &mut self.peers else { return };
        for said in said {
            peers.tell(node, (Subject::Retained, said.encode()), None);
        }
    }

    fn look_for_nodes_of_retained(&mut self, now: Now) {
        if let (Some(copies), Some(control)) = (&mut self.retained_copies, &self.control) {
            let nodes = control.control().nodes().keys().copied().collect();
            copies.set_nodes(now.instant, &nodes);
        }
    }
}

/// Numbers of this run are greater than those of earlier ones.
fn first_number(own: Actor) -> u64 {
    u64::from(own.incarnation.0) << 32
}
