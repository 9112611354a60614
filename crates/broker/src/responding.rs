//! Whom the state store answers.
//!
//! A response is published on a topic that the request names, but it is no message to everybody who likes that topic. It is for the session
//! that asked, by whatever subscription that has. Another session hears it only if the one that asked may publish there itself, or
//! it is a response topic of its own, and if no wildcard stands for it: its listener's policy has a rule that names the topic's first two levels, or, where there is no
//! policy, it has subscribed to the topic itself. So `#` and `clients/#` never show what others read. A client whose id is the base 16 of the
//! asker's hears nothing on the topic that both are called by.
//!
//! Notifications are not routed at all: `invoking.rs` hands each to the session of the connection that watches.

use mqtt::connection::Connection;
use mqtt::ids::SessionKey;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::response::Asking;
use mqtt::subscriptions::ShareKey;
use protocol::state_store::is_response_topic_of_namesake;
use protocol::{Text, TopicName};
use smallvec::SmallVec;

use crate::node::{Action, Node};
use crate::publishing::Keeping;
use crate::routing::{RouteScratch, route_of_share};
use crate::sessions::SessionEntry;

impl Node {
    /// Sends a response to who may have it. False: an error takes its place.
    pub(crate) fn publish_response(
        &mut self,
        now: Now,
        message: Message,
        asking: Asking,
        actions: &mut Vec<Action>,
    ) -> bool {
        let mut scratch = self.route_response(&message, asking);
        let refusal = self.refusal_of_response(now, &message, asking, &scratch.routes);
        let is_sent_as_it_is = refusal.is_none();
        let message = refusal.unwrap_or(message).counted(&self.memory.messages);
        let asker = self
            .connections
            .get(asking.connection)
            .and_then(Connection::session);
        if self.is_memory_full() {
            self.drop_waiting_but(&mut scratch, asker);
        }
        let keeping = asker.map_or(Keeping::Memory, Keeping::Reply);
        self.publish_to(now, message, scratch, keeping, actions);
        is_sent_as_it_is
    }

    fn route_response(&mut self, message: &Message, asking: Asking) -> RouteScratch {
        let asker = self
            .connections
            .get(asking.connection)
            .and_then(Connection::session);
        let mut scratch = std::mem::take(&mut self.routes);
        scratch.begin();
        let (subscriptions, sessions) = (&self.subscriptions, &mut self.sessions);
        let (connections, policies) = (&self.connections, &self.policies);
        let asker_id = asker.and_then(|key| Some(sessions.get(key)?.client_id.clone()));
        subscriptions.matches_by_kind(message.topic.as_str(), &mut |session, subscription, is_exact| {
            let Some(entry) = sessions.get_mut(session) else {
                return;
            };
            let is_asker = Some(session) == asker;
            let connection = connections.get(entry.connection);
            if is_asker
                || asking.may_publish
                    && !is_of_namesake(&message.topic, asker_id.as_ref(), entry)
                    && policies.may_overhear(entry.owner.as_deref(), connection, &message.topic, is_exact)
            {
                scratch.add(session, entry, subscription, message);
            }
        });
        if !self.shares.is_empty() {
            self.find_sharers_of_response(message, asker, asking, &mut scratch);
        }
        self.charge_matching(&scratch);
        scratch
    }

    /// Shares that are for the topic itself; the one whose turn it is must be allowed to have it.
    fn find_sharers_of_response(
        &mut self,
        message: &Message,
        asker: Option<SessionKey>,
        asking: Asking,
        scratch: &mut RouteScratch,
    ) {
        let mut found: SmallVec<[ShareKey; 4]> = SmallVec::new();
        self.shares
            .matches_exactly(message.topic.as_str(), &mut |share| found.push(share));
        let point = self.point_of(message);
        for share in found {
            let Some(chosen) = self.shares.choose(share, point) else {
                continue;
            };
            let is_allowed = Some(chosen.session) == asker
                || asking.may_publish && self.may_overhear_response(asker, chosen.session, message);
            if is_allowed {
                scratch.routes.push(route_of_share(message, chosen));
            }
        }
    }

    fn may_overhear_response(
        &self,
        asker: Option<SessionKey>,
        session: SessionKey,
        message: &Message,
    ) -> bool {
        let asker = asker.and_then(|key| self.sessions.get(key));
        let asker_id = asker.map(|entry| &entry.client_id);
        self.sessions.get(session).is_some_and(|entry| {
            let connection = self.connections.get(entry.connection);
            !is_of_namesake(&message.topic, asker_id, entry)
                && self
                    .policies
                    .may_overhear(entry.owner.as_deref(), connection, &message.topic, true)
        })
    }
}

/// Whether the topic is the asker's own by the base 16 of its client id, and that is what the session's client is called.
fn is_of_namesake(topic: &TopicName, asker: Option<&Text>, entry: &SessionEntry) -> bool {
    asker.is_some_and(|asker| is_response_topic_of_namesake(topic.as_str(), asker, &entry.client_id))
}
