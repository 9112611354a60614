//! Joining: peers that are met and given up, and connections to them.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::{Matching, Now, Plane, PlaneAction, PlaneError, PlaneMessage, PlaneValue};
use crate::Run;
use crate::membership::{Action, GiveUpReason, Handshake, MembersError};
use crate::transfer::{RunPosition, TransferBytes};

impl<V, M, R> Plane<V, M, R>
where
    V: PlaneValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Begins a new connection to a peer, in both directions. What it has not confirmed or answered
    /// is sent and asked again. One that is absent is offered a handshake with the next tick.
    pub fn connected(&mut self, now: Now, peer: NodeId, actions: &mut Vec<PlaneAction<V, M>>) {
        if !self.membership.is_present(peer) {
            self.membership.offer_at_once(now.monotonic);
        }
        self.streams.restart_connection(peer);
        self.transfers.restart_connection(peer);
        self.settle(now, actions);
    }

    /// Sets the configured members. A removed node that is present stays so until it is given up; no
    /// handshake follows.
    ///
    /// # Errors
    ///
    /// [`MembersError`] where they are no cluster. The members are as before.
    pub fn set_members(&mut self, now: Now, members: &BTreeSet<NodeId>) -> Result<(), MembersError> {
        self.membership.set_members(now.monotonic, members)
    }

    /// There is room to meet another peer: not too many rings wait for copies.
    pub fn can_welcome(&self) -> bool {
        self.streams.outgoing.can_welcome()
    }

    /// The machine of a peer has refused a connection: the process is gone.
    pub fn refused(&mut self, peer: NodeId) {
        // Nothing ends with a node that is not present.
        let _ = self.membership.record_refused(peer);
    }

    /// Receives a message of a handshake. It is dropped while the stream has no room for another
    /// ring: the next offer will do. What is repeated of the present stay needs none.
    pub(super) fn receive_handshake(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Handshake,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Result<(), PlaneError> {
        let was_present = self.membership.is_present(from);
        if !was_present && !self.can_welcome() {
            return Ok(());
        }
        let mut of_membership = Vec::new();
        let received = self
            .membership
            .receive_handshake(now.monotonic, from, message, &mut of_membership);
        self.apply(now, of_membership, actions);
        if was_present {
            self.repeat_behind(from, message, received.is_ok());
        }
        Ok(received?)
    }

    /// A Confirm of the present stay was sent or received once more, because the first one may be
    /// lost: what followed it was not read, and is sent again behind this one.
    fn repeat_behind(&mut self, peer: NodeId, message: &Handshake, is_sent: bool) {
        match message {
            Handshake::Answer(_) if is_sent => {
                self.streams.outgoing.restart_connection(peer);
                self.transfers.restart_connection(peer);
            }
            Handshake::Confirm(_) => self.streams.restart_incoming(peer),
            Handshake::Answer(_) | Handshake::Offer(_) => {}
        }
    }

    /// Applies actions of the membership, and makes the marker that is due behind them.
    pub(super) fn apply(
        &mut self,
        now: Now,
        of_membership: Vec<Action>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) {
        let welcomed = self.apply_one_by_one(of_membership, actions);
        if self.membership.is_changed() {
            self.mark(now, welcomed, actions);
        }
    }

    /// Applies actions of the membership. Gives the peer that was met.
    pub(super) fn apply_one_by_one(
        &mut self,
        of_membership: Vec<Action>,
        actions: &mut Vec<PlaneAction<V, M>>,
    ) -> Option<NodeId> {
        let mut welcomed = None;
        for action in of_membership {
            match action {
                Action::SendHandshake { to, message } => {
                    let message = PlaneMessage::Handshake(message);
                    actions.push(PlaneAction::Send { to, message });
                }
                Action::SendConviction { to, convicted } => {
                    let message = PlaneMessage::Conviction(convicted);
                    actions.push(PlaneAction::Send { to, message });
                }
                Action::Met { peer } => {
                    welcomed = Some(peer.run.node);
                    self.meet(peer.run);
                    actions.push(PlaneAction::Met(peer));
                }
                Action::GaveUp { run, reason } => self.give_up(run, reason, actions),
                Action::StateChanged { .. } => {}
            }
        }
        welcomed
    }

    fn meet(&mut self, run: Run) {
        self.streams.meet(run);
        self.transfers.meet(run.node);
        self.garbage.begin_anew();
    }

    fn give_up(&mut self, run: Run, reason: GiveUpReason, actions: &mut Vec<PlaneAction<V, M>>) {
        let others: BTreeSet<NodeId> = self.membership.peers().collect();
        let mut durable = Vec::new();
        self.streams.give_up(run.node, &mut durable);
        self.transfers.give_up(run.node, &others);
        self.garbage.begin_anew();
        self.retiring.forget(run.node);
        actions.push(PlaneAction::GaveUp { run, reason });
        actions.extend(durable.into_iter().map(PlaneAction::Durable));
        let number = self.streams.of_run(run).map_or(0, |ended| ended.position());
        for to in others {
            let message = PlaneMessage::FlushPosition(RunPosition { run, number });
            actions.push(PlaneAction::Send { to, message });
        }
    }
}
