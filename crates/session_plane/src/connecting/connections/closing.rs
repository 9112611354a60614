//! Ends of connections: released by a claimant or an owner, refused, or left by the client.
//!
//! A released connection answers when its last acknowledgements and its will are at the owners, so
//! that the claimant reads a session in which nothing is missing.

use cluster::NodeId;

use super::{Claimant, Closing, Connections, Phase};
use crate::connecting::action::{ConnectingAction, ConnectionId, DisconnectReason, RefuseReason, Write};
use crate::connecting::error::ConnectingError;
use crate::connecting::message::{ConnectingMessage, Outgoing, Release, Released};
use crate::queue_limits::QueueValue;
use crate::{Dot, Slot};

impl<V: Ord + QueueValue + Clone> Connections<V> {
    /// Ends a connection of this node, unless it is the later of two that claim the session.
    pub(super) fn take_release(
        &mut self,
        from: NodeId,
        release: &Release,
        actions: &mut Vec<ConnectingAction<V>>,
    ) -> Result<(), ConnectingError> {
        let Release { old, by } = *release;
        if old.run.node != self.run.node {
            return Err(ConnectingError::NotHere { peer: from, old });
        }
        if let Some(by) = by.filter(|by| by.dot.run.node != from) {
            let dot = by.dot;
            return Err(ConnectingError::OfAnotherNode { peer: from, dot });
        }
        if by.is_some_and(|by| by.dot.number == 0) {
            return Err(ConnectingError::NoEvent { peer: from });
        }
        let Some(id) = self.find(old) else {
            // It has ended, behind its last acknowledgements.
            actions.extend(by.map(|by| released(old, by.dot, true)));
            return Ok(());
        };
        let gives_in = self.gives_in(id, by);
        if gives_in {
            let taken_over = by.map(|by| DisconnectReason::TakenOver { by: by.dot });
            self.part(id, taken_over.unwrap_or(DisconnectReason::LosesMerge), actions);
        }
        if let Some(by) = by
            && !(gives_in && self.add_claimant(id, by.dot))
        {
            actions.push(released(old, by.dot, false));
        }
        Ok(())
    }

    /// The connection closes already, or it is the earlier one.
    fn gives_in(&self, id: ConnectionId, by: Option<Claimant>) -> bool {
        let Some(connection) = self.connections.get(&id) else {
            return true;
        };
        let is_closing = matches!(connection.phase, Phase::Closing(_));
        is_closing || by.is_none_or(|by| connection.opened < Some(by))
    }

    /// Parts with a client, unless its connection closes already. A claim is taken over.
    pub(super) fn part(
        &mut self,
        id: ConnectionId,
        reason: DisconnectReason,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let phase = self.connections.get(&id).map(|connection| &connection.phase);
        match phase {
            Some(Phase::Claiming(_)) => self.refuse(id, RefuseReason::TakenOver, actions),
            Some(Phase::Live) => {
                self.end(id);
                actions.push(ConnectingAction::Disconnect {
                    connection: id,
                    reason,
                });
            }
            Some(Phase::Closing(_)) | None => {}
        }
    }

    /// Lets a claim wait for the end of a connection. False where no further one may.
    fn add_claimant(&mut self, id: ConnectionId, by: Dot) -> bool {
        let claimants_max = self.limits.claimants_max;
        let connection = self.connections.get_mut(&id);
        let Some(Phase::Closing(closing)) = connection.map(|connection| &mut connection.phase) else {
            return false;
        };
        if closing.claimants.len() >= claimants_max && !closing.claimants.contains(&by) {
            return false;
        }
        closing.claimants.insert(by);
        self.awaited.insert(id);
        true
    }

    /// Refuses a claim.
    pub(super) fn refuse(
        &mut self,
        id: ConnectionId,
        reason: RefuseReason,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        self.end(id);
        actions.push(ConnectingAction::Refuse {
            connection: id,
            reason,
        });
    }

    /// The connection ends; it closes when the node says so.
    pub(super) fn end(&mut self, id: ConnectionId) {
        let connection = self.connections.get(&id);
        if connection.is_some_and(|connection| !matches!(connection.phase, Phase::Closing(_))) {
            self.set_phase(id, Phase::Closing(Closing::default()));
        }
    }

    /// The connection leaves nothing behind: removes its entry, and answers claimants.
    ///
    /// One whose entry is not made yet waits for that.
    pub(super) fn close(&mut self, id: ConnectionId, actions: &mut Vec<ConnectingAction<V>>) {
        self.end(id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let Phase::Closing(closing) = &mut connection.phase else {
            return;
        };
        closing.is_closed = true;
        let Some(Claimant { dot, .. }) = connection.opened else {
            return;
        };
        let claimants = std::mem::take(&mut closing.claimants);
        let client = connection.client.clone();
        self.forget(id, Slot::of_client(client.as_bytes()), dot);
        actions.push(ConnectingAction::Write {
            connection: id,
            client,
            write: Write::Closed { dot },
        });
        actions.extend(claimants.into_iter().map(|by| released(dot, by, true)));
    }

    fn forget(&mut self, id: ConnectionId, slot: Slot, dot: Dot) {
        self.connections.remove(&id);
        self.numbers.remove(&dot.number);
        self.awaited.remove(&id);
        if let Some(of_slot) = self.slots.get_mut(&slot) {
            of_slot.connections.remove(&id);
            if of_slot.connections.is_empty() {
                self.slots.remove(&slot);
            }
        }
    }
}

/// Answer to the claimant `by`.
fn released<V>(old: Dot, by: Dot, is_agreed: bool) -> ConnectingAction<V> {
    let message = ConnectingMessage::Released(Released { old, by, is_agreed });
    let to = by.run.node;
    ConnectingAction::Send(Outgoing { to, message })
}
