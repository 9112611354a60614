//! Messages of feeds that are drawn at random.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::samples::{clients, clocks, dots, numbers, runs, values, vectors};
use crate::Dot;
use crate::feed::{
    CloseReason, DeliveryChanges, FeedDelivery, FeedId, FeedItem, FeedItems, FeedMessage, FeedOpen,
    KnownDelivery, QueueId, QueueKey, Window,
};

pub(super) fn messages() -> BoxedStrategy<FeedMessage<Bytes>> {
    let reasons = proptest::sample::select(vec![
        CloseReason::NotOwner,
        CloseReason::Full,
        CloseReason::TooManyDeliveries,
        CloseReason::NoSession,
    ]);
    prop_oneof![
        2 => opens().prop_map(FeedMessage::Open),
        3 => items().prop_map(FeedMessage::Items),
        1 => (feeds(), windows()).prop_map(|(feed, window)| FeedMessage::Window { feed, window }),
        1 => feeds().prop_map(|feed| FeedMessage::Close { feed }),
        1 => (feeds(), reasons).prop_map(|(feed, reason)| FeedMessage::Closed { feed, reason }),
    ]
    .boxed()
}

fn opens() -> BoxedStrategy<FeedOpen> {
    let own_after = (runs(), numbers(0)).prop_map(|(run, number)| Dot { run, number });
    let held = btree_set(keys(), 0..5);
    let deliveries = btree_map(dots(), known_deliveries(), 0..5);
    let queue = (clients(), dots()).prop_map(|(client, birth)| QueueId { client, birth });
    let asker = (feeds(), queue, vectors(), own_after, windows());
    (asker, held, deliveries)
        .prop_map(
            |((feed, queue, known, own_after, window), held, deliveries)| FeedOpen {
                feed,
                queue,
                known: Arc::new(known),
                held,
                deliveries,
                own_after,
                window,
            },
        )
        .boxed()
}

fn items() -> BoxedStrategy<FeedItems<Bytes>> {
    let item = (keys(), values()).prop_map(|(key, value)| FeedItem { key, value });
    let removed = (vec(keys(), 0..4), vectors());
    (feeds(), numbers(0), changes(), vec(item, 0..4), removed)
        .prop_map(
            |(feed, number, deliveries, items, (removed, removed_by))| FeedItems {
                feed,
                number,
                deliveries,
                items,
                removed,
                removed_by,
            },
        )
        .boxed()
}

fn changes() -> BoxedStrategy<DeliveryChanges<Bytes>> {
    let delivery = (dots(), known_deliveries(), values());
    let delivery = delivery.prop_map(|(dot, known, value)| FeedDelivery { dot, known, value });
    (vec(delivery, 0..3), vec(dots(), 0..3), vec(dots(), 0..3))
        .prop_map(|(added, gone, ended)| DeliveryChanges { added, gone, ended })
        .boxed()
}

fn known_deliveries() -> BoxedStrategy<KnownDelivery> {
    (dots(), any::<bool>())
        .prop_map(|(message, is_gone)| KnownDelivery { message, is_gone })
        .boxed()
}

fn keys() -> BoxedStrategy<QueueKey> {
    (clocks(), dots())
        .prop_map(|(clock, dot)| QueueKey { clock, dot })
        .boxed()
}

fn feeds() -> BoxedStrategy<FeedId> {
    numbers(1).prop_map(FeedId).boxed()
}

fn windows() -> BoxedStrategy<Window> {
    (numbers(0), numbers(0))
        .prop_map(|(items, bytes)| Window { items, bytes })
        .boxed()
}
