//! What the session is subscribed to, kept to be asked for again when the server has lost the session.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use protocol::packet::{Packet, PacketId, Publish, SubAck, Subscribe, SubscribeFilter, Unsubscribe};
use protocol::properties::UserProperties;
use protocol::topic::{SubscriptionFilter, TopicFilter};
use protocol::{ReasonCode, Text};
use smallvec::SmallVec;

use super::operation::{OperationError, OperationId, StreamId};
use super::outgoing::is_failure;
use super::packet_ids::PacketIds;

/// The streams that a message is for.
pub type Streams = SmallVec<[StreamId; 1]>;

#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    streams: BTreeMap<StreamId, Subscription>,
    /// Filters to unsubscribe from, with the operation that waits for it.
    ending: Vec<Ending>,
    /// Of SUBSCRIBEs whose subscription ended before the SUBACK came.
    abandoned: Vec<PacketId>,
    /// Something above may have to be asked for.
    is_incomplete: bool,
}

#[derive(Debug)]
struct Subscription {
    operation: Option<OperationId>,
    filters: Vec<SubscribeFilter>,
    /// Without the share, to route messages of servers that know no subscription identifiers.
    matching: Vec<TopicFilter>,
    state: State,
}

/// `Wanted -> Asked -> Made`; back to `Wanted` when the connection (`Asked`) or the session (`Made`) is lost.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Wanted,
    Asked(PacketId),
    Made,
}

#[derive(Debug)]
struct Ending {
    operation: Option<OperationId>,
    filters: Vec<Text>,
    asked: Option<PacketId>,
}

/// The server's answer to a SUBSCRIBE.
#[derive(Debug)]
pub(super) struct Subscribed {
    pub(super) stream: StreamId,
    pub(super) operation: Option<OperationId>,
    pub(super) result: Result<Vec<ReasonCode>, OperationError>,
}

impl Subscriptions {
    pub(super) fn subscribe(
        &mut self,
        stream: StreamId,
        operation: Option<OperationId>,
        filters: Vec<SubscribeFilter>,
    ) {
        let parsed = filters
            .iter()
            .filter_map(|line| SubscriptionFilter::parse(line.filter.clone()).ok());
        let matching = parsed.map(|parsed| parsed.filter).collect();
        self.is_incomplete = true;
        self.streams.insert(
            stream,
            Subscription {
                operation,
                filters,
                matching,
                state: State::Wanted,
            },
        );
    }

    /// Ends a subscription. A filter that another stream has too stays with the server.
    pub(super) fn unsubscribe(&mut self, stream: StreamId, operation: Option<OperationId>) {
        let Some(ended) = self.streams.remove(&stream) else {
            return;
        };
        if let State::Asked(packet_id) = ended.state {
            self.abandoned.push(packet_id);
        }
        let is_shared = |filter: &Text| {
            self.streams
                .values()
                .any(|other| other.filters.iter().any(|line| line.filter == *filter))
        };
        let filters: Vec<Text> = ended
            .filters
            .into_iter()
            .map(|line| line.filter)
            .filter(|text| !is_shared(text))
            .collect();
        self.is_incomplete = true;
        self.ending.push(Ending {
            operation,
            filters,
            asked: None,
        });
    }

