//! Deliveries in a feed: what the receiver was told of them, and what it is told next.
//!
//! *Invariants*: while the feed is open, the receiver was told each delivery of the session that is
//! not of its own connection. What the copy has not decided upon stays told. A message that is
//! neither in the queue nor decided upon is looked for again when the copy has more events.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;

use crate::feed::{FeedError, FeedOpen, KnownDelivery, Queues};
use crate::{ClientId, Dot};

/// Deliveries that the receiver of a feed was told of.
#[derive(Debug)]
pub(super) struct DeliveryFeed {
    /// Later events of this run are of the receiver's connection.
    own_after: Dot,
    told: BTreeMap<Dot, KnownDelivery>,
    /// Those whose message is not gone.
    by_message: BTreeSet<Named>,
    /// Of those the ones whose message may still come.
    undecided: BTreeSet<Named>,
}

/// Delivery by the message that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    message: Dot,
    delivery: Dot,
}

/// Events of deliveries that the receiver is told of next.
#[derive(Debug, Default)]
pub(super) struct ToldNext {
    pub(super) added: Vec<Dot>,
    pub(super) gone: Vec<Dot>,
    pub(super) ended: Vec<Dot>,
}

/// The deliveries that a peer names are events, and not more than a feed may tell of.
pub(super) fn check_named(peer: NodeId, open: &FeedOpen, deliveries_max: usize) -> Result<(), FeedError> {
    let (feed, deliveries) = (open.feed, open.deliveries.len());
    if deliveries > deliveries_max {
        return Err(FeedError::TooManyDeliveries {
            peer,
            feed,
            deliveries,
            deliveries_max,
        });
    }
    let mut named = open.deliveries.iter();
    if named.any(|(dot, known)| dot.number == 0 || known.message.number == 0) {
        return Err(FeedError::NoEvent { peer, feed });
    }
    Ok(())
}

impl DeliveryFeed {
    /// Deliveries that the receiver names when it opens the feed.
    pub(super) fn new(open: &FeedOpen) -> DeliveryFeed {
        let named = open.deliveries.iter().filter(|(_, known)| !known.is_gone);
        let by_message = named.map(|(delivery, known)| Named {
            message: known.message,
            delivery: *delivery,
        });
        DeliveryFeed {
            own_after: open.own_after,
            told: open.deliveries.clone(),
            by_message: by_message.collect(),
            undecided: BTreeSet::new(),
        }
    }

    /// Number of deliveries that the receiver was told of.
    pub(super) fn len(&self) -> usize {
        self.told.len()
    }

    /// The message of a delivery may still come.
    pub(super) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// What was told of a delivery.
    pub(super) fn told(&self, delivery: Dot) -> Option<KnownDelivery> {
        self.told.get(&delivery).copied()
    }

    /// The event is of the receiver's run, which knows it.
    pub(super) fn is_of_receiver(&self, event: Dot) -> bool {
        event.run == self.own_after.run
    }

    /// Compares with all deliveries of the session, which the copy may have merged.
    pub(super) fn read<V>(&mut self, client: &ClientId, queues: &impl Queues<V>) -> ToldNext {
        let deliveries = queues.deliveries(client);
        let is_removed = |dot: &Dot| !deliveries.contains_key(dot) && queues.covers(client, *dot);
        let ended: Vec<Dot> = self.told.keys().copied().filter(is_removed).collect();
        for delivery in &ended {
            self.forget(*delivery);
        }
        let named: Vec<Named> = self.by_message.iter().copied().collect();
        let mut next = ToldNext {
            ended,
            ..ToldNext::default()
        };
        next.gone.extend(self.decide(named, client, queues));
        for (delivery, message) in deliveries {
            let added = self.add(delivery, message, client, queues);
            next.added.extend(added.added);
        }
        next
    }

    /// Adds a delivery of the session, unless it is known to the receiver.
    pub(super) fn add<V>(
        &mut self,
        delivery: Dot,
        message: Dot,
        client: &ClientId,
        queues: &impl Queues<V>,
    ) -> ToldNext {
        let is_own = self.is_of_receiver(delivery) && delivery.number > self.own_after.number;
        if is_own || self.told.contains_key(&delivery) {
            return ToldNext::default();
        }
        let is_gone = false;
        self.told.insert(delivery, KnownDelivery { message, is_gone });
        let named = Named { message, delivery };
        self.by_message.insert(named);
        self.decide([named], client, queues);
        ToldNext {
            added: vec![delivery],
            ..ToldNext::default()
        }
    }

    /// Removes a delivery; tells it unless the receiver has made the event `by`.
    pub(super) fn remove(&mut self, delivery: Dot, by: Dot) -> ToldNext {
        let is_untold = self.forget(delivery) && !self.is_of_receiver(by);
        ToldNext {
            ended: is_untold.then_some(delivery).into_iter().collect(),
            ..ToldNext::default()
        }
    }

    /// A message was added to the queue: its removal is told of later.
    pub(super) fn add_message(&mut self, message: Dot) {
        for named in self.of_message(message) {
            self.undecided.remove(&named);
        }
    }

    /// A message of the queue was removed.
    pub(super) fn remove_message(&mut self, message: Dot) -> ToldNext {
        let gone: Vec<Dot> = self.of_message(message).map(|named| named.delivery).collect();
        for delivery in &gone {
            self.lose_message(*delivery);
        }
        ToldNext {
            gone,
            ..ToldNext::default()
        }
    }

    /// Looks again for messages that may have come, or were decided upon.
    pub(super) fn look_again<V>(&mut self, client: &ClientId, queues: &impl Queues<V>) -> ToldNext {
        let undecided = std::mem::take(&mut self.undecided);
        ToldNext {
            gone: self.decide(undecided, client, queues),
            ..ToldNext::default()
        }
    }

    /// Looks for the messages of deliveries; gives the deliveries whose message is gone.
    fn decide<V>(
        &mut self,
        deliveries: impl IntoIterator<Item = Named>,
        client: &ClientId,
        queues: &impl Queues<V>,
    ) -> Vec<Dot> {
        let mut gone = Vec::new();
        for named in deliveries {
            self.undecided.remove(&named);
            if queues.is_queued(client, named.message) {
                continue;
            }
            if queues.covers(client, named.message) {
                self.lose_message(named.delivery);
                gone.push(named.delivery);
            } else {
                self.undecided.insert(named);
            }
        }
        gone
    }

    fn lose_message(&mut self, delivery: Dot) {
        if let Some(known) = self.told.get_mut(&delivery) {
            known.is_gone = true;
            let message = known.message;
            self.forget_name(Named { message, delivery });
        }
    }

    /// Forgets a delivery; tells whether the receiver knows it.
    fn forget(&mut self, delivery: Dot) -> bool {
        let Some(KnownDelivery { message, .. }) = self.told.remove(&delivery) else {
            return false;
        };
        self.forget_name(Named { message, delivery });
        true
    }

    fn forget_name(&mut self, named: Named) {
        self.by_message.remove(&named);
        self.undecided.remove(&named);
    }

    /// Deliveries of a message. A message has one, unless several sides of a split gave it theirs.
    fn of_message(&self, message: Dot) -> impl Iterator<Item = Named> + use<> {
        let (first, last) = (Dot::MIN, Dot::MAX);
        let range = Named {
            message,
            delivery: first,
        }..=Named {
            message,
            delivery: last,
        };
        let of_message: Vec<Named> = self.by_message.range(range).copied().collect();
        of_message.into_iter()
    }
}
