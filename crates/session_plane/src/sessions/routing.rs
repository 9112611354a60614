//! Routing: messages under numbers, out to every node and in from peers (rules 42 and 47).

use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Hlc;

use super::acting::Queue;
use super::route_queues::QueuedRoute;
use super::{Sessions, SessionsAction, SessionsError, SessionsMessage, SessionsValue};
use crate::plane::{Matching, Now};
use crate::publishing::{
    ConfirmRoute, NumberedMessage, PublishingEvent, PublishingMessage, Route, RoutedMessage, RoutedTo,
};
use crate::transfer::TransferBytes;
use crate::wills::WillsEvent;
use crate::{Recipients, Run, Slot};

/// Message that is routed.
#[derive(Debug)]
pub(super) struct RoutedNow<M> {
    pub(super) message: NumberedMessage,
    pub(super) body: M,
    pub(super) clock: Hlc,
    pub(super) marker: u64,
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Routes a message: it goes to each of `to` behind the events that were made before it.
    pub(super) fn route(&mut self, now: Now, routed: &RoutedNow<M>, to: &[NodeId], queue: &mut Queue<V, M>) {
        // By another ring the message is for other slots of a node. It is routed by that one next.
        if routed.marker != self.plane.marker() {
            return;
        }
        let own = self.plane.run();
        self.forget_use(routed.message.number);
        let Recipients {
            slots: matched,
            nodes,
        } = self.plane.recipients(&routed.body);
        let known = Arc::new(self.plane.known_by_route());
        let after = self.plane.last().number;
        for node in to.iter().copied() {
            let is_owner = |slot: &Slot| self.plane.owners(*slot).any(|owner| owner == node);
            let at_node = RoutedTo {
                slots: matched.iter().filter(is_owner).collect(),
                is_transient: nodes.contains(&node),
            };
            let route = Route {
                number: routed.message.number,
                marker: routed.marker,
                clock: routed.clock,
                known: Arc::clone(&known),
                message: RoutedMessage::new(at_node, routed.body.clone()).ok(),
            };
            if node == own.node {
                let taken = self.plane.take_route(now, own, route, &mut queue.plane);
                debug_assert!(taken.is_ok(), "this node knows its own ring");
            } else {
                self.routes.push(node, QueuedRoute { after, route });
            }
        }
    }

    /// Receives a message about a number that a peer routes, or a confirmation of one.
    pub(super) fn receive_publishing(
        &mut self,
        now: Now,
        from: Run,
        message: PublishingMessage<M>,
        queue: &mut Queue<V, M>,
    ) -> Result<(), SessionsError> {
        match message {
            PublishingMessage::Route(route) => {
                let (from_node, number) = (from.node, route.number);
                let routed = PublishingEvent::RoutedByPeer {
                    from: from_node,
                    number,
                };
                self.step_publishing(routed, queue)?;
                self.plane.take_route(now, from, route, &mut queue.plane)?;
                self.step_wills(now, WillsEvent::RoutedByPeer { number }, queue);
                queue.answers_are_due = true;
            }
            PublishingMessage::Confirm(confirm) => {
                let confirmed = PublishingEvent::RouteConfirmed(confirm.of_node(from.node));
                self.step_publishing(confirmed, queue)?;
            }
        }
        Ok(())
    }

    /// A routed number is on the disk of this node.
    pub(super) fn confirm_route(
        &mut self,
        to: NodeId,
        confirm: ConfirmRoute,
        queue: &mut Queue<V, M>,
        actions: &mut Vec<SessionsAction<V, M>>,
    ) {
        if to == self.plane.run().node {
            let confirmed = PublishingEvent::RouteConfirmed(confirm.of_node(to));
            self.step_own_publishing(confirmed, queue);
        } else {
            let message = SessionsMessage::Publishing(PublishingMessage::Confirm(confirm));
            actions.push(SessionsAction::Send { to, message });
        }
    }

    /// Tells the publishing whether recipients are known, where that has changed.
    pub(super) fn watch_recipients(&mut self, queue: &mut Queue<V, M>) {
        let are_merged = self.knows_recipients();
        if self.publishing.routes_are_merged() != are_merged {
            self.step_own_publishing(PublishingEvent::RoutesMerged(are_merged), queue);
        }
    }
}