    pub(super) fn has(&self, stream: StreamId) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Everybody who is subscribed to something.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.streams.keys().copied()
    }

    /// Asks for everything that has not been asked for on this connection. Returns the operations that ended
    /// without a word to the server.
    pub(super) fn send(
        &mut self,
        with_ids: bool,
        ids: &mut PacketIds,
        packets: &mut Vec<Packet>,
    ) -> Vec<OperationId> {
        if !std::mem::take(&mut self.is_incomplete) {
            return Vec::new();
        }
        for (stream, subscription) in &mut self.streams {
            if subscription.state != State::Wanted {
                continue;
            }
            let Some(packet_id) = ids.take() else {
                self.is_incomplete = true;
                break;
            };
            subscription.state = State::Asked(packet_id);
            packets.push(Packet::Subscribe(Subscribe {
                packet_id,
                subscription_id: if with_ids { subscription_id(*stream) } else { None },
                user_properties: UserProperties::EMPTY,
                filters: subscription.filters.clone(),
            }));
        }
        let mut done = Vec::new();
        self.ending.retain_mut(|ending| {
            if ending.filters.is_empty() {
                done.extend(ending.operation);
                return false;
            }
            if ending.asked.is_none()
                && let Some(packet_id) = ids.take()
            {
                ending.asked = Some(packet_id);
                let filters = ending.filters.clone();
                packets.push(Packet::Unsubscribe(Unsubscribe {
                    packet_id,
                    user_properties: UserProperties::EMPTY,
                    filters,
                }));
            }
            true
        });
        done
    }

    /// SUBACK. A subscription with no filter granted is forgotten.
    pub(super) fn suback(&mut self, suback: SubAck, ids: &mut PacketIds) -> Option<Subscribed> {
        if let Some(place) = self
            .abandoned
            .iter()
            .position(|abandoned| *abandoned == suback.packet_id)
        {
            ids.release(self.abandoned.swap_remove(place));
            return None;
        }
        let asked = State::Asked(suback.packet_id);
        let (&stream, subscription) = self
            .streams
            .iter_mut()
            .find(|(_, subscription)| subscription.state == asked)?;
        ids.release(suback.packet_id);
        subscription.state = State::Made;
        let operation = subscription.operation.take();
        let refusal = suback.reasons.iter().copied().all(is_failure);
        let result = match suback.reasons.first() {
            Some(&reason) if refusal => Err(OperationError::Refused {
                reason,
                explanation: suback.explanation.reason_string,
            }),
            Some(_) => Ok(suback.reasons),
            None => Err(OperationError::Refused {
                reason: ReasonCode::ProtocolError,
                explanation: None,
            }),
        };
        if result.is_err() {
            self.streams.remove(&stream);
        }
        Some(Subscribed {
            stream,
            operation,
            result,
        })
    }

    /// UNSUBACK. The operation that waited for it, if one did.
    pub(super) fn unsuback(&mut self, packet_id: PacketId, ids: &mut PacketIds) -> Option<OperationId> {
        let place = self
            .ending
            .iter()
            .position(|ending| ending.asked == Some(packet_id))?;
        ids.release(packet_id);
        self.ending.remove(place).operation
    }

    /// The connection is gone: what was asked for has to be asked for again.
    pub(super) fn connection_lost(&mut self, ids: &mut PacketIds) {
        self.is_incomplete = true;
        for packet_id in self.abandoned.drain(..) {
            ids.release(packet_id);
        }
        for subscription in self.streams.values_mut() {
            if let State::Asked(packet_id) = subscription.state {
                ids.release(packet_id);
                subscription.state = State::Wanted;
            }
        }
        for ending in &mut self.ending {
            if let Some(packet_id) = ending.asked.take() {
                ids.release(packet_id);
            }
        }
    }

    /// The server has lost the session: every subscription has to be made again, and none has to be ended.
    pub(super) fn session_lost(&mut self) {
        self.is_incomplete = true;
        for subscription in self.streams.values_mut() {
            subscription.state = State::Wanted;
        }
        for ending in &mut self.ending {
            ending.filters.clear();
        }
    }

    /// Nobody waits for `operation` any more. A subscription that was never made is dropped.
    pub(super) fn forget(&mut self, operation: OperationId) {
        let given_up = self
            .streams
            .iter()
            .find(|(_, subscription)| subscription.operation == Some(operation));
        if let Some((&stream, _)) = given_up {
            self.unsubscribe(stream, None);
        }
        for ending in self
            .ending
            .iter_mut()
            .filter(|ending| ending.operation == Some(operation))
        {
            ending.operation = None;
        }
    }

    /// Who gets a message: by subscription identifier where the server gives one, else by topic. Identifiers alone
    /// do not decide: those of a session that an earlier process began mean other streams.
    pub(super) fn route(&self, publish: &Publish) -> Streams {
        let is_for = |subscription: &Subscription| {
            subscription
                .matching
                .iter()
                .any(|filter| filter.matches(&publish.topic))
        };
        let named = publish.subscription_ids.iter().map(|id| StreamId(id.get()));
        let named: Streams = named
            .filter(|stream| self.streams.get(stream).is_some_and(is_for))
            .collect();
        if !named.is_empty() {
            return named;
        }
        self.streams
            .iter()
            .filter(|(_, subscription)| is_for(subscription))
            .map(|(stream, _)| *stream)
            .collect()
    }
}

fn subscription_id(stream: StreamId) -> Option<NonZeroU32> {
    NonZeroU32::new(stream.0).filter(|id| id.get() <= SUBSCRIPTION_ID_MAX)
}

/// The greatest subscription identifier: a variable byte integer holds no more.
const SUBSCRIPTION_ID_MAX: u32 = 268_435_455;
