//! Transfer: the one procedure by which a copy of a slot becomes whole and merged.
//!
//! An owner asks every present holder of its slots. A holder answers when it has taken each present
//! run up to the marker that made the asker an owner. It answers also when it is not whole. The
//! asker stages the answer and merges it at once. Joins, failover, returns and heals all do this.
//!
//! Only what differs is sent. A slot with equal entries on both sides is merged by one digest. Of
//! others both sides compare digests of the entries whose events both vectors cover. Vectors, pending
//! messages and single dots of an answer are as of its begin, and so are entries that beat others. Other
//! entries may be later.
//!
//! [`Asker`] and [`Holder`] are the two halves of a node, [`Handover`] says when a copy is deleted.
//! Methods take what has happened and append messages; nothing here does I/O or reads a clock. The
//! rules are 21 to 27 and 39 to 41 of `docs/internals/session-plane.md`.

mod answer;
mod answer_entries;
mod asker;
mod closing;
mod difference;
mod digest;
mod error;
mod exchange;
mod handover;
mod holder;
mod message;
mod sessions;
mod shared;
mod size;
mod staging;

pub use asker::{Asker, AskerLimits, PartReceived};
pub use closing::ClosingLimits;
pub use digest::{Digest, EntryCheck, TransferBytes, TransferValue};
pub(crate) use digest::{digest_of, entries_len};
pub use error::{AskError, PartError};
pub use handover::{CopyPlace, CopyUse, Handover, Offers};
pub use holder::{Held, Holder, HolderLimits, Served};
pub use message::{
    AnswerBegin, AnswerId, AskPart, AskSessions, AskSlot, AskSlots, Block, BlockAnswer, ClientRange, Except,
    Group, GroupsPart, HeaderPart, KeptEntry, ListedEntry, OwnEvent, PartContent, QuestionId, RestPart,
    RunPosition, SessionBlocks, SessionDifference, SessionsPart, SlotDigest, SlotDigests, SlotPart,
    SlotsMerged, TransferAction, TransferMessage, Wanted,
};

use digest::DigestBuilder;

#[cfg(test)]
mod tests;
