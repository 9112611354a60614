//! Acting: what plane and claims ask for, until nothing of it is left.

use cluster::NodeId;

use super::dropping::DroppedMessages;
use super::entries::OwnWrite;
use super::waits::SessionWait;
use super::{ClusterView, Sessions, SessionsAction, SessionsMessage, SessionsValue};
use crate::connecting::{ConnectingAction, ConnectionEvent, ConnectionId, Outgoing};
use crate::delivering::DeliveringAction;
use crate::expiring::ExpiringAction;
use crate::feed::{FeedAction, SinkAction};
use crate::groups::{SinkAction as MemberAction, SourceAction};
use crate::plane::{Matching, Now, PlaneAction};
use crate::publishing::PublishingAction;
use crate::queue_limits::QueuePlace;
use crate::transfer::TransferBytes;
use crate::wills::WillsAction;
use crate::{Birth, Dot};

/// What is to be applied, in the order in which it came.
#[derive(Debug)]
pub(super) struct Queue<V, M> {
    pub(super) plane: Vec<PlaneAction<V, M>>,
    pub(super) connecting: Vec<ConnectingAction<V>>,
    pub(super) publishing: Vec<PublishingAction<M>>,
    pub(super) feed: Vec<FeedAction<V>>,
    pub(super) sink: Vec<SinkAction<V>>,
    pub(super) wills: Vec<WillsAction>,
    pub(super) expiring: Vec<ExpiringAction>,
    /// Queues that are beyond their limits.
    pub(super) beyond: Vec<QueuePlace>,
    pub(super) dropped: Vec<DroppedMessages<V>>,
    /// Of primary owners of shared groups.
    pub(super) parts: Vec<SourceAction<V>>,
    /// Of members of shared groups.
    pub(super) members: Vec<MemberAction<V>>,
    pub(super) delivering: Vec<DeliveringAction<V>>,
    /// A copy may have come to have what a question waits for.
    pub(super) answers_are_due: bool,
    /// Connections that have left nothing behind.
    pub(super) closed: Vec<ConnectionId>,
}

impl<V, M> Default for Queue<V, M> {
    /// Nothing.
    fn default() -> Queue<V, M> {
        Queue {
            plane: Vec::new(),
            connecting: Vec::new(),
            publishing: Vec::new(),
            feed: Vec::new(),
            sink: Vec::new(),
            wills: Vec::new(),
            expiring: Vec::new(),
            beyond: Vec::new(),
            dropped: Vec::new(),
            parts: Vec::new(),
            members: Vec::new(),
            delivering: Vec::new(),
            answers_are_due: false,
            closed: Vec::new(),
        }
    }
}

