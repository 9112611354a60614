//! Place of a will among those that a node watches.

use std::ops::RangeInclusive;

use crate::{ClientId, Dot, Slot};

/// Will by the slot of its client: those of a slot are one range, and those of a client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) slot: Slot,
    pub(super) client: ClientId,
    /// Event of the will.
    pub(super) will: Dot,
}

impl Place {
    pub(super) fn new(client: ClientId, will: Dot) -> Place {
        let slot = Slot::of_client(client.as_bytes());
        Place { slot, client, will }
    }

    /// Not above any place of a slot.
    pub(super) fn first_of(slot: Slot) -> Place {
        Place {
            slot,
            client: ClientId::new(&[]).expect("an empty id is short"),
            will: Dot::MIN,
        }
    }

    /// Places of the wills of a client.
    pub(super) fn of_client(client: &ClientId) -> RangeInclusive<Place> {
        Place::new(client.clone(), Dot::MIN)..=Place::new(client.clone(), Dot::MAX)
    }
}
