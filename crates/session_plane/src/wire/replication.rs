//! Replication: messages of one plane to another, and the kinds of them.

use super::reader::Reader;
use super::with_kind::WithKind;
use super::writer::Writer;
use super::{
    Confirm, EventPayload, Heartbeat, Kind, NextEvent, SentEvent, SentFlush, SentResend, WireError, WireValue,
};
use crate::membership::{Handshake, Stay};
use crate::stream::{ResendId, StreamMessage};
use crate::transfer::{RunPosition, TransferMessage};

/// Message of one plane to another: [`Plane::receive`](crate::plane::Plane::receive) has a place for
/// each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicationMessage<V, M, C> {
    /// Message of a handshake.
    Handshake(Handshake),
    /// Another peer has given the receiver up, in this stay.
    Conviction(Stay),
    /// Ring marker that begins a stream.
    Welcome(SentEvent<C>),
    /// Next event of a stream.
    Event(NextEvent<C>),
    /// Positions, clock and knowledge.
    Heartbeat(Heartbeat),
    /// Position that is durable.
    Confirm(Confirm),
    /// Events that too few owners had confirmed.
    Resend(SentResend<C>),
    /// The resend is durable at the sender.
    ConfirmResent(ResendId),
    /// How far the sender has the stream of a run that it has given up.
    FlushPosition(RunPosition),
    /// Last events of a run that was given up.
    FlushEvents(SentFlush<C>),
    /// Message of a transfer.
    Transfer(TransferMessage<V, M>),
}

impl<V, M, C: Clone> From<StreamMessage<'_, EventPayload<C>>> for ReplicationMessage<V, M, C> {
    /// Next message of a stream as its receiver gets it.
    fn from(message: StreamMessage<'_, EventPayload<C>>) -> ReplicationMessage<V, M, C> {
        match message {
            StreamMessage::Welcome(event) => ReplicationMessage::Welcome(event.into()),
            StreamMessage::Event { after, event } => {
                let event = event.into();
                ReplicationMessage::Event(NextEvent { after, event })
            }
        }
    }
}

impl<V: WireValue, M: WireValue, C: WireValue> WithKind for ReplicationMessage<V, M, C> {
    fn kind(&self) -> Kind {
        match self {
            ReplicationMessage::Handshake(Handshake::Offer(_)) => Kind::HandshakeOffer,
            ReplicationMessage::Handshake(Handshake::Answer(_)) => Kind::HandshakeAnswer,
            ReplicationMessage::Handshake(Handshake::Confirm(_)) => Kind::HandshakeConfirm,
            ReplicationMessage::Conviction(_) => Kind::Conviction,
            ReplicationMessage::Welcome(_) => Kind::Welcome,
            ReplicationMessage::Event(_) => Kind::Event,
            ReplicationMessage::Heartbeat(_) => Kind::Heartbeat,
            ReplicationMessage::Confirm(_) => Kind::Confirm,
            ReplicationMessage::Resend(_) => Kind::Resend,
            ReplicationMessage::ConfirmResent(_) => Kind::ConfirmResent,
            ReplicationMessage::FlushPosition(_) => Kind::FlushPosition,
            ReplicationMessage::FlushEvents(_) => Kind::FlushEvents,
            ReplicationMessage::Transfer(message) => message.kind(),
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            ReplicationMessage::Handshake(Handshake::Offer(offer)) => writer.put(offer),
            ReplicationMessage::Handshake(Handshake::Answer(answer)) => writer.put(answer),
            ReplicationMessage::Handshake(Handshake::Confirm(confirm)) => writer.put(confirm),
            ReplicationMessage::Conviction(convicted) => writer.put(convicted),
            ReplicationMessage::Welcome(event) => writer.put(event),
            ReplicationMessage::Event(next) => writer.put(next),
            ReplicationMessage::Heartbeat(heartbeat) => writer.put(heartbeat),
            ReplicationMessage::Confirm(confirm) => writer.put(confirm),
            ReplicationMessage::Resend(resend) => writer.put(resend),
            ReplicationMessage::ConfirmResent(id) => writer.put(id),
            ReplicationMessage::FlushPosition(position) => writer.put(position),
            ReplicationMessage::FlushEvents(flush) => writer.put(flush),
            ReplicationMessage::Transfer(message) => message.put_fields(writer),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<ReplicationMessage<V, M, C>, WireError> {
        let handshake = match kind {
            Kind::HandshakeOffer => Handshake::Offer(reader.take("offer")?),
            Kind::HandshakeAnswer => Handshake::Answer(reader.take("answer")?),
            Kind::HandshakeConfirm => Handshake::Confirm(reader.take("confirmation")?),
            _ => return take_of_present(reader, kind),
        };
        Ok(ReplicationMessage::Handshake(handshake))
    }
}

/// Reads what two planes say behind their handshake.
fn take_of_present<V: WireValue, M: WireValue, C: WireValue>(
    reader: &mut Reader,
    kind: Kind,
) -> Result<ReplicationMessage<V, M, C>, WireError> {
    Ok(match kind {
        Kind::Conviction => ReplicationMessage::Conviction(reader.take("convicted stay")?),
        Kind::Welcome => ReplicationMessage::Welcome(reader.take("event")?),
        Kind::Event => ReplicationMessage::Event(reader.take("event")?),
        Kind::Heartbeat => ReplicationMessage::Heartbeat(reader.take("heartbeat")?),
        Kind::Confirm => ReplicationMessage::Confirm(reader.take("confirmation")?),
        Kind::Resend => ReplicationMessage::Resend(reader.take("resend")?),
        Kind::ConfirmResent => ReplicationMessage::ConfirmResent(reader.take("id of a resend")?),
        Kind::FlushPosition => ReplicationMessage::FlushPosition(reader.take("position of a run")?),
        Kind::FlushEvents => ReplicationMessage::FlushEvents(reader.take("flush")?),
        _ => return TransferMessage::take_fields(reader, kind).map(ReplicationMessage::Transfer),
    })
}
