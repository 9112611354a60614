//! Reports of the plane, and messages of peers: what follows from them for claims and questions.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::acting::Queue;
use super::waits::RemovedWait;
use super::{ClusterView, Sessions, SessionsAction, SessionsError, SessionsMessage, SessionsValue};
use crate::connecting::{
    ConnectingError, ConnectingMessage, ConnectionEvent, ConnectionId, release_loser, release_losers,
};
use crate::delivering::DeliveringEvent;
use crate::plane::{ChangedSession, ClaimedMessage, Matching, Now, PlaneAction};
use crate::publishing::{ConfirmRoute, PublishingEvent};
use crate::queue_limits::QueueEvent;
use crate::stream::GivingId;
use crate::transfer::TransferBytes;
use crate::wills::WillsEvent;
use crate::{Dot, GroupId, Run, Slot};

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Receives a message that the run `from` has sent over its connection.
    ///
    /// # Errors
    ///
    /// [`SessionsError`] where the message is refused. Unless [`SessionsError::is_ordinary`], the node
    /// logs it and closes the connection.
    pub fn receive(
        &mut self,
        now: Now,
        from: Run,
        message: SessionsMessage<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) -> Result<(), SessionsError> {
        let mut queue = Queue::default();
        let received = match message {
            SessionsMessage::Replication(message) => {
                let received = self.plane.receive(now, from, message, &mut queue.plane);
                queue.answers_are_due = true;
                received.map_err(SessionsError::from)
            }
            SessionsMessage::Connecting(message) => {
                self.plane.record_heard(now, from)?;
                let received = self.receive_claim(now, from.node, message, &mut queue);
                received.map_err(SessionsError::from)
            }
            SessionsMessage::Feed(message) => {
                self.plane.record_heard(now, from)?;
                let received = self.receive_feed(from.node, message, &mut queue);
                received.map_err(SessionsError::from)
            }
            SessionsMessage::Publishing(message) => {
                self.plane.record_heard(now, from)?;
                self.receive_publishing(now, from, message, &mut queue)
            }
            SessionsMessage::Groups(message) => {
                self.plane.record_heard(now, from)?;
                let received = self.receive_group(from.node, message, &mut queue);
                received.map_err(SessionsError::from)
            }
            SessionsMessage::Interests(message) => {
                self.plane.record_heard(now, from)?;
                let received = self.receive_interests(from.node, message, actions);
                self.watch_recipients(&mut queue);
                received
            }
        };
        self.apply(now, queue, actions);
        received
    }

    /// Receives a message about a claim, from a peer or from this node itself.
    pub(super) fn receive_claim(
        &mut self,
        now: Now,
        from: NodeId,
        message: ConnectingMessage<V>,
        queue: &mut Queue<V, M>,
    ) -> Result<(), ConnectingError> {
        let view = ClusterView { plane: &self.plane };
        let event = match message {
            ConnectingMessage::Ask(ask) => {
                let mut outgoing = Vec::new();
                let asked = self.questions.ask(now.monotonic, from, ask, &view, &mut outgoing);
                queue.send(outgoing);
                return asked;
            }
            ConnectingMessage::Session(answer) => {
                let answer = Box::new(answer);
                ConnectionEvent::SessionReceived { from, answer }
            }
            ConnectingMessage::Refused(refused) => ConnectionEvent::QuestionRefused { from, refused },
            ConnectingMessage::Release(release) => ConnectionEvent::ReleaseAsked { from, release },
            ConnectingMessage::Released(released) => ConnectionEvent::ReleasedReceived { from, released },
        };
        self.connections.step(event, &view, &mut queue.connecting)
    }

    /// Answers questions for which a copy has come to have enough: with each number that arrives a
    /// copy may have what the asker knows.
    pub(super) fn answer_waiting(&mut self, queue: &mut Queue<V, M>) {
        let view = ClusterView { plane: &self.plane };
        let mut outgoing = Vec::new();
        for slot in self.questions.slots() {
            self.questions.copy_ready(slot, &view, &mut outgoing);
        }
        queue.send(outgoing);
    }

    /// Applies a report of the plane.
    pub(super) fn apply_report(
        &mut self,
        now: Now,
        report: PlaneAction<V, M>,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match report {
            PlaneAction::Send { to, message } => {
                let message = SessionsMessage::Replication(message);
                actions.push(SessionsAction::Send { to, message });
            }
            PlaneAction::Durable(dot) => self.end_durable(now, dot, queue, actions),
            PlaneAction::Given(giving) => self.end_giving(now, giving, queue),
            PlaneAction::RouteTaken { to, number, marker } => {
                self.confirm_route(to, ConfirmRoute { number, marker }, queue, actions);
            }
            PlaneAction::Queued(queued) => self.take_queued(now, &queued, queue),
            PlaneAction::Transient(message) => actions.push(SessionsAction::Transient(message)),
            PlaneAction::Pended { slot, message } => self.take_pending(slot, message, queue),
            PlaneAction::Changed(changed) => {
                self.look_at_queue(now, changed.slot, changed.client.clone());
                if let Some(group) = GroupId::of_key(&changed.client) {
                    self.change_group(&group, &changed, queue);
                    return;
                }
                self.feed_change(&changed, queue);
                let ChangedSession { slot, client, by, .. } = changed;
                if by.run != self.plane.run() {
                    self.tell_uses(slot, Some(&client), queue);
                }
                if slot == Slot::ROUTES {
                    self.suspect_if_orphaned(&client);
                    self.part_if_ended(&client, queue);
                }
                self.look_at_client(now, slot, client.clone(), queue);
                actions.push(SessionsAction::Changed { slot, client, by });
                queue.answers_are_due = true;
            }
            // Nothing of a session is among topics. The node asks for those that have changed.
            PlaneAction::Merged { slot } if slot == Slot::RETAINED => {}
            PlaneAction::Dropped { place, .. } if place.slot == Slot::RETAINED => {}
            PlaneAction::Dropped { place, entries } => {
                if let Some(group) = GroupId::of_key(&place.client) {
                    self.drop_of_part(place.slot, group, &entries, queue);
                }
            }
            PlaneAction::Merged { slot } => {
                self.release_losers(slot, queue);
                self.tell_uses(slot, None, queue);
                if slot == Slot::ROUTES {
                    self.read_memberships(queue);
                } else {
                    // An answer about a hole brings messages to a copy that has been merged all the time.
                    self.step_limiting(now, QueueEvent::CopyChanged { slot });
                }
            }
            PlaneAction::RingChanged { marker, nodes } => {
                self.members.suspects.add_all();
                self.change_ring(queue);
                queue.answers_are_due = true;
                self.change_owners_of_feeds(queue);
                self.routes.clear();
                self.look_at_all(now, queue);
                let runs = nodes.iter().filter_map(|node| self.plane.present_run(*node));
                self.change_ring_of_parts(runs.collect(), queue);
                self.step_own_publishing(PublishingEvent::RingChanged { marker, nodes }, queue);
            }
            PlaneAction::Met(present) => {
                self.interests.meet(present.run.node);
                self.look_at_all(now, queue);
            }
            PlaneAction::GaveUp { run, reason } => {
                self.lose_peer(now, run.node, queue);
                self.lose_interests_of(run.node, actions);
                actions.push(SessionsAction::GaveUp { run, reason });
            }
            PlaneAction::EndRun(why) => actions.push(SessionsAction::EndRun(why)),
        }
    }

    /// An own event is durable: what waits for it goes on.
    fn end_durable(
        &mut self,
        now: Now,
        dot: Dot,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        actions.push(SessionsAction::Durable(dot));
        self.step_wills(now, WillsEvent::Durable(dot), queue);
        let ended = self.waits.end_event(dot);
        if let Some(wait) = ended.session {
            self.end_session_wait(wait, queue);
        }
        if let Some(wait) = ended.stored {
            self.end_stored_wait(wait, queue);
        }
        if let Some(wait) = ended.freed {
            self.end_freed_wait(wait, dot, queue);
        }
        if let Some(RemovedWait { connection, message }) = ended.removed {
            self.step_delivering(DeliveringEvent::Removed { connection, message }, queue);
        }
        self.end_delivery_wait(now, dot, queue);
        if let Some(wait) = ended.group {
            self.end_group_wait(wait, dot, queue, actions);
        }
        if let Some(connection) = ended.connection {
            self.end_event(connection, queue);
        }
    }

    fn end_giving(&mut self, now: Now, giving: GivingId, queue: &mut Queue<V, M>) {
        if let Some(delivery) = self.storing_deliveries.end_giving(giving) {
            self.end_delivery_wait(now, delivery, queue);
        }
        let ended = self.waits.end_giving(giving);
        if let Some(wait) = ended.session {
            self.end_session_wait(wait, queue);
        }
        if let Some(wait) = ended.stored {
            self.end_stored_wait(wait, queue);
        }
    }

    /// A peer is given up.
    fn lose_peer(&mut self, now: Now, peer: NodeId, queue: &mut Queue<V, M>) {
        self.questions.lose_peer(peer);
        self.routes.forget(peer);
        self.lose_feeds_of(peer, queue);
        self.look_at_all(now, queue);
        self.step(ConnectionEvent::PeerLost(peer), queue);
    }

    /// Looks at copies that have become merged, or are not any more, and at what waits for more.
    pub(super) fn watch_copies(&mut self, now: Now, queue: &mut Queue<V, M>) {
        for slot in self.plane.take_merge_changes() {
            self.pause_unmerged(slot, queue);
            self.lose_parts(slot, queue);
            if !slot.is_of_every_node() {
                self.look_at_slot(now, slot, queue);
                self.find_parts(slot);
            }
            if slot == Slot::ROUTES {
                self.part_with_ended(queue);
            }
        }
        self.resume_feeds(queue);
        self.catch_up_with_parts(queue);
        self.remove_orphans();
        self.compare_members();
        self.end_confirmed(queue);
    }

    /// A message was queued for a client, or a shared group, of a copy of this node.
    fn take_queued(&mut self, now: Now, queued: &ClaimedMessage, queue: &mut Queue<V, M>) {
        let ClaimedMessage {
            slot,
            client,
            message,
        } = queued;
        self.look_at_queue(now, *slot, client.clone());
        if GroupId::of_key(client).is_some() {
            self.add_to_part(*slot, client, *message, queue);
        } else {
            self.feed_queued(client, *message, queue);
        }
    }

    /// A message is pending in a copy of this node: clients and groups that it matches get it now.
    fn take_pending(&mut self, slot: Slot, message: Dot, queue: &mut Queue<V, M>) {
        let Some(key) = self.plane.pending_key(slot, message) else {
            return;
        };
        for matched in self.plane.matched_sessions(slot, message) {
            if GroupId::of_key(&matched.client).is_some() {
                self.add_to_part(slot, &matched.client, message, queue);
            } else {
                self.feed_pending(matched.client, key, queue);
            }
        }
    }

    /// An event has changed a shared group in a copy of this node.
    fn change_group(&mut self, group: &GroupId, changed: &ChangedSession, queue: &mut Queue<V, M>) {
        if changed.slot == Slot::ROUTES {
            self.change_members(group, changed, queue);
        } else {
            self.change_part(group, changed, queue);
        }
    }

    /// An event of a connection has become durable.
    fn end_event(&mut self, connection: ConnectionId, queue: &mut Queue<V, M>) {
        if let Some(client) = self.clients.get_mut(&connection) {
            client.undurable -= 1;
            self.close_if_durable(connection, queue);
        }
    }

    /// Ends a connection that closes, once all that it leaves is durable.
    pub(super) fn close_if_durable(&mut self, connection: ConnectionId, queue: &mut Queue<V, M>) {
        let client = self.clients.get(&connection);
        if client.is_some_and(|client| client.has_left() && client.undurable == 0) {
            self.step(ConnectionEvent::Closed { connection }, queue);
        }
    }

    /// A copy has merged: connections of it that lose are released, and questions may be answered.
    fn release_losers(&mut self, slot: Slot, queue: &mut Queue<V, M>) {
        let view = ClusterView { plane: &self.plane };
        let mut outgoing = Vec::new();
        if let Some(copy) = self.plane.copy(slot).filter(|_| self.plane.is_merged(slot)) {
            release_losers(copy.entries, &view, &mut outgoing);
        }
        queue.send(outgoing);
        queue.answers_are_due = true;
    }

    /// Connections are earlier than one of the client that has ended: they are released.
    pub(super) fn release_overtaken(&mut self, connections: &BTreeSet<Dot>, queue: &mut Queue<V, M>) {
        let view = ClusterView { plane: &self.plane };
        let mut outgoing = Vec::new();
        for old in connections {
            release_loser(*old, &view, &mut outgoing);
        }
        queue.send(outgoing);
    }

    /// This run routes by another view: new owners get entries, and claims begin anew.
    fn change_ring(&mut self, queue: &mut Queue<V, M>) {
        self.ring += 1;
        // The entries are given first: who is asked behind that has them.
        let slots: Vec<Slot> = self.connections.slots().collect();
        for slot in slots {
            self.step(ConnectionEvent::OwnersChanged(slot), queue);
        }
        self.step(ConnectionEvent::RingChanged, queue);
    }
}