impl<V, M> Queue<V, M> {
    /// Adds messages of questions.
    pub(super) fn send(&mut self, outgoing: Vec<Outgoing<V>>) {
        self.connecting
            .extend(outgoing.into_iter().map(ConnectingAction::Send));
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Applies what a step has brought about, and what follows from that.
    pub(super) fn apply(
        &mut self,
        now: Now,
        mut queue: Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        loop {
            self.look_at_ended(now);
            let of_plane = std::mem::take(&mut queue.plane);
            let of_claims = std::mem::take(&mut queue.connecting);
            let of_publishing = std::mem::take(&mut queue.publishing);
            let (of_feeds, of_sink) = (std::mem::take(&mut queue.feed), std::mem::take(&mut queue.sink));
            let is_done = of_plane.is_empty() && of_claims.is_empty() && of_publishing.is_empty();
            let of_wills = std::mem::take(&mut queue.wills);
            let of_expiring = std::mem::take(&mut queue.expiring);
            let are_fed = of_feeds.is_empty() && of_sink.is_empty();
            let beyond = std::mem::take(&mut queue.beyond);
            let are_decided = of_wills.is_empty() && of_expiring.is_empty() && beyond.is_empty();
            let of_parts = std::mem::take(&mut queue.parts);
            let of_members = std::mem::take(&mut queue.members);
            let of_deliveries = std::mem::take(&mut queue.delivering);
            let are_given = of_parts.is_empty() && of_members.is_empty() && of_deliveries.is_empty();
            if is_done
                && are_fed
                && are_decided
                && are_given
                && queue.closed.is_empty()
                && queue.dropped.is_empty()
            {
                // Behind what new owners are given, this node among them.
                if std::mem::take(&mut queue.answers_are_due) {
                    self.answer_waiting(&mut queue);
                    continue;
                }
                self.plan_retry(now);
                return;
            }
            actions.extend(queue.closed.drain(..).map(SessionsAction::Closed));
            actions.extend(queue.dropped.drain(..).map(SessionsAction::Dropped));
            self.pause_merged(&of_plane, &mut queue);
            for action in of_plane {
                self.apply_report(now, action, &mut queue, actions);
            }
            self.watch_copies(now, &mut queue);
            for action in of_claims {
                self.apply_claim(now, action, &mut queue, actions);
            }
            for action in of_wills {
                self.apply_will(action, &mut queue, actions);
            }
            for action in of_expiring {
                self.apply_expiring(now, action, &mut queue);
            }
            self.drop_later(beyond);
            for action in of_publishing {
                self.apply_publishing(now, action, &mut queue, actions);
            }
            for action in of_feeds {
                self.apply_feed(action, &mut queue, actions);
            }
            for action in of_sink {
                self.apply_sink(action, &mut queue);
            }
            for action in of_parts {
                self.apply_part(action, &mut queue, actions);
            }
            for action in of_members {
                let blank = self.blank.clone();
                self.apply_member(action, &blank, &mut queue, actions);
            }
            for action in of_deliveries {
                self.apply_delivering(action, &mut queue, actions);
            }
            self.watch_recipients(&mut queue);
            self.write_stalled(now, &mut queue);
        }
    }

    /// Stops the feeds of copies that have merged: what else the step has changed there is read with them.
    fn pause_merged(&mut self, reports: &[PlaneAction<V, M>], queue: &mut Queue<V, M>) {
        for report in reports {
            if let PlaneAction::Merged { slot } = report {
                self.pause_feeds(*slot, queue);
                self.lose_parts(*slot, queue);
            }
        }
    }

    /// Hands an event to the claims. Only a message of a peer is refused.
    pub(super) fn step(&mut self, event: ConnectionEvent<V>, queue: &mut Queue<V, M>) {
        let view = ClusterView { plane: &self.plane };
        let stepped = self.connections.step(event, &view, &mut queue.connecting);
        debug_assert!(stepped.is_ok(), "this node keeps to the protocol");
    }

    fn apply_claim(
        &mut self,
        now: Now,
        action: ConnectingAction<V>,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        match action {
            ConnectingAction::Send(Outgoing { to, message }) if to == self.plane.run().node => {
                let received = self.receive_claim(now, to, message, queue);
                debug_assert!(received.is_ok(), "this node keeps to the protocol");
            }
            ConnectingAction::Send(Outgoing { to, message }) => {
                let message = SessionsMessage::Connecting(message);
                actions.push(SessionsAction::Send { to, message });
            }
            ConnectingAction::Write {
                connection,
                client,
                write,
            } => {
                self.write_later(connection, client, OwnWrite::Claim(write));
                self.write_stalled(now, queue);
            }
            ConnectingAction::Give { connection, to, .. } => self.give(now, connection, &to, queue),
            ConnectingAction::AwaitSession {
                connection,
                entry,
                round,
            } => self.await_session(now, entry, SessionWait { connection, round }, queue),
            ConnectingAction::Accept {
                connection,
                is_present,
                session,
            } => {
                self.open_exchanges(connection, &session, queue);
                self.open_deliveries(connection, is_present, queue);
                self.begin_feed(connection, queue);
                self.open_if_member(connection, queue);
                self.open_will(now, connection, queue);
                actions.extend(self.birth(connection).map(|birth| SessionsAction::Accept {
                    connection,
                    is_present,
                    birth,
                    session,
                }));
                self.part_if_accepted_late(connection, queue);
            }
            ConnectingAction::Refuse { connection, reason } => {
                actions.push(SessionsAction::Refuse { connection, reason });
            }
            ConnectingAction::Disconnect { connection, reason } => {
                actions.push(SessionsAction::Disconnect { connection, reason });
            }
        }
    }

    /// Birth of the session that a connection has.
    pub(super) fn birth(&self, connection: ConnectionId) -> Option<Birth> {
        let session = self.clients.get(&connection)?.session.as_ref()?;
        Some(session.entry.entry.birth)
    }

    /// Gives the entry of a connection, and that of its will, to new owners of its slot.
    fn give(&mut self, now: Now, connection: ConnectionId, to: &[NodeId], queue: &mut Queue<V, M>) {
        let Some(client) = self.clients.get(&connection) else {
            return;
        };
        let will = client.will.as_ref().map(|will| will.entry.clone());
        for entry in client.opened().into_iter().chain(will) {
            self.plane.give(now, entry, to, &mut queue.plane);
        }
    }

    /// Waits until a session's entry, and that of the will, is durable at the owners of the ring in
    /// force. One that was made by an earlier ring is given to all of them.
    fn await_session(&mut self, now: Now, entry: Dot, wait: SessionWait, queue: &mut Queue<V, M>) {
        let Some(client) = self.clients.get(&wait.connection) else {
            return;
        };
        let session = client.session.clone();
        let Some(session) = session.filter(|session| session.entry.dot == entry) else {
            return;
        };
        let mut is_awaited = false;
        for written in [Some(session), client.will.clone()].into_iter().flatten() {
            if written.ring != self.ring {
                let owners: Vec<NodeId> = self.plane.owners(written.entry.slot).collect();
                let giving = self.plane.give(now, written.entry, &owners, &mut queue.plane);
                self.waits.add_giving(giving, wait);
            } else if self.waits.has_event(written.entry.dot) {
                self.waits.add_session(written.entry.dot, wait);
            } else {
                continue;
            }
            is_awaited = true;
        }
        if !is_awaited {
            self.end_session_wait(wait, queue);
        }
    }

    pub(super) fn end_session_wait(&mut self, wait: SessionWait, queue: &mut Queue<V, M>) {
        let SessionWait { connection, round } = wait;
        self.step(ConnectionEvent::SessionDurable { connection, round }, queue);
    }
}
