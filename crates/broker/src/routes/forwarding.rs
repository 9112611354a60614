//! From a message of this node to the nodes that want it.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::NodeId;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::message::{DeliveryKind, Message};
use mqtt::now::Now;
use mqtt::origin::{Position, Slots};
use mqtt::records::topic_value::Told;
use mqtt::session::DropCause;
use mqtt::subscriptions::{Point, ShareKey};
use protocol::packet::QoS;
use protocol::topic::SubscriptionFilter;
use smallvec::SmallVec;

use super::link::Link;
use super::losses::Postponed;
use super::table::Slot;
use super::{LinkChange, RecoveredOwed};
use super::{Routes, WaitId, messages};
use crate::cluster_records::forwarded;
use crate::node::{Action, Node};
use crate::routing::{RouteScratch, route_of_share};
use crate::waiting::Waiter;

/// The other nodes that a message is for.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// For subscriptions of their own.
    nodes: Slots,
    /// For shares, of which they are to choose a sharer.
    shares: Vec<(Slot, ForShare)>,
    /// For shares of which only lost nodes had somebody; with the place of a loss.
    postponed: Vec<(usize, ForShare)>,
}

type ForShare = (Arc<SubscriptionFilter>, Option<Point>);

/// Shares in one item: with more of them a message is sent several times, each for others.
const SHARES_MAX: usize = 255;

impl Elsewhere {
    pub(crate) fn clear(&mut self) {
        self.nodes = 0;
        self.shares.clear();
        self.postponed.clear();
    }

    /// Whether it is for subscriptions of the node at this place.
    pub(super) fn is_for_node_at(&self, slot: Slot) -> bool {
        self.nodes >> slot & 1 == 1
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes == 0 && self.shares.is_empty() && self.postponed.is_empty()
    }
}

impl Routes {
    /// Nodes that are sent a message for their subscriptions, this one among them.
    pub(crate) fn told(&self, elsewhere: &Elsewhere) -> Told {
        let gets = |(slot, link): &(Slot, &Link)| {
            link.is_reached && (elsewhere.nodes & !self.unready) >> slot & 1 == 1
        };
        if self.links.iter().all(|link| gets(&link)) {
            return Told::All;
        }
        let sent = self.links.iter().filter(gets).map(|(_, link)| link.node);
        Told::Some(sent.chain([self.node]).collect())
    }

    /// Sends a message to the nodes that it is for. If somebody waits, `wait` is over when they have it durably.
    fn forward(&mut self, now: Now, message: &Message, elsewhere: &mut Elsewhere, wait: Option<WaitId>) {
        if elsewhere.is_empty() {
            return;
        }
        let is_owed = message.qos != QoS::AtMostOnce && self.owed.is_for(elsewhere.nodes);
        self.add_heirs(&mut elsewhere.nodes);
        elsewhere.nodes &= !self.unready;
        let body = forwarded::encode(message, now);
        if is_owed {
            self.owe(now, body.clone());
        }
        elsewhere.shares.sort_unstable_by_key(|(slot, _)| *slot);
        for (slot, link) in &mut self.links {
            let mut is_for_subscriptions = elsewhere.nodes >> slot & 1 == 1;
            let of_link = elsewhere.shares.iter().filter(|(of, _)| *of == slot);
            let shares: Vec<ForShare> = of_link.map(|(_, share)| share.clone()).collect();
            if !is_for_subscriptions && shares.is_empty() {
                continue;
            }
            if !link.is_reached {
                self.figures.dropped_unreachable += u64::from(!(is_owed && self.owed.is_to(slot)));
                continue;
            }
            // Whoever waits is not read from; wills come whenever they are due.
            let is_unbounded = wait.is_none() && message.qos != QoS::AtMostOnce;
            if is_unbounded && self.config.is_exceeded(link, 4) {
                self.figures.dropped_behind += 1;
                continue;
            }
            for shares in shares
                .chunks(SHARES_MAX)
                .chain(shares.is_empty().then_some(&[][..]))
            {
                let mut head = Vec::new();
                messages::put_receivers(&mut head, std::mem::take(&mut is_for_subscriptions), shares);
                if message.qos == QoS::AtMostOnce {
                    let is_sent = link.push_loose(self.incarnation, &head, &body);
                    self.figures.dropped_behind += u64::from(!is_sent);
                } else {
                    link.outbox.push_message(now, head, body.clone(), shares.into());
                    if let Some(wait) = wait {
                        link.outbox.wait_for_message(wait, &mut self.waits);
                    }
                }
            }
            self.figures.forwarded += 1;
        }
        for (loss, (filter, point)) in elsewhere.postponed.drain(..) {
            let waits: Vec<WaitId> = wait.into_iter().collect();
            waits.iter().for_each(|wait| self.waits.add(*wait));
            let postponed = Postponed {
                since: Some(now.instant),
                body: body.clone(),
                filter,
                point,
                waits,
            };
            self.postpone(loss, postponed);
        }
        elsewhere.clear();
    }
}

