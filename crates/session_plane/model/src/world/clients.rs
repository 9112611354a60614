//! Clients: each has a durable session, moves between nodes, and knows what it was promised.

use std::collections::{BTreeMap, BTreeSet};

use super::publishers::{Copy, Exchange};
use super::{Meeting, Removed, World};
use crate::ids::{ClientId, Dot, NodeId, Slot};
use crate::node::{Connection, Node, Observation, Stage};

/// A connection as its client sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) node: NodeId,
    pub(super) connection: Dot,
}

/// A CONNECT that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connecting {
    pub(super) place: Place,
    pub(super) clean: bool,
    pub(super) since: u32,
}

/// What a client has and believes.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    pub(super) at: Option<Place>,
    pub(super) connecting: Option<Connecting>,
    /// It was told that it has a session.
    pub(super) has_session: bool,
    /// It cannot know: it has asked for a change and was not answered.
    pub(super) is_unsure: bool,
    pub(super) has_ended: bool,
    /// It has sent a CONNECT since its session ended.
    pub(super) has_tried: bool,
    /// It has given up a CONNECT, which may have begun a session that it was not told of.
    pub(super) has_abandoned: bool,
    /// Sides of a split have sessions of their own for it; each has promised for itself.
    pub(super) is_forked: bool,
    pub(super) is_subscribed: bool,
    pub(super) wants_subscription: bool,
    pub(super) subscription: Option<Dot>,
    /// The first CONNECT of its session.
    pub(super) session_start: Option<Dot>,
    pub(super) session_since: u32,
    pub(super) last_start: Option<Dot>,
    pub(super) birth: Option<Dot>,
    /// Last event that removed something of it.
    pub(super) removal: Option<Dot>,
    /// Event that ended its session.
    pub(super) ending: Option<Dot>,
    /// Messages whose acknowledgement is durable, with the event of the acknowledgement.
    pub(super) acknowledged: BTreeMap<Dot, Dot>,
    pub(super) promised: Promises<Dot>,
    pub(super) received: BTreeSet<Dot>,
    /// QoS 2 messages that it has, by packet id, until PUBREL.
    pub(super) receiving: BTreeMap<u8, Dot>,
    /// Last stage that it was told of each QoS 2 message.
    pub(super) stages: BTreeMap<Dot, Stage>,
    /// QoS 2 messages of which it was told a stage on another side than the one that it has moved to.
    pub(super) moved: BTreeSet<Dot>,
    /// QoS 2 messages that it publishes, by packet id.
    pub(super) exchanges: BTreeMap<u8, Exchange>,
    /// As `promised` and `received`, for QoS 2 messages from clients, by content.
    pub(super) promised_once: Promises<u32>,
    pub(super) received_once: BTreeMap<u32, Dot>,
}

/// Messages that a client is promised, each with the subscription that promises it.
#[derive(Clone, Debug)]
pub(super) struct Promises<K> {
    /// Promised when they are acknowledged to their publisher.
    candidates: BTreeMap<K, Dot>,
    /// Acknowledged to their publisher.
    expected: BTreeMap<K, Dot>,
}

impl<K> Default for Promises<K> {
    fn default() -> Promises<K> {
        Promises {
            candidates: BTreeMap::new(),
            expected: BTreeMap::new(),
        }
    }
}

impl<K: Ord> Promises<K> {
    pub(super) fn add(&mut self, message: K, subscription: Dot) {
        self.candidates.insert(message, subscription);
    }

    /// Keeps a message that is not acknowledged yet only if `promise` still is what promises it.
    pub(super) fn keep_if(&mut self, message: &K, promise: Option<Dot>) {
        if self.candidates.get(message).copied() != promise {
            self.candidates.remove(message);
        }
    }

    /// The publisher got its acknowledgement. True if the message is expected from now on, which it is if it `counts`.
    pub(super) fn acknowledge(&mut self, message: K, counts: bool) -> bool {
        let candidate = self.candidates.remove(&message).filter(|_| counts);
        let is_promised = candidate.is_some();
        self.expected
            .extend(candidate.map(|subscription| (message, subscription)));
        is_promised
    }

