//! What a client does with its session: SUBSCRIBE, UNSUBSCRIBE, PUBLISH, acknowledgements, and its end.

use std::collections::BTreeSet;

use super::known_session::{birth_of, dots_of, slots_of};
use super::wills::ConnectionEnd;
use super::{Awaited, Node, Phase, Step};
use crate::copy;
use crate::event::{Birth, Change, Ended, Entry, EntryKind};
use crate::ids::{ClientId, Dot, Slot, SlotSet};
use crate::rules::Rule;

impl Node {
    /// SUBSCRIBE to the one filter of a history; gives the subscription's dot. None: the node has no session for it.
    pub fn subscribe(&mut self, step: &mut Step<'_>, connection: Dot) -> Option<Dot> {
        let client = self.live_client(connection)?;
        let seen = self.seen(step, connection);
        let birth = birth_of(step, &seen)?;
        // What is left of a session that is known to have ended would bring the messages of that one.
        let live = copy::live(step.rules, &seen, |client, dot| {
            self.has_seen(step, connection, client, dot)
        });
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
        // What it replaces stays known: the next SUBSCRIBE removes it again, from copies that missed this one.
        let entry = self.sender.find(dot)?.entry()?;
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
        if self.live_client(connection).is_none() {
            return;
        }
        let seen = self.seen(step, connection);
        let Some(ending) = self.ending(step, connection, &seen) else {
            return;
        };
        self.emit_ending(step, connection, ending, true);
        if let Some(connection) = self.connection_mut(connection) {
            connection.phase = Phase::Closing;
            connection.ending = ConnectionEnd::Disconnected;
        }
    }

    /// Ends a session, and says so when that is durable.
    pub(super) fn emit_ending(
        &mut self,
        step: &mut Step<'_>,
        connection: Dot,
        ending: Ending,
        by_client: bool,
    ) {
        let Ending {
            client,
            removes,
            left,
        } = ending;
        let awaited = Awaited::Ended {
            client,
            connection,
            removed: removes.clone(),
            by_client,
        };
        let change = match left {
            Some(Left { clean, birth, ended }) => Change::EndSession {
                client,
                clean,
                birth,
                ended,
                removes,
            },
            None => Change::Remove { client, removes },
        };
        step.counters.ended += u64::from(left.is_some());
        let mut slots = slots_of(step, client);
        if step.directory.has_group {
            self.leave(step, connection);
            slots = slots.with(step.directory.slot(ClientId::GROUP));
        }
        self.emit_and_wait(step, change, slots, awaited);
    }

    /// PUBLISH to the filter that clients subscribe to; gives the message's dot. None: the node does not accept it yet.
    pub fn publish(&mut self, step: &mut Step<'_>) -> Option<Dot> {
        if !self.routes_are_merged(step) {
            step.counters.refused += 1;
            return None;
        }
        let slots = self.matched_slots(step);
        Some(self.emit_and_wait(step, Change::Publish, slots, Awaited::Published))
    }

    /// The node may accept PUBLISH.
    pub(super) fn routes_are_merged(&self, step: &Step<'_>) -> bool {
        let routes = self.copy(Slot::ROUTES);
        routes.is_some_and(|routes| routes.unanswered.is_empty() || !step.holds(Rule::RoutesMerged))
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
            removed: vec![message],
        };
        self.emit_and_wait(step, change, slots, awaited);
    }

    pub(super) fn live_client(&self, connection: Dot) -> Option<ClientId> {
        let connection = self.connection(connection)?;
        (connection.phase == Phase::Live).then_some(connection.client)
    }
}

/// End of a session.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    client: ClientId,
    removes: Vec<Dot>,
    /// What is left in the session's place.
    left: Option<Left>,
}

/// Entry that a session leaves.
#[derive(Clone, Copy, Debug)]
struct Left {
    clean: bool,
    birth: Birth,
    ended: Ended,
}

impl Node {
    /// End of what this node has `seen` of the session of `connection`.
    pub(super) fn ending(&self, step: &Step<'_>, connection: Dot, seen: &BTreeSet<Entry>) -> Option<Ending> {
        let client = self.connection(connection)?.client;
        let sessions = || seen.iter().filter(|entry| entry.kind == EntryKind::Session);
        let last = sessions().max_by_key(|entry| (entry.clock, entry.dot));
        let start = copy::latest_clean_start(step.rules, seen, client).filter(|_| step.holds(Rule::EndBeats));
        let of = start.or(last.copied());
        let left = of.filter(|_| last.is_some() && (start.is_some() || step.holds(Rule::EndCovers)));
        let left = left.map(|of| Left {
            clean: start.is_some(),
            birth: Birth {
                dot: of.birth,
                clock: of.since,
            },
            ended: self.ended(step, connection, seen),
        });
        let is_removed = |entry: &&Entry| entry.kind != EntryKind::End || left.is_some();
        Some(Ending {
            client,
            removes: seen.iter().filter(is_removed).map(|entry| entry.dot).collect(),
            left,
        })
    }

    /// What an end says that this node makes now.
    fn ended(&self, step: &Step<'_>, connection: Dot, seen: &BTreeSet<Entry>) -> Ended {
        let earlier = || seen.iter().filter_map(|entry| entry.ended);
        let decided = self.decided(step, connection).prefix();
        let is_resumed = |entry: &&Entry| entry.kind == EntryKind::Session && entry.dot != entry.birth;
        let resumed = seen.iter().filter(is_resumed).map(|entry| entry.clock);
        Ended {
            seen: earlier().fold(decided, |seen, ended| seen.union(ended.seen)),
            resumed: earlier()
                .map(|ended| ended.resumed)
                .chain(resumed)
                .max()
                .unwrap_or(0),
        }
    }
}
