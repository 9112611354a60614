//! Second half: messages are routed under their numbers, in order, until all nodes have confirmed.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::action::PublishingAction;
use super::connection::Stage;
use super::error::PublishingError;
use super::event::RouteConfirmation;
use super::message::{Message, Origin, Phase};
use super::packet_use::{NumberedMessage, PacketId};
use super::storing::{await_stored, give_again};
use super::{Publishing, RingInForce};
use crate::Dot;
use crate::connecting::ConnectionId;

impl<M: Clone> Publishing<M> {
    /// Routes what may be routed: own numbers in their order (rule `numbers-in-order`).
    pub(super) fn route_ready(&mut self, actions: &mut Vec<PublishingAction<M>>) {
        if !self.routes_are_merged {
            return;
        }
        while let Some(number) = self.next_ready() {
            self.reserved.remove(&number.number);
            self.begin_route(number, actions);
        }
        for number in std::mem::take(&mut self.ready_of_others) {
            self.begin_route(number, actions);
        }
    }

    fn begin_route(&mut self, number: Dot, actions: &mut Vec<PublishingAction<M>>) {
        if let Some(message) = self.messages.get_mut(&number)
            && let Some(entry) = message.ready_entry()
        {
            message.phase = Phase::OnTheWay {
                entry,
                missing: self.ring.nodes.clone(),
                is_held: false,
            };
            actions.extend(route(number, message, self.ring.marker, |_| true));
        }
    }

    /// Lowest number of this run that waits, if nothing holds it back.
    fn next_ready(&self) -> Option<Dot> {
        let number = self.dot(*self.reserved.first()?);
        let message = self.messages.get(&number)?;
        message.ready_entry().map(|_| number)
    }

    /// A node has a message durably: it is complete when all nodes of the ring in force have it.
    ///
    /// A confirmation by an earlier ring does not count: the node has covered the number for other
    /// slots then.
    pub(super) fn confirm(
        &mut self,
        confirmation: RouteConfirmation,
        actions: &mut Vec<PublishingAction<M>>,
    ) -> Result<(), PublishingError> {
        let RouteConfirmation {
            from: peer,
            number,
            marker,
        } = confirmation;
        let last = self.ring.marker;
        if !self.is_given_out(number) {
            return Err(PublishingError::NotGivenOut { peer, number });
        }
        if marker > last {
            return Err(PublishingError::LaterRing {
                peer,
                number,
                marker,
                last,
            });
        }
        if marker < last {
            return Ok(());
        }
        if let Some(message) = self.messages.get_mut(&number)
            && let Phase::OnTheWay { missing, .. } = &mut message.phase
        {
            missing.remove(&peer);
            if missing.is_empty() {
                self.complete(number, actions);
            }
        }
        Ok(())
    }

    /// A number of this run is no gap any more, if it was one.
    pub(super) fn routed_by_peer(&mut self, peer: NodeId, number: Dot) -> Result<(), PublishingError> {
        if !self.is_given_out(number) {
            return Err(PublishingError::NotGivenOut { peer, number });
        }
        if number.run == self.run {
            self.given_up.remove(&number.number);
        }
        Ok(())
    }

    /// All nodes have the message.
    fn complete(&mut self, number: Dot, actions: &mut Vec<PublishingAction<M>>) {
        let Some(message) = self.messages.remove(&number) else {
            return;
        };
        match message.origin {
            Origin::Packet {
                packet_id,
                connection: Some(connection),
            } => {
                let content = message.content;
                let message = NumberedMessage { number, content };
                self.complete_exchange(connection, packet_id, message, actions);
            }
            Origin::Packet { connection: None, .. } => {}
            Origin::Will { .. } => {
                self.wills.remove(&number);
                actions.push(PublishingAction::WillPublished { number });
            }
        }
    }

    /// All nodes have the message of a packet id: PUBREC.
    fn complete_exchange(
        &mut self,
        connection: ConnectionId,
        packet_id: PacketId,
        message: NumberedMessage,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        open.waiting.remove(&message.number);
        let id = open.id_mut(packet_id);
        // A client that has used the id for another message since gets PUBREC for that one.
        if id.stage == Stage::Publishing(message) {
            id.stage = Stage::Received(message);
            actions.push(PublishingAction::SendPubrec {
                connection,
                packet_id,
            });
        }
    }

    /// Sends everything that waits by the new ring: entries to all its owners, messages to all its
    /// nodes (rules `received-to-new-owners` and `route-again`).
    ///
    /// A will goes there behind its entry. A node that has met this one may have the will, and not the
    /// number: with the route alone it would publish the will again under another number.
    pub(super) fn change_ring(
        &mut self,
        marker: u64,
        nodes: BTreeSet<NodeId>,
        actions: &mut Vec<PublishingAction<M>>,
    ) {
        assert!(marker > self.ring.marker, "markers are events of one stream");
        assert!(nodes.contains(&self.run.node), "a node is in its own view");
        self.ring = RingInForce { marker, nodes };
        for (number, message) in &mut self.messages {
            match &mut message.phase {
                Phase::Writing { .. } => {}
                Phase::Storing { entry } | Phase::Ready { entry } => {
                    let entry = *entry;
                    message.phase = Phase::Storing { entry };
                    self.ready_of_others.remove(number);
                    actions.push(give_again(message, *number, entry));
                    actions.push(await_stored(message, *number, entry, marker));
                }
                Phase::OnTheWay {
                    entry,
                    missing,
                    is_held,
                } => {
                    let entry = *entry;
                    missing.clone_from(&self.ring.nodes);
                    *is_held = matches!(message.origin, Origin::Will { .. });
                    if *is_held {
                        actions.push(give_again(message, *number, entry));
                        actions.push(await_stored(message, *number, entry, marker));
                    }
                    actions.extend(route(*number, message, marker, |_| true));
                }
            }
        }
    }

    /// Sends messages again that a link may have lost.
    pub(super) fn renew_link(&self, peer: NodeId, actions: &mut Vec<PublishingAction<M>>) {
        for (number, message) in &self.messages {
            actions.extend(route(*number, message, self.ring.marker, |node| node == peer));
        }
    }
}

/// Sends a message that is on its way to those nodes among the missing ones that `is_meant` selects.
/// One that is held is sent to none.
pub(super) fn route<M: Clone>(
    number: Dot,
    message: &Message<M>,
    marker: u64,
    is_meant: impl Fn(NodeId) -> bool,
) -> Option<PublishingAction<M>> {
    let Phase::OnTheWay {
        missing,
        is_held: false,
        ..
    } = &message.phase
    else {
        return None;
    };
    let clock = message.clock?;
    let to: Vec<NodeId> = missing.iter().copied().filter(|node| is_meant(*node)).collect();
    let (content, body) = (message.content, message.body.clone());
    (!to.is_empty()).then_some(PublishingAction::Route {
        message: NumberedMessage { number, content },
        body,
        clock,
        to,
        marker,
    })
}