impl Node {
    /// Adds the nodes that want a message for subscriptions of their sessions.
    #[inline]
    pub(crate) fn find_nodes(&self, message: &Message, scratch: &mut RouteScratch) {
        if let Some(peers) = &self.peers {
            scratch.elsewhere.clear();
            scratch.elsewhere.nodes = peers.table.matches(message.topic.as_str());
        }
    }

    /// Adds a route for each share that matches: to one of its sharers, or to a node that has one. `found`: the shares that have
    /// sharers here.
    pub(crate) fn find_sharers_everywhere(
        &mut self,
        message: &Message,
        found: &[ShareKey],
        scratch: &mut RouteScratch,
    ) {
        let point = self.point_of(message);
        let mut remote: SmallVec<[u32; 4]> = SmallVec::new();
        if let Some(peers) = &self.peers {
            let topic = message.topic.as_str();
            peers
                .table
                .matching_shares(topic, &mut |share| remote.push(share));
        }
        for share in found {
            if self.is_shared_elsewhere(*share) {
                continue;
            }
            if let Some(chosen) = self.shares.choose(*share, point) {
                scratch.routes.push(route_of_share(message, chosen));
            }
        }
        for share in remote {
            self.choose_anywhere(message, share, (point, None), scratch);
        }
    }

    /// Adds a route for a share in which other nodes take part, but not to the node `without`. False if there is nobody.
    fn choose_anywhere(
        &mut self,
        message: &Message,
        share: u32,
        (point, without): (Option<Point>, Option<Slot>),
        scratch: &mut RouteScratch,
    ) -> bool {
        let Some(peers) = &mut self.peers else {
            return false;
        };
        let filter = Arc::clone(peers.table.share_filter(share));
        let own = self.shares.count(&filter);
        let Some(chosen) = peers.choose(share, own, point, without) else {
            if let Some(loss) = peers.loss_of_sharer(share) {
                scratch.elsewhere.postponed.push((loss, (filter, point)));
                return true;
            }
            peers.figures.dropped_unreachable += 1;
            return false;
        };
        if let Some(slot) = chosen.slot {
            scratch.elsewhere.shares.push((slot, (filter, point)));
            return true;
        }
        let here = self.shares.find(&filter);
        let chosen = here.and_then(|here| self.shares.choose(here, point));
        let is_found = chosen.is_some();
        scratch
            .routes
            .extend(chosen.map(|chosen| route_of_share(message, chosen)));
        is_found
    }

    fn is_shared_elsewhere(&self, share: ShareKey) -> bool {
        let filter = self.shares.filter_at(share);
        let (Some(filter), Some(peers)) = (filter, &self.peers) else {
            return false;
        };
        peers.table.find_share(filter).is_some()
    }

    /// Sends a message to the nodes that it is for.
    pub(crate) fn forward(
        &mut self,
        now: Now,
        message: &Message,
        elsewhere: &mut Elsewhere,
        wait: Option<WaitId>,
    ) {
        if let Some(peers) = &mut self.peers {
            peers.forward(now, message, elsewhere, wait);
        }
    }

    /// The same for one that was given to others before, who do not want it any more; what to wait for, if somebody waits.
    pub(super) fn forward_on(
        &mut self,
        now: Now,
        message: &Message,
        elsewhere: &mut Elsewhere,
        is_waited_for: bool,
    ) -> Option<WaitId> {
        let peers = self.peers.as_mut()?;
        let is_waited_for = is_waited_for && message.qos != QoS::AtMostOnce;
        let wait = is_waited_for.then(|| peers.open_wait());
        peers.forward(now, message, elsewhere, wait);
        peers.keep_open(wait?)
    }

    /// Adds the nodes that may go on with sessions that a message is for.
    pub(crate) fn add_heirs(&self, elsewhere: &mut Elsewhere) {
        if let Some(peers) = &self.peers {
            peers.add_heirs(&mut elsewhere.nodes);
        }
    }