    /// The client has the message.
    pub(super) fn fulfil(&mut self, message: &K) {
        self.candidates.remove(message);
        self.expected.remove(message);
    }

    pub(super) fn expected(&self) -> &BTreeMap<K, Dot> {
        &self.expected
    }
}

impl Client {
    pub(super) fn lose_node(&mut self, node: NodeId) {
        if self.at.is_some_and(|place| place.node == node) {
            self.at = None;
        }
        if self
            .connecting
            .is_some_and(|connecting| connecting.place.node == node)
        {
            self.connecting = None;
            self.has_abandoned = true;
        }
    }

    /// Nothing more is promised to it.
    pub(super) fn drop_promises(&mut self) {
        self.is_subscribed = false;
        self.wants_subscription = false;
        self.promised = Promises::default();
        self.promised_once = Promises::default();
    }

    /// It has ended its session, and has nothing left of it.
    pub(super) fn forget_packet_ids(&mut self) {
        self.receiving.clear();
        self.stages.clear();
        self.moved.clear();
    }

    pub(super) fn has_what_is_promised(&self) -> bool {
        self.promised.expected().is_empty() && self.promised_once.expected().is_empty()
    }

    pub(super) fn has_received(&mut self, message: Dot) {
        self.received.insert(message);
        self.promised.fulfil(&message);
    }
}

impl World {
    pub(super) fn client_mut(&mut self, client: ClientId) -> &mut Client {
        &mut self.clients[client.index()]
    }

    pub(super) fn client(&self, client: ClientId) -> &Client {
        &self.clients[client.index()]
    }

    /// Sends CONNECT; what the client was opening before, it closes.
    pub(super) fn connect(&mut self, id: ClientId, node: NodeId, clean: bool) {
        if let Some(Connecting { place, .. }) = self.client(id).connecting {
            self.step_node(place.node, 1, |node, _| node.disconnect(place.connection));
        }
        let will = self.draw_will(id);
        if clean {
            self.end_session_of_wills(id);
        }
        let connection = self.step_node(node, 1, |node, step| node.connect(step, id, clean, will));
        self.note_will(id, connection, will);
        let since = self.now;
        let client = self.client_mut(id);
        client.has_abandoned |= client.connecting.is_some();
        client.is_unsure |= client.has_ended && client.has_tried;
        client.has_tried = true;
        client.at = None;
        client.connecting = Some(Connecting {
            place: Place { node, connection },
            clean,
            since,
        });
        if clean {
            client.drop_promises();
            client.forget_packet_ids();
            client.is_unsure = true;
            self.drop_exchanges(id);
            self.group.lose_member(id);
        }
    }

    pub(super) fn subscribe(&mut self, client: ClientId, place: Place) {
        self.say(|| format!("SUBSCRIBE client {}", client.0));
        let dot = self.step_node(place.node, 1, |node, step| node.subscribe(step, place.connection));
        let client = self.client_mut(client);
        if let Some(dot) = dot {
            client.wants_subscription = true;
            if !client.is_subscribed {
                client.subscription = Some(dot);
            }
        }
    }

    pub(super) fn publish(&mut self, node: NodeId) {
        let Some(dot) = self.step_node(node, 1, |node, step| node.publish(step)) else {
            return;
        };
        self.counters.published += 1;
        self.published_at.insert(dot, self.now);
        self.say(|| format!("PUBLISH {dot:?} at {}", node.0));
        for client in ClientId::all() {
            if let Some(subscription) = self.promise_of(client, node) {
                self.client_mut(client).promised.add(dot, subscription);
            }
        }
        self.promise_to_group(dot, node);
    }

