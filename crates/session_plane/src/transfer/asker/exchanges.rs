//! Exchanges of an asker: answers that are under way, by slot and holder.
//!
//! *Invariants*: the counts and the sets beside the exchanges say what these say. Entries of a slot are
//! compared with one holder at a time.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;

use crate::Slot;
use crate::transfer::exchange::{Exchange, Stage};

/// Names an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExchangeKey {
    pub(super) slot: Slot,
    pub(super) holder: NodeId,
}

/// Answers that are under way.
#[derive(Debug)]
pub(super) struct Exchanges<V, M> {
    all: BTreeMap<ExchangeKey, Exchange<V, M>>,
    /// Those that wait to be compared.
    ready: BTreeSet<ExchangeKey>,
    /// Those of which entries are compared.
    comparing: BTreeSet<ExchangeKey>,
    /// Bytes of parts that are staged.
    bytes: usize,
}

impl<V, M> Default for Exchanges<V, M> {
    fn default() -> Exchanges<V, M> {
        Exchanges {
            all: BTreeMap::new(),
            ready: BTreeSet::new(),
            comparing: BTreeSet::new(),
            bytes: 0,
        }
    }
}

impl<V, M> Exchanges<V, M> {
    pub(super) fn get(&self, key: &ExchangeKey) -> Option<&Exchange<V, M>> {
        self.all.get(key)
    }

    pub(super) fn contains(&self, key: &ExchangeKey) -> bool {
        self.all.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Holder of each exchange.
    pub(super) fn holders(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.all.keys().map(|key| key.holder)
    }

    /// Bytes of parts that are staged.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn insert(&mut self, key: ExchangeKey, exchange: Exchange<V, M>) {
        self.remove(&key);
        self.all.insert(key, exchange);
    }

    pub(super) fn remove(&mut self, key: &ExchangeKey) -> Option<Exchange<V, M>> {
        let removed = self.all.remove(key)?;
        self.bytes -= removed.bytes;
        self.ready.remove(key);
        self.comparing.remove(key);
        Some(removed)
    }

    /// Removes the exchanges about a slot.
    pub(super) fn remove_slot(&mut self, slot: Slot) -> Vec<(ExchangeKey, Exchange<V, M>)> {
        let keys: Vec<ExchangeKey> = self.all.range(range_of(slot)).map(|(key, _)| *key).collect();
        let removed = keys.into_iter().filter_map(|key| Some((key, self.remove(&key)?)));
        removed.collect()
    }

    /// Removes the exchanges with a holder.
    pub(super) fn remove_holder(&mut self, holder: NodeId) {
        let of_holder = self.all.keys().filter(|key| key.holder == holder);
        for key in of_holder.copied().collect::<Vec<_>>() {
            self.remove(&key);
        }
    }

    /// Changes an exchange. None where it is not under way.
    pub(super) fn change<T>(
        &mut self,
        key: ExchangeKey,
        change: impl FnOnce(&mut Exchange<V, M>) -> T,
    ) -> Option<T> {
        let exchange = self.all.get_mut(&key)?;
        let bytes = exchange.bytes;
        let result = change(exchange);
        self.bytes = self.bytes - bytes + exchange.bytes;
        let is_ready = matches!(exchange.stage, Stage::Ready);
        let is_comparing = exchange.is_comparing();
        set(&mut self.ready, key, is_ready);
        set(&mut self.comparing, key, is_comparing);
        Some(result)
    }

    /// Answers about a slot that are under way do not count.
    pub(super) fn void(&mut self, slot: Slot) {
        for (_, exchange) in self.all.range_mut(range_of(slot)) {
            exchange.counts = false;
        }
    }

    /// Entries of as many slots are compared as may be.
    pub(super) fn is_full(&self, comparing_max: usize) -> bool {
        self.comparing.len() >= comparing_max
    }

    /// Next exchange of a slot to compare entries with, if none is compared.
    pub(super) fn next_ready(&self, slot: Slot) -> Option<ExchangeKey> {
        let mut of_slot = self.ready.range(range_of(slot));
        of_slot.next().copied().filter(|_| !self.is_comparing(slot))
    }

    fn is_comparing(&self, slot: Slot) -> bool {
        self.comparing.range(range_of(slot)).next().is_some()
    }

    /// Slots of which entries could be compared, in ascending order.
    pub(super) fn ready_slots(&self) -> Vec<Slot> {
        let slots = self.ready.iter().map(|key| key.slot);
        let mut slots: Vec<Slot> = slots.filter(|slot| !self.is_comparing(*slot)).collect();
        slots.dedup();
        slots
    }
}

/// Puts a key into a set, or takes it out.
fn set(keys: &mut BTreeSet<ExchangeKey>, key: ExchangeKey, is_in: bool) {
    if is_in {
        keys.insert(key);
    } else {
        keys.remove(&key);
    }
}

fn range_of(slot: Slot) -> std::ops::RangeInclusive<ExchangeKey> {
    let bound = |holder| ExchangeKey { slot, holder };
    bound(NodeId(0))..=bound(NodeId(u64::MAX))
}
