//! Messages of routes that are drawn at random.

use std::sync::Arc;

use bytes::Bytes;
use proptest::option;
use proptest::prelude::*;

use super::samples::{clocks, numbers, runs, slot_sets, values, vectors};
use crate::dot::EVENT_NUMBER_MAX;
use crate::publishing::{ConfirmRoute, PublishingMessage, Route, RoutedMessage, RoutedTo};
use crate::{Dot, Slot};

pub(super) fn messages() -> BoxedStrategy<PublishingMessage<Bytes>> {
    let confirmed = (qos2_numbers(), numbers(1));
    let confirmed = confirmed.prop_map(|(number, marker)| ConfirmRoute { number, marker });
    prop_oneof![
        3 => routes().prop_map(PublishingMessage::Route),
        1 => confirmed.prop_map(PublishingMessage::Confirm),
    ]
    .boxed()
}

fn routes() -> BoxedStrategy<Route<Bytes>> {
    let parts = (qos2_numbers(), numbers(1), clocks(), vectors());
    (parts, option::of(routed()))
        .prop_map(|((number, marker, clock, known), message)| Route {
            number,
            marker,
            clock,
            known: Arc::new(known),
            message,
        })
        .boxed()
}

fn routed() -> BoxedStrategy<RoutedMessage<Bytes>> {
    (slot_sets(), any::<bool>(), values())
        .prop_map(|(mut slots, is_transient, content)| {
            if slots.is_empty() && !is_transient {
                slots.insert(Slot::ROUTES);
            }
            let to = RoutedTo { slots, is_transient };
            RoutedMessage::new(to, content).expect("somebody")
        })
        .boxed()
}

/// Low numbers among those of a run, and the highest ones.
fn qos2_numbers() -> BoxedStrategy<Dot> {
    let place = prop_oneof![4 => 1..300_u64, 1 => EVENT_NUMBER_MAX - 2..=EVENT_NUMBER_MAX + 1];
    (runs(), place)
        .prop_map(|(run, place)| Dot {
            run,
            number: EVENT_NUMBER_MAX + place,
        })
        .boxed()
}