    /// Subscription by which promise Q1 holds for a message that is published at `node` now.
    ///
    /// The subscription was acknowledged on the same side: the publisher's node knows it, or all its peers did when it met
    /// them. What a peer has learned since, from a node that the publisher's node does not have, is of another side.
    pub(super) fn promise_of(&self, client: ClientId, node: NodeId) -> Option<Dot> {
        let client = self.client(client);
        let subscription = client.subscription.filter(|_| client.is_subscribed)?;
        let present = self.node(node).membership.view.present;
        let alive = self.alive();
        let others = present.without(node);
        let knew = |peer: NodeId| {
            let meeting = self.meetings.get(&Meeting { node, peer });
            let same_view = alive.has(peer) && self.node(peer).membership.view.present == present;
            same_view && meeting.is_some_and(|known| known.contains(&subscription))
        };
        let all_others = !others.is_empty() && others.iter().all(knew);
        (self.routes_know(node, subscription) || all_others).then_some(subscription)
    }

    pub(super) fn routes_know(&self, node: NodeId, subscription: Dot) -> bool {
        let routes = self.node(node).copy(Slot::ROUTES);
        routes.is_some_and(|routes| routes.content.known().has(subscription))
    }

    /// Remembers which subscriptions `peer` knows now that `node` meets it.
    pub(super) fn remember_meeting(&mut self, node: NodeId, peer: NodeId) {
        let subscriptions = self.clients.iter().filter_map(|client| client.subscription);
        let known = subscriptions
            .filter(|subscription| self.routes_know(peer, *subscription))
            .collect();
        self.meetings.insert(Meeting { node, peer }, known);
    }

    /// Takes what a node has told a client, and checks it against the promises.
    pub(super) fn observe(&mut self, node: NodeId, observation: Observation) {
        self.interrupt(node, &observation);
        match observation {
            Observation::Trace(text) => self.say(|| text),
            Observation::DeclaredDead(_) => {}
            Observation::Retired { run, numbers } => self.note_retired(run, numbers),
            Observation::Closed { run, numbers } => self.closed.add(run, numbers),
            Observation::Took { node, dot } => self.takers.entry(dot).or_default().insert(node),
            Observation::Published(dot) => self.published(dot),
            Observation::Subscribed {
                client,
                connection,
                dot,
            } => self.subscribed(client, Place { node, connection }, dot),
            Observation::Unsubscribed { client, .. } => self.say(|| format!("UNSUBACK client {}", client.0)),
            Observation::Acknowledged {
                client,
                message,
                connection,
                by,
            } => self.acknowledged(client, Place { node, connection }, message, by),
            Observation::Removed { client, removed, by } => self.removed(client, removed, by),
            Observation::Ended { client, connection } => self.ended(client, Place { node, connection }),
            Observation::Connected {
                client,
                connection,
                present,
            } => self.connected(client, Place { node, connection }, present),
            Observation::Delivered {
                client,
                connection,
                message,
                packet,
            } => self.delivered(client, Place { node, connection }, message, packet),
            Observation::PubRel {
                client,
                connection,
                message,
                packet,
            } => self.pubrel(client, Place { node, connection }, message, packet),
            Observation::Numbered {
                client,
                content,
                number,
                entry,
            } => self.numbered(node, client, content, Copy { number, entry }),
            Observation::WillRouted { content, number } => self.will_routed(node, content, number),
            Observation::WillPublished { content, number } => self.will_published(content, number),
            Observation::Routed { number, holders } => {
                self.publishers.routed.entry(number).or_insert(holders);
            }
            Observation::PubRec {
                client,
                connection,
                packet_id,
                content,
            } => self.pubrec(client, Place { node, connection }, packet_id, content),
            Observation::PubComp {
                client,
                connection,
                packet_id,
            } => self.pubcomp(client, Place { node, connection }, packet_id),
            Observation::Group(observation) => self.observe_group(node, observation),
            Observation::Disconnected { client, connection } => {
                self.disconnected(client, Place { node, connection });
            }
        }
    }

    fn published(&mut self, dot: Dot) {
        self.group.published(dot);
        self.counters.acknowledged += 1;
        self.say(|| format!("PUBACK {dot:?}"));
        for client in &mut self.clients {
            let counts = !client.received.contains(&dot);
            self.counters.expected += u64::from(client.promised.acknowledge(dot, counts));
        }
    }

