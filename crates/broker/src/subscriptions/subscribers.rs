//! The sessions that subscribe to one filter.

use std::collections::BTreeMap;

use super::Subscription;
use crate::ids::SessionKey;

/// The subscriptions to one filter, in the order of their sessions' keys.
///
/// Most filters have one subscriber, and there may be a million filters: 16 bytes for none or one.
#[derive(Debug, Default)]
#[expect(
    clippy::box_collection,
    reason = "an unboxed map would make none and one as large"
)]
pub(super) enum Subscribers {
    #[default]
    None,
    One(SessionKey, Subscription),
    /// Two or more.
    Many(Box<BTreeMap<SessionKey, Subscription>>),
}

impl Subscribers {
    /// Adds a subscription and returns the one it replaces.
    pub(super) fn insert(&mut self, session: SessionKey, subscription: Subscription) -> Option<Subscription> {
        match self {
            Self::None => {
                *self = Self::One(session, subscription);
                None
            }
            Self::One(only, existing) if *only == session => Some(std::mem::replace(existing, subscription)),
            Self::One(only, existing) => {
                let both = BTreeMap::from([(*only, *existing), (session, subscription)]);
                *self = Self::Many(Box::new(both));
                None
            }
            Self::Many(all) => all.insert(session, subscription),
        }
    }

    /// Removes a session's subscription; false if it had none.
    pub(super) fn remove(&mut self, session: SessionKey) -> bool {
        match self {
            Self::None => false,
            Self::One(only, _) => {
                let is_it = *only == session;
                if is_it {
                    *self = Self::None;
                }
                is_it
            }
            Self::Many(all) => {
                let existed = all.remove(&session).is_some();
                if all.len() == 1
                    && let Some((last, subscription)) = all.pop_first()
                {
                    *self = Self::One(last, subscription);
                }
                existed
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(super) fn visit(&self, visit: &mut impl FnMut(SessionKey, &Subscription)) {
        match self {
            Self::None => {}
            Self::One(session, subscription) => visit(*session, subscription),
            Self::Many(all) => all
                .iter()
                .for_each(|(session, subscription)| visit(*session, subscription)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_or_one_subscriber_takes_16_bytes() {
        assert_eq!(size_of::<Subscribers>(), 16);
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

        assert!(subscribers.remove(SessionKey(1)));
        assert!(!subscribers.remove(SessionKey(1)));
        assert!(subscribers.remove(SessionKey(3)));
        assert!(matches!(subscribers, Subscribers::One(SessionKey(2), _)));
        assert!(subscribers.remove(SessionKey(2)));
        assert!(subscribers.is_empty());
    }
}
