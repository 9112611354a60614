//! Wire: the encoding of every message between nodes.
//!
//! ```text
//! frame    | version u8 | kind u8 | fields
//! number   | LEB128 in its shortest form, at most 64 bits
//! node     | u64, big endian        clock | u64, big endian
//! run      | 0, node, incarnation; or its place among the runs that the message has spelled out
//! dot      | run, number
//! vector   | number of intervals; each: run, numbers left out before it, starts above, numbers above
//! value    | number of bytes, bytes
//! list     | number of items, items        optional | 0; or 1 and the value
//! ```
//!
//! One version holds for all kinds, and [`KINDS`] is the one table of kinds. The first message of a
//! connection is a [`Hello`]. A connection carries whole messages, so a frame has no length.
//!
//! Values are generic over [`WireValue`] and not fixed to bytes: a node that has its own types would
//! otherwise translate each message part by part. The three of them are what the modules have: `V`
//! of entries, `M` of pending messages, `C` of events.
//!
//! *Invariants*: what is decoded keeps the invariants of its types, and has one encoding. Decoding
//! never panics. It reserves memory for no more items than the bytes that are there can hold.

use bytes::Bytes;

use crate::feed::FeedMessage;
use crate::membership::{Handshake, Stay};
use crate::stream::{ResendId, StreamMessage};
use crate::transfer::{RunPosition, TransferMessage};

mod entry;
mod error;
mod feed;
mod field;
mod flush;
mod kind;
mod membership;
mod reader;
mod stream;
mod transfer;
mod value;
mod writer;

pub use error::{Fault, Subject, WireError};
pub use flush::SentFlush;
pub use kind::{KINDS, Kind, KindModule, KindRow};
pub use membership::Hello;
pub use stream::{Confirm, EventPayload, Heartbeat, NextEvent, SentEvent, SentEventKind, SentResend};
pub use value::WireValue;

use feed::{ClosedFeed, GrantedWindow};
pub(crate) use field::Field;
pub(crate) use reader::Reader;
pub(crate) use writer::Writer;

/// Version of all messages. It is raised with each change of an encoding, and golden files of the
/// new version are added.
pub const VERSION: u8 = 1;

/// Message between nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<V, M, C> {
    /// First message of a connection.
    Hello(Hello),
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
    /// Message of a feed.
    Feed(FeedMessage<V>),
}

impl<V: WireValue, M: WireValue, C: WireValue> Message<V, M, C> {
    /// Kind of the message.
    pub fn kind(&self) -> Kind {
        match self {
            Message::Hello(_) => Kind::Hello,
            Message::Handshake(Handshake::Offer(_)) => Kind::HandshakeOffer,
            Message::Handshake(Handshake::Answer(_)) => Kind::HandshakeAnswer,
            Message::Handshake(Handshake::Confirm(_)) => Kind::HandshakeConfirm,
            Message::Conviction(_) => Kind::Conviction,
            Message::Welcome(_) => Kind::Welcome,
            Message::Event(_) => Kind::Event,
            Message::Heartbeat(_) => Kind::Heartbeat,
            Message::Confirm(_) => Kind::Confirm,
            Message::Resend(_) => Kind::Resend,
            Message::ConfirmResent(_) => Kind::ConfirmResent,
            Message::FlushPosition(_) => Kind::FlushPosition,
            Message::FlushEvents(_) => Kind::FlushEvents,
            Message::Transfer(message) => kind_of_transfer(message),
            Message::Feed(message) => kind_of_feed(message),
        }
    }

    /// Bytes of the message, with its frame.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.kind());
        match self {
            Message::Hello(hello) => writer.put(hello),
            Message::Handshake(Handshake::Offer(offer)) => writer.put(offer),
            Message::Handshake(Handshake::Answer(answer)) => writer.put(answer),
            Message::Handshake(Handshake::Confirm(confirm)) => writer.put(confirm),
            Message::Conviction(convicted) => writer.put(convicted),
            Message::Welcome(event) => writer.put(event),
            Message::Event(next) => writer.put(next),
            Message::Heartbeat(heartbeat) => writer.put(heartbeat),
            Message::Confirm(confirm) => writer.put(confirm),
            Message::Resend(resend) => writer.put(resend),
            Message::ConfirmResent(id) => writer.put(id),
            Message::FlushPosition(position) => writer.put(position),
            Message::FlushEvents(flush) => writer.put(flush),
            Message::Transfer(message) => put_transfer(&mut writer, message),
            Message::Feed(message) => put_feed(&mut writer, message),
        }
        writer.finish()
    }

    /// Message with these bytes. Values share their memory.
    ///
    /// # Errors
    ///
    /// [`WireError`] where they are no message of this version. It names the message and the field.
    pub fn decode(mut bytes: Bytes) -> Result<Message<V, M, C>, WireError> {
        let kind = take_frame(&mut bytes)?;
        let mut reader = Reader::new(Subject::Message(kind), bytes);
        let message = take_message(&mut reader, kind)?;
        reader.end()?;
        Ok(message)
    }
}

impl<V, M, C: Clone> From<StreamMessage<'_, EventPayload<C>>> for Message<V, M, C> {
    /// Next message of a stream as its receiver gets it.
    fn from(message: StreamMessage<'_, EventPayload<C>>) -> Message<V, M, C> {
        match message {
            StreamMessage::Welcome(event) => Message::Welcome(event.into()),
            StreamMessage::Event { after, event } => {
                let event = event.into();
                Message::Event(NextEvent { after, event })
            }
        }
    }
}