    /// Something to wait for while other nodes are told of a message, if somebody waits for it.
    pub(crate) fn open_wait(&mut self, message: &Message) -> Option<WaitId> {
        let is_waited_for = message.publisher.is_some() && message.qos != QoS::AtMostOnce;
        let peers = self.peers.as_mut().filter(|_| is_waited_for)?;
        Some(peers.open_wait())
    }

    /// The same, when they were told: unless nobody has to confirm anything.
    pub(crate) fn keep_open(&mut self, wait: Option<WaitId>) -> Option<WaitId> {
        self.peers.as_mut()?.keep_open(wait?)
    }

    /// A delivery whose share has nobody here any more goes to another node. False if there is none.
    pub(crate) fn share_elsewhere(
        &mut self,
        now: Now,
        message: &Message,
        filter: &SubscriptionFilter,
    ) -> bool {
        let point = self.point_of(message);
        let peers = self.peers.as_ref();
        let Some(share) = peers.and_then(|peers| peers.table.find_share(filter)) else {
            return false;
        };
        let mut scratch = RouteScratch::default();
        self.choose_anywhere(message, share, (point, None), &mut scratch) && {
            self.forward(now, message, &mut scratch.elsewhere, None);
            true
        }
    }

    /// A node has nobody any more who shares what its item of this number is for: another one gets it.
    pub(super) fn declined(
        &mut self,
        now: Now,
        slot: Slot,
        (number, filter): (u64, &SubscriptionFilter),
        actions: &mut Vec<Action>,
    ) {
        let Some(peers) = &mut self.peers else { return };
        let link = &peers.links[slot];
        // One that is settled was given to another before.
        let Some(item) = link.outbox.get(number) else {
            return;
        };
        let waits = link.outbox.waiting_for(number);
        let point = item.shares.iter().find(|(share, _)| **share == *filter);
        let Some((_, point)) = point.cloned() else { return };
        let message = forwarded::decode(item.body.clone(), item.waited(now), now);
        let message = message
            .expect("this node has encoded it")
            .counted(&self.memory.messages);
        peers.figures.declined += 1;
        let mut scratch = RouteScratch::default();
        if !self.choose_for_share(&message, filter, (point, Some(slot)), &mut scratch) {
            return self.counters.dropped.count(DropCause::NoSharer);
        }
        let again = self.forward_on(now, &message, &mut scratch.elsewhere, !waits.is_empty());
        self.deliver_chosen(now, message, scratch, actions);
        self.wait_longer(now, waits, again, actions);
    }

    /// Adds a route for a share, whether other nodes take part in it or not, but not to the node `without`. False if there is nobody.
    pub(super) fn choose_for_share(
        &mut self,
        message: &Message,
        filter: &SubscriptionFilter,
        (point, without): (Option<Point>, Option<Slot>),
        scratch: &mut RouteScratch,
    ) -> bool {
        let share = self
            .peers
            .as_ref()
            .and_then(|peers| peers.table.find_share(filter));
        if let Some(share) = share {
            return self.choose_anywhere(message, share, (point, without), scratch);
        }
        let here = self.shares.find(filter);
        let chosen = here.and_then(|here| self.shares.choose(here, point));
        scratch
            .routes
            .extend(chosen.map(|chosen| route_of_share(message, chosen)));
        !scratch.routes.is_empty()
    }

    /// Gives a message to whoever of this node was chosen.
    pub(super) fn deliver_chosen(
        &mut self,
        now: Now,
        message: Message,
        mut scratch: RouteScratch,
        actions: &mut Vec<Action>,
    ) {
        let message = Arc::new(message);
        for route in scratch.routes.drain(..) {
            let session = route.session;
            self.deliver(
                now,
                session,
                route.delivery(&message, DeliveryKind::Message),
                actions,
            );
        }
        self.stored = None;
    }

    /// Who has waited for one node waits for another one, and for this node's disk.
    fn wait_longer(
        &mut self,
        now: Now,
        waits: Vec<WaitId>,
        again: Option<WaitId>,
        actions: &mut Vec<Action>,
    ) {
        let Some(peers) = self.peers.as_mut().filter(|_| !waits.is_empty()) else {
            return;
        };
        waits.iter().for_each(|wait| peers.waits.add(*wait));
        let waiter = Self::after(again, Waiter::Over(waits));
        self.after_own_writes(now, waiter, actions);
    }

    /// Lets a waiter wait for other nodes, too.
    pub(crate) fn after(wait: Option<WaitId>, waiter: Waiter) -> Waiter {
        match wait {
            Some(wait) => Waiter::After {
                wait,
                then: Box::new(waiter),
            },
            None => waiter,
        }
    }

