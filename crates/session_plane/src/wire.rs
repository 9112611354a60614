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
//! of entries, `M` of messages, `C` of events. A plane has
//! [`EventContent`](crate::plane::EventContent) for `C`, which is a value with an encoding here.
//!
//! *Invariants*: what is decoded keeps the invariants of its types, and has one encoding. Decoding
//! never panics. It reserves memory for no more items than the bytes that are there can hold.

use bytes::Bytes;

use crate::connecting::ConnectingMessage;
use crate::feed::FeedMessage;
use crate::groups::GroupMessage;
use crate::interests::InterestMessage;
use crate::publishing::PublishingMessage;
use crate::queue_limits::QueueValue;

mod connecting;
mod content;
mod entry;
mod error;
mod feed;
mod field;
mod flush;
mod groups;
mod interests;
mod kind;
mod membership;
mod publishing;
mod reader;
mod replication;
mod stream;
mod transfer;
mod value;
mod with_kind;
mod writer;

pub use error::{Fault, Subject, WireError};
pub use flush::SentFlush;
pub use kind::{KINDS, Kind, KindModule, KindRow};
pub use membership::Hello;
pub use replication::ReplicationMessage;
pub use stream::{Confirm, EventPayload, Heartbeat, NextEvent, SentEvent, SentEventKind, SentResend};
pub use value::WireValue;

pub(crate) use field::Field;
pub(crate) use reader::Reader;
use with_kind::WithKind;
pub(crate) use writer::Writer;

/// Version of all messages. It is raised with each change of an encoding, and golden files of the
/// new version are added.
pub const VERSION: u8 = 1;

/// Message between nodes, by its receiver there. A plane has no part in those of the services that
/// stand beside it, and cannot be handed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<V, M, C> {
    /// First message of a connection, for what opens connections.
    Hello(Hello),
    /// Message for the [plane](crate::plane::Plane).
    Replication(ReplicationMessage<V, M, C>),
    /// Message for the [claims of sessions](crate::connecting).
    Connecting(ConnectingMessage<V>),
    /// Message for the [feeds](crate::feed).
    Feed(FeedMessage<V>),
    /// Message for the [routes of QoS 2 numbers](crate::publishing).
    Publishing(PublishingMessage<M>),
    /// Message for the [shared groups](crate::groups).
    Groups(GroupMessage<V>),
    /// Message about [interests](crate::interests), or because of one.
    Interests(InterestMessage<M>),
}

impl<V: WireValue + QueueValue + Ord, M: WireValue, C: WireValue> Message<V, M, C> {
    /// Kind of the message.
    pub fn kind(&self) -> Kind {
        match self {
            Message::Hello(_) => Kind::Hello,
            Message::Replication(message) => message.kind(),
            Message::Connecting(message) => message.kind(),
            Message::Feed(message) => message.kind(),
            Message::Publishing(message) => message.kind(),
            Message::Groups(message) => message.kind(),
            Message::Interests(message) => message.kind(),
        }
    }

    /// Bytes of the message, with its frame.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new(self.kind());
        match self {
            Message::Hello(hello) => writer.put(hello),
            Message::Replication(message) => message.put_fields(&mut writer),
            Message::Connecting(message) => message.put_fields(&mut writer),
            Message::Feed(message) => message.put_fields(&mut writer),
            Message::Publishing(message) => message.put_fields(&mut writer),
            Message::Groups(message) => message.put_fields(&mut writer),
            Message::Interests(message) => message.put_fields(&mut writer),
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

fn take_message<V: WireValue + QueueValue + Ord, M: WireValue, C: WireValue>(
    reader: &mut Reader,
    kind: Kind,
) -> Result<Message<V, M, C>, WireError> {
    Ok(match kind.module() {
        KindModule::Wire => Message::Hello(reader.take("hello")?),
        KindModule::Membership | KindModule::Stream | KindModule::Transfer => {
            Message::Replication(ReplicationMessage::take_fields(reader, kind)?)
        }
        KindModule::Connecting => Message::Connecting(ConnectingMessage::take_fields(reader, kind)?),
        KindModule::Feed => Message::Feed(FeedMessage::take_fields(reader, kind)?),
        KindModule::Publishing => Message::Publishing(PublishingMessage::take_fields(reader, kind)?),
        KindModule::Groups => Message::Groups(GroupMessage::take_fields(reader, kind)?),
        KindModule::Interests => Message::Interests(InterestMessage::take_fields(reader, kind)?),
    })
}

/// Bytes of a frame: version and kind.
const FRAME_BYTES: usize = 2;

#[cfg(test)]
mod tests;
