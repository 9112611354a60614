//! Contents of events, as values: what one plane tells another to change.
//!
//! ```text
//! content | form; of form 1: change; of form 2: value of the message; of form 3: nodes, then that value;
//!         | of form 4: move
//! change  | client, removals, entry
//! move    | client, birth of its session, slot of the part, key of the group, message, assignment, value
//! ```
//!
//! A content is a byte string of its event and a message of its own: it spells out its runs itself.
//! So an event is read, kept and passed on without a look at its content. A change in a transfer is
//! written in the same way behind its dot.

use std::collections::BTreeSet;

use bytes::Bytes;
use cluster::NodeId;

use super::field::Field;
use super::reader::Reader;
use super::writer::Writer;
use super::{Fault, Kind, Subject, WireError, WireValue};
use crate::groups::NoGroup;
use crate::plane::{EventContent, MessageMove, SessionChange};
use crate::publishing::NoRecipients;
use crate::{Birth, ClientId, Dot, Entry, GroupId, Slot};

impl<V: WireValue, M: WireValue> WireValue for EventContent<V, M> {
    /// Copies the content of a message behind its form.
    fn to_bytes(&self) -> Bytes {
        let mut writer = Writer::of_value();
        writer.put(self);
        writer.finish()
    }

    fn from_bytes(bytes: Bytes) -> Option<EventContent<V, M>> {
        // An error would name the message. The event that has the content names itself.
        let mut reader = Reader::new(Subject::Message(Kind::Event), bytes);
        let content = reader.take("content of an event").ok()?;
        reader.end().ok()?;
        Some(content)
    }
}

impl<V: WireValue, M: WireValue> Field for EventContent<V, M> {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        match self {
            EventContent::Nothing => writer.put_byte(0),
            EventContent::Change(change) => {
                writer.put_byte(1);
                writer.put(change);
            }
            EventContent::Move(of) => {
                writer.put_byte(4);
                writer.put(of);
            }
            EventContent::Message { content, nodes } if nodes.is_empty() => {
                writer.put_byte(2);
                writer.put_value(content);
            }
            EventContent::Message { content, nodes } => {
                writer.put_byte(3);
                writer.put(nodes);
                writer.put_value(content);
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<EventContent<V, M>, WireError> {
        Ok(match reader.byte()? {
            0 => EventContent::Nothing,
            1 => EventContent::Change(reader.take("change")?),
            2 => take_message(reader, BTreeSet::new())?,
            3 => take_message_for_nodes(reader)?,
            4 => EventContent::Move(reader.take("move of a message")?),
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

/// Reads the rest of a message for transient sessions. A message for no node has another form.
fn take_message_for_nodes<V: WireValue, M: WireValue>(
    reader: &mut Reader,
) -> Result<EventContent<V, M>, WireError> {
    let nodes: BTreeSet<NodeId> = reader.take("nodes of a message")?;
    if nodes.is_empty() {
        return Err(reader.error(NoRecipients));
    }
    take_message(reader, nodes)
}

fn take_message<V: WireValue, M: WireValue>(
    reader: &mut Reader,
    nodes: BTreeSet<NodeId>,
) -> Result<EventContent<V, M>, WireError> {
    let content = reader.value("content of a message")?;
    Ok(EventContent::Message { content, nodes })
}

impl<V: WireValue> Field for SessionChange<V> {
    const BYTES_MIN: usize = ClientId::BYTES_MIN + 2;

    fn put(&self, writer: &mut Writer) {
        put_change(writer, &self.client, &self.removes, self.adds.as_ref());
    }

    fn take(reader: &mut Reader) -> Result<SessionChange<V>, WireError> {
        Ok(SessionChange {
            client: reader.take("client of a change")?,
            removes: reader.take("removals of a change")?,
            adds: reader.take("entry of a change")?,
        })
    }
}

impl<V: WireValue> Field for MessageMove<V> {
    const BYTES_MIN: usize =
        2 * ClientId::BYTES_MIN + Birth::BYTES_MIN + Slot::BYTES_MIN + 2 * Dot::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.client);
        writer.put(&self.birth);
        writer.put(&self.part);
        writer.put(self.group.key());
        writer.put(&self.message);
        writer.put(&self.assignment);
        writer.put_value(&self.value);
    }

    fn take(reader: &mut Reader) -> Result<MessageMove<V>, WireError> {
        Ok(MessageMove {
            client: reader.take("client of a move")?,
            birth: reader.take("birth of a member's session")?,
            part: reader.take("slot of a part")?,
            group: take_group(reader)?,
            message: reader.take("event of a message that moves")?,
            assignment: reader.take("assignment of a message that moves")?,
            value: reader.value("value of a message that moves")?,
        })
    }
}

/// Reads the key of a group.
fn take_group(reader: &mut Reader) -> Result<GroupId, WireError> {
    let key: ClientId = reader.take("key of a group")?;
    GroupId::of_key(&key).ok_or_else(|| reader.error(NoGroup))
}

/// Appends a change without its dot, as [`SessionChange`] is read.
pub(super) fn put_change<V: WireValue>(
    writer: &mut Writer,
    client: &ClientId,
    removes: &[Dot],
    adds: Option<&Entry<V>>,
) {
    writer.put(client);
    writer.put_list(removes.iter());
    writer.put_optional(adds);
}
