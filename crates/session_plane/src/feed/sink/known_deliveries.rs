//! Deliveries of a session that owners have told of and that are there still, as far as this node
//! knows.
//!
//! *Invariant*: at most as many as the sink's limit. An owner that tells more is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::fed_session::OpenFeed;
use crate::Dot;
use crate::feed::{DeliveryChanges, FeedError, KnownDelivery};

/// Deliveries by their events.
#[derive(Debug, Default)]
pub(super) struct KnownDeliveries {
    known: BTreeMap<Dot, KnownDelivery>,
}

impl KnownDeliveries {
    /// Deliveries as a new feed names them.
    pub(super) fn named(&self) -> BTreeMap<Dot, KnownDelivery> {
        self.known.clone()
    }

    /// Forgets a delivery that this node has removed.
    pub(super) fn forget(&mut self, delivery: Dot) {
        self.known.remove(&delivery);
    }

    /// The changes name events, add nothing that is known, and fit.
    pub(super) fn check<V>(
        &self,
        open: &OpenFeed,
        changes: &DeliveryChanges<V>,
        deliveries_max: usize,
    ) -> Result<(), FeedError> {
        let (peer, feed) = (open.owner, open.id);
        let ended: BTreeSet<&Dot> = changes.ended.iter().collect();
        let ended = ended.into_iter().filter(|dot| self.known.contains_key(dot));
        let deliveries = self.known.len() - ended.count() + changes.added.len();
        if deliveries > deliveries_max {
            return Err(FeedError::TooManyDeliveries {
                peer,
                feed,
                deliveries,
                deliveries_max,
            });
        }
        let mut new = BTreeSet::new();
        for added in &changes.added {
            let delivery = added.dot;
            if delivery.number == 0 || added.known.message.number == 0 {
                return Err(FeedError::NoEvent { peer, feed });
            }
            if self.known.contains_key(&delivery) || !new.insert(delivery) {
                return Err(FeedError::DeliveryRepeated { peer, feed, delivery });
            }
        }
        Ok(())
    }

    /// Applies changes that were checked; gives those that are new here.
    pub(super) fn apply<V>(&mut self, mut changes: DeliveryChanges<V>) -> DeliveryChanges<V> {
        // This node may have removed what the owner tells of, and the owner does not know yet.
        changes.ended.retain(|dot| self.known.remove(dot).is_some());
        changes.gone.retain(|dot| {
            let known = self.known.get_mut(dot).filter(|known| !known.is_gone);
            known.map(|known| known.is_gone = true).is_some()
        });
        let added = changes.added.iter().map(|added| (added.dot, added.known));
        self.known.extend(added);
        changes
    }
}
