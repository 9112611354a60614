//! Messages that are drawn at random: their common parts, and all kinds together.

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::session_entries::tests::facts;
use crate::{
    Birth, Change, ClientDot, ClientId, Dot, Entry, EntryId, EntryKind, Interval, Pending, PendingMessage,
    Run, Slot, SlotSet, VersionVector,
};

/// Any message of any kind that has an encoding.
pub(super) fn messages() -> BoxedStrategy<Sample> {
    let of_planes = prop_oneof![
        1 => membership_messages::messages(),
        2 => stream_messages::messages(),
        3 => transfer_messages::messages(),
    ];
    prop_oneof![
        1 => runs().prop_map(|run| Message::Hello(Hello { run })),
        12 => of_planes.prop_map(Message::Replication),
        4 => connecting_messages::messages().prop_map(Message::Connecting),
        4 => feed_messages::messages().prop_map(Message::Feed),
        3 => publishing_messages::messages().prop_map(Message::Publishing),
        1 => groups_messages::messages().prop_map(Message::Groups),
        1 => interest_messages::messages().prop_map(Message::Interests),
    ]
    .boxed()
}

/// Mostly few runs, so that messages name the same ones again.
pub(super) fn runs() -> BoxedStrategy<Run> {
    let few = (1..4_u64, 1..3_u32);
    let any = (1..=u64::MAX, any::<u32>());
    prop_oneof![4 => few, 1 => any]
        .prop_map(|(node, incarnation)| Run {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
        })
        .boxed()
}

/// Numbers from `first` on: low ones, and those around the end of their range.
pub(super) fn numbers(first: u64) -> BoxedStrategy<u64> {
    prop_oneof![4 => first..300, 2 => first..=1 << 40, 1 => u64::MAX - 3..=u64::MAX].boxed()
}

pub(super) fn dots() -> BoxedStrategy<Dot> {
    (runs(), numbers(1))
        .prop_map(|(run, number)| Dot { run, number })
        .boxed()
}

pub(super) fn clocks() -> BoxedStrategy<Hlc> {
    (0..=u64::MAX)
        .prop_map(|bits| Hlc::from_bits(bits >> 1).expect("63 bits"))
        .boxed()
}

pub(super) fn values() -> BoxedStrategy<Bytes> {
    let length = prop_oneof![9 => 0..12_usize, 1 => 120..140_usize];
    length
        .prop_flat_map(|length| vec(any::<u8>(), length))
        .prop_map(Bytes::from)
        .boxed()
}

pub(super) fn clients() -> BoxedStrategy<ClientId> {
    vec(any::<u8>(), 0..8)
        .prop_map(|bytes| ClientId::new(&bytes).expect("a short id"))
        .boxed()
}

pub(super) fn slots() -> BoxedStrategy<Slot> {
    prop_oneof![9 => 0..Slot::COUNT, 1 => Slot::HASHED..Slot::COUNT]
        .prop_map(|number| Slot::new(number).expect("in range"))
        .boxed()
}

/// Mostly few slots; sometimes so many that they are kept as bits.
pub(super) fn slot_sets() -> BoxedStrategy<SlotSet> {
    let count = prop_oneof![8 => 0..4_usize, 1 => 250..400_usize, 1 => Just(20_000)];
    let slots = count.prop_flat_map(|count| vec(slots(), count));
    slots.prop_map(|slots| slots.into_iter().collect()).boxed()
}

pub(super) fn vectors() -> BoxedStrategy<VersionVector> {
    let interval = (runs(), numbers(1), 0..9_u64, any::<bool>());
    (vec(interval, 0..6), vec((runs(), 0..4_u32), 0..3))
        .prop_map(|(drawn, retired)| {
            let mut vector = VersionVector::default();
            for (run, more) in retired {
                let up_to = Incarnation(run.incarnation.0.saturating_add(more));
                let interval = Interval::of_runs(run.node, run.incarnation, up_to);
                let interval = interval.expect("ascending");
                vector.insert(interval).expect("few intervals");
            }
            for (run, last, more, is_from_begin) in drawn {
                let first = if is_from_begin {
                    1
                } else {
                    last.saturating_sub(more).max(1)
                };
                let interval = Interval::new(run, first, last).expect("ascending");
                vector.insert(interval).expect("few intervals");
            }
            vector
        })
        .boxed()
}

pub(super) fn entry_ids() -> BoxedStrategy<EntryId> {
    (proptest::sample::select(EntryKind::ALL.to_vec()), dots())
        .prop_map(|(kind, dot)| EntryId { kind, dot })
        .boxed()
}

pub(super) fn entries() -> BoxedStrategy<Entry<Bytes>> {
    let births = (dots(), clocks(), any::<bool>());
    let births = births.prop_map(|(dot, clock, is_clean)| Birth { dot, clock, is_clean });
    (births, clocks(), facts(dots), values())
        .prop_map(|(birth, clock, fact, value)| Entry {
            birth,
            clock,
            fact,
            value,
        })
        .boxed()
}

pub(super) fn changes() -> BoxedStrategy<Change<Bytes>> {
    let adds = proptest::option::of(entries());
    (dots(), clients(), vec(dots(), 0..4), adds)
        .prop_map(|(dot, client, removes, adds)| Change {
            dot,
            client,
            removes,
            adds,
        })
        .boxed()
}

pub(super) fn pending_messages() -> BoxedStrategy<PendingMessage<Bytes>> {
    (dots(), clocks(), values())
        .prop_map(|(dot, clock, message)| PendingMessage {
            dot,
            pending: Pending { clock, message },
        })
        .boxed()
}

pub(super) fn single_dots() -> BoxedStrategy<ClientDot> {
    (clients(), dots())
        .prop_map(|(client, dot)| ClientDot { client, dot })
        .boxed()
}
