//! Golden messages of routes.

use std::sync::Arc;

use bytes::Bytes;

use super::values::{clock, dot, slot_set, vector};
use crate::dot::EVENT_NUMBER_MAX;
use crate::publishing::{ConfirmRoute, PublishingMessage, Route, RoutedMessage, RoutedTo};

pub(super) fn routes() -> Vec<(&'static str, PublishingMessage<Bytes>)> {
    let (number, marker) = (dot(2, EVENT_NUMBER_MAX + 7), 43);
    let route = |message| {
        PublishingMessage::Route(Route {
            number,
            marker,
            clock: clock(6),
            known: Arc::new(vector()),
            message,
        })
    };
    let message = |slots: &[u16], is_transient| {
        let slots = slot_set(slots);
        let to = RoutedTo { slots, is_transient };
        RoutedMessage::new(to, Bytes::from_static(b"7.5 bar")).ok()
    };
    vec![
        ("route", route(message(&[9, 2_000], false))),
        ("route-transient", route(message(&[], true))),
        ("route-without-message", route(None)),
        (
            "confirm-route",
            PublishingMessage::Confirm(ConfirmRoute { number, marker }),
        ),
    ]
}
