//! Messages about interests that are drawn at random.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::samples::{numbers, values};
use crate::TopicFilter;
use crate::interests::{Interest, InterestChange, InterestChanges, InterestMessage};

pub(super) fn messages() -> BoxedStrategy<InterestMessage<Bytes>> {
    let more = prop_oneof![4 => 0..300_u64, 1 => Just(u64::MAX)];
    let told = (numbers(0), more, any::<bool>(), vec(changes(), 0..4));
    let told = told.prop_map(|(after, more, is_all, changes)| InterestChanges {
        after,
        up_to: after.saturating_add(more),
        is_all,
        changes,
    });
    prop_oneof![
        2 => told.prop_map(InterestMessage::Changes),
        1 => numbers(0).prop_map(|up_to| InterestMessage::Confirm { up_to }),
        1 => values().prop_map(InterestMessage::Unstored),
    ]
    .boxed()
}

fn changes() -> BoxedStrategy<InterestChange> {
    let interests = prop_oneof![
        Just(None),
        Just(Some(Interest::Unstored)),
        Just(Some(Interest::All))
    ];
    (vec(any::<u8>(), 0..20), interests)
        .prop_map(|(filter, interest)| InterestChange {
            filter: TopicFilter::new(&filter).expect("short"),
            interest,
        })
        .boxed()
}
