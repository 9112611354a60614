//! SUBSCRIBE and UNSUBSCRIBE.

use std::collections::BTreeMap;

use protocol::packet::{
    QoS, RetainHandling, SubAck, Subscribe, SubscribeFilter, SubscriptionId, SubscriptionOptions, UnsubAck,
    Unsubscribe,
};
use protocol::properties::Explanation;
use protocol::topic::SubscriptionFilter;
use protocol::{Packet, ReasonCode, Text};

use crate::denial::{NOT_AUTHORIZED, Right};
use crate::ids::{ConnectionId, SessionKey};
use crate::node::{Action, Node};
use crate::now::Now;
use crate::records;
use crate::report::Report;
use crate::subscriptions::Subscription;
use crate::waiting::Waiter;

impl Node {
    /// SUBSCRIBE: the SUBACK leaves when the subscriptions are durable, and the other nodes know them.
    pub(crate) fn received_subscribe(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        subscribe: &Subscribe,
        actions: &mut Vec<Action>,
    ) {
        let subscription_id = subscribe.subscription_id;
        let reasons: Vec<ReasonCode> = subscribe
            .filters
            .iter()
            .map(|line| self.subscribe(id, key, line, subscription_id, actions))
            .collect();
        let filters = subscribe.filters.iter().map(|line| &line.filter);
        self.report_refused_filters((id, key), "SUBSCRIBE", filters.zip(&reasons), actions);
        let packet = Packet::SubAck(SubAck {
            packet_id: subscribe.packet_id,
            explanation: Explanation::default(),
            reasons,
        });
        let waiter = self.after_routes(
            now,
            Waiter::Suback {
                connection: id,
                packet,
                received: now.instant,
            },
        );
        self.after_own_writes(now, waiter, actions);
        self.pump(now, key, actions);
        self.record_retained_due(key);
    }

    /// Tells the operator which lines of a packet are refused: once for each reason, however many there are.
    fn report_refused_filters<'a>(
        &self,
        (id, key): (ConnectionId, SessionKey),
        packet: &'static str,
        answered: impl Iterator<Item = (&'a Text, &'a ReasonCode)>,
        actions: &mut Vec<Action>,
    ) {
        let mut refused = BTreeMap::<ReasonCode, (&Text, usize)>::new();
        for (filter, reason) in answered.filter(|(_, reason)| reason.is_error()) {
            let first = refused.entry(*reason);
            first
                .and_modify(|(_, further)| *further += 1)
                .or_insert((filter, 0));
        }
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        for (reason, (filter, further)) in refused {
            actions.push(Action::Report(Report::FiltersRefused {
                connection: id,
                client_id: entry.session.client_id.clone(),
                packet,
                filter: filter.clone(),
                further,
                reason,
                why: why_refused(reason),
            }));
        }
    }

    /// One line of a SUBSCRIBE.
    fn subscribe(
        &mut self,
        connection: ConnectionId,
        key: SessionKey,
        line: &SubscribeFilter,
        id: Option<SubscriptionId>,
        actions: &mut Vec<Action>,
    ) -> ReasonCode {
        let filter = match SubscriptionFilter::parse(line.filter.detached()) {
            Ok(filter) => filter,
            Err(_) => return ReasonCode::TopicFilterInvalid,
        };
        if !self.config.limits.allow_topic(&line.filter) {
            return ReasonCode::TopicFilterInvalid;
        }
        if !self.may_subscribe(connection, &filter.filter) {
            self.deny(Some(connection), key, Right::Subscribe, &line.filter, actions);
            return ReasonCode::NotAuthorized;
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
        let is_memory_full = self.is_memory_full();
        let Some(entry) = self.sessions.get_mut(key) else {
            return ReasonCode::UnspecifiedError;
        };
        let is_full =
            entry.session.filters.len() >= self.config.limits.subscriptions_per_session_max as usize;
        if (is_full || is_memory_full) && entry.session.filters.get(&filter).is_none() {
            return ReasonCode::QuotaExceeded;
        }
        let subscription = Subscription { options, id };
        // [MQTT-3.8.4-3]: a subscription to the same filter is replaced.
        let is_new = entry.session.filters.insert(&filter, subscription).is_none();
        if entry.session.is_durable() {
            self.commits.write(records::subscription::put(
                entry.session.number,
                &filter,
                &subscription,
                None,
            ));
        }
        self.join(key, &filter, subscription);
        // [MQTT-3.3.1-10]
        let wants_retained = match options.retain_handling {
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
        match options.qos {
            QoS::AtMostOnce => ReasonCode::Success,
            QoS::AtLeastOnce => ReasonCode::GrantedQos1,
            QoS::ExactlyOnce => ReasonCode::GrantedQos2,
        }
    }

    /// UNSUBSCRIBE.
    pub(crate) fn received_unsubscribe(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        unsubscribe: &Unsubscribe,
        actions: &mut Vec<Action>,
    ) {
        let filters = unsubscribe.filters.iter();
        let reasons: Vec<ReasonCode> = filters
            .map(|filter| self.unsubscribe(now, key, filter.clone(), actions))
            .collect();
        let answered = unsubscribe.filters.iter().zip(&reasons);
        self.report_refused_filters((id, key), "UNSUBSCRIBE", answered, actions);
        let packet = Packet::UnsubAck(UnsubAck {
            packet_id: unsubscribe.packet_id,
            explanation: Explanation::default(),
            reasons,
        });
        self.answer_when_durable(now, id, packet, actions);
    }

    /// UNSUBACK leaves when what it says is on disk.
    fn answer_when_durable(&mut self, now: Now, id: ConnectionId, packet: Packet, actions: &mut Vec<Action>) {
        let action = Action::Send {
            connection: id,
            packet,
        };
        let waiter = Waiter::Act {
            connection: id,
            action,
        };
        self.after_own_writes(now, waiter, actions);
    }

    fn unsubscribe(
        &mut self,
        now: Now,
        key: SessionKey,
        filter: Text,
        actions: &mut Vec<Action>,
    ) -> ReasonCode {
        let Ok(filter) = SubscriptionFilter::parse(filter) else {
            return ReasonCode::TopicFilterInvalid;
        };
        if self.end_subscription(now, key, &filter, actions) {
            return ReasonCode::Success;
        }
        // An UNSUBSCRIBE a moment ago may have removed it and not be answered yet.
        self.commits.rely_on_earlier();
        ReasonCode::NoSubscriptionExisted
    }

    /// Removes a subscription; false if there is none.
    pub(crate) fn end_subscription(
        &mut self,
        now: Now,
        key: SessionKey,
        filter: &SubscriptionFilter,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(entry) = self.sessions.get_mut(key) else {
            return false;
        };
        if entry.session.filters.remove(filter).is_none() {
            return false;
        }
        entry.due.forget(filter);
        if entry.session.is_durable() {
            self.commits
                .write(records::subscription::remove(entry.session.number, filter));
        }
        self.leave(key, filter);
        if filter.share.is_some() {
            self.give_back(now, key, filter, actions);
        }
        true
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

/// Why a topic filter is refused, in words.
fn why_refused(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::TopicFilterInvalid => "the topic filter is malformed, too long, or has too many levels",
        ReasonCode::NotAuthorized => NOT_AUTHORIZED,
        ReasonCode::QuotaExceeded => {
            "the session has limits.subscriptions_per_session_max subscriptions, or memory is full"
        }
        _ => "the session has ended",
    }
}
