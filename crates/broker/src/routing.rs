//! Routing: recipients of a message, at this node and at others.

use std::sync::Arc;

use mqtt::ids::SessionKey;
use mqtt::memory::MemoryLevel;
use mqtt::message::{Delivery, DeliveryKind, Message};
use mqtt::subscriptions::{Chosen, Point, ShareKey, Subscription, point_of};
use protocol::packet::{QoS, SubscriptionId};
use protocol::topic::SubscriptionFilter;
use session_plane::Recipients;
use session_values::{KeptTogether, PARTITION};
use smallvec::SmallVec;

use crate::node::Node;
use crate::publishing::Keeping;
use crate::sessions::SessionEntry;

/// Connected session that a message is for: over all its own subscriptions that match, or for one share that chose it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) session: SessionKey,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: SmallVec<[SubscriptionId; 1]>,
}

impl Route {
    /// Delivery to the session.
    pub(crate) fn delivery(self, message: &Arc<Message>, kind: DeliveryKind) -> Delivery {
        Delivery {
            message: Arc::clone(message),
            qos: self.qos,
            retain: self.retain,
            subscription_ids: self.subscription_ids,
            kind,
            dup: false,
        }
    }
}

/// Member of a shared group that gets a message. Messages with the user property `$partition` go by its value under each
/// strategy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ShareStrategy {
    /// The next one in turn.
    #[default]
    RoundRobin,
    /// The same one for all messages of one publisher, by its client id. Messages without one (wills, messages of the
    /// server) go in turn.
    HashClient,
    /// The same one for all messages to one topic.
    HashTopic,
}

impl ShareStrategy {
    /// Messages that a shared group keeps together.
    pub(crate) fn kept_together(self) -> KeptTogether {
        match self {
            ShareStrategy::RoundRobin => KeptTogether::Partition,
            ShareStrategy::HashClient => KeptTogether::Publisher,
            ShareStrategy::HashTopic => KeptTogether::Topic,
        }
    }
}

/// A session may cause this part of [`mqtt::limits::Limits::matching_steps_max`], so that none leaves nothing to the others.
const SESSIONS_OF_STEPS: u32 = 16;

/// Memory that every publish uses again.
#[derive(Debug, Default)]
pub(crate) struct RouteScratch {
    pub(crate) routes: Vec<Route>,
    /// Owners of sessions, and other nodes with connected ones.
    pub(crate) recipients: Recipients,
    mark: u64,
}

impl RouteScratch {
    /// Nobody is to get anything.
    pub(crate) fn clear(&mut self) {
        self.routes.clear();
        self.recipients = Recipients::default();
    }

    /// The message is for this node alone.
    pub(crate) fn is_local(&self) -> bool {
        self.recipients.slots.is_empty() && self.recipients.nodes.is_empty()
    }

    /// Another message.
    pub(crate) fn begin(&mut self) {
        self.mark += 1;
    }

    /// Adds a subscription of a session to its route.
    pub(crate) fn add(
        &mut self,
        session: SessionKey,
        entry: &mut SessionEntry,
        subscription: &Subscription,
        message: &Message,
    ) {
        if entry.route_mark != self.mark {
            entry.route_mark = self.mark;
            entry.route_place = u32::try_from(self.routes.len()).expect("fewer than 2^32 sessions");
            let route = Route {
                session,
                qos: QoS::AtMostOnce,
                retain: false,
                subscription_ids: SmallVec::new(),
            };
            self.routes.push(route);
        }
        let route = &mut self.routes[entry.route_place as usize];
        route.qos = route.qos.max(subscription.options.qos.min(message.qos));
        route.retain |= subscription.options.retain_as_published && message.retain;
        route.subscription_ids.extend(subscription.id);
    }
}

/// To the session that was chosen, as it subscribed. [MQTT-4.8.2-3]
pub(crate) fn route_of_share(message: &Message, chosen: Chosen) -> Route {
    let Chosen {
        session,
        subscription,
        ..
    } = chosen;
    Route {
        session,
        qos: subscription.options.qos.min(message.qos),
        retain: subscription.options.retain_as_published && message.retain,
        subscription_ids: subscription.id.into_iter().collect(),
    }
}

impl Node {
    /// Collects the recipients of a message. The caller puts the memory back.
    pub(crate) fn route(&mut self, message: &Message, keeping: Keeping) -> RouteScratch {
        let mut scratch = self.route_here(message, keeping);
        if keeping == Keeping::Durable {
            scratch.recipients = self.replication.recipients(&message.topic, message.qos);
        }
        scratch
    }

