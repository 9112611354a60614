//! What a node says of itself to all others: its state, and whom it counts on.
//!
//! ```text
//! version u8 (1) | word | state u8 | reason u8 | heard word | count u16, for each that it counts on: node u64 |
//! a message of failure detection, or nothing
//!
//! word | run u32 | number u64
//! ```
//!
//! All numbers are big endian. A node's announcements have rising numbers, from 1 in each run; the greatest word is what counts, whatever order
//! they come in. What was heard is the receiver's own word, as far as the sender knows it: that confirms it. It is zero when nothing was heard.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::lifecycle::{NodeState, Reason};
use crate::{Incarnation, NodeId};

/// A node's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Which of the node's words it is.
    pub word: Word,
    /// How far it is.
    pub state: NodeState,
    /// Why.
    pub reason: Reason,
    /// Who is there and not from another side of a split, as it sees it; without itself.
    pub counts_on: BTreeSet<NodeId>,
}

/// Which word of a node: the later one is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// Which run; zero is none.
    pub run: Incarnation,
    /// Which of its words, from 1.
    pub number: u64,
}

impl Word {
    /// Nothing was heard.
    pub const NONE: Word = Word {
        run: Incarnation(0),
        number: 0,
    };
}

/// Bytes that are no announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnnouncementError {
    /// From a version of the program that this one does not know.
    #[error("an announcement of a node has version {found}, this program knows {VERSION}")]
    Version {
        /// The first byte.
        found: u8,
    },
    /// They do not follow their own form.
    #[error("an announcement of a node is malformed")]
    Malformed,
}

const VERSION: u8 = 1;

/// A node counts on so many others at most; it is a limit of the form, far above that of a cluster.
const NODES_MAX: usize = 4_096;

impl Announcement {
    /// As bytes, to somebody whose word was `heard`, with a message of failure detection.
    pub fn encode(&self, heard: Word, detection: &[u8]) -> Bytes {
        let mut bytes = BytesMut::with_capacity(29 + 8 * self.counts_on.len() + detection.len());
        bytes.put_u8(VERSION);
        put_word(self.word, &mut bytes);
        bytes.put_u8(code(&STATES, self.state));
        bytes.put_u8(code(&REASONS, self.reason));
        put_word(heard, &mut bytes);
        let counted = self.counts_on.iter().take(NODES_MAX);
        bytes.put_u16(u16::try_from(counted.len()).expect("fewer than 65,536"));
        counted.for_each(|node| bytes.put_u64(node.0));
        bytes.put_slice(detection);
        bytes.freeze()
    }

    /// What [`encode`](Self::encode) has written: the announcement, what was heard, and the message of failure detection.
    ///
    /// # Errors
    /// They are something else.
    pub fn decode(mut bytes: Bytes) -> Result<(Announcement, Word, Bytes), AnnouncementError> {
        let version = bytes.try_get_u8().map_err(malformed)?;
        if version != VERSION {
            return Err(AnnouncementError::Version { found: version });
        }
        let word = take_word(&mut bytes)?;
        let state = named(&STATES, bytes.try_get_u8().map_err(malformed)?)?;
        let reason = named(&REASONS, bytes.try_get_u8().map_err(malformed)?)?;
        let heard = take_word(&mut bytes)?;
        let count = usize::from(bytes.try_get_u16().map_err(malformed)?);
        if count > NODES_MAX || bytes.remaining() < count * 8 {
            return Err(AnnouncementError::Malformed);
        }
        let counts_on = (0..count).map(|_| NodeId(bytes.get_u64())).collect();
        let announcement = Announcement {
            word,
            state,
            reason,
            counts_on,
        };
        Ok((announcement, heard, bytes))
    }
}

/// Their numbers are their places from 1, and stay so.
const STATES: [NodeState; 7] = [
    NodeState::NotJoined,
    NodeState::Joining,
    NodeState::Running,
    NodeState::MergeMinority,
    NodeState::Merging,
    NodeState::ShuttingDown,
    NodeState::Dead,
];

/// Their numbers are their places from 1, and stay so.
const REASONS: [Reason; 10] = [
    Reason::Started,
    Reason::Found,
    Reason::LostTheCluster,
    Reason::HandedOver,
    Reason::SmallerSide,
    Reason::HandedOverToPrimary,
    Reason::SplitAgain,
    Reason::Stopping,
    Reason::Left,
    Reason::NotHeardOf,
];

fn code<T: PartialEq + Copy>(names: &[T], name: T) -> u8 {
    let place = names.iter().position(|known| *known == name);
    u8::try_from(place.expect("all are in the table") + 1).expect("a short table")
}

fn named<T: Copy>(names: &[T], code: u8) -> Result<T, AnnouncementError> {
    let place = usize::from(code).checked_sub(1);
    place
        .and_then(|place| names.get(place).copied())
        .ok_or(AnnouncementError::Malformed)
}

fn put_word(word: Word, bytes: &mut BytesMut) {
    bytes.put_u32(word.run.0);
    bytes.put_u64(word.number);
}

fn take_word(bytes: &mut Bytes) -> Result<Word, AnnouncementError> {
    let run = Incarnation(bytes.try_get_u32().map_err(malformed)?);
    let number = bytes.try_get_u64().map_err(malformed)?;
    Ok(Word { run, number })
}

fn malformed(_: bytes::TryGetError) -> AnnouncementError {
    AnnouncementError::Malformed
}
