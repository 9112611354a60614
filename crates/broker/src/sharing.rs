//! Shared subscriptions: who gets a message, and who gets it when that session ends.
//!
//! The choice itself is in `mqtt/src/subscriptions/shares.rs`; here is what it needs to know, and what follows from it. A message
//! that a share has given to a session stays with it until the session ends or leaves the share: a client that comes
//! back finds it in its queue. Then what it has not got goes to another sharer, in one batch of writes with the end, so
//! that a crash neither loses nor doubles it.

use std::sync::Arc;

use mqtt::ids::SessionKey;
use mqtt::message::{Delivery, Message};
use mqtt::now::Now;
use mqtt::records;
use mqtt::session::DropCause;
use mqtt::subscriptions::{Point, ShareKey, Standing, Subscription, point_of};
use protocol::topic::SubscriptionFilter;
use smallvec::SmallVec;

use crate::node::{Action, Node};
use crate::routing::{RouteScratch, route_of_share};
use crate::sessions::SessionEntry;

/// Who of those who share a subscription gets a message. Messages with the user property `$partition` go by its value
/// under each of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShareStrategy {
    /// The next one in turn.
    #[default]
    RoundRobin,
    /// The same one for all messages of one publisher, by its client id. What has none (wills, messages of the server)
    /// goes in turn.
    HashClient,
    /// The same one for all messages to one topic.
    HashTopic,
}

impl Node {
    /// Adds a subscription where its messages will find it.
    pub(crate) fn join(&mut self, key: SessionKey, filter: &SubscriptionFilter, subscription: Subscription) {
        if filter.share.is_none() {
            let replaced = self.subscriptions.subscribe(key, &filter.filter, subscription);
            if let Some(peers) = self.peers.as_mut().filter(|_| replaced.is_none()) {
                peers.subscribed(&filter.filter);
            }
            return;
        }
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let point = point_of(&entry.session.client_id);
        self.shares.subscribe(key, point, filter, subscription);
        entry.standing = standing_of(entry);
        self.shares.stand(key, filter, entry.standing);
        self.tell_share(filter);
    }

    /// Removes a subscription from where its messages find it.
    pub(crate) fn leave(&mut self, key: SessionKey, filter: &SubscriptionFilter) {
        if filter.share.is_some() {
            self.shares.unsubscribe(key, filter);
            self.tell_share(filter);
        } else {
            let existed = self.subscriptions.unsubscribe(key, &filter.filter);
            if let Some(peers) = self.peers.as_mut().filter(|_| existed) {
                peers.unsubscribed(&filter.filter);
            }
        }
    }

    /// Tells the other nodes how many share something here.
    fn tell_share(&mut self, filter: &SubscriptionFilter) {
        if let Some(peers) = &mut self.peers {
            peers.shared(filter, self.shares.count(filter));
        }
    }

    /// A session is about to end: nothing shared is for it any more.
    pub(crate) fn leave_shares(&mut self, key: SessionKey) {
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        for filter in entry.session.filters.shared() {
            self.shares.unsubscribe(key, filter);
            if let Some(peers) = &mut self.peers {
                peers.shared(filter, self.shares.count(filter));
            }
        }
    }

    /// A session, or what waits in it, has changed: for the totals of all, and for the shares that it is in.
    pub(crate) fn note_standing(&mut self, key: SessionKey) {
        self.sessions.recount(key);
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if !entry.session.filters.has_shared() {
            return;
        }
        let standing = standing_of(entry);
        if standing == entry.standing {
            return;
        }
        entry.standing = standing;
        for filter in entry.session.filters.shared() {
            self.shares.stand(key, filter, standing);
            if let Some(peers) = &mut self.peers {
                peers.shared(filter, self.shares.count(filter));
            }
        }
    }

    /// Adds a route for each share that matches: to one of its sharers.
    pub(crate) fn find_sharers(&mut self, message: &Message, scratch: &mut RouteScratch) {
        if self.shares.is_empty() && self.peers.is_none() {
            return;
        }
        let mut found: SmallVec<[ShareKey; 4]> = SmallVec::new();
        self.shares
            .matches(message.topic.as_str(), &mut |share| found.push(share));
        if self.peers.is_some() {
            return self.find_sharers_everywhere(message, &found, scratch);
        }
        if found.is_empty() {
            return;
        }
        let point = self.point_of(message);
        for share in found {
            if let Some(chosen) = self.shares.choose(share, point) {
                scratch.routes.push(route_of_share(message, chosen));
            }
        }
    }

    /// A session has left a share: what waits in its queue for it goes to others.
    pub(crate) fn give_back(
        &mut self,
        now: Now,
        key: SessionKey,
        filter: &SubscriptionFilter,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let number = entry.session.number;
        let waiting = entry.session.take_waiting(filter);
        for sequence in waiting.iter().filter_map(|delivery| delivery.durable) {
            self.commits.write(records::queue::remove_once(number, sequence));
        }
        self.note_standing(key);
        self.share_again(now, waiting, actions);
    }

    /// Gives deliveries of a session that has left their shares to others. (section 4.8.2)
    pub(crate) fn share_again(&mut self, now: Now, left: Vec<Delivery>, actions: &mut Vec<Action>) {
        for delivery in left {
            let point = self.point_of(&delivery.message);
            let share = delivery
                .share
                .as_deref()
                .and_then(|share| self.shares.find(share));
            let Some(chosen) = share.and_then(|share| self.shares.choose(share, point)) else {
                let filter = delivery.share.as_deref();
                if filter.is_some_and(|filter| self.share_elsewhere(now, &delivery.message, filter)) {
                    self.counters.shared_moved += 1;
                } else {
                    self.counters.dropped.count(DropCause::NoSharer);
                }
                continue;
            };
            self.counters.shared_moved += 1;
            // It may have been sent at once, and still be in the memory of the packet it came in.
            let message = Arc::new(delivery.message.detached());
            let route = route_of_share(&message, chosen);
            let session = route.session;
            self.deliver(
                now,
                session,
                route.delivery(&message, delivery.kind.for_others()),
                actions,
            );
        }
        self.stored = None;
    }

    /// What a message is kept together with, if the strategy or its publisher asks for that.
    pub(crate) fn point_of(&self, message: &Message) -> Option<Point> {
        if let Some(partition) = message.properties.user_properties.find(PARTITION) {
            return Some(point_of(partition));
        }
        match self.config.share_strategy {
            ShareStrategy::RoundRobin => None,
            ShareStrategy::HashTopic => Some(point_of(message.topic.as_str())),
            ShareStrategy::HashClient => {
                let publisher = message.publisher.and_then(|key| self.sessions.get(key))?;
                Some(point_of(&publisher.session.client_id))
            }
        }
    }
}

fn standing_of(entry: &SessionEntry) -> Standing {
    if !entry.session.is_connected() {
        Standing::Away
    } else if entry.session.is_behind(entry.standing == Standing::Behind) {
        Standing::Behind
    } else {
        Standing::Free
    }
}

/// The user property by whose value the official clients of Azure IoT Operations keep messages together.
const PARTITION: &str = "$partition";
