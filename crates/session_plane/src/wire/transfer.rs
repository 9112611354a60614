//! Transfers: questions of an asker; `parts` has the answers of a holder.
//!
//! ```text
//! answer id | slot, question
//! ask slots | question, slots, positions, numbers that are lacked
//! digests   | question, sets of events, slots with their digests
//! merged    | question, slots
//! ask part  | answer id, number of the part, what is wanted
//! ```
//!
//! Limits and the order of clients are checked by the halves of a transfer, which know the question.

use super::field::Field;
use super::reader::Reader;
use super::with_kind::WithKind;
use super::writer::Writer;
use super::{Fault, Kind, WireError, WireValue};
use crate::transfer::{
    AnswerBegin, AnswerId, AskPart, AskSessions, AskSlots, Block, ClientRange, Digest, Except, QuestionId,
    SessionBlocks, SlotDigest, SlotDigests, SlotsMerged, TransferMessage, Wanted,
};
use crate::{ClientId, EntryId, Slot};

mod parts;

impl<V: WireValue, M: WireValue> WithKind for TransferMessage<V, M> {
    fn kind(&self) -> Kind {
        match self {
            TransferMessage::AskSlots(_) => Kind::AskSlots,
            TransferMessage::SlotDigests(_) => Kind::SlotDigests,
            TransferMessage::AskPart(_) => Kind::AskPart,
            TransferMessage::SlotPart(_) => Kind::SlotPart,
            TransferMessage::SlotsMerged(_) => Kind::SlotsMerged,
            TransferMessage::DropQuestion(_) => Kind::DropQuestion,
            TransferMessage::Offer { .. } => Kind::Offer,
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            TransferMessage::AskSlots(ask) => writer.put(ask),
            TransferMessage::SlotDigests(digests) => writer.put(digests),
            TransferMessage::AskPart(ask) => writer.put(ask),
            TransferMessage::SlotPart(part) => writer.put(part),
            TransferMessage::SlotsMerged(merged) => writer.put(merged),
            TransferMessage::DropQuestion(id) => writer.put(id),
            TransferMessage::Offer { slots } => writer.put(slots),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<TransferMessage<V, M>, WireError> {
        Ok(match kind {
            Kind::AskSlots => TransferMessage::AskSlots(reader.take("question")?),
            Kind::SlotDigests => TransferMessage::SlotDigests(reader.take("digests")?),
            Kind::AskPart => TransferMessage::AskPart(reader.take("question")?),
            Kind::SlotPart => TransferMessage::SlotPart(reader.take("part")?),
            Kind::SlotsMerged => TransferMessage::SlotsMerged(reader.take("merged answers")?),
            Kind::DropQuestion => TransferMessage::DropQuestion(reader.take("answer")?),
            Kind::Offer => TransferMessage::Offer {
                slots: reader.take("slots of an offer")?,
            },
            _ => return Err(WireError::MisplacedKind { kind }),
        })
    }
}

impl Field for QuestionId {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.0);
    }

    fn take(reader: &mut Reader) -> Result<QuestionId, WireError> {
        reader.positive().map(QuestionId)
    }
}

impl Field for AnswerId {
    const BYTES_MIN: usize = Slot::BYTES_MIN + QuestionId::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.slot);
        writer.put(&self.question);
    }

    fn take(reader: &mut Reader) -> Result<AnswerId, WireError> {
        Ok(AnswerId {
            slot: reader.take("slot")?,
            question: reader.take("question")?,
        })
    }
}

impl Field for AskSlots {
    const BYTES_MIN: usize = QuestionId::BYTES_MIN + 3;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.question);
        writer.put(&self.slots);
        writer.put(&self.positions);
        writer.put(&self.lacking);
    }

    fn take(reader: &mut Reader) -> Result<AskSlots, WireError> {
        Ok(AskSlots {
            question: reader.take("question")?,
            slots: reader.take("slots of a question")?,
            positions: reader.take("positions")?,
            lacking: reader.take("numbers that an asker lacks")?,
        })
    }
}

impl Field for SlotsMerged {
    const BYTES_MIN: usize = QuestionId::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.question);
        writer.put(&self.slots);
    }

    fn take(reader: &mut Reader) -> Result<SlotsMerged, WireError> {
        Ok(SlotsMerged {
            question: reader.take("question")?,
            slots: reader.take("slots of merged answers")?,
        })
    }
}

