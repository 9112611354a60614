//! Subscriptions of one session.

use std::collections::BTreeMap;

use protocol::topic::SubscriptionFilter;

use crate::memory::footprint::{self, block, places, text};
use crate::subscriptions::Subscription;

/// What a session subscribed to, in the order of the filters.
#[derive(Debug, Default)]
pub struct Filters {
    list: List,
    bytes: u64,
    shared: u32,
}

/// Most sessions have a handful, and a million sessions have one each: a sorted list, in which each change moves what is behind it. Where
/// that would become work, a tree takes its place.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "a tree in place would make the list larger")]
enum List {
    Few(Vec<(SubscriptionFilter, Subscription)>),
    Many(Box<BTreeMap<SubscriptionFilter, Subscription>>),
}

/// The longest list.
const FEW_MAX: usize = 64;

/// What a tree must shrink to until it is a list again.
const FEW_AGAIN: usize = 32;

impl Default for List {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Filters {
    /// Adds a subscription and returns the one it replaces. [MQTT-3.8.4-3]
    pub fn insert(
        &mut self,
        filter: &SubscriptionFilter,
        subscription: Subscription,
    ) -> Option<Subscription> {
        let position = match &mut self.list {
            List::Many(tree) => {
                if let Some(existing) = tree.get_mut(filter) {
                    return Some(std::mem::replace(existing, subscription));
                }
                self.bytes += bytes(filter);
                self.shared += u32::from(filter.share.is_some());
                tree.insert(filter.detached(), subscription);
                return None;
            }
            List::Few(list) => match position(list, filter) {
                Ok(position) => return Some(std::mem::replace(&mut list[position].1, subscription)),
                Err(position) => position,
            },
        };
        self.bytes += bytes(filter);
        self.shared += u32::from(filter.share.is_some());
        if let List::Few(list) = &mut self.list {
            if list.is_empty() {
                list.reserve_exact(1);
            }
            // In memory of its own: a filter stays for long after the packet it came in.
            list.insert(position, (filter.detached(), subscription));
            if list.len() > FEW_MAX {
                let tree = std::mem::take(list).into_iter().collect();
                self.list = List::Many(Box::new(tree));
            }
        }
        None
    }

    /// Removes a subscription.
    pub fn remove(&mut self, filter: &SubscriptionFilter) -> Option<Subscription> {
        let removed = match &mut self.list {
            List::Few(list) => {
                let (_, removed) = list.remove(position(list, filter).ok()?);
                if list.len() < list.capacity() / 4 {
                    list.shrink_to(2 * list.len());
                }
                removed
            }
            List::Many(tree) => {
                let removed = tree.remove(filter)?;
                if tree.len() <= FEW_AGAIN {
                    let list = std::mem::take(&mut **tree).into_iter().collect();
                    self.list = List::Few(list);
                }
                removed
            }
        };
        self.bytes -= bytes(filter);
        self.shared -= u32::from(filter.share.is_some());
        Some(removed)
    }

    /// The subscription to a filter.
    pub fn get(&self, filter: &SubscriptionFilter) -> Option<&Subscription> {
        match &self.list {
            List::Few(list) => position(list, filter).ok().map(|position| &list[position].1),
            List::Many(tree) => tree.get(filter),
        }
    }

    /// All of them, in the order of their filters.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&SubscriptionFilter, &Subscription)> {
        let (list, tree) = match &self.list {
            List::Few(list) => (list.as_slice(), None),
            List::Many(tree) => ([].as_slice(), Some(tree.iter())),
        };
        let list = list.iter().map(|(filter, subscription)| (filter, subscription));
        list.chain(tree.into_iter().flatten())
    }

    /// All from a place in that order on.
    pub fn from(&self, place: usize) -> impl Iterator<Item = (&SubscriptionFilter, &Subscription)> {
        self.iter().skip(place)
    }

    /// Those that are shared.
    pub fn shared(&self) -> impl Iterator<Item = &SubscriptionFilter> {
        // Filters without a share name come first in their order.
        let reversed = self.iter().rev().map(|(filter, _)| filter);
        reversed.take_while(|filter| filter.share.is_some())
    }

    /// True if one of them is shared.
    pub fn has_shared(&self) -> bool {
        self.shared > 0
    }

    /// How many of them are shared.
    pub fn shared_len(&self) -> usize {
        self.shared as usize
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.list {
            List::Few(list) => list.len(),
            List::Many(tree) => tree.len(),
        }
    }

    /// Their memory.
    pub fn bytes(&self) -> u64 {
        let places = match &self.list {
            List::Few(list) => places::<(SubscriptionFilter, Subscription)>(list.capacity()),
            List::Many(tree) => {
                block(size_of_val(&**tree)) + footprint::tree::<SubscriptionFilter, Subscription>(tree.len())
            }
        };
        self.bytes + places
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in the order of their filters.
    pub fn into_subscriptions(self) -> Vec<(SubscriptionFilter, Subscription)> {
        match self.list {
            List::Few(list) => list,
            List::Many(tree) => tree.into_iter().collect(),
        }
    }
}

fn position(
    list: &[(SubscriptionFilter, Subscription)],
    filter: &SubscriptionFilter,
) -> Result<usize, usize> {
    list.binary_search_by(|(other, _)| other.cmp(filter))
}

fn bytes(filter: &SubscriptionFilter) -> u64 {
    filter.share.as_ref().map_or(0, text) + text(filter.filter.text())
}

#[cfg(test)]
mod tests {
    use protocol::Text;

    use super::*;

    fn filter(number: usize) -> SubscriptionFilter {
        let text = match number % 3 {
            0 => format!("$share/s/{number:04}"),
            _ => format!("{number:04}/+"),
        };
        SubscriptionFilter::parse(Text::new(text).unwrap()).unwrap()
    }

    #[test]
    fn a_list_becomes_a_tree_and_a_list_again_and_is_the_same() {
        let mut filters = Filters::default();
        for number in (0..3 * FEW_MAX).rev() {
            assert_eq!(filters.insert(&filter(number), Subscription::default()), None);
            assert!(filters.iter().is_sorted_by_key(|(filter, _)| filter));
        }
        assert!(matches!(filters.list, List::Many(_)));
        assert!(filters.insert(&filter(7), Subscription::default()).is_some());
        assert_eq!((filters.len(), filters.shared().count()), (3 * FEW_MAX, FEW_MAX));
        assert_eq!(filters.from(10).count(), 3 * FEW_MAX - 10);
        for number in 0..3 * FEW_MAX {
            assert!(filters.remove(&filter(number)).is_some());
            assert!(filters.remove(&filter(number)).is_none());
            assert_eq!(filters.get(&filter(number)), None);
        }
        assert_eq!((filters.len(), filters.bytes()), (0, 0));
        assert!(matches!(filters.list, List::Few(_)));
    }
}
