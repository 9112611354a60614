//! Who subscribes to one filter.

use std::collections::BTreeMap;

use crate::memory::footprint::{block, tree};

/// The subscriptions to one filter, in the order of their subscribers' keys: a session with its options, or a share.
///
/// Most filters have one subscriber, and there may be a million filters: 16 bytes for none or one.
#[derive(Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "an unboxed map would make none and one as large"
)]
pub(super) enum Subscribers<K, V> {
    #[default]
    None,
    One(K, V),
    /// Two or more.
    Many(Box<BTreeMap<K, V>>),
}

impl<K: Copy + Ord, V: Copy> Subscribers<K, V> {
    /// Adds a subscription and returns the one it replaces.
    pub(super) fn insert(&mut self, key: K, subscription: V) -> Option<V> {
        match self {
            Self::None => {
                *self = Self::One(key, subscription);
                None
            }
            Self::One(only, existing) if *only == key => Some(std::mem::replace(existing, subscription)),
            Self::One(only, existing) => {
                let both = BTreeMap::from([(*only, *existing), (key, subscription)]);
                *self = Self::Many(Box::new(both));
                None
            }
            Self::Many(all) => all.insert(key, subscription),
        }
    }

    /// Removes a subscription; the memory that it gives back, or `None` if there was none.
    pub(super) fn remove(&mut self, key: K) -> Option<u64> {
        let before = self.bytes();
        match self {
            Self::None => return None,
            Self::One(only, _) => {
                if *only != key {
                    return None;
                }
                *self = Self::None;
            }
            Self::Many(all) => {
                all.remove(&key)?;
                if all.len() == 1
                    && let Some((last, subscription)) = all.pop_first()
                {
                    *self = Self::One(last, subscription);
                }
            }
        }
        Some(before - self.bytes())
    }

    /// Memory besides the place that it is in.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::None | Self::One(..) => 0,
            Self::Many(all) => block(size_of::<BTreeMap<K, V>>()) + tree::<K, V>(all.len()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(super) fn visit(&self, visit: &mut impl FnMut(K, &V)) {
        match self {
            Self::None => {}
            Self::One(key, subscription) => visit(*key, subscription),
            Self::Many(all) => all
                .iter()
                .for_each(|(key, subscription)| visit(*key, subscription)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionKey;
    use crate::subscriptions::Subscription;

    #[test]
    fn none_or_one_subscriber_takes_16_bytes() {
        assert_eq!(size_of::<Subscribers<SessionKey, Subscription>>(), 16);
    }

    #[test]
    fn subscribers_are_visited_by_key_and_shrink_back_to_one() {
        let mut subscribers = Subscribers::default();
        for key in [3, 1, 2] {
            assert_eq!(subscribers.insert(SessionKey(key), Subscription::default()), None);
        }
        let mut seen = vec![];
        subscribers.visit(&mut |session, _| seen.push(session.0));
        assert_eq!(seen, [1, 2, 3]);

        assert!(subscribers.remove(SessionKey(1)).is_some());
        assert!(subscribers.remove(SessionKey(1)).is_none());
        assert!(subscribers.remove(SessionKey(3)).is_some());
        assert!(matches!(subscribers, Subscribers::One(SessionKey(2), _)));
        assert!(subscribers.remove(SessionKey(2)).is_some());
        assert!(subscribers.is_empty());
    }
}