    fn subscribed(&mut self, id: ClientId, place: Place, dot: Dot) {
        let client = self.client_mut(id);
        let is_current = client.is_subscribed || client.subscription == Some(dot);
        if client.at == Some(place) && client.wants_subscription && is_current {
            client.is_subscribed = true;
            self.counters.subscribed += 1;
            self.say(|| format!("SUBACK client {}", id.0));
        }
    }

    fn acknowledged(&mut self, id: ClientId, place: Place, message: Dot, by: Dot) {
        let client = self.client_mut(id);
        if client.at == Some(place) {
            client.acknowledged.insert(message, by);
            self.say(|| format!("PUBREL client {} {message:?}", id.0));
        }
    }

    fn removed(&mut self, client: ClientId, removed: Vec<Dot>, by: Dot) {
        if client != ClientId::GROUP {
            self.client_mut(client).removal = Some(by);
        }
        for dot in removed {
            self.removed.insert(Removed { client, dot }, by);
        }
    }

    fn ended(&mut self, id: ClientId, place: Place) {
        self.say(|| format!("ended client {}", id.0));
        let now = self.now;
        let client = self.client_mut(id);
        if client.at == Some(place) {
            client.at = None;
            client.has_session = false;
            client.is_unsure = false;
            client.has_tried = false;
            client.ending = client.removal;
            client.has_ended = true;
            client.acknowledged.clear();
            client.session_since = now;
        }
    }

    fn disconnected(&mut self, id: ClientId, place: Place) {
        self.say(|| format!("node {} ends the connection of client {}", place.node.0, id.0));
        self.lose_will(place.connection);
        let client = self.client_mut(id);
        client.at = client.at.filter(|at| *at != place);
        client.connecting = client.connecting.filter(|connecting| connecting.place != place);
    }

    fn connected(&mut self, id: ClientId, place: Place, present: bool) {
        let Place { node, connection } = place;
        self.say(|| format!("CONNACK client {} at {} present={present}", id.0, node.0));
        self.counters.connected += 1;
        self.check_one_connection(id, place);
        self.live_at
            .insert(connection, self.node(node).membership.view.present);
        let connecting = self
            .client_mut(id)
            .connecting
            .take_if(|connecting| connecting.place == place);
        let Some(connecting) = connecting else {
            self.step_node(node, 1, |node, _| node.disconnect(connection));
            return;
        };
        self.acknowledge_will(id, place, present && !connecting.clean);
        self.check_session(id, place, &connecting, present);
        if self.goes_on() {
            self.take_session(id, &connecting, present);
            self.publish_again(id, place, present && !connecting.clean);
        }
    }

    /// Brings what the client believes in line with its CONNACK.
    fn take_session(&mut self, id: ClientId, connecting: &Connecting, present: bool) {
        let place = connecting.place;
        let node: &Node = self.node(place.node);
        let side = node.membership.view.present;
        let served = node.connection(place.connection);
        let start = served.and_then(|served| served.start);
        let birth = served.and_then(Connection::started).map(|session| session.birth);
        let last = self.client(id).last_start;
        let last_is_elsewhere = last.is_some_and(|last| self.takers(last).and(side).is_empty());
        let begins = connecting.clean || !present;
        self.note_moved(id, side);
        let beats_others = connecting.clean && !self.has_skew();
        let client = self.client_mut(id);
        client.at = Some(place);
        let has_forked =
            last_is_elsewhere || !present && client.has_session || !begins && client.birth != birth;
        // A clean start beats what other sides have, but for what an abandoned CONNECT writes at the same time, and for what
        // a node writes whose wall clock is ahead.
        client.is_forked = client.has_abandoned || (client.is_forked || has_forked) && !beats_others;
        client.has_abandoned = false;
        client.last_start = start;
        if begins {
            client.birth = birth;
            client.forget_packet_ids();
        }
        if connecting.clean || client.has_ended && !present {
            client.session_start = start;
            client.session_since = connecting.since;
            client.acknowledged.clear();
            client.received.clear();
            client.is_unsure = false;
        }
        client.has_ended &= !begins;
        client.has_session = true;
    }
}
