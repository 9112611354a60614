//! Moves: QoS 2 messages of shared groups into the queues of sessions upon the plane (rule 86).
//!
//! ```text
//!  Delivering has a place --> event: out of the part, into the queue --> all nodes know it --> Delivering
//! ```
//!
//! The message in the queue is one for one session alone, as those of `enqueueing` are: its event is that
//! of the move. A connection that has ended moves nothing: its messages go to other members.

use super::entries::OwnWrite;
use super::waits::AllNodesWait;
use super::{Sessions, SessionsValue};
use crate::connecting::ConnectionId;
use crate::delivering::{DeliveringEvent, QueuedMessage, SharedMessage};
use crate::feed::QueueKey;
use crate::groups::{GivenDots, SinkEvent};
use crate::plane::{Matching, MessageMove, Now};
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{Dot, GroupId, MadeEvent};

use super::acting::Queue;

/// Move that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupMove<V> {
    pub(super) group: GroupId,
    /// Message of the part, with the assignment to the connection.
    pub(super) given: GivenDots,
    /// Value of the message in the queue.
    pub(super) value: V,
}

/// Move that some present node may not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MoveWait {
    connection: ConnectionId,
    group: GroupId,
    /// Event of the message in the part.
    message: Dot,
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Writes a move behind what waits.
    pub(super) fn move_later(&mut self, connection: ConnectionId, moved: GroupMove<V>) {
        if let Some(client) = self.client_of(connection) {
            self.write_later(connection, client, OwnWrite::Move(moved));
        }
    }

    /// Makes the event of a move, unless the connection has ended or has no session.
    pub(super) fn move_message(
        &mut self,
        now: Now,
        connection: Option<ConnectionId>,
        moved: &GroupMove<V>,
        queue: &mut Queue<V, M>,
    ) -> Result<(), StreamFull> {
        let Some(connection) = connection else {
            return Ok(());
        };
        let client = self.clients.get(&connection).filter(|client| !client.is_closing);
        let client = client.map(|client| client.client().clone());
        let Some((client, birth)) = client.zip(self.birth(connection)) else {
            return Ok(());
        };
        let GroupMove { group, given, value } = moved.clone();
        let made = self.plane.move_message(
            now,
            MessageMove {
                client,
                birth,
                part: given.slot,
                group,
                message: given.message,
                assignment: given.assignment,
                value,
            },
            &mut queue.plane,
        )?;
        self.note_event(Some(connection), made.dot);
        self.move_made(connection, moved, made, queue);
        Ok(())
    }

    /// The event of a move is made: all present nodes are to know it.
    fn move_made(
        &mut self,
        connection: ConnectionId,
        moved: &GroupMove<V>,
        MadeEvent { dot, clock }: MadeEvent,
        queue: &mut Queue<V, M>,
    ) {
        let (group, message) = (moved.group.clone(), moved.given.message);
        if let Some(qos) = moved.value.delivery_qos() {
            let to = QueuedMessage {
                key: QueueKey { clock, dot },
                qos,
                value: moved.value.clone(),
            };
            let from = SharedMessage {
                group: group.clone(),
                message,
            };
            self.step_delivering(DeliveringEvent::Moved { connection, from, to }, queue);
        }
        let wait = MoveWait {
            connection,
            group,
            message,
        };
        self.await_all_nodes(dot, AllNodesWait::Move(wait), queue);
    }

    /// Every present node knows the event of a move.
    pub(super) fn end_move(&mut self, event: Dot, wait: MoveWait, queue: &mut Queue<V, M>) {
        let MoveWait {
            connection,
            group,
            message,
        } = wait;
        let known = SinkEvent::AcknowledgementKnown {
            connection,
            group,
            message,
        };
        self.step_members(known, queue);
        let message = event;
        self.step_delivering(DeliveringEvent::MoveKnown { connection, message }, queue);
    }
}