    /// Lets a waiter wait until this node knows what the others want, and they what the session wants.
    pub(crate) fn after_nodes(&mut self, now: Now, key: SessionKey, waiter: Waiter) -> Waiter {
        let Some(peers) = &mut self.peers else {
            return waiter;
        };
        let entry = self.sessions.get(key);
        let is_subscribed = entry.is_some_and(|entry| !entry.session.filters.is_empty());
        let wait = peers.wait_to_know();
        let waiter = Self::after(self.guard_will(now, key), waiter);
        match wait {
            None if is_subscribed => self.after_routes(now, waiter),
            wait if is_subscribed => Self::after(wait, Waiter::Announced(Box::new(waiter))),
            wait => Self::after(wait, waiter),
        }
    }

    /// Lets a waiter wait until all nodes know this node's routes.
    pub(crate) fn after_routes(&mut self, now: Now, waiter: Waiter) -> Waiter {
        let wait = self.peers.as_mut().and_then(|peers| peers.wait_for_routes(now));
        Self::after(wait, waiter)
    }

    /// Stops reading from a publisher while too much is on its way to other nodes.
    pub(crate) fn hold_for_nodes(&mut self, id: ConnectionId) {
        let is_held = self.peers.as_mut().is_some_and(|peers| peers.hold(id));
        if let Some(connection) = self.connections.get_mut(id).filter(|_| is_held) {
            connection.awaits_nodes = true;
        }
        self.hold_for_plane(id);
    }

    /// Lets those go on who have waited for other nodes.
    pub(crate) fn go_on_after_nodes(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.note_links(now, actions);
        self.go_on_handing_over(now, actions);
        self.go_on_after_copies(now, actions);
        loop {
            let released = self.peers.as_mut().map(|peers| peers.take_released());
            let Some(released) = released.filter(|released| !released.is_empty()) else {
                break;
            };
            for waiter in released {
                self.release(now, waiter, actions);
            }
        }
        let early = self.peers.as_mut().map(|peers| peers.take_early());
        for will in early.into_iter().flatten() {
            self.publish_will(now, will, actions);
        }
        let unheld = self.peers.as_mut().map(|peers| peers.take_unheld());
        for id in unheld.into_iter().flatten() {
            self.end_awaiting_nodes(now, id, actions);
        }
    }

    /// Reads on from a publisher that has waited for other nodes.
    pub(crate) fn end_awaiting_nodes(&mut self, now: Now, id: ConnectionId, actions: &mut Vec<Action>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.awaits_nodes = false;
            // It could not be heard; its silence begins now.
            connection.last_received = now.instant;
            actions.push(Action::Resume { connection: id });
        }
    }

    /// Where the node is a member of a cluster: what its sessions want is told to the others.
    pub(crate) fn begin_routes(
        &mut self,
        now: Now,
        own: (NodeId, u32),
        found: (BTreeMap<NodeId, Position>, RecoveredOwed),
    ) {
        if self.control.is_none() {
            return;
        }
        let config = self.config.routes.clone();
        let mut peers = Routes::new(now, config, self.config.seed, own, found);
        for (_, entry) in self.sessions.iter() {
            for (filter, _) in entry.session.filters.iter() {
                if filter.share.is_some() {
                    peers.shared(filter, self.shares.count(filter));
                } else {
                    peers.subscribed(&filter.filter);
                }
            }
        }
        self.peers = Some(Box::new(peers));
        // Nobody is gone yet.
        self.look_for_nodes(now, &mut Vec::new());
    }

    /// Takes note of the nodes of the cluster, and does what is due with them.
    pub(crate) fn routes_timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.look_for_nodes(now, actions);
        if let Some(peers) = &mut self.peers {
            peers.timeout(now, actions);
        }
        self.go_on_after_nodes(now, actions);
    }

    /// Takes note of the nodes of the cluster.
    pub(crate) fn look_for_nodes(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (Some(peers), Some(control)) = (&mut self.peers, &self.control) else {
            return;
        };
        let gone = peers.set_nodes(now, control.control().nodes().keys().copied());
        for node in gone {
            self.commits.write(forwarded::remove_position(node));
            self.forget_answers(node);
            self.forget_ended_of(node);
            self.note_link_of_clients(now, (node, LinkChange::Lost), actions);
        }
    }

    /// Sends to other nodes what was collected.
    pub(crate) fn flush_routes(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.go_on_with_wills(now, actions);
        if let Some(peers) = &mut self.peers {
            peers.flush(now, actions);
        }
    }
}
