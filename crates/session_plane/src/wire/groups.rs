//! Groups: a message that is given to a member's connection.
//!
//! ```text
//! give | slot, presence, message, assignment, value
//! ```

use super::field::Field;
use super::reader::Reader;
use super::with_kind::WithKind;
use super::writer::Writer;
use super::{Kind, WireError, WireValue};
use crate::groups::{Give, GroupMessage};
use crate::{Dot, Slot};

impl<V: WireValue> WithKind for GroupMessage<V> {
    fn kind(&self) -> Kind {
        match self {
            GroupMessage::Give(_) => Kind::Give,
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            GroupMessage::Give(give) => writer.put(give),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<GroupMessage<V>, WireError> {
        Ok(match kind {
            Kind::Give => GroupMessage::Give(reader.take("given message")?),
            _ => return Err(WireError::MisplacedKind { kind }),
        })
    }
}

impl<V: WireValue> Field for Give<V> {
    const BYTES_MIN: usize = Slot::BYTES_MIN + 3 * Dot::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.slot);
        writer.put(&self.presence);
        writer.put(&self.message);
        writer.put(&self.assignment);
        writer.put_value(&self.value);
    }

    fn take(reader: &mut Reader) -> Result<Give<V>, WireError> {
        Ok(Give {
            slot: reader.take("slot of a part")?,
            presence: reader.take("presence of a member")?,
            message: reader.take("event of a given message")?,
            assignment: reader.take("assignment of a given message")?,
            value: reader.value("value of a given message")?,
        })
    }
}
