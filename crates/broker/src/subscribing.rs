//! SUBSCRIBE and UNSUBSCRIBE.
//!
//! A packet with many filters is worked through in turns (`turns.rs`), and its client is not read from meanwhile. What was subscribed
//! to is in force at this node at once. SUBACK leaves when it is in force everywhere:
//!
//! - A filter of a session that outlives its connection is an entry, at the owners and in the routes of each node.
//! - The filters of connected sessions are told to the other nodes: for messages of QoS 0, and for those of sessions that end with
//!   their connection.
//! - A shared subscription is a membership.

use std::collections::BTreeMap;
use std::time::Instant;

use mqtt::authorization::Right;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::footprint::{block, places};
use mqtt::now::Now;
use mqtt::subscriptions::Subscription;
use protocol::packet::{
    PacketId, QoS, RetainHandling, SubAck, Subscribe, SubscribeFilter, SubscriptionId, SubscriptionOptions,
    UnsubAck, Unsubscribe,
};
use protocol::properties::Explanation;
use protocol::topic::SubscriptionFilter;
use protocol::{Packet, ReasonCode, Text};

use session_plane::plane::NewChange;

use crate::denial::NOT_AUTHORIZED;
use crate::node::{Action, Node};
use crate::replication::{Awaited, Cause, GroupWait, ReplicatedEvent, Waiter};
use crate::report::Report;
use crate::subscription_entries::{group_of, plane_client};
use crate::turns::{UNITS_AT_ONCE, Unfinished, units_of};

/// A SUBSCRIBE that is being worked through.
#[derive(Debug)]
pub(crate) struct Subscribing {
    connection: ConnectionId,
    session: SessionKey,
    packet_id: PacketId,
    id: Option<SubscriptionId>,
    filters: std::vec::IntoIter<SubscribeFilter>,
    reasons: Vec<ReasonCode>,
    refused: RefusedFilters,
    awaited: Awaited,
    received: Instant,
    /// Memory of the packet; it counts until all of it is done.
    bytes: u64,
}

/// An UNSUBSCRIBE that is being worked through.
#[derive(Debug)]
pub(crate) struct Unsubscribing {
    connection: ConnectionId,
    session: SessionKey,
    packet_id: PacketId,
    filters: std::vec::IntoIter<Text>,
    reasons: Vec<ReasonCode>,
    refused: RefusedFilters,
    awaited: Awaited,
    /// Memory of the packet; it counts until all of it is done.
    bytes: u64,
}

impl Subscribing {
    pub(crate) fn memory(&self) -> u64 {
        self.bytes + places::<ReasonCode>(self.reasons.capacity())
    }
}

impl Unsubscribing {
    pub(crate) fn memory(&self) -> u64 {
        self.bytes + places::<ReasonCode>(self.reasons.capacity())
    }
}

/// Why a topic filter is refused: what the client is told, and what the operator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Refusal {
    reason: ReasonCode,
    why: &'static str,
}

impl Refusal {
    const INVALID: Self = Self {
        reason: ReasonCode::TopicFilterInvalid,
        why: "the topic filter is malformed, too long, or has too many levels",
    };
    const DENIED: Self = Self {
        reason: ReasonCode::NotAuthorized,
        why: NOT_AUTHORIZED,
    };
    pub(crate) const ENDED: Self = Self {
        reason: ReasonCode::UnspecifiedError,
        why: "the session has ended",
    };
    const MEMORY: Self = Self::of_quota("memory is full");
    const SUBSCRIPTIONS: Self =
        Self::of_quota("the session has limits.subscriptions_per_session_max subscriptions");
    const SHARED: Self =
        Self::of_quota("the session has limits.shared_subscriptions_per_session_max shared subscriptions");
    pub(crate) const FULL: Self =
        Self::of_quota("too much is not durable, or as many filters are known to other nodes as may be");
    const STEPS: Self = Self::of_quota(
        "with this filter messages could take more than their share of limits.matching_steps_max steps",
    );

    const fn of_quota(why: &'static str) -> Self {
        Self {
            reason: ReasonCode::QuotaExceeded,
            why,
        }
    }
}

/// Topic filters of a packet that were refused, the first one for each reason.
#[derive(Debug, Default)]
struct RefusedFilters(BTreeMap<Refusal, FirstRefused>);

