//! Place of a client's feeds: its slot and its id.

use crate::{ClientId, Slot};

/// Client by the slot of its sessions: the clients of a slot are one range.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FeedPlace {
    pub(super) slot: Slot,
    pub(super) client: ClientId,
}

impl FeedPlace {
    /// Place of a client.
    pub(super) fn of_client(client: ClientId) -> FeedPlace {
        let slot = Slot::of_client(client.as_bytes());
        FeedPlace { slot, client }
    }

    /// Not above any place of the slot.
    pub(super) fn first_of(slot: Slot) -> FeedPlace {
        let client = ClientId::new(&[]).expect("an empty id is short");
        FeedPlace { slot, client }
    }
}
