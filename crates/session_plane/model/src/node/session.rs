//! What a client does with its session: SUBSCRIBE, UNSUBSCRIBE, PUBLISH, acknowledgements, and its end.

use std::collections::BTreeSet;

use super::connecting::slots_of;
use super::{Awaited, Node, Phase, Step};
use crate::copy;
use crate::event::{Change, Entry, EntryKind};
use crate::ids::{ClientId, Dot, Slot, SlotSet};
use crate::rules::Rule;

impl Node {
    /// SUBSCRIBE to the one filter of a history; gives the subscription's dot. None: the node has no session for it.
    pub fn subscribe(&mut self, step: &mut Step<'_>, connection: Dot) -> Option<Dot> {
        let client = self.live_client(connection)?;
        let seen = self.seen(step, connection);
        let birth = birth_of(step, &seen)?;
        let live = copy::live(step.rules, &seen, |_, _| false);
        let subscriptions = live.iter().filter(|entry| entry.kind == EntryKind::Subscription);
        let since = subscriptions
            .map(|entry| entry.since)
            .min()
            .unwrap_or(self.next_clock(step));
        let change = Change::Subscribe {
            client,
            birth,
            since,
            removes: dots_of(&seen, EntryKind::Subscription),
        };
        let dot = self.emit_and_wait(
            step,
            change,
            slots_of(step, client),
            Awaited::Subscribed { client, connection },
        );
        let entry = Entry {
            client,
            kind: EntryKind::Subscription,
            dot,
            birth,
            clock: self.clock,
            since,
            clean: false,
        };
        self.connection_mut(connection)?.session.entries.insert(entry);
        Some(dot)
    }

    /// UNSUBSCRIBE: removes what the node has seen of the subscription.
    pub fn unsubscribe(&mut self, step: &mut Step<'_>, connection: Dot) {
        let Some(client) = self.live_client(connection) else {
            return;
        };
        let removes = dots_of(&self.seen(step, connection), EntryKind::Subscription);
        if let Some(connection) = self.connection_mut(connection) {
            connection
                .session
                .entries
                .retain(|entry| entry.kind != EntryKind::Subscription);
        }
        let awaited = Awaited::Unsubscribed {
            client,
            connection,
            removed: removes.clone(),
        };
        self.emit_and_wait(
            step,
            Change::Remove { client, removes },
            slots_of(step, client),
            awaited,
        );
    }

    /// DISCONNECT that ends the session: removes what the node has seen of it.
    pub fn end_session(&mut self, step: &mut Step<'_>, connection: Dot) {
        let Some(client) = self.live_client(connection) else {
            return;
        };
        let removes: Vec<Dot> = self
            .seen(step, connection)
            .iter()
            .map(|entry| entry.dot)
            .collect();
        let awaited = Awaited::Ended {
            client,
            connection,
            removed: removes.clone(),
            by_client: true,
        };
        self.emit_and_wait(
            step,
            Change::Remove { client, removes },
            slots_of(step, client),
            awaited,
        );
        if let Some(connection) = self.connection_mut(connection) {
            connection.phase = Phase::Closing;
        }
    }

    /// PUBLISH to the filter that clients subscribe to; gives the message's dot. None: the node does not accept it yet.
    pub fn publish(&mut self, step: &mut Step<'_>) -> Option<Dot> {
        let routes = self.copy(Slot::ROUTES)?;
        if step.holds(Rule::RoutesMerged) && !routes.unanswered.is_empty() {
            step.counters.refused += 1;
            return None;
        }
        let live = routes.content.live(step.rules);
        let matched = live.iter().filter(|entry| entry.kind == EntryKind::Subscription);
        let slots = matched.fold(SlotSet::EMPTY, |slots, entry| {
            slots.with(step.directory.slot(entry.client))
        });
        Some(self.emit_and_wait(step, Change::Publish, slots, Awaited::Published))
    }

    /// The client acknowledges `message`.
    pub(super) fn acknowledge(
        &mut self,
        step: &mut Step<'_>,
        client: ClientId,
        connection: Dot,
        message: Dot,
    ) {
        let slots = SlotSet::one(step.directory.slot(client));
        let change = Change::Remove {
            client,
            removes: vec![message],
        };
        let awaited = Awaited::Acknowledged {
            client,
            message,
            connection,
        };
        self.emit_and_wait(step, change, slots, awaited);
    }

    fn live_client(&self, connection: Dot) -> Option<ClientId> {
        let connection = self.connection(connection)?;
        (connection.phase == Phase::Live).then_some(connection.client)
    }
}

/// Birth of the session that counts among `seen`.
fn birth_of(step: &Step<'_>, seen: &BTreeSet<Entry>) -> Option<Dot> {
    let live = copy::live(step.rules, seen, |_, _| false);
    let sessions = live.iter().filter(|entry| entry.kind == EntryKind::Session);
    sessions
        .max_by_key(|entry| (entry.clock, entry.birth))
        .map(|entry| entry.birth)
}

fn dots_of(entries: &BTreeSet<Entry>, kind: EntryKind) -> Vec<Dot> {
    entries
        .iter()
        .filter(|entry| entry.kind == kind)
        .map(|entry| entry.dot)
        .collect()
}