/// Reads the version before anything that depends on it, then the kind.
fn take_frame(bytes: &mut Bytes) -> Result<Kind, WireError> {
    let length = bytes.len();
    if let Some(found) = bytes.first().copied().filter(|version| *version != VERSION) {
        return Err(WireError::OtherVersion { found });
    }
    let Some([_, number]) = bytes.first_chunk().copied() else {
        return Err(WireError::NoFrame { bytes: length });
    };
    *bytes = bytes.slice(FRAME_BYTES..);
    Kind::of_number(number).ok_or(WireError::UnknownKind { number })
}

fn take_message<V: WireValue, M: WireValue, C: WireValue>(
    reader: &mut Reader,
    kind: Kind,
) -> Result<Message<V, M, C>, WireError> {
    Ok(match kind {
        Kind::Hello => Message::Hello(reader.take("hello")?),
        Kind::HandshakeOffer => Message::Handshake(Handshake::Offer(reader.take("offer")?)),
        Kind::HandshakeAnswer => Message::Handshake(Handshake::Answer(reader.take("answer")?)),
        Kind::HandshakeConfirm => Message::Handshake(Handshake::Confirm(reader.take("confirmation")?)),
        Kind::Conviction => Message::Conviction(reader.take("convicted stay")?),
        Kind::Welcome => Message::Welcome(reader.take("event")?),
        Kind::Event => Message::Event(reader.take("event")?),
        Kind::Heartbeat => Message::Heartbeat(reader.take("heartbeat")?),
        Kind::Confirm => Message::Confirm(reader.take("confirmation")?),
        Kind::Resend => Message::Resend(reader.take("resend")?),
        Kind::ConfirmResent => Message::ConfirmResent(reader.take("id of a resend")?),
        Kind::FlushPosition => Message::FlushPosition(reader.take("position of a run")?),
        Kind::FlushEvents => Message::FlushEvents(reader.take("flush")?),
        _ => return take_of_slot(reader, kind),
    })
}

/// Reads what is about the copy of one slot: transfers and feeds. All other kinds are reserved.
fn take_of_slot<V: WireValue, M: WireValue, C: WireValue>(
    reader: &mut Reader,
    kind: Kind,
) -> Result<Message<V, M, C>, WireError> {
    let transfer = match kind {
        Kind::AskSlot => TransferMessage::AskSlot(reader.take("question")?),
        Kind::AskPart => TransferMessage::AskPart(reader.take("question")?),
        Kind::SlotPart => TransferMessage::SlotPart(reader.take("part")?),
        Kind::SlotMerged => TransferMessage::SlotMerged(reader.take("answer")?),
        Kind::DropQuestion => TransferMessage::DropQuestion(reader.take("answer")?),
        Kind::Offer => TransferMessage::Offer {
            slot: reader.take("slot")?,
        },
        _ => return take_of_feed(reader, kind).map(Message::Feed),
    };
    Ok(Message::Transfer(transfer))
}

fn take_of_feed<V: WireValue>(reader: &mut Reader, kind: Kind) -> Result<FeedMessage<V>, WireError> {
    Ok(match kind {
        Kind::FeedOpen => FeedMessage::Open(reader.take("question")?),
        Kind::FeedItems => FeedMessage::Items(reader.take("items")?),
        Kind::FeedWindow => {
            let GrantedWindow { feed, window } = reader.take("window")?;
            FeedMessage::Window { feed, window }
        }
        Kind::FeedClose => FeedMessage::Close {
            feed: reader.take("feed")?,
        },
        Kind::FeedClosed => {
            let ClosedFeed { feed, reason } = reader.take("end of a feed")?;
            FeedMessage::Closed { feed, reason }
        }
        _ => return Err(WireError::ReservedKind { kind }),
    })
}

fn kind_of_transfer<V, M>(message: &TransferMessage<V, M>) -> Kind {
    match message {
        TransferMessage::AskSlot(_) => Kind::AskSlot,
        TransferMessage::AskPart(_) => Kind::AskPart,
        TransferMessage::SlotPart(_) => Kind::SlotPart,
        TransferMessage::SlotMerged(_) => Kind::SlotMerged,
        TransferMessage::DropQuestion(_) => Kind::DropQuestion,
        TransferMessage::Offer { .. } => Kind::Offer,
    }
}

fn put_transfer<V: WireValue, M: WireValue>(writer: &mut Writer, message: &TransferMessage<V, M>) {
    match message {
        TransferMessage::AskSlot(ask) => writer.put(ask),
        TransferMessage::AskPart(ask) => writer.put(ask),
        TransferMessage::SlotPart(part) => writer.put(part),
        TransferMessage::SlotMerged(id) | TransferMessage::DropQuestion(id) => writer.put(id),
        TransferMessage::Offer { slot } => writer.put(slot),
    }
}

fn kind_of_feed<V>(message: &FeedMessage<V>) -> Kind {
    match message {
        FeedMessage::Open(_) => Kind::FeedOpen,
        FeedMessage::Items(_) => Kind::FeedItems,
        FeedMessage::Window { .. } => Kind::FeedWindow,
        FeedMessage::Close { .. } => Kind::FeedClose,
        FeedMessage::Closed { .. } => Kind::FeedClosed,
    }
}

fn put_feed<V: WireValue>(writer: &mut Writer, message: &FeedMessage<V>) {
    match message {
        FeedMessage::Open(open) => writer.put(open),
        FeedMessage::Items(items) => writer.put(items),
        FeedMessage::Window { feed, window } => writer.put(&GrantedWindow {
            feed: *feed,
            window: *window,
        }),
        FeedMessage::Close { feed } => writer.put(feed),
        FeedMessage::Closed { feed, reason } => writer.put(&ClosedFeed {
            feed: *feed,
            reason: *reason,
        }),
    }
}

/// Bytes of a frame: version and kind.
const FRAME_BYTES: usize = 2;

#[cfg(test)]
mod tests;
