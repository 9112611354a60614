//! Messages of streams that are drawn at random.

use proptest::collection::vec;
use proptest::prelude::*;

use super::Replication;
use super::membership_messages::views;
use super::samples::{clocks, dots, numbers, runs, slot_sets, values, vectors};
use crate::stream::{CoveredSlots, NumberRange, ResendId, StreamPosition};
use crate::transfer::RunPosition;
use crate::wire::{
    Confirm, EventPayload, Heartbeat, NextEvent, SentEvent, SentEventKind, SentFlush, SentResend,
};
use crate::{Dot, Interval, Settled, VersionVector};
use bytes::Bytes;

pub(super) fn messages() -> BoxedStrategy<Replication> {
    prop_oneof![
        events().prop_map(Replication::Welcome),
        (events(), any::<u64>()).prop_map(|(event, drawn)| {
            let after = drawn % event.dot.number;
            Replication::Event(NextEvent { after, event })
        }),
        heartbeats().prop_map(Replication::Heartbeat),
        (numbers(0), vectors()).prop_map(|(number, known)| Replication::Confirm(Confirm { number, known })),
        resends().prop_map(Replication::Resend),
        numbers(1).prop_map(|id| Replication::ConfirmResent(ResendId(id))),
        (runs(), numbers(0))
            .prop_map(|(run, number)| Replication::FlushPosition(RunPosition { run, number })),
        flushes().prop_map(Replication::FlushEvents),
    ]
    .boxed()
}

pub(super) fn events() -> BoxedStrategy<SentEvent<Bytes>> {
    let change = slot_sets().prop_map(SentEventKind::Change);
    let kind = prop_oneof![3 => change, 1 => views().prop_map(SentEventKind::RingMarker)];
    let payload = (clocks(), vectors(), values());
    let payload = payload.prop_map(|(clock, known, content)| EventPayload {
        clock,
        known,
        content,
    });
    (dots(), kind, payload)
        .prop_map(|(dot, kind, payload)| SentEvent { dot, kind, payload })
        .boxed()
}

fn heartbeats() -> BoxedStrategy<Heartbeat> {
    let position = (numbers(0), 0..90_u64).prop_map(|(after, more)| StreamPosition {
        after,
        number: after.saturating_add(more),
    });
    let position = proptest::option::of(position);
    let confirmed = proptest::option::of(numbers(0));
    (position, confirmed, numbers(0), clocks(), vectors(), settled())
        .prop_map(|(position, confirmed, stable, clock, known, settled)| Heartbeat {
            position,
            confirmed,
            stable,
            clock,
            known,
            settled,
        })
        .boxed()
}

/// The last runs of which there are events.
fn settled() -> BoxedStrategy<Settled> {
    let of_events = |events: VersionVector| {
        let last = events.intervals().iter().map(Interval::last);
        let runs = last.map(|dot| (dot.run.node, dot.run.incarnation)).collect();
        Settled::new(runs, events).expect("events of these runs")
    };
    vectors().prop_map(of_events).boxed()
}

/// Events are among the numbers, in ascending order, and of one run.
fn resends() -> BoxedStrategy<SentResend<Bytes>> {
    let events = vec((events(), 1..9_u64), 0..4);
    let resend = (numbers(1), slot_sets(), (dots(), 0..9_u64), events);
    let resend = resend.prop_map(|(id, slots, (before, more), mut events)| {
        let first = before.number.min(u64::MAX - 50);
        let mut last = first;
        for (event, after) in &mut events {
            last += *after;
            event.dot = Dot {
                number: last,
                ..before
            };
        }
        let last = last + more;
        SentResend {
            id: ResendId(id),
            slots,
            numbers: NumberRange { first, last },
            events: events.into_iter().map(|(event, _)| event).collect(),
        }
    });
    resend.boxed()
}

/// Events and slots are among the numbers, in ascending order, and of one run.
fn flushes() -> BoxedStrategy<SentFlush<Bytes>> {
    let events = vec((events(), 1..9_u64), 0..4);
    let slots = vec((1..5_u64, 0..5_u64, slot_sets()), 0..4);
    let base = proptest::option::of(views());
    let flush = (runs(), numbers(0), 0..9_u64, base, events, slots);
    let flush = flush.prop_map(|(run, from, more, base, mut events, slots)| {
        let from = from.min(u64::MAX - 100);
        let mut last_event = from;
        for (event, after) in &mut events {
            last_event += *after;
            event.dot = Dot {
                run,
                number: last_event,
            };
        }
        let mut last_covered = from;
        let slots = slots.into_iter().map(|(after, length, slots)| {
            let first = last_covered + after;
            last_covered = first + length;
            let numbers = NumberRange {
                first,
                last: last_covered,
            };
            CoveredSlots { numbers, slots }
        });
        let slots: Vec<CoveredSlots> = slots.collect();
        SentFlush {
            run,
            from,
            to: last_event.max(last_covered) + more,
            base,
            events: events.into_iter().map(|(event, _)| event).collect(),
            slots,
        }
    });
    flush.boxed()
}