#[derive(Debug)]
struct FirstRefused {
    filter: Text,
    /// How many were refused for the same reason after it.
    further: usize,
}

impl RefusedFilters {
    /// Counts a filter whose line is refused; returns its reason code.
    fn reason_of(&mut self, filter: &Text, line: Result<ReasonCode, Refusal>) -> ReasonCode {
        let refusal = match line {
            Ok(reason) => return reason,
            Err(refusal) => refusal,
        };
        self.0
            .entry(refusal)
            .and_modify(|first| first.further += 1)
            .or_insert_with(|| FirstRefused {
                filter: filter.clone(),
                further: 0,
            });
        refusal.reason
    }
}

/// What a filter of a SUBSCRIBE costs, and one of an UNSUBSCRIBE, in [units](crate::turns).
const SUBSCRIBE_UNITS: u64 = 4;
const UNSUBSCRIBE_UNITS: u64 = 2;

impl Node {
    /// SUBSCRIBE: the SUBACK leaves when the subscriptions are durable, and the other nodes know them.
    pub(crate) fn received_subscribe(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        subscribe: Subscribe,
        actions: &mut Vec<Action>,
    ) {
        let texts = subscribe.filters.iter().map(|line| line.filter.len()).sum();
        let bytes = block(texts) + places::<SubscribeFilter>(subscribe.filters.capacity());
        let subscribing = Box::new(Subscribing {
            connection: id,
            session: key,
            packet_id: subscribe.packet_id,
            id: subscribe.subscription_id,
            reasons: Vec::with_capacity(subscribe.filters.len()),
            filters: subscribe.filters.into_iter(),
            refused: RefusedFilters::default(),
            awaited: Awaited::default(),
            received: now.instant,
            bytes,
        });
        if let Some(rest) = self.go_on_subscribing(now, subscribing, actions) {
            self.go_on_later(now, id, Unfinished::Subscribe(rest), actions);
        }
    }

    /// What is left of a packet waits for its turn, and its client is not read from meanwhile. If too much waits already, the
    /// client's connection ends: others can have no more of its packets than these.
    fn go_on_later(&mut self, now: Now, id: ConnectionId, rest: Unfinished, actions: &mut Vec<Action>) {
        if self.lacks_memory_for_turn(&rest) {
            return self.overrun(now, id, actions);
        }
        self.set_working(now, id, true, actions);
        self.wait_for_turn(now, rest);
    }

    /// Takes as many lines of a SUBSCRIBE as make a turn; gives back what is left.
    pub(crate) fn go_on_subscribing(
        &mut self,
        now: Now,
        mut subscribing: Box<Subscribing>,
        actions: &mut Vec<Action>,
    ) -> Option<Box<Subscribing>> {
        let (id, key) = (subscribing.connection, subscribing.session);
        if !self.is_connection_of(id, key) {
            return None;
        }
        let mut units = 0;
        while units < UNITS_AT_ONCE
            && let Some(line) = subscribing.filters.next()
        {
            let cost = SUBSCRIBE_UNITS + units_of(&line.filter);
            units += cost;
            self.work.filter(cost);
            let line_ends = self.subscribe(
                now,
                (id, key),
                (&line, subscribing.id),
                &mut subscribing.awaited,
                actions,
            );
            let reason = subscribing.refused.reason_of(&line.filter, line_ends);
            subscribing.reasons.push(reason);
        }
        if subscribing.filters.len() > 0 {
            return Some(subscribing);
        }
        self.report_refused_filters((id, key), "SUBSCRIBE", subscribing.refused, actions);
        let waiter = Waiter::Suback {
            connection: id,
            packet: Packet::SubAck(SubAck {
                packet_id: subscribing.packet_id,
                explanation: Explanation::default(),
                reasons: subscribing.reasons,
            }),
            received: subscribing.received,
        };
        self.after(now, &subscribing.awaited, waiter, actions);
        self.set_working(now, id, false, actions);
        self.sessions.recount(key);
        None
    }

    /// Tells the operator which lines of a packet are refused: once for each reason, however many there are.
    fn report_refused_filters(
        &self,
        (id, key): (ConnectionId, SessionKey),
        packet: &'static str,
        refused: RefusedFilters,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        for (refusal, first) in refused.0 {
            actions.push(Action::Report(Report::FiltersRefused {
                connection: id,
                client_id: entry.client_id.clone(),
                packet,
                filter: first.filter,
                further: first.further,
                reason: refusal.reason,
                why: refusal.why,
            }));
        }
    }

