//! Feeds of the world: an owner tells what has changed since it told last, whenever it does.

use super::copy::Copy;
use super::{Content, Payload, World};
use crate::delivering::tests::*;

/// Messages of a client at once that it has not acknowledged.
const WINDOW: usize = 6;
/// Messages that an owner sends at once.
const BATCH: usize = 2;

/// Message of a feed.
#[derive(Debug, Clone)]
pub(super) struct FeedUpdate {
    deliveries: DeliveryChanges<PacketDelivery>,
    messages: Vec<QueueKey>,
    removed: Vec<QueueKey>,
}

/// Feed of a connection: what its node has, and the side of the owner that sends it.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// Last event of the node before the connection was fed.
    pub(super) own_after: u64,
    pub(super) told: BTreeMap<Dot, KnownDelivery>,
    pub(super) held: BTreeSet<QueueKey>,
    pub(super) source: Option<Source>,
}

/// Side of the owner.
#[derive(Debug)]
pub(super) struct Source {
    owner: usize,
    number: u64,
    told: BTreeMap<Dot, KnownDelivery>,
    sent: BTreeSet<QueueKey>,
    /// Items that are under way.
    under_way: usize,
    has_answered: bool,
}

impl Source {
    /// Changes of deliveries since the owner told last. Those of the run of `own_after` behind it are
    /// the connection's own.
    fn tell(&mut self, copy: &Copy, own_after: Dot) -> DeliveryChanges<PacketDelivery> {
        let is_own = |dot: Dot| dot.run == own_after.run && dot > own_after;
        let ended = self.told.extract_if(.., |dot, _| copy.has_removed(*dot));
        let mut changes = DeliveryChanges {
            ended: ended.map(|(dot, _)| dot).collect(),
            ..DeliveryChanges::default()
        };
        for delivery in copy.deliveries().filter(|delivery| !is_own(delivery.dot)) {
            if self.told.insert(delivery.dot, delivery.known).is_none() {
                changes.added.push(delivery);
            }
        }
        for (dot, known) in &mut self.told {
            known.is_gone = copy.has_removed(known.message);
            changes.gone.extend(known.is_gone.then_some(*dot));
        }
        changes
    }

    /// Next messages of the queue. `held` are at the receiver.
    fn send(&mut self, copy: &Copy, held: usize) -> Vec<QueueKey> {
        let room = WINDOW.saturating_sub(held + self.under_way).min(BATCH);
        let queue: BTreeSet<QueueKey> = copy.messages().collect();
        let messages: Vec<QueueKey> = queue.difference(&self.sent).copied().take(room).collect();
        self.sent.extend(&messages);
        self.under_way += messages.len();
        messages
    }
}

impl World {
    /// The owner of a client's feed sends what has changed. Without a feed, one is opened.
    pub(super) fn feed(&mut self, client: usize) {
        let Some(node) = self.clients[client].node() else {
            return;
        };
        let run = self.machines[node].run;
        if self.clients[client].feed.source.is_none() && !self.open_feed(client, node) {
            return;
        }
        let feed = &mut self.clients[client].feed;
        let is_up = |source: &Source| self.machines[source.owner].is_up;
        if !feed.source.as_ref().is_some_and(is_up) {
            return;
        }
        let (own_after, held) = (feed.own_after, feed.held.len());
        let Some(source) = &mut feed.source else { return };
        let is_answer = !std::mem::replace(&mut source.has_answered, true);
        let copy = &self.machines[source.owner].copies[client];
        let own_after = Dot {
            run,
            number: own_after,
        };
        let deliveries = source.tell(copy, own_after);
        let messages = source.send(copy, held);
        let removers = &self.removers;
        let is_own = |key: &QueueKey| removers.get(&key.dot).is_some_and(|runs| runs.contains(&run));
        let removed = source
            .sent
            .extract_if(.., |key| copy.has_removed(key.dot) && !is_own(key))
            .collect();
        let (owner, feed) = (source.owner, source.number);
        let update = FeedUpdate {
            deliveries,
            messages,
            removed,
        };
        if !update.is_empty() || is_answer {
            self.send(owner, node, Content::Fed { feed, update });
        }
    }

    /// Opens a feed at an owner that has what the node knows.
    fn open_feed(&mut self, client: usize, node: usize) -> bool {
        let machine = &self.machines[node];
        let owners = super::machine::owners(client, &machine.view);
        let is_ready = |owner: &usize| {
            let owner = &self.machines[*owner];
            owner.is_up && machine.known[client].is_subset(&owner.copies[client].covered)
        };
        let Some(owner) = owners.into_iter().find(is_ready) else {
            return false;
        };
        self.feeds += 1;
        let feed = &mut self.clients[client].feed;
        feed.source = Some(Source {
            owner,
            number: self.feeds,
            told: feed.told.clone(),
            sent: feed.held.clone(),
            under_way: 0,
            has_answered: false,
        });
        true
    }

    /// The node of a connection receives from a feed.
    pub(super) fn receive_feed(&mut self, node: usize, number: u64, update: FeedUpdate) {
        let is_of = |client: &super::Client| {
            let source = client.feed.source.as_ref();
            client.node() == Some(node) && source.is_some_and(|source| source.number == number)
        };
        let Some(client) = self.clients.iter().position(is_of) else {
            return;
        };
        let FeedUpdate {
            deliveries,
            messages,
            removed: keys,
        } = self.clients[client].feed.receive(update);
        let Some(connection) = self.clients[client].connection() else {
            return;
        };
        let messages = messages.into_iter().map(|key| QueuedMessage {
            key,
            qos: self.published[&key.dot].qos,
            value: Payload::queued(key.dot),
        });
        let fed = FedMessages {
            deliveries,
            messages: messages.collect(),
        };
        self.tell(node, DeliveringEvent::Fed { connection, fed });
        self.tell(node, DeliveringEvent::Withdrawn { connection, keys });
    }
}

impl Feed {
    /// What of an update is new to the node of the connection.
    fn receive(&mut self, mut update: FeedUpdate) -> FeedUpdate {
        let changes = &mut update.deliveries;
        changes.ended.retain(|dot| self.told.remove(dot).is_some());
        let added = changes.added.iter();
        self.told.extend(added.map(|added| (added.dot, added.known)));
        changes.gone.retain(|dot| {
            let known = self.told.get_mut(dot).filter(|known| !known.is_gone);
            known.map(|known| known.is_gone = true).is_some()
        });
        update.removed.retain(|key| self.held.remove(key));
        self.held.extend(&update.messages);
        if let Some(source) = &mut self.source {
            source.under_way -= update.messages.len();
        }
        update
    }
}

impl FeedUpdate {
    fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.messages.is_empty() && self.removed.is_empty()
    }
}
