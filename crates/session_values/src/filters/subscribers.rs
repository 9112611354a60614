//! Subscribers by filter: clients with sessions, and shared groups.
//!
//! *Invariant*: a subscriber has a place exactly while it has a filter.

use std::collections::{BTreeMap, BTreeSet};

use mqtt::subscriptions::Index;
use protocol::packet::QoS;
use protocol::{TopicFilter, TopicName};
use session_plane::{ClientId, GroupId, Slot};
use slab::Slab;

use super::last_found::Found;
use crate::Value;

/// Place of a subscriber.
type Place = usize;

/// Clients and groups, found by the topics of messages.
#[derive(Debug)]
pub(super) struct Subscribers {
    index: Index<Place, ()>,
    places: BTreeMap<ClientId, Place>,
    subscribers: Slab<Subscriber>,
}

#[derive(Debug)]
struct Subscriber {
    id: ClientId,
    of: SubscriberOf,
    filters: BTreeSet<TopicFilter>,
}

#[derive(Debug)]
enum SubscriberOf {
    /// Session in this slot.
    Session(Slot),
    Group(GroupId),
}

impl Subscribers {
    pub(super) fn new(seed: u64) -> Subscribers {
        Subscribers {
            index: Index::new(seed),
            places: BTreeMap::new(),
            subscribers: Slab::new(),
        }
    }

    /// Sets the subscriptions of a client, or of the members of a group.
    pub(super) fn set(&mut self, id: &ClientId, subscriptions: &[&Value]) {
        let of = match GroupId::of_key(id) {
            Some(group) => SubscriberOf::Group(group),
            None => SubscriberOf::Session(Slot::of_client(id.as_bytes())),
        };
        let wanted = filters(subscriptions, &of);
        let before = self.places.get(id).copied();
        let place = match before {
            Some(place) => place,
            None if wanted.is_empty() => return,
            None => self.add(id, of),
        };
        let had = std::mem::take(&mut self.subscribers[place].filters);
        for filter in had.difference(&wanted) {
            self.index.remove(filter, place);
        }
        for filter in wanted.difference(&had) {
            self.index.insert(filter, place, ());
        }
        if wanted.is_empty() {
            self.places.remove(id);
            self.subscribers.remove(place);
        } else {
            self.subscribers[place].filters = wanted;
        }
    }

    fn add(&mut self, id: &ClientId, of: SubscriberOf) -> Place {
        let place = self.subscribers.insert(Subscriber {
            id: id.clone(),
            of,
            filters: BTreeSet::new(),
        });
        self.places.insert(id.clone(), place);
        place
    }

    /// Subscribers with a filter that matches the topic.
    pub(super) fn find(&self, topic: &TopicName) -> Found {
        let mut places = Vec::new();
        self.index
            .matches(topic.as_str(), &mut |place, ()| places.push(place));
        // One with several filters that match is found once.
        places.sort_unstable();
        places.dedup();
        let mut found = Found::default();
        for subscriber in places.into_iter().filter_map(|place| self.subscribers.get(place)) {
            match &subscriber.of {
                SubscriberOf::Session(slot) => found.add_session(*slot, &subscriber.id),
                SubscriberOf::Group(group) => {
                    found.add_group(group.slot(topic.as_str().as_bytes()), &subscriber.id);
                }
            }
        }
        found
    }

    pub(super) fn bytes(&self) -> u64 {
        /// Memory of a subscriber beside its filters: its place twice, and its name.
        const SUBSCRIBER: usize = 160;
        /// Memory of a filter in the set of its subscriber.
        const FILTER: usize = 64;
        let of_filters = |subscriber: &Subscriber| subscriber.filters.len() * FILTER;
        let filters: usize = self
            .subscribers
            .iter()
            .map(|(_, subscriber)| of_filters(subscriber))
            .sum();
        self.index.bytes() + (self.subscribers.len() * SUBSCRIBER + filters) as u64
    }
}

/// Filters under which a subscriber is found. A session takes messages of QoS 0 at the node of its
/// connection.
fn filters(subscriptions: &[&Value], of: &SubscriberOf) -> BTreeSet<TopicFilter> {
    let terms = subscriptions.iter().filter_map(|value| match value {
        Value::Subscription(terms) => Some(terms),
        _ => None,
    });
    let is_stored = |qos: QoS| matches!(of, SubscriberOf::Group(_)) || qos > QoS::AtMostOnce;
    let stored = terms.filter(|terms| is_stored(terms.options().qos));
    stored.map(|terms| terms.filter().filter.clone()).collect()
}