    /// Collects the connected sessions of this node that a message is for.
    pub(crate) fn route_here(&mut self, message: &Message, keeping: Keeping) -> RouteScratch {
        let mut scratch = std::mem::take(&mut self.routes);
        self.find_routes(message, &mut scratch);
        if keeping == Keeping::Durable {
            // The others get it from the queue at their owners.
            let sessions = &self.sessions;
            let is_stored = |route: &Route| {
                let entry = sessions.get(route.session);
                route.qos > QoS::AtMostOnce && entry.is_some_and(|entry| entry.is_durable)
            };
            scratch.routes.retain(|route| !is_stored(route));
        }
        if keeping != Keeping::Durable || message.qos == QoS::AtMostOnce {
            self.find_sharers(message, &mut scratch);
        }
        self.charge_matching(&scratch);
        scratch
    }

    /// Adds a route for each share that matches: to one of its sharers at this node. What is stored for a shared
    /// group comes from its owners.
    fn find_sharers(&mut self, message: &Message, scratch: &mut RouteScratch) {
        if self.shares.is_empty() {
            return;
        }
        let mut found: SmallVec<[ShareKey; 4]> = SmallVec::new();
        self.shares
            .matches(message.topic.as_str(), &mut |share| found.push(share));
        if found.is_empty() {
            return;
        }
        let point = self.point_of(message);
        for share in found {
            if let Some(chosen) = self.shares.choose(share, point) {
                scratch.routes.push(route_of_share(message, chosen));
            }
        }
    }

    /// Point that a message is kept together by, if the strategy or its publisher asks for that.
    pub(crate) fn point_of(&self, message: &Message) -> Option<Point> {
        if let Some(partition) = message.properties.user_properties.find(PARTITION) {
            return Some(point_of(partition));
        }
        match self.config.share_strategy {
            ShareStrategy::RoundRobin => None,
            ShareStrategy::HashTopic => Some(point_of(message.topic.as_str())),
            ShareStrategy::HashClient => {
                let publisher = message.publisher.and_then(|key| self.sessions.get(key))?;
                Some(point_of(&publisher.client_id))
            }
        }
    }

    /// Work that finding the recipients of a message was, and that giving it to them will be.
    pub(crate) fn charge_matching(&mut self, scratch: &RouteScratch) {
        let visited = self.subscriptions.visited() + self.shares.visited();
        self.work.matched(visited, scratch.routes.len() as u64);
    }

    /// Whether messages are found a way still in a bounded number of steps if a session has this subscription as well; then
    /// what that adds counts for the session.
    pub(crate) fn takes_few_steps(&mut self, key: SessionKey, filter: &SubscriptionFilter) -> bool {
        let (before, after) = self.reaches(filter);
        let steps_max = self.config.limits.matching_steps_max;
        let Some(entry) = self.sessions.get_mut(key) else {
            return false;
        };
        let added = entry.matching_steps.saturating_add(after - before);
        if after > before && (after > steps_max || added > steps_max / SESSIONS_OF_STEPS) {
            return false;
        }
        entry.matching_steps = added;
        true
    }

    /// A session does not have a subscription any more, before which messages took so many steps.
    pub(crate) fn gives_back_steps(&mut self, key: SessionKey, filter: &SubscriptionFilter, before: u32) {
        let (after, _) = self.reaches(filter);
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.matching_steps = entry.matching_steps.saturating_sub(before.saturating_sub(after));
        }
    }

    /// How many steps messages take at most, and with this subscription.
    pub(crate) fn reaches(&self, filter: &SubscriptionFilter) -> (u32, u32) {
        if filter.share.is_some() {
            self.shares.reach_with(filter)
        } else {
            self.subscriptions.reach_with(&filter.filter)
        }
    }

    /// Collects the sessions with a matching subscription, each once.
    ///
    /// Overlapping subscriptions give one delivery with the highest QoS and all subscription identifiers.
    /// [MQTT-3.3.4-2] [MQTT-3.3.4-3]
    pub(crate) fn find_routes(&mut self, message: &Message, scratch: &mut RouteScratch) {
        scratch.begin();
        let (subscriptions, sessions) = (&self.subscriptions, &mut self.sessions);
        subscriptions.matches(message.topic.as_str(), &mut |session, subscription| {
            // [MQTT-3.8.3-3]
            if subscription.options.no_local && message.publisher == Some(session) {
                return;
            }
            let Some(entry) = sessions.get_mut(session) else {
                return;
            };
            scratch.add(session, entry, subscription, message);
        });
    }

    /// Whether the message stays here longer than this step, and must not keep a receive buffer alive.
    pub(crate) fn is_kept_by_any(&self, scratch: &RouteScratch) -> bool {
        scratch.routes.iter().any(|route| {
            let Some(entry) = self.sessions.get(route.session) else {
                return false;
            };
            let connection = self.connections.get(entry.connection);
            let is_sent_at_once = connection.is_some_and(|connection| !connection.is_congested)
                && self.memory.level == MemoryLevel::Normal;
            route.qos != QoS::AtMostOnce && (!is_sent_at_once || !entry.outbox.is_empty())
        })
    }
}
