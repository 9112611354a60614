//! Golden messages of routes.

use std::sync::Arc;

use bytes::Bytes;

use super::values::{clock, dot, slot_set, vector};
use crate::dot::EVENT_NUMBER_MAX;
use crate::publishing::{ConfirmRoute, PublishingMessage, Route, RoutedMessage};

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
    let message = RoutedMessage::new(slot_set(&[9, 2_000]), Bytes::from_static(b"7.5 bar"));
    vec![
        ("route", route(Some(message.expect("two slots")))),
        ("route-without-message", route(None)),
        (
            "confirm-route",
            PublishingMessage::Confirm(ConfirmRoute { number, marker }),
        ),
    ]
}
