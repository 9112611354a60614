//! Interests: filters of connected sessions, and messages that are not stored.
//!
//! ```text
//! interests | after, how far up_to is above, whether it is all, changes
//! change    | filter, 0: nothing, 1: messages of QoS 0, 2: all
//! confirm   | up_to
//! unstored  | value of the message
//! ```

use super::field::Field;
use super::reader::Reader;
use super::with_kind::WithKind;
use super::writer::Writer;
use super::{Fault, Kind, WireError, WireValue};
use crate::TopicFilter;
use crate::interests::{Interest, InterestChange, InterestChanges, InterestMessage};

impl<M: WireValue> WithKind for InterestMessage<M> {
    fn kind(&self) -> Kind {
        match self {
            InterestMessage::Changes(_) => Kind::Interests,
            InterestMessage::Confirm { .. } => Kind::ConfirmInterests,
            InterestMessage::Unstored(_) => Kind::Unstored,
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            InterestMessage::Changes(changes) => writer.put(changes),
            InterestMessage::Confirm { up_to } => writer.put(up_to),
            InterestMessage::Unstored(message) => writer.put_value(message),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<InterestMessage<M>, WireError> {
        Ok(match kind {
            Kind::Interests => InterestMessage::Changes(reader.take("interests")?),
            Kind::ConfirmInterests => InterestMessage::Confirm {
                up_to: reader.take("position of interests")?,
            },
            Kind::Unstored => InterestMessage::Unstored(reader.value("message that is not stored")?),
            _ => return Err(WireError::MisplacedKind { kind }),
        })
    }
}

impl Field for InterestChanges {
    const BYTES_MIN: usize = 4;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.after);
        writer.put(&self.up_to.wrapping_sub(self.after));
        writer.put(&self.is_all);
        writer.put(&self.changes);
    }

    fn take(reader: &mut Reader) -> Result<InterestChanges, WireError> {
        let after: u64 = reader.take("position before interests")?;
        let more = reader.take("position behind interests")?;
        let up_to = after.checked_add(more);
        Ok(InterestChanges {
            after,
            up_to: up_to.ok_or(reader.error(Fault::NotAscending))?,
            is_all: reader.take("end of interests")?,
            changes: reader.take("filters")?,
        })
    }
}

impl Field for InterestChange {
    const BYTES_MIN: usize = TopicFilter::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.filter);
        writer.put_byte(match self.interest {
            None => 0,
            Some(Interest::Unstored) => 1,
            Some(Interest::All) => 2,
        });
    }

    fn take(reader: &mut Reader) -> Result<InterestChange, WireError> {
        Ok(InterestChange {
            filter: reader.take("filter")?,
            interest: match reader.byte()? {
                0 => None,
                1 => Some(Interest::Unstored),
                2 => Some(Interest::All),
                found => return Err(reader.error(Fault::UnknownForm { found })),
            },
        })
    }
}

impl Field for TopicFilter {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_bytes(self.as_bytes());
    }

    fn take(reader: &mut Reader) -> Result<TopicFilter, WireError> {
        let bytes = reader.bytes()?;
        TopicFilter::new(&bytes).map_err(|error| reader.error(error))
    }
}
