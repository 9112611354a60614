//! Messages on their way to the server: waiting, then inflight until acknowledged.
//!
//! A message with a deadline carries the time that is left until then as its Message Expiry, each time it is sent.
//! The server therefore does not execute a request after its caller has given up. Message Expiry counts whole
//! seconds, so the last one is rounded up.
//!
//! Invariant: a packet identifier is in use exactly as long as its delivery is inflight, across connections of
//! one session. [MQTT-4.4.0-1]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use protocol::ReasonCode;
use protocol::packet::{Ack, Packet, PacketId, ProtocolVersion, Publish, QoS, encoded_len};

use super::operation::{Message, OperationError, OperationId, Outcome};
use super::packet_ids::PacketIds;
use super::requests::RequestId;
use super::server_limits::ServerLimits;

/// Who wants to know how a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Operation(OperationId),
    Request(RequestId),
    /// It gave up waiting; the delivery goes on because MQTT asks for it.
    Nobody,
}

/// How a delivery ended.
pub(super) type Ended = (Owner, Result<Outcome, OperationError>);

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<Waiting>,
    inflight: VecDeque<Delivery>,
}

#[derive(Debug)]
struct Waiting {
    owner: Owner,
    message: Message,
    until: Option<Instant>,
}

#[derive(Debug)]
struct Delivery {
    packet_id: PacketId,
    owner: Owner,
    until: Option<Instant>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// PUBLISH sent, PUBACK or PUBREC awaited.
    Published(Box<Publish>),
    /// PUBREL sent, PUBCOMP awaited.
    Released,
}

impl Outgoing {
    /// Queues a message. From `until` on the server is not to execute it any more.
    pub(super) fn push(&mut self, owner: Owner, message: Message, until: Option<Instant>) {
        self.waiting.push_back(Waiting {
            owner,
            message,
            until,
        });
    }

    /// Sends what the server's Receive Maximum lets through. [MQTT-3.3.4-7] [MQTT-3.3.4-9]
    pub(super) fn send(
        &mut self,
        now: Instant,
        limits: &ServerLimits,
        ids: &mut PacketIds,
        packets: &mut Vec<Packet>,
    ) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Some(Waiting { message, .. }) = self.waiting.front() {
            let is_counted = message.qos != QoS::AtMostOnce;
            if is_counted && self.inflight.len() >= usize::from(limits.receive_maximum) {
                break;
            }
            let packet_id = if is_counted { ids.take() } else { None };
            if is_counted && packet_id.is_none() {
                break;
            }
            let Some(Waiting {
                owner,
                message,
                until,
            }) = self.waiting.pop_front()
            else {
                break;
            };
            let mut publish = publish(message, packet_id);
            set_expiry(&mut publish, now, until);
            if let Err(error) = check(&publish, limits) {
                if let Some(id) = packet_id {
                    ids.release(id);
                }
                ended.push((owner, Err(error)));
                continue;
            }
            match packet_id {
                None => ended.push((owner, Ok(Outcome::Published(ReasonCode::Success)))),
                Some(packet_id) => {
                    let stage = Stage::Published(Box::new(publish.clone()));
                    self.inflight.push_back(Delivery {
                        packet_id,
                        owner,
                        until,
                        stage,
                    });
                }
            }
            packets.push(Packet::Publish(Box::new(publish)));
        }
        ended
    }

    /// The server still has the session: sends again what it has not acknowledged. [MQTT-4.4.0-1] [MQTT-3.3.1-1]
    pub(super) fn resend(&mut self, now: Instant, packets: &mut Vec<Packet>) {
        for delivery in &mut self.inflight {
            packets.push(match &mut delivery.stage {
                Stage::Published(publish) => {
                    publish.dup = true;
                    set_expiry(publish, now, delivery.until);
                    Packet::Publish(Box::new(Publish::clone(publish)))
                }
                Stage::Released => Packet::PubRel(Ack::new(delivery.packet_id, ReasonCode::Success)),
            });
        }
    }

    /// The server has lost the session: what was inflight starts over as new.
    ///
    /// An exactly-once message that may have arrived is not sent twice: it fails with
    /// [`OperationError::SessionLost`]. One that had been received is done. A message that nobody waits for any more
    /// is dropped: no packet identifier has to be kept for it.
    pub(super) fn start_over(&mut self, ids: &mut PacketIds) -> Vec<Ended> {
        let mut ended = Vec::new();
        for delivery in std::mem::take(&mut self.inflight).into_iter().rev() {
            ids.release(delivery.packet_id);
            match delivery.stage {
                Stage::Published(_) if delivery.owner == Owner::Nobody => {}
                Stage::Published(publish) if publish.qos == QoS::AtLeastOnce => {
                    if let Some(mut message) = Message::received(*publish) {
                        message.dup = false;
                        self.waiting.push_front(Waiting {
                            owner: delivery.owner,
                            message,
                            until: delivery.until,
                        });
                    }
                }
                Stage::Published(_) => ended.push((delivery.owner, Err(OperationError::SessionLost))),
                Stage::Released => ended.push((delivery.owner, Ok(Outcome::Published(ReasonCode::Success)))),
            }
        }
        ended
    }

    /// PUBACK or PUBCOMP. `None` if the server acknowledged what was not sent.
    pub(super) fn acknowledged(&mut self, ack: &Ack, ids: &mut PacketIds) -> Option<Ended> {
        let place = self
            .inflight
            .iter()
            .position(|delivery| delivery.packet_id == ack.packet_id)?;
        let delivery = self.inflight.remove(place)?;
        ids.release(delivery.packet_id);
        Some((delivery.owner, published(ack)))
    }

    /// PUBREC. A refusal ends the delivery; otherwise PUBREL follows. [MQTT-4.3.3-4]
    pub(super) fn received(
        &mut self,
        ack: &Ack,
        ids: &mut PacketIds,
        packets: &mut Vec<Packet>,
    ) -> Option<Ended> {
        let place = self
            .inflight
            .iter()
            .position(|delivery| delivery.packet_id == ack.packet_id);
        let Some(place) = place else {
            packets.push(Packet::PubRel(Ack::new(
                ack.packet_id,
                ReasonCode::PacketIdentifierNotFound,
            )));
            return None;
        };
        if is_failure(ack.reason) {
            let delivery = self.inflight.remove(place)?;
            ids.release(delivery.packet_id);
            return Some((delivery.owner, published(ack)));
        }
        self.inflight[place].stage = Stage::Released;
        packets.push(Packet::PubRel(Ack::new(ack.packet_id, ReasonCode::Success)));
        None
    }

    /// Nobody waits for `owner`'s delivery any more: not sent if it was not. Otherwise it goes on as long as the server
    /// has the session, and its end is not reported.
    pub(super) fn forget(&mut self, owner: Owner) {
        self.waiting.retain(|waiting| waiting.owner != owner);
        for delivery in &mut self.inflight {
            if delivery.owner == owner {
                delivery.owner = Owner::Nobody;
            }
        }
    }

    /// True if a message of `owner` waits or is inflight.
    pub(super) fn has(&self, owner: Owner) -> bool {
        self.waiting.iter().any(|waiting| waiting.owner == owner)
            || self.inflight.iter().any(|delivery| delivery.owner == owner)
    }
}