    /// One line of a SUBSCRIBE.
    fn subscribe(
        &mut self,
        now: Now,
        (connection, key): (ConnectionId, SessionKey),
        (line, id): (&SubscribeFilter, Option<SubscriptionId>),
        awaited: &mut Awaited,
        actions: &mut Vec<Action>,
    ) -> Result<ReasonCode, Refusal> {
        let filter = SubscriptionFilter::parse(line.filter.detached()).map_err(|_| Refusal::INVALID)?;
        if !self.config.limits.allow_topic(&line.filter) {
            return Err(Refusal::INVALID);
        }
        if !self.may_subscribe(connection, &filter.filter) {
            self.deny(Some(connection), key, Right::Subscribe, &line.filter, actions);
            return Err(Refusal::DENIED);
        }
        let is_bridge = self
            .connections
            .get(connection)
            .is_some_and(|connection| connection.is_bridge);
        let options = if is_bridge {
            of_bridge(line.options, &filter)
        } else {
            line.options
        };
        let entry = self.sessions.get(key).ok_or(Refusal::ENDED)?;
        let before = entry.filters.get(&filter).copied();
        if before.is_none() {
            self.check_room(key, &filter)?;
        }
        let subscription = Subscription { options, id };
        self.write_subscription(now, key, (&filter, subscription), awaited, actions)?;
        let entry = self.sessions.get_mut(key).ok_or(Refusal::ENDED)?;
        // [MQTT-3.8.4-3]: a subscription to the same filter is replaced.
        entry.filters.insert(&filter, subscription);
        let is_durable = entry.is_durable;
        awaited.told = awaited
            .told
            .max(self.join(key, is_durable, (&filter, subscription), before)?);
        self.owe_retained_of(key, filter, subscription, before.is_none());
        Ok(match options.qos {
            QoS::AtMostOnce => ReasonCode::Success,
            QoS::AtLeastOnce => ReasonCode::GrantedQos1,
            QoS::ExactlyOnce => ReasonCode::GrantedQos2,
        })
    }

    /// Retained messages of a subscription are due, as it wants them. [MQTT-3.3.1-10]
    fn owe_retained_of(
        &mut self,
        key: SessionKey,
        filter: SubscriptionFilter,
        subscription: Subscription,
        is_new: bool,
    ) {
        let wants_retained = match subscription.options.retain_handling {
            // What is retained would reach everybody who shares it. (section 4.8.2)
            _ if filter.share.is_some() => false,
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DoNotSend => false,
        };
        if wants_retained {
            self.owe_retained(key, filter, subscription);
        } else {
            self.owe_retained_as(key, &filter, subscription);
        }
    }

    /// Checks that a session may have one more subscription.
    fn check_room(&mut self, key: SessionKey, filter: &SubscriptionFilter) -> Result<(), Refusal> {
        let filters = &self.sessions.get(key).ok_or(Refusal::ENDED)?.filters;
        let limits = &self.config.limits;
        if filters.len() >= limits.subscriptions_per_session_max as usize {
            return Err(Refusal::SUBSCRIPTIONS);
        }
        let shared_max = limits.shared_subscriptions_per_session_max as usize;
        if filter.share.is_some() && filters.shared_len() >= shared_max {
            return Err(Refusal::SHARED);
        }
        if self.lacks_memory_to_subscribe(key) {
            return Err(Refusal::MEMORY);
        }
        if !self.takes_few_steps(key, filter) {
            return Err(Refusal::STEPS);
        }
        Ok(())
    }

    /// UNSUBSCRIBE: the UNSUBACK leaves when what it says is on disk.
    pub(crate) fn received_unsubscribe(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        unsubscribe: Unsubscribe,
        actions: &mut Vec<Action>,
    ) {
        let texts = unsubscribe.filters.iter().map(|filter| filter.len()).sum();
        let bytes = block(texts) + places::<Text>(unsubscribe.filters.capacity());
        let unsubscribing = Box::new(Unsubscribing {
            connection: id,
            session: key,
            packet_id: unsubscribe.packet_id,
            reasons: Vec::with_capacity(unsubscribe.filters.len()),
            filters: unsubscribe.filters.into_iter(),
            refused: RefusedFilters::default(),
            awaited: Awaited::default(),
            bytes,
        });
        if let Some(rest) = self.go_on_unsubscribing(now, unsubscribing, actions) {
            self.go_on_later(now, id, Unfinished::Unsubscribe(rest), actions);
        }
    }

