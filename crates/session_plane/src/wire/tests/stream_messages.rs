//! Messages of streams that are drawn at random.

use proptest::collection::vec;
use proptest::prelude::*;

use super::Sample;
use super::membership_messages::views;
use super::samples::{clocks, dots, numbers, slot_sets, values, vectors};
use crate::stream::{NumberRange, Recipients, ResendId, StreamPosition};
use crate::wire::{
    Confirm, EventPayload, Heartbeat, Message, NextEvent, SentEvent, SentEventKind, SentResend,
};
use bytes::Bytes;

pub(super) fn messages() -> impl Strategy<Value = Sample> {
    prop_oneof![
        events().prop_map(Message::Welcome),
        (events(), any::<u64>()).prop_map(|(event, drawn)| {
            let after = drawn % event.dot.number;
            Message::Event(NextEvent { after, event })
        }),
        heartbeats().prop_map(Message::Heartbeat),
        numbers(0).prop_map(|number| Message::Confirm(Confirm { number })),
        resends().prop_map(Message::Resend),
        numbers(1).prop_map(|id| Message::ConfirmResent(ResendId(id))),
    ]
}

pub(super) fn events() -> impl Strategy<Value = SentEvent<Bytes>> {
    let change = (slot_sets(), any::<bool>()).prop_map(|(slots, is_for_every_node)| {
        SentEventKind::Change(Recipients {
            slots,
            is_for_every_node,
        })
    });
    let kind = prop_oneof![3 => change, 1 => views().prop_map(SentEventKind::RingMarker)];
    let payload = (clocks(), vectors(), values());
    let payload = payload.prop_map(|(clock, known, content)| EventPayload {
        clock,
        known,
        content,
    });
    (dots(), kind, payload).prop_map(|(dot, kind, payload)| SentEvent { dot, kind, payload })
}

fn heartbeats() -> impl Strategy<Value = Heartbeat> {
    let position = (numbers(0), 0..90_u64).prop_map(|(after, more)| StreamPosition {
        after,
        number: after.saturating_add(more),
    });
    let position = proptest::option::of(position);
    (position, numbers(0), numbers(0), clocks(), vectors()).prop_map(
        |(position, confirmed, stable, clock, known)| Heartbeat {
            position,
            confirmed,
            stable,
            clock,
            known,
        },
    )
}

fn resends() -> impl Strategy<Value = SentResend<Bytes>> {
    let range = (numbers(1), 0..90_u64).prop_map(|(first, more)| NumberRange {
        first,
        last: first.saturating_add(more),
    });
    (numbers(1), slot_sets(), range, vec(events(), 0..4)).prop_map(|(id, slots, numbers, events)| {
        SentResend {
            id: ResendId(id),
            slots,
            numbers,
            events,
        }
    })
}
