//! Messages of shared groups that are drawn at random.

use bytes::Bytes;
use proptest::prelude::*;

use super::samples::{dots, slots, values};
use crate::groups::{Give, GroupMessage};

pub(super) fn messages() -> BoxedStrategy<GroupMessage<Bytes>> {
    (slots(), dots(), dots(), dots(), values())
        .prop_map(|(slot, presence, message, assignment, value)| {
            GroupMessage::Give(Give {
                slot,
                presence,
                message,
                assignment,
                value,
            })
        })
        .boxed()
}
