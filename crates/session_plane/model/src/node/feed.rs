//! Feed: the queue of a session as an owner sends it to the node of its connection (section 7 of the specification).
//!
//! Only a merged copy that covers what the asker knows of answers. An answer from before a change of the ring is void.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::{Node, Observation, Phase, Step};
use crate::event::EntryKind;
use crate::ids::{ClientId, Dot, EventSet, NodeId, Slot};
use crate::message::{FeedItems, Message, Queue};
use crate::rules::Rule;

impl Node {
    /// Acknowledges what the client was sent, by the seed, and reads on.
    pub(super) fn serve(&mut self, step: &mut Step<'_>, dot: Dot) {
        let Some(connection) = self.connection(dot) else {
            return;
        };
        let client = connection.client;
        for message in connection.unacknowledged.clone() {
            if step.chance() {
                if let Some(connection) = self.connection_mut(dot) {
                    connection.unacknowledged.remove(&message);
                }
                self.acknowledge(step, client, dot, message);
            }
        }
        self.serve_deliveries(step, dot);
        self.serve_shared(step, dot);
        if step.chance() {
            self.read_feed(step, dot, client);
        }
    }

    /// Reads the own copy, or asks an owner.
    fn read_feed(&mut self, step: &mut Step<'_>, dot: Dot, client: ClientId) {
        let slot = step.directory.slot(client);
        let owners: Vec<NodeId> = self.ring().owners(slot).iter().collect();
        let known = self.known_or_needed();
        let has_all = self
            .copy(slot)
            .is_some_and(|copy| copy.has_all_for(client, &known));
        let reads_own = has_all || !step.holds(Rule::OwnCopyCovers);
        if owners.contains(&self.id) && self.may_feed(step, slot) && reads_own {
            let queue = self.queue(step, client);
            self.deliver(step, dot, &queue);
            return;
        }
        let id = self.id;
        let Some(connection) = self.connection_mut(dot) else {
            return;
        };
        if connection.is_asking || owners.is_empty() {
            return;
        }
        let owner = owners[connection.turn % owners.len()];
        if owner == id {
            connection.turn += 1;
            return;
        }
        connection.is_asking = true;
        let epoch = connection.epoch;
        let message = Message::FeedOpen {
            client,
            connection: dot,
            known: Rc::new(known),
            epoch,
        };
        step.send(owner, message);
    }

    fn may_feed(&self, step: &Step<'_>, slot: Slot) -> bool {
        let is_served =
            |copy: &super::Copy| copy.owned && (copy.is_merged() || !step.holds(Rule::ServeMerged));
        self.copy(slot).is_some_and(is_served)
    }

    /// Messages of `client` in the order of their clocks, pending ones among them.
    pub(super) fn queue(&self, step: &Step<'_>, client: ClientId) -> Queue {
        let Some(copy) = self.copy(step.directory.slot(client)) else {
            return Queue::default();
        };
        let content = &copy.content;
        let mut entries = content.live(step.rules);
        entries.extend(
            content
                .pending
                .iter()
                .flat_map(|event| content.matches(step.rules, event)),
        );
        let is_message =
            |entry: &&crate::event::Entry| entry.kind == EntryKind::Message && entry.client == client;
        let messages: BTreeSet<_> = entries
            .iter()
            .filter(is_message)
            .map(|entry| (entry.clock, entry.dot))
            .collect();
        Queue {
            messages: messages.into_iter().map(|(_, dot)| dot).collect(),
            entries: content
                .entries
                .iter()
                .filter(|entry| entry.client == client)
                .copied()
                .collect(),
            covered: content.covered,
            single: content.single.clone(),
        }
    }

    pub(super) fn receive_feed_open(
        &mut self,
        step: &mut Step<'_>,
        from: NodeId,
        client: ClientId,
        connection: Dot,
        known: &EventSet,
        epoch: u32,
    ) {
        let slot = step.directory.slot(client);
        let covers = |copy: &super::Copy| copy.has_all_for(client, known);
        let answers = self.may_feed(step, slot)
            && (!step.holds(Rule::AskWithKnown) || self.copy(slot).is_some_and(covers));
        let items = FeedItems {
            client,
            connection,
            queue: answers.then(|| self.queue(step, client)),
            epoch,
        };
        step.send(from, Message::FeedItems(Box::new(items)));
    }

    pub(super) fn receive_feed(&mut self, step: &mut Step<'_>, items: &FeedItems) {
        let Some(connection) = self.connection_mut(items.connection) else {
            return;
        };
        if connection.epoch != items.epoch && step.holds(Rule::AskWithKnown) {
            return;
        }
        connection.is_asking = false;
        match &items.queue {
            Some(queue) => self.deliver(step, items.connection, queue),
            None => connection.turn += 1,
        }
    }

    /// Sends the client what it has not been sent in this connection.
    fn deliver(&mut self, step: &mut Step<'_>, dot: Dot, queue: &Queue) {
        let Some(connection) = self.connection_mut(dot) else {
            return;
        };
        let entries = queue
            .entries
            .iter()
            .filter(|entry| entry.kind != EntryKind::Message);
        connection.session.entries.extend(entries);
        if connection.phase != Phase::Live {
            return;
        }
        if step.directory.takes_once[connection.client.index()] {
            self.begin_deliveries(step, dot, queue);
            return;
        }
        for message in &queue.messages {
            if connection.sent.insert(*message) {
                step.observe(Observation::Delivered {
                    client: connection.client,
                    connection: dot,
                    message: *message,
                    packet: None,
                });
            }
        }
    }

    /// Voids feeds that were asked for by an older ring.
    pub(super) fn close_feeds(&mut self) {
        for connection in self
            .connections
            .iter_mut()
            .filter(|connection| connection.is_asking)
        {
            connection.is_asking = false;
            connection.epoch += 1;
        }
    }
}
