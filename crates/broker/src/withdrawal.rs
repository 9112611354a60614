//! What clients have and may not have any more: when the policies change, when a client authenticates again with other attributes,
//! and when one comes back to its session.
//!
//! A connection that may not be any more ends with DISCONNECT 0x87. Of others, subscriptions that are not allowed end as by
//! UNSUBSCRIBE, for good; what waits and was never sent is dropped, at the latest when it is to be sent; keys that may not be read are not watched. What was sent
//! before is completed, as after UNSUBSCRIBE [MQTT-3.10.4-3]. MQTT has no word to tell a client of it.
//!
//! Many connections are gone through in turns, so that others are served in between. To those whose turn has not come nothing is sent:
//! what comes for them waits in their queues, and is looked at with the rest. Sessions without a connection are looked at when
//! their client is back: until then nobody gets anything of them.

use std::time::Duration;

use bytes::Bytes;
use mqtt::authorization::{Request, Right};
use mqtt::connection::Connection;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::message::Delivery;
use mqtt::now::Now;
use mqtt::policies::{Policies, may_get, may_have};
use protocol::topic::SubscriptionFilter;
use protocol::{ReasonCode, Text};

use crate::denial::NOT_AUTHORIZED;
use crate::node::{Action, Node, TimerKey};

/// Subscriptions, queued messages and watched keys that are looked at before others have their turn: about a millisecond.
const LOOKED_AT_MAX: usize = 1_024;

/// What the end of a connection counts for: its will is routed, and its session written.
const DISCONNECT: usize = 16;

/// How long the others have their turn.
const PAUSE: Duration = Duration::from_millis(1);

impl Node {
    /// Other policies decide from now on.
    pub(crate) fn replace_policies(&mut self, now: Now, policies: Policies) {
        self.policies.replace(policies);
        self.policies.due = self.connections.ids().into();
        self.timers.schedule(TimerKey::Withdrawal, now.instant);
    }

    /// Goes on with the connections that are to be looked at.
    pub(crate) fn go_on_withdrawing(&mut self, now: Now, actions: &mut Vec<Action>) {
        let mut looked_at = 0;
        while looked_at < LOOKED_AT_MAX {
            let Some(id) = self.policies.due.pop_front() else {
                return;
            };
            looked_at += self.look_again(now, id, actions);
        }
        self.timers.schedule(TimerKey::Withdrawal, now.instant + PAUSE);
    }

    /// A client has authenticated again, and is known as something else than before.
    pub(crate) fn grant_again(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        let Some(client_id) = self.client_of(id) else {
            return;
        };
        self.grant(id, &client_id);
        let Some(key) = self.connections.get(id).and_then(Connection::session) else {
            return;
        };
        self.own(id, key);
        self.look_again(now, id, actions);
    }

    /// Takes from a connection's client what it may not have. Returns how much was looked at.
    fn look_again(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) -> usize {
        if let Some(connection) = self.connections.get_mut(id) {
            self.policies.look_at(connection);
        }
        let Some(access) = self.access(id) else { return 1 };
        let may_connect = access.may_connect().is_allowed();
        let Some(key) = self.connections.get(id).and_then(Connection::session) else {
            return 1;
        };
        if !may_connect {
            let client_id = self.client_id(key).unwrap_or_default();
            self.withdraw(id, key, Right::Connect, &client_id, actions);
            self.disconnect(now, id, ReasonCode::NotAuthorized, NOT_AUTHORIZED, actions);
            return DISCONNECT;
        }
        let looked_at =
            self.withdraw_subscriptions(now, id, key, actions) + self.withdraw_watches(now, id, key, actions);
        self.pump(now, key, actions);
        1 + looked_at
    }

    /// Ends subscriptions that are not allowed, and drops what waits and may not be had. Returns how much was looked at.
    pub(crate) fn withdraw_subscriptions(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        actions: &mut Vec<Action>,
    ) -> usize {
        let Some(access) = self.access(id) else { return 0 };
        let access = access.clone();
        let Some(entry) = self.sessions.get_mut(key) else {
            return 0;
        };
        let looked_at = entry.filters.len() + entry.outbox.len();
        let filters = entry.filters.iter().map(|(filter, _)| filter);
        let ended: Vec<SubscriptionFilter> = filters
            .filter(|filter| !may_have(&access, &filter.filter))
            .cloned()
            .collect();
        for filter in ended {
            self.end_subscription(now, key, &filter, actions);
            self.withdraw(id, key, Right::Subscribe, filter.filter.as_str(), actions);
        }
        let Some(entry) = self.sessions.get_mut(key) else {
            return looked_at;
        };
        let mut dropped = Vec::new();
        let is_kept = |delivery: &Delivery| may_get(&access, &delivery.message.topic);
        entry.outbox.keep_allowed(is_kept, &mut dropped);
        self.count_dropped(&dropped);
        self.note_standing(key);
        looked_at
    }

    /// Ends registrations for keys that may not be read. Returns how much was looked at.
    fn withdraw_watches(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        actions: &mut Vec<Action>,
    ) -> usize {
        let connection = self.connections.get(id);
        let watched: Vec<Bytes> = if connection.is_some_and(|connection| connection.has_watches) {
            self.groups.watched_keys(id.0)
        } else {
            Vec::new()
        };
        let Some(access) = self.access(id) else { return 0 };
        let is_denied = |watched: &&Bytes| !access.decide(Request::ReadKey(watched)).is_allowed();
        let ended: Vec<Bytes> = watched.iter().filter(is_denied).cloned().collect();
        for watched in ended {
            self.withdraw_watch(now, id, key, watched, actions);
        }
        watched.len()
    }

    /// A registration was made that was on its way while the policies changed.
    pub(crate) fn look_at_watch(
        &mut self,
        now: Now,
        id: ConnectionId,
        watched: Bytes,
        actions: &mut Vec<Action>,
    ) {
        if self.may_read(id, &watched) {
            return;
        }
        if let Some(key) = self.connections.get(id).and_then(Connection::session) {
            self.withdraw_watch(now, id, key, watched, actions);
        }
    }

    fn withdraw_watch(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        watched: Bytes,
        actions: &mut Vec<Action>,
    ) {
        self.withdraw(id, key, Right::Read, &String::from_utf8_lossy(&watched), actions);
        let group = self.groups.of_key(&watched);
        self.with_group(now, group, actions, |service, outputs| {
            service.end_watch(now, id.0, watched, outputs);
        });
    }

    fn client_id(&self, key: SessionKey) -> Option<Text> {
        let entry = self.sessions.get(key)?;
        Some(entry.client_id.clone())
    }
}
