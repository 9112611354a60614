//! What messages to the last topic were found to match, slot by slot.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::TopicName;
use session_plane::{ClientId, Slot, SlotSet};

/// Clients and groups whose subscriptions a message matches, whether or not they count.
#[derive(Debug, Default)]
pub(super) struct Found {
    sessions: BTreeMap<Slot, Vec<ClientId>>,
    groups: BTreeMap<Slot, Vec<ClientId>>,
}

impl Found {
    pub(super) fn add_session(&mut self, slot: Slot, client: &ClientId) {
        self.sessions.entry(slot).or_default().push(client.clone());
    }

    pub(super) fn add_group(&mut self, slot: Slot, key: &ClientId) {
        self.groups.entry(slot).or_default().push(key.clone());
    }

    pub(super) fn sessions(&self, slot: Slot) -> &[ClientId] {
        self.sessions.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// Keys of groups whose part for the message is in the slot.
    pub(super) fn groups(&self, slot: Slot) -> &[ClientId] {
        self.groups.get(&slot).map_or(&[], Vec::as_slice)
    }

    pub(super) fn slots(&self) -> SlotSet {
        self.sessions.keys().chain(self.groups.keys()).copied().collect()
    }
}

/// The topic that was looked for last.
#[derive(Debug, Default)]
pub(super) struct LastFound {
    found: Option<(TopicName, Arc<Found>)>,
}

impl LastFound {
    pub(super) fn get_or_find(&mut self, topic: &TopicName, find: impl FnOnce() -> Found) -> Arc<Found> {
        match &self.found {
            Some((last, found)) if last == topic => Arc::clone(found),
            _ => {
                let found = Arc::new(find());
                self.found = Some((topic.detached(), Arc::clone(&found)));
                found
            }
        }
    }

    /// Subscriptions have changed.
    pub(super) fn forget(&mut self) {
        self.found = None;
    }
}
