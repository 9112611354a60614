//! Reports of the plane, and messages of peers: what follows from them for claims and questions.

use cluster::NodeId;

use super::acting::Queue;
use super::{ClusterView, Sessions, SessionsAction, SessionsError, SessionsMessage};
use crate::connecting::{ConnectingError, ConnectingMessage, ConnectionEvent, ConnectionId, release_losers};
use crate::plane::{ChangedSession, Matching, Now, PlaneAction, PlaneValue};
use crate::publishing::{ConfirmRoute, PublishingEvent};
use crate::transfer::TransferBytes;
use crate::wills::WillsEvent;
use crate::{Run, Slot};

impl<V, M, R> Sessions<V, M, R>
where
    V: PlaneValue<M>,
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
            PlaneAction::Durable(dot) => {
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
                if let Some(connection) = ended.connection {
                    self.end_event(connection, queue);
                }
            }
            PlaneAction::Given(giving) => {
                let ended = self.waits.end_giving(giving);
                if let Some(wait) = ended.session {
                    self.end_session_wait(wait, queue);
                }
                if let Some(wait) = ended.stored {
                    self.end_stored_wait(wait, queue);
                }
            }
            PlaneAction::RouteTaken { to, number, marker } => {
                self.confirm_route(to, ConfirmRoute { number, marker }, queue, actions);
            }
            PlaneAction::Queued(queued) => self.feed_queued(&queued.client, queued.message, queue),
            PlaneAction::Pended { slot, message } => self.feed_pending(slot, message, queue),
            PlaneAction::Changed(changed) => {
                self.feed_change(&changed, queue);
                let ChangedSession { slot, client, by, .. } = changed;
                if by.run != self.plane.run() {
                    self.tell_uses(slot, Some(&client), queue);
                }
                self.look_at_wills_of(now, slot, client.clone(), queue);
                actions.push(SessionsAction::Changed { slot, client, by });
                queue.answers_are_due = true;
            }
            PlaneAction::Merged { slot } => {
                self.release_losers(slot, queue);
                self.tell_uses(slot, None, queue);
            }
            PlaneAction::RingChanged { marker, nodes } => {
                self.change_ring(queue);
                self.change_owners_of_feeds(queue);
                self.routes.clear();
                self.step_wills(now, WillsEvent::RingChanged, queue);
                self.step_own_publishing(PublishingEvent::RingChanged { marker, nodes }, queue);
            }
            PlaneAction::Met(_) => self.step_wills(now, WillsEvent::RingChanged, queue),
            PlaneAction::GaveUp { run, reason } => {
                self.questions.lose_peer(run.node);
                self.routes.forget(run.node);
                self.lose_feeds_of(run.node, queue);
                self.step_wills(now, WillsEvent::RingChanged, queue);
                self.step(ConnectionEvent::PeerLost(run.node), queue);
                actions.push(SessionsAction::GaveUp { run, reason });
            }
            PlaneAction::EndRun(why) => actions.push(SessionsAction::EndRun(why)),
        }
    }

    /// Looks at copies that have become merged, or are not any more, and at what waits for more.
    pub(super) fn watch_copies(&mut self, now: Now, queue: &mut Queue<V, M>) {
        for slot in self.plane.take_merge_changes() {
            self.pause_unmerged(slot, queue);
            if slot != Slot::ROUTES {
                self.look_at_wills(now, slot, queue);
            }
        }
        self.resume_feeds(queue);
        self.end_confirmed(queue);
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
        if client.is_some_and(|client| client.is_closing && client.is_released && client.undurable == 0) {
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

    /// This run routes by another view: claims begin anew, and new owners get entries.
    fn change_ring(&mut self, queue: &mut Queue<V, M>) {
        self.ring += 1;
        self.step(ConnectionEvent::RingChanged, queue);
        let slots: Vec<Slot> = self.connections.slots().collect();
        for slot in slots {
            self.step(ConnectionEvent::OwnersChanged(slot), queue);
        }
    }
}
