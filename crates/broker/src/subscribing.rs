//! SUBSCRIBE and UNSUBSCRIBE.

use std::sync::Arc;

use protocol::packet::{
    QoS, RetainHandling, SubAck, Subscribe, SubscribeFilter, SubscriptionId, UnsubAck, Unsubscribe,
};
use protocol::properties::Explanation;
use protocol::topic::SubscriptionFilter;
use protocol::{Packet, ReasonCode, TopicFilter};

use crate::ids::{ConnectionId, SessionKey};
use crate::message::Delivery;
use crate::node::{Action, Node};
use crate::now::Now;
use crate::records;
use crate::subscriptions::Subscription;
use crate::waiting::Waiter;

/// A subscription that was made and whose retained messages are due.
struct Made {
    filter: TopicFilter,
    subscription: Subscription,
}

impl Node {
    /// SUBSCRIBE: the SUBACK leaves when the subscriptions are durable.
    pub(crate) fn received_subscribe(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        subscribe: &Subscribe,
        actions: &mut Vec<Action>,
    ) {
        let mut made = Vec::new();
        let subscription_id = subscribe.subscription_id;
        let reasons = subscribe
            .filters
            .iter()
            .map(|line| self.subscribe(key, line, subscription_id, &mut made))
            .collect();
        let packet = Packet::SubAck(SubAck {
            packet_id: subscribe.packet_id,
            explanation: Explanation::default(),
            reasons,
        });
        self.answer_when_durable(now, id, packet, actions);
        for made in made {
            self.send_retained(now, key, &made, actions);
        }
    }

    /// One line of a SUBSCRIBE.
    fn subscribe(
        &mut self,
        key: SessionKey,
        line: &SubscribeFilter,
        id: Option<SubscriptionId>,
        made: &mut Vec<Made>,
    ) -> ReasonCode {
        let filter = match SubscriptionFilter::parse(line.filter.detached()) {
            Ok(filter) => filter,
            Err(_) => return ReasonCode::TopicFilterInvalid,
        };
        if !self.config.limits.allow_topic(&line.filter) {
            return ReasonCode::TopicFilterInvalid;
        }
        let is_memory_full = self.is_memory_full();
        let Some(entry) = self.sessions.get_mut(key) else {
            return ReasonCode::UnspecifiedError;
        };
        let is_full =
            entry.session.filters.len() >= self.config.limits.subscriptions_per_session_max as usize;
        if (is_full || is_memory_full) && entry.session.filters.get(&filter).is_none() {
            return ReasonCode::QuotaExceeded;
        }
        let subscription = Subscription {
            options: line.options,
            id,
        };
        // [MQTT-3.8.4-3]: a subscription to the same filter is replaced.
        let is_new = entry.session.filters.insert(&filter, subscription).is_none();
        if entry.session.is_durable() {
            self.commits.write(records::subscription::put(
                entry.session.number,
                &filter,
                &subscription,
            ));
        }
        self.join(key, &filter, subscription);
        let wants_retained = match line.options.retain_handling {
            // What is retained would reach everybody who shares it. (section 4.8.2)
            _ if filter.share.is_some() => false,
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DoNotSend => false,
        };
        if wants_retained {
            made.push(Made {
                filter: filter.filter,
                subscription,
            });
        }
        match line.options.qos {
            QoS::AtMostOnce => ReasonCode::Success,
            QoS::AtLeastOnce => ReasonCode::GrantedQos1,
            QoS::ExactlyOnce => ReasonCode::GrantedQos2,
        }
    }

    /// The retained messages of a new subscription. [MQTT-3.3.1-9] [MQTT-3.3.1-10]
    fn send_retained(&mut self, now: Now, key: SessionKey, made: &Made, actions: &mut Vec<Action>) {
        let mut messages = Vec::new();
        self.retained.matching(&made.filter, now, &mut |message| {
            messages.push(Arc::clone(message));
        });
        for message in messages {
            let delivery = Delivery {
                qos: message.qos.min(made.subscription.options.qos),
                message,
                retain: true,
                subscription_ids: made.subscription.id.into_iter().collect(),
                share: None,
                durable: None,
                is_volatile: false,
                dup: false,
            };
            self.deliver(now, key, delivery, actions);
        }
    }

    /// UNSUBSCRIBE.
    pub(crate) fn received_unsubscribe(
        &mut self,
        now: Now,
        id: ConnectionId,
        key: SessionKey,
        unsubscribe: Unsubscribe,
        actions: &mut Vec<Action>,
    ) {
        let reasons = unsubscribe
            .filters
            .into_iter()
            .map(|filter| self.unsubscribe(now, key, filter, actions))
            .collect();
        let packet = Packet::UnsubAck(UnsubAck {
            packet_id: unsubscribe.packet_id,
            explanation: Explanation::default(),
            reasons,
        });
        self.answer_when_durable(now, id, packet, actions);
    }

    /// SUBACK and UNSUBACK leave when what they say is on disk.
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
        filter: protocol::Text,
        actions: &mut Vec<Action>,
    ) -> ReasonCode {
        let Ok(filter) = SubscriptionFilter::parse(filter) else {
            return ReasonCode::TopicFilterInvalid;
        };
        let Some(entry) = self.sessions.get_mut(key) else {
            return ReasonCode::UnspecifiedError;
        };
        if entry.session.filters.remove(&filter).is_none() {
            // An UNSUBSCRIBE a moment ago may have removed it and not be answered yet.
            self.commits.rely_on_earlier();
            return ReasonCode::NoSubscriptionExisted;
        }
        if entry.session.is_durable() {
            self.commits
                .write(records::subscription::remove(entry.session.number, &filter));
        }
        self.leave(key, &filter);
        if filter.share.is_some() {
            self.give_back(now, key, &filter, actions);
        }
        ReasonCode::Success
    }
}