impl Field for SlotDigests {
    const BYTES_MIN: usize = QuestionId::BYTES_MIN + AnswerBegin::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.question);
        writer.put(&self.begin);
        writer.put(&self.slots);
    }

    fn take(reader: &mut Reader) -> Result<SlotDigests, WireError> {
        let digests = SlotDigests {
            question: reader.take("question")?,
            begin: reader.take("sets of events of copies")?,
            slots: reader.take("digests of slots")?,
        };
        if !digests.slots.is_sorted_by(|one, next| one.slot < next.slot) {
            return Err(reader.error(Fault::NotAscending));
        }
        Ok(digests)
    }
}

impl Field for SlotDigest {
    const BYTES_MIN: usize = Slot::BYTES_MIN + 1 + Digest::BYTES;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.slot);
        writer.put_number(self.entries);
        writer.put(&self.digest);
    }

    fn take(reader: &mut Reader) -> Result<SlotDigest, WireError> {
        Ok(SlotDigest {
            slot: reader.take("slot")?,
            entries: reader.number()?,
            digest: reader.take("digest of a slot")?,
        })
    }
}

impl Field for AskPart {
    const BYTES_MIN: usize = AnswerId::BYTES_MIN + 1 + Wanted::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.id);
        writer.put(&self.part);
        writer.put(&self.wanted);
    }

    fn take(reader: &mut Reader) -> Result<AskPart, WireError> {
        Ok(AskPart {
            id: reader.take("question")?,
            part: reader.take("number of the part")?,
            wanted: reader.take("wanted content")?,
        })
    }
}

impl Field for Wanted {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        match self {
            Wanted::Header => writer.put_byte(0),
            Wanted::Compare { covered } => {
                writer.put_byte(1);
                writer.put(covered);
            }
            Wanted::Groups { after } => {
                writer.put_byte(2);
                writer.put(after);
            }
            Wanted::Sessions(sessions) => {
                writer.put_byte(3);
                writer.put(sessions);
            }
            Wanted::More => writer.put_byte(4),
        }
    }

    fn take(reader: &mut Reader) -> Result<Wanted, WireError> {
        Ok(match reader.byte()? {
            0 => Wanted::Header,
            1 => Wanted::Compare {
                covered: reader.take("covered events")?,
            },
            2 => Wanted::Groups {
                after: reader.take("last client before")?,
            },
            3 => Wanted::Sessions(reader.take("question for sessions")?),
            4 => Wanted::More,
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

impl Field for ClientRange {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.after);
        writer.put(&self.up_to);
    }

    fn take(reader: &mut Reader) -> Result<ClientRange, WireError> {
        Ok(ClientRange {
            after: reader.take("client before a range")?,
            up_to: reader.take("last client of a range")?,
        })
    }
}

impl Field for AskSessions {
    const BYTES_MIN: usize = ClientRange::BYTES_MIN + Except::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.range);
        writer.put(&self.except);
    }

    fn take(reader: &mut Reader) -> Result<AskSessions, WireError> {
        Ok(AskSessions {
            range: reader.take("range of clients")?,
            except: reader.take("entries to leave out")?,
        })
    }
}

impl Field for Except {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        match self {
            Except::Shared => writer.put_byte(0),
            Except::Blocks(sessions) => {
                writer.put_byte(1);
                writer.put(sessions);
            }
            Except::Nothing => writer.put_byte(2),
        }
    }

    fn take(reader: &mut Reader) -> Result<Except, WireError> {
        Ok(match reader.byte()? {
            0 => Except::Shared,
            1 => Except::Blocks(reader.take("digests of sessions")?),
            2 => Except::Nothing,
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

impl Field for SessionBlocks {
    const BYTES_MIN: usize = ClientId::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.client);
        writer.put(&self.blocks);
    }

    fn take(reader: &mut Reader) -> Result<SessionBlocks, WireError> {
        Ok(SessionBlocks {
            client: reader.take("client of blocks")?,
            blocks: reader.take("blocks")?,
        })
    }
}

impl Field for Block {
    const BYTES_MIN: usize = EntryId::BYTES_MIN + Digest::BYTES;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.last);
        writer.put(&self.digest);
    }

    fn take(reader: &mut Reader) -> Result<Block, WireError> {
        Ok(Block {
            last: reader.take("last entry of a block")?,
            digest: reader.take("digest of a block")?,
        })
    }
}

impl Field for Digest {
    const BYTES_MIN: usize = Digest::BYTES;

    fn put(&self, writer: &mut Writer) {
        writer.put_fixed(&self.0);
    }

    fn take(reader: &mut Reader) -> Result<Digest, WireError> {
        reader.fixed().map(Digest)
    }
}
