//! Parts of an answer.
//!
//! ```text
//! part     | answer id, number, form, content
//! header   | begin, pending messages, single dots, own events, is_last
//! begin    | covered, taken, holes, own, reserved, has_merged_all
//! groups   | groups: last client, digest, has_others
//! sessions | differences: client, blocks, entries; last client, has_rest
//! rest     | entries, has_rest
//! ```

use crate::transfer::{
    AnswerBegin, AnswerId, BlockAnswer, Digest, Group, GroupsPart, HeaderPart, PartContent, RestPart,
    SessionDifference, SessionsPart, SlotPart,
};
use crate::wire::field::Field;
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;
use crate::wire::{Fault, WireError, WireValue};
use crate::{ClientId, VersionVector};

impl<V: WireValue, M: WireValue> Field for SlotPart<V, M> {
    const BYTES_MIN: usize = AnswerId::BYTES_MIN + 1 + PartContent::<V, M>::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.id);
        writer.put(&self.part);
        writer.put(&self.content);
    }

    fn take(reader: &mut Reader) -> Result<SlotPart<V, M>, WireError> {
        Ok(SlotPart {
            id: reader.take("question")?,
            part: reader.take("number of the part")?,
            content: reader.take("content of the part")?,
        })
    }
}

impl<V: WireValue, M: WireValue> Field for PartContent<V, M> {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        match self {
            PartContent::Header(header) => {
                writer.put_byte(0);
                writer.put(header);
            }
            PartContent::Groups(groups) => {
                writer.put_byte(1);
                writer.put(&groups.groups);
            }
            PartContent::Sessions(sessions) => {
                writer.put_byte(2);
                writer.put(sessions);
            }
            PartContent::Rest(rest) => {
                writer.put_byte(3);
                writer.put(rest);
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<PartContent<V, M>, WireError> {
        Ok(match reader.byte()? {
            0 => PartContent::Header(reader.take("header")?),
            1 => PartContent::Groups(GroupsPart {
                groups: reader.take("groups")?,
            }),
            2 => PartContent::Sessions(reader.take("sessions")?),
            3 => PartContent::Rest(reader.take("rest of a session")?),
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

impl<V: WireValue, M: WireValue> Field for HeaderPart<V, M> {
    const BYTES_MIN: usize = 5;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.begin);
        writer.put(&self.pending);
        writer.put(&self.single);
        writer.put(&self.own);
        writer.put(&self.is_last);
    }

    fn take(reader: &mut Reader) -> Result<HeaderPart<V, M>, WireError> {
        Ok(HeaderPart {
            begin: reader.take("begin of an answer")?,
            pending: reader.take("pending messages")?,
            single: reader.take("single dots")?,
            own: reader.take("own events")?,
            is_last: reader.take("end of the header")?,
        })
    }
}

impl Field for AnswerBegin {
    const BYTES_MIN: usize = 5 * VersionVector::BYTES_MIN + bool::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.covered);
        writer.put(&self.taken);
        writer.put(&self.holes);
        writer.put(&self.own);
        writer.put(&self.reserved);
        writer.put(&self.has_merged_all);
    }

    fn take(reader: &mut Reader) -> Result<AnswerBegin, WireError> {
        Ok(AnswerBegin {
            covered: reader.take("covered events")?,
            taken: reader.take("taken events")?,
            holes: reader.take("holes")?,
            own: reader.take("own numbers")?,
            reserved: reader.take("reserved numbers")?,
            has_merged_all: reader.take("mark of merged copies")?,
        })
    }
}

impl Field for Group {
    const BYTES_MIN: usize = 1 + Digest::BYTES + bool::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.last);
        writer.put(&self.shared);
        writer.put(&self.has_others);
    }

    fn take(reader: &mut Reader) -> Result<Group, WireError> {
        Ok(Group {
            last: reader.take("last client of a group")?,
            shared: reader.take("digest of a group")?,
            has_others: reader.take("mark of other events")?,
        })
    }
}

impl<V: WireValue> Field for SessionsPart<V> {
    const BYTES_MIN: usize = 3;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.sessions);
        writer.put(&self.up_to);
        writer.put(&self.has_rest);
    }

    fn take(reader: &mut Reader) -> Result<SessionsPart<V>, WireError> {
        Ok(SessionsPart {
            sessions: reader.take("differences")?,
            up_to: reader.take("last client of the part")?,
            has_rest: reader.take("mark of a rest")?,
        })
    }
}

impl<V: WireValue> Field for SessionDifference<V> {
    const BYTES_MIN: usize = ClientId::BYTES_MIN + 2;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.client);
        writer.put(&self.blocks);
        writer.put(&self.entries);
    }

    fn take(reader: &mut Reader) -> Result<SessionDifference<V>, WireError> {
        Ok(SessionDifference {
            client: reader.take("client of a difference")?,
            blocks: reader.take("blocks of a difference")?,
            entries: reader.take("entries of a difference")?,
        })
    }
}

impl Field for BlockAnswer {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        match self {
            BlockAnswer::Equal => writer.put_byte(0),
            BlockAnswer::Kept(kept) => {
                writer.put_byte(1);
                writer.put(kept);
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<BlockAnswer, WireError> {
        Ok(match reader.byte()? {
            0 => BlockAnswer::Equal,
            1 => BlockAnswer::Kept(reader.take("kept entries")?),
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

impl<V: WireValue> Field for RestPart<V> {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.entries);
        writer.put(&self.has_rest);
    }

    fn take(reader: &mut Reader) -> Result<RestPart<V>, WireError> {
        Ok(RestPart {
            entries: reader.take("entries of a rest")?,
            has_rest: reader.take("mark of a rest")?,
        })
    }
}