pub(super) fn is_failure(reason: ReasonCode) -> bool {
    reason as u8 >= 0x80
}

fn published(ack: &Ack) -> Result<Outcome, OperationError> {
    if is_failure(ack.reason) {
        let explanation = ack
            .explanation
            .as_ref()
            .and_then(|explanation| explanation.reason_string.clone());
        return Err(OperationError::Refused {
            reason: ack.reason,
            explanation,
        });
    }
    Ok(Outcome::Published(ack.reason))
}

fn publish(message: Message, packet_id: Option<PacketId>) -> Publish {
    Publish {
        dup: false,
        qos: message.qos,
        retain: message.retain,
        topic: message.topic.text().clone(),
        packet_id,
        topic_alias: None,
        subscription_ids: smallvec::SmallVec::new(),
        properties: message.properties,
        payload: message.payload,
    }
}

/// Tells the server how long the message matters. A request whose time is over may have to be sent again all the same
/// [MQTT-4.4.0-1]: with 0, by which the state store does not execute it.
fn set_expiry(publish: &mut Publish, now: Instant, until: Option<Instant>) {
    if let Some(until) = until {
        publish.properties.message_expiry = Some(whole_seconds(until.saturating_duration_since(now)));
    }
}

/// Seconds, rounded up.
fn whole_seconds(left: Duration) -> u32 {
    let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// What the server's CONNACK rules out. [MQTT-3.2.2-11] [MQTT-3.2.2-14] [MQTT-3.2.2-15]
fn check(publish: &Publish, limits: &ServerLimits) -> Result<(), OperationError> {
    if publish.qos > limits.qos_max {
        return Err(OperationError::NotSupported {
            feature: "this quality of service",
        });
    }
    if publish.retain && !limits.retain_available {
        return Err(OperationError::NotSupported {
            feature: "retained messages",
        });
    }
    // Only a limited server makes the size worth computing.
    if let Some(limit) = limits.packet_size_max {
        let size = encoded_len(&Packet::Publish(Box::new(publish.clone())), ProtocolVersion::V5);
        if size as u64 > u64::from(limit) {
            return Err(OperationError::TooLarge { size, limit });
        }
    }
    Ok(())
}
