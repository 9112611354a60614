//! Acting: what the session plane wants of connections, in the order in which it came.
//!
//! *Invariant*: news are taken at the end of a step. What follows from them may bring more, until none is left.

use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use protocol::ReasonCode;
use protocol::packet::PacketId;
use session_plane::GroupId;
use session_plane::connecting::{ConnectionId as ClaimId, DisconnectReason};
use session_plane::delivering::DeliveryViolation;
use session_plane::groups::MemberViolation;
use session_plane::publishing::{PacketId as PlanePacketId, PublishViolation};
use session_plane::sessions::ConnectionViolation;

use super::{GroupWait, NodeAction, Replication};
use crate::node::{Action, Node};

impl Replication {
    /// Takes the packet id that was granted to a connection just now.
    pub(crate) fn take_grant(&mut self, claim: ClaimId) -> Option<PlanePacketId> {
        let granted = self.news.back().and_then(|news| match news {
            NodeAction::Grant {
                connection,
                packet_id,
                ..
            } if *connection == claim => Some(*packet_id),
            _ => None,
        })?;
        self.news.pop_back();
        Some(granted)
    }
}

impl Node {
    /// Does what the session plane wants of connections.
    pub(crate) fn take_news(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let Some(action) = self.replication.news.pop_front() {
            self.apply_news(now, action, actions);
        }
    }

    fn apply_news(&mut self, now: Now, action: NodeAction, actions: &mut Vec<Action>) {
        match action {
            NodeAction::Accept {
                connection,
                is_present,
                birth,
                session,
            } => self.claimed(now, connection, is_present, (birth, &session), actions),
            NodeAction::Refuse { connection, reason } => {
                self.claim_refused(now, connection, reason, actions);
            }
            NodeAction::Disconnect { connection, reason } => {
                self.session_lost(now, connection, reason, actions);
            }
            NodeAction::Violated { connection, reason } => {
                self.violated_plane(now, connection, reason, actions)
            }
            NodeAction::Closed(connection) => self.claims.forget(connection),
            NodeAction::Received {
                connection,
                packet_id,
            } => {
                self.answer_publish_2(now, connection, packet_id, ReasonCode::Success, actions);
            }
            NodeAction::NotReceived {
                connection,
                packet_id,
                ..
            } => self.answer_publish_2(now, connection, packet_id, ReasonCode::QuotaExceeded, actions),
            NodeAction::Freed {
                connection,
                packet_id,
                is_found,
            } => self.freed(connection, packet_id, is_found, actions),
            NodeAction::SendPublish(published) => self.send_stored(now, published, actions),
            NodeAction::Grant {
                connection,
                packet_id,
                qos,
            } => self.granted(now, connection, (packet_id, qos), actions),
            NodeAction::SendPubrel {
                connection,
                packet_id,
                is_found,
            } => self.send_pubrel(connection, packet_id, is_found, actions),
            NodeAction::Joined { connection, group } => self.joined(now, connection, &group, true, actions),
            NodeAction::NotJoined { connection, group } => {
                self.joined(now, connection, &group, false, actions)
            }
            NodeAction::Left {
                connection, group, ..
            } => self.end_group_wait(
                now,
                &GroupWait {
                    claim: connection,
                    group,
                },
                actions,
            ),
            NodeAction::WillDue { due, body } => self.will_due(now, due, &body, actions),
            NodeAction::Dropped(dropped) => self.dropped_from_queue(now, &dropped, actions),
            NodeAction::GivenUnstored { connection, value } => {
                self.send_shared_unstored(now, connection, value, actions)
            }
            NodeAction::Transient(message) => self.deliver_content(now, &message.content, actions),
            NodeAction::Unstored(content) => self.deliver_content(now, &content, actions),
            // The others are applied where they come.
            _ => {}
        }
    }

    /// The session of a connection goes on elsewhere, or has ended.
    fn session_lost(
        &mut self,
        now: Now,
        claim: ClaimId,
        reason: DisconnectReason,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.claims.connection(claim) else {
            return;
        };
        match reason {
            DisconnectReason::TakenOver { .. } | DisconnectReason::LosesMerge => {
                self.end_for_another(now, id, actions);
            }
            DisconnectReason::SessionEnded => {
                let why = "the session of the client has ended";
                self.end_without_session(now, id, (ReasonCode::AdministrativeAction, why), actions);
            }
        }
    }

    /// A client has done what it may not, or more is on its way to it than may be.
    fn violated_plane(
        &mut self,
        now: Now,
        claim: ClaimId,
        violation: ConnectionViolation,
        actions: &mut Vec<Action>,
    ) {
        let reason = match violation {
            ConnectionViolation::Publish(PublishViolation::ReceiveMaximumExceeded { .. }) => {
                ReasonCode::ReceiveMaximumExceeded
            }
            ConnectionViolation::Publish(PublishViolation::EarlyPubrel { .. })
            | ConnectionViolation::Delivery(DeliveryViolation::OtherQos { .. }) => ReasonCode::ProtocolError,
            ConnectionViolation::Member(
                MemberViolation::TooManyPresences { .. } | MemberViolation::TooManyGiven { .. },
            )
            | ConnectionViolation::Delivery(DeliveryViolation::TooManyWaiting { .. }) => {
                ReasonCode::QuotaExceeded
            }
        };
        if let Some(id) = self.claims.connection(claim) {
            self.disconnect(now, id, reason, &violation.to_string(), actions);
        }
    }

    /// A session is a member of a shared group, or has no room to be one.
    fn joined(
        &mut self,
        now: Now,
        claim: ClaimId,
        group: &GroupId,
        is_member: bool,
        actions: &mut Vec<Action>,
    ) {
        let group = group.clone();
        self.end_group_wait(now, &GroupWait { claim, group }, actions);
        if let Some(id) = self.claims.connection(claim).filter(|_| !is_member) {
            let why = "the node has as many members of shared subscriptions as it may";
            self.disconnect(now, id, ReasonCode::QuotaExceeded, why, actions);
        }
    }

    /// Connection of a claim, once it has its session.
    pub(crate) fn connected_claim(&self, claim: ClaimId) -> Option<ConnectionId> {
        let id = self.claims.connection(claim)?;
        self.connections.get(id)?.session().map(|_| id)
    }
}

/// Packet id of MQTT.
pub(crate) fn packet_id_of(PlanePacketId(id): PlanePacketId) -> PacketId {
    PacketId::new(id.get()).expect("it is above 0")
}

/// Packet id of the session plane.
pub(crate) fn plane_packet_id(id: PacketId) -> PlanePacketId {
    PlanePacketId(std::num::NonZeroU16::new(id.get()).expect("it is above 0"))
}
