//! Receiving: messages of peers, each read in the peer's present stay only.

use super::{
    EventContent, Matching, Now, Plane, PlaneAction, PlaneError, PlaneMessage, PlaneValue, TransientMessage,
};
use crate::stream::{EventKind, Received, StreamPosition};
use crate::transfer::TransferBytes;
use crate::wire::{Confirm, EventPayload, Heartbeat, NextEvent, SentEvent, SentEventKind, SentResend};
use crate::{Dot, MisplacedEntry, Run, SlotSet};

use super::content::PlaneEvent;

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Receives a message that came from the run `from` over its connection.
    ///
    /// # Errors
    ///
    /// [`PlaneError`] where the message is refused. Unless [`PlaneError::is_ordinary`], the node
    /// logs it and closes the connection.
    pub fn receive(
        &mut self,
        now: Now,
        from: Run,
        message: PlaneMessage<V, M>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let received = self.dispatch(now, from, message, actions);
        if let Err(PlaneError::Full(full)) = &received {
            self.end_if_full(Err(*full), actions);
        }
        self.settle(now, actions);
        received
    }

    /// Next message of this run's stream to a peer. The node asks when the connection can take one,
    /// and sends it behind the actions of all calls before.
    pub fn next_message(&mut self, to: cluster::NodeId) -> Option<PlaneMessage<V, M>> {
        if let Some(message) = self.streams.outgoing.send_event(to) {
            return Some(message.into());
        }
        let resend = self.streams.outgoing.send_resend(to)?;
        Some(PlaneMessage::Resend(SentResend::from(&resend)))
    }

    fn dispatch(
        &mut self,
        now: Now,
        from: Run,
        message: PlaneMessage<V, M>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let peer = from.node;
        let is_of_membership = matches!(message, PlaneMessage::Handshake(_) | PlaneMessage::Conviction(_));
        if !is_of_membership {
            self.record_heard(now, from)?;
        }
        check_entries(&message)?;
        match message {
            PlaneMessage::Handshake(handshake) => self.receive_handshake(now, peer, &handshake, actions),
            PlaneMessage::Conviction(stay) => {
                Ok(self.membership.receive_conviction(now.monotonic, peer, stay)?)
            }
            PlaneMessage::Welcome(event) => self.receive_welcome(now, from, event, actions),
            PlaneMessage::Event(next) => self.receive_event(now, from, next, actions),
            PlaneMessage::Heartbeat(heartbeat) => self.receive_heartbeat(from, &heartbeat, actions),
            PlaneMessage::Confirm(Confirm { number, known }) => {
                self.holdings.need_where_owned(&known)?;
                self.confirm(from, number, actions)
            }
            PlaneMessage::Resend(resend) => {
                self.streams.check_receipt_room()?;
                Ok(self.take_resend(from, resend, actions)?)
            }
            PlaneMessage::ConfirmResent(id) => {
                let mut durable = Vec::new();
                self.streams.outgoing.confirm_resend(peer, id, &mut durable)?;
                actions.extend(durable.into_iter().map(PlaneAction::Durable));
                Ok(())
            }
            PlaneMessage::FlushPosition(position) => {
                Ok(self.receive_flush_position(peer, position, actions)?)
            }
            PlaneMessage::FlushEvents(flush) => self.receive_flush(flush, actions),
            PlaneMessage::Transfer(transfer) => self.receive_transfer(peer, transfer, actions),
        }
    }

    /// Records that the run `from` is alive: a message of it has come over its connection.
    ///
    /// The node calls it before it hands a message to a service beside the plane, which is read in
    /// the sender's present stay only, as those of the plane are. A message of another run of the
    /// node is no sign of life.
    ///
    /// # Errors
    ///
    /// [`PlaneError::NotPresent`] or [`PlaneError::OtherRun`] where the run is not present. The node
    /// drops the message.
    pub fn record_heard(&mut self, now: Now, from: Run) -> Result<(), PlaneError> {
        match self.membership.find(from.node) {
            Some(present) if present.run != from => Err(PlaneError::OtherRun {
                found: from,
                present: present.run,
            }),
            _ => Ok(self.membership.record_heard(now.monotonic, from.node)?),
        }
    }

    /// Receives the marker that begins a stream: what came before is a hole where this node owns.
    fn receive_welcome(
        &mut self,
        now: Now,
        from: Run,
        sent: SentEvent<EventContent<V, M>>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let event = self.event(sent);
        let bytes = event.payload.content.bytes();
        let stream = self.streams.of_peer_mut(from.node)?;
        let received = stream.receive_welcome(event.clone(), bytes)?;
        let Received::Begun { gained } = received else {
            return Ok(());
        };
        self.clock.see(event.payload.clock);
        self.gain(&gained, event.dot)?;
        self.holdings.need_where_owned(&event.payload.known)?;
        self.see_marker(now, from, &event, actions)
    }

    /// Receives the next event of a stream.
    fn receive_event(
        &mut self,
        now: Now,
        from: Run,
        next: NextEvent<EventContent<V, M>>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let event = self.event(next.event);
        let bytes = event.payload.content.bytes();
        let stream = self.streams.of_peer_mut(from.node)?;
        let received = stream.receive_event(next.after, event.clone(), bytes)?;
        let Received::Taken { numbers, gained } = received else {
            return Ok(());
        };
        self.clock.see(event.payload.clock);
        let slots = self.owned_at(from, numbers.first);
        self.take_next(from, numbers, std::slice::from_ref(&event), &slots, actions)?;
        self.gain(&gained, event.dot)?;
        self.holdings.need_everywhere(&event.payload.known)?;
        self.transfers.answers_are_due = true;
        actions.extend(self.transient_message(event.dot, &event.payload));
        self.see_marker(now, from, &event, actions)
    }

    /// Message for transient sessions of this node that an event has, its own or one of a stream.
    pub(super) fn transient_message(
        &self,
        message: Dot,
        payload: &EventPayload<EventContent<V, M>>,
    ) -> Option<PlaneAction<V, M>> {
        let EventContent::Message { content, nodes } = &payload.content else {
            return None;
        };
        nodes.contains(&self.run.node).then(|| {
            PlaneAction::Transient(TransientMessage {
                message,
                clock: payload.clock,
                content: content.clone(),
            })
        })
    }

    /// Learns from a peer's marker who is present to it.
    fn see_marker(
        &mut self,
        now: Now,
        from: Run,
        event: &PlaneEvent<V, M>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let EventKind::RingMarker(routing) = &event.kind else {
            return Ok(());
        };
        self.transfers.note_change();
        self.retiring.record_marker(event.dot);
        let mut of_membership = Vec::new();
        let seen =
            self.membership
                .receive_marker(now.monotonic, from.node, routing.view(), &mut of_membership);
        self.apply(now, of_membership, actions);
        Ok(seen?)
    }

    fn receive_heartbeat(
        &mut self,
        from: Run,
        heartbeat: &Heartbeat,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        self.clock.see(heartbeat.clock);
        if let Some(position) = heartbeat.position {
            self.receive_position(from, position, actions)?;
            let stream = self.streams.of_peer_mut(from.node)?;
            stream.receive_stable(heartbeat.stable)?;
        }
        self.holdings.need_where_owned(&heartbeat.known)?;
        let recorded = self
            .membership
            .record_knowledge(from.node, &heartbeat.known, heartbeat.clock);
        let among = self.membership.marked_runs_of(from.node);
        self.retiring.record(from.node, heartbeat.settled.clone(), among);
        if let Some(number) = heartbeat.confirmed {
            self.confirm(from, number, actions)?;
        }
        Ok(recorded?)
    }

    /// Takes the numbers up to a position, of which no event is for this node.
    fn receive_position(
        &mut self,
        from: Run,
        position: StreamPosition,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let stream = self.streams.of_peer_mut(from.node)?;
        if let Some(numbers) = stream.receive_position(position)? {
            let slots = self.owned_at(from, numbers.first);
            self.take_next(from, numbers, &[], &slots, actions)?;
            self.transfers.answers_are_due = true;
        }
        Ok(())
    }

    fn confirm(
        &mut self,
        from: Run,
        number: u64,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let mut durable = Vec::new();
        self.streams.outgoing.confirm(from.node, number, &mut durable)?;
        actions.extend(durable.into_iter().map(PlaneAction::Durable));
        Ok(())
    }

    /// Slots of the plane that this node owned by a run's ring at `number`.
    pub(super) fn owned_at(&self, run: Run, number: u64) -> SlotSet {
        let stream = self.streams.of_run(run);
        let owned = stream.and_then(|stream| stream.owned_at(number));
        owned.map_or_else(SlotSet::default, |owned| self.within(owned))
    }
}

/// Checks that slots have the entries that events bring.
fn check_entries<V, M>(message: &PlaneMessage<V, M>) -> Result<(), MisplacedEntry> {
    let events = match message {
        PlaneMessage::Event(next) => std::slice::from_ref(&next.event),
        PlaneMessage::Resend(resend) => &resend.events[..],
        PlaneMessage::FlushEvents(flush) => &flush.events[..],
        _ => &[],
    };
    events.iter().try_for_each(|event| match &event.kind {
        SentEventKind::Change(slots) => event.payload.content.check_slots(slots),
        SentEventKind::RingMarker(_) => Ok(()),
    })
}
