//! The subscriptions of one session.

use protocol::topic::SubscriptionFilter;

use crate::subscriptions::Subscription;

/// What a session subscribed to, in the order of the filters.
///
/// A sorted list: most sessions have a handful, a million sessions have one each, and the limit
/// ([`crate::limits::Limits::subscriptions_per_session_max`]) keeps insertion cheap for the others.
#[derive(Debug, Default)]
pub struct Filters {
    list: Vec<(SubscriptionFilter, Subscription)>,
    bytes: u64,
}

impl Filters {
    /// Adds a subscription and returns the one it replaces. [MQTT-3.8.4-3]
    pub fn insert(
        &mut self,
        filter: &SubscriptionFilter,
        subscription: Subscription,
    ) -> Option<Subscription> {
        match self.position(filter) {
            Ok(position) => Some(std::mem::replace(&mut self.list[position].1, subscription)),
            Err(position) => {
                self.bytes += bytes(filter);
                if self.list.is_empty() {
                    self.list.reserve_exact(1);
                }
                // In memory of its own: a filter stays for long after the packet it came in.
                self.list.insert(position, (filter.detached(), subscription));
                None
            }
        }
    }

    /// Removes a subscription.
    pub fn remove(&mut self, filter: &SubscriptionFilter) -> Option<Subscription> {
        let position = self.position(filter).ok()?;
        self.bytes -= bytes(filter);
        Some(self.list.remove(position).1)
    }

    /// The subscription to a filter.
    pub fn get(&self, filter: &SubscriptionFilter) -> Option<&Subscription> {
        self.position(filter).ok().map(|position| &self.list[position].1)
    }

    /// All of them, in the order of their filters.
    pub fn iter(&self) -> impl Iterator<Item = (&SubscriptionFilter, &Subscription)> {
        self.list
            .iter()
            .map(|(filter, subscription)| (filter, subscription))
    }

    /// All from a place in that order on.
    pub fn from(&self, place: usize) -> impl Iterator<Item = (&SubscriptionFilter, &Subscription)> {
        let rest = self.list.get(place..).unwrap_or_default();
        rest.iter().map(|(filter, subscription)| (filter, subscription))
    }

    /// Those that are shared.
    pub fn shared(&self) -> impl Iterator<Item = &SubscriptionFilter> {
        // Filters without a share name come first in their order.
        let reversed = self.list.iter().rev().map(|(filter, _)| filter);
        reversed.take_while(|filter| filter.share.is_some())
    }

    /// True if one of them is shared.
    pub fn has_shared(&self) -> bool {
        self.shared().next().is_some()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// How many bytes the filters have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn position(&self, filter: &SubscriptionFilter) -> Result<usize, usize> {
        self.list.binary_search_by(|(other, _)| other.cmp(filter))
    }
}

fn bytes(filter: &SubscriptionFilter) -> u64 {
    let share = filter.share.as_ref().map_or(0, |share| share.as_str().len());
    (filter.filter.as_str().len() + share) as u64
}
