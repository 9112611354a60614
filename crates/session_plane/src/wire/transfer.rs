//! Transfers: questions of an asker; `parts` has the answers of a holder.
//!
//! ```text
//! answer id | slot, question
//! ask slot  | answer id, positions, closing
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
    AnswerId, AskPart, AskSessions, AskSlot, Block, ClientRange, Digest, Except, QuestionId, SessionBlocks,
    TransferMessage, Wanted,
};
use crate::{ClientId, EntryId, Slot};

mod parts;

impl<V: WireValue, M: WireValue> WithKind for TransferMessage<V, M> {
    fn kind(&self) -> Kind {
        match self {
            TransferMessage::AskSlot(_) => Kind::AskSlot,
            TransferMessage::AskPart(_) => Kind::AskPart,
            TransferMessage::SlotPart(_) => Kind::SlotPart,
            TransferMessage::SlotMerged(_) => Kind::SlotMerged,
            TransferMessage::DropQuestion(_) => Kind::DropQuestion,
            TransferMessage::Offer { .. } => Kind::Offer,
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            TransferMessage::AskSlot(ask) => writer.put(ask),
            TransferMessage::AskPart(ask) => writer.put(ask),
            TransferMessage::SlotPart(part) => writer.put(part),
            TransferMessage::SlotMerged(id) | TransferMessage::DropQuestion(id) => writer.put(id),
            TransferMessage::Offer { slot } => writer.put(slot),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<TransferMessage<V, M>, WireError> {
        Ok(match kind {
            Kind::AskSlot => TransferMessage::AskSlot(reader.take("question")?),
            Kind::AskPart => TransferMessage::AskPart(reader.take("question")?),
            Kind::SlotPart => TransferMessage::SlotPart(reader.take("part")?),
            Kind::SlotMerged => TransferMessage::SlotMerged(reader.take("answer")?),
            Kind::DropQuestion => TransferMessage::DropQuestion(reader.take("answer")?),
            Kind::Offer => TransferMessage::Offer {
                slot: reader.take("slot")?,
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

impl Field for AskSlot {
    const BYTES_MIN: usize = AnswerId::BYTES_MIN + 2;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.id);
        writer.put(&self.positions);
        writer.put(&self.lacking);
    }

    fn take(reader: &mut Reader) -> Result<AskSlot, WireError> {
        Ok(AskSlot {
            id: reader.take("question")?,
            positions: reader.take("positions")?,
            lacking: reader.take("numbers that an asker lacks")?,
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