    /// Takes as many filters of an UNSUBSCRIBE as make a turn; gives back what is left.
    pub(crate) fn go_on_unsubscribing(
        &mut self,
        now: Now,
        mut unsubscribing: Box<Unsubscribing>,
        actions: &mut Vec<Action>,
    ) -> Option<Box<Unsubscribing>> {
        let (id, key) = (unsubscribing.connection, unsubscribing.session);
        if !self.is_connection_of(id, key) {
            return None;
        }
        let mut units = 0;
        while units < UNITS_AT_ONCE
            && let Some(filter) = unsubscribing.filters.next()
        {
            let cost = UNSUBSCRIBE_UNITS + units_of(&filter);
            units += cost;
            self.work.filter(cost);
            let line_ends = self.unsubscribe(now, key, filter.clone(), &mut unsubscribing.awaited, actions);
            let reason = unsubscribing.refused.reason_of(&filter, line_ends);
            unsubscribing.reasons.push(reason);
        }
        if unsubscribing.filters.len() > 0 {
            return Some(unsubscribing);
        }
        self.report_refused_filters((id, key), "UNSUBSCRIBE", unsubscribing.refused, actions);
        let packet = Packet::UnsubAck(UnsubAck {
            packet_id: unsubscribing.packet_id,
            explanation: Explanation::default(),
            reasons: unsubscribing.reasons,
        });
        let action = Action::Send {
            connection: id,
            packet,
        };
        let waiter = Waiter::Act {
            connection: id,
            action,
        };
        self.after(now, &unsubscribing.awaited, waiter, actions);
        self.set_working(now, id, false, actions);
        None
    }

    fn unsubscribe(
        &mut self,
        now: Now,
        key: SessionKey,
        filter: Text,
        awaited: &mut Awaited,
        actions: &mut Vec<Action>,
    ) -> Result<ReasonCode, Refusal> {
        let filter = SubscriptionFilter::parse(filter).map_err(|_| Refusal::INVALID)?;
        if let Some(ended) = self.end_subscription(now, key, &filter, actions) {
            awaited.add(ended);
            return Ok(ReasonCode::Success);
        }
        // An UNSUBSCRIBE a moment ago may have removed it and not be answered yet.
        awaited.events.extend(self.replication.latest_open());
        Ok(ReasonCode::NoSubscriptionExisted)
    }

    /// Removes a subscription, with what is to be waited for; none if there is none.
    pub(crate) fn end_subscription(
        &mut self,
        now: Now,
        key: SessionKey,
        filter: &SubscriptionFilter,
        actions: &mut Vec<Action>,
    ) -> Option<Awaited> {
        let entry = self.sessions.get_mut(key)?;
        let subscription = entry.filters.remove(filter)?;
        entry.due.forget(filter);
        let (is_durable, claim) = (entry.is_durable, entry.claim);
        let removed = entry.entries.remove(filter);
        let client = plane_client(&entry.client_id);
        let (steps, _) = self.reaches(filter);
        self.leave(key, is_durable, filter, subscription);
        self.gives_back_steps(key, filter, steps);
        let mut awaited = Awaited::default();
        if let Some(group) = group_of(filter) {
            let leaving = group.clone();
            self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
                sessions.leave(at, claim, leaving, made);
            });
            awaited.groups.push(GroupWait { claim, group });
        } else if let Some(removed) = removed {
            let change = NewChange {
                client,
                removes: removed.dots.to_vec(),
                adds: None,
            };
            let made = self.change_session(now, claim, change, actions);
            awaited.events.extend(made.ok().map(ReplicatedEvent::of));
        }
        Some(awaited)
    }
}

/// What a bridge of 3.1.1 means and cannot say: its own messages do not come back, and retained ones stay retained. A shared
/// subscription has no No Local. [MQTT-3.8.3-4]
fn of_bridge(options: SubscriptionOptions, filter: &SubscriptionFilter) -> SubscriptionOptions {
    SubscriptionOptions {
        no_local: filter.share.is_none(),
        retain_as_published: true,
        ..options
    }
}
