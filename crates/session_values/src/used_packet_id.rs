//! Packet id that a client uses for a QoS 2 PUBLISH, or has released.
//!
//! ```text
//! packet id (2), clock of the connection (8), 0 or 1 clock of the message (1), clock (8),
//! 0: the id is free; 1: node (8), incarnation (4) and number (8) of the message, content
//! ```
//!
//! The id of the content follows from the content. So no value names another content than it has.

use cluster::session_plane::Hlc;
use mqtt::records::RecordError;
use mqtt::records::encoding::Reader;
use session_plane::Dot;
use session_plane::publishing::{NumberedMessage, PacketId, PacketUse};

use crate::fields::{
    put_clock, put_dot, put_flag, put_optional_clock, put_packet_id, take_clock, take_dot, take_flag,
    take_optional_clock, take_packet_id,
};
use crate::{Content, memory};

/// Value of the entry of a received packet id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedPacketId {
    packet_id: PacketId,
    connection_clock: Hlc,
    message: Option<UsedMessage>,
    message_clock: Option<Hlc>,
}

/// Message that uses a packet id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsedMessage {
    number: Dot,
    content: Content,
}

impl UsedPacketId {
    /// Use of a packet id, with the content of its message.
    ///
    /// # Panics
    ///
    /// If the use names another content, or none where there is one.
    pub fn new(packet_use: PacketUse, content: Option<Content>) -> UsedPacketId {
        let named = packet_use.message.map(|message| message.content);
        let had = content.as_ref().map(Content::id);
        assert_eq!(
            named, had,
            "a use of a packet id names the content of its message"
        );
        let message = packet_use.message.zip(content);
        UsedPacketId {
            packet_id: packet_use.packet_id,
            connection_clock: packet_use.connection_clock,
            message: message.map(|(NumberedMessage { number, .. }, content)| UsedMessage { number, content }),
            message_clock: packet_use.message_clock,
        }
    }

    /// Use of the packet id, as the plane reads it.
    pub fn packet_use(&self) -> PacketUse {
        let numbered = |message: &UsedMessage| NumberedMessage {
            number: message.number,
            content: message.content.id(),
        };
        PacketUse {
            packet_id: self.packet_id,
            connection_clock: self.connection_clock,
            message: self.message.as_ref().map(numbered),
            message_clock: self.message_clock,
        }
    }

    /// Content of the message. None: the id is free.
    pub fn content(&self) -> Option<&Content> {
        self.message.as_ref().map(|message| &message.content)
    }

    pub(crate) fn memory(&self) -> usize {
        memory::BOXED + self.content().map_or(0, Content::memory)
    }

    /// Appends all but the content.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_packet_id(out, self.packet_id);
        put_clock(out, self.connection_clock);
        put_optional_clock(out, self.message_clock);
        put_flag(out, self.message.is_some());
        if let Some(message) = &self.message {
            put_dot(out, message.number);
        }
    }

    /// Reads a use, whose content ends the value.
    pub(crate) fn take(reader: &mut Reader) -> Result<UsedPacketId, RecordError> {
        let packet_id = take_packet_id(reader)?;
        let connection_clock = take_clock(reader)?;
        let message_clock = take_optional_clock(reader)?;
        let has_message = take_flag(reader)?;
        let message = has_message.then(|| take_message(reader)).transpose()?;
        Ok(UsedPacketId {
            packet_id,
            connection_clock,
            message,
            message_clock,
        })
    }
}

fn take_message(reader: &mut Reader) -> Result<UsedMessage, RecordError> {
    let number = take_dot(reader)?;
    let content = Content::decode_part(&reader.rest())?;
    Ok(UsedMessage { number, content })
}
