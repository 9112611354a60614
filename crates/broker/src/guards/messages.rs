//! What nodes say to each other about wills that they guard, as bytes. All numbers are big endian.
//!
//! ```text
//! version u8 (1) | kind u8 | incarnation of the sender u32 | ...
//!   1 begin     |                                        my wills that you guard come anew
//!   2 guard     | client id | session                    guard this session's will: the record (mqtt/src/records/session.rs) has its number, owner and will
//!   3 all       |                                        whatever else you guard for me, guard it no more
//!   4 gone      | numbers                                guard these no more
//!   5 ask       | question u64 | numbers                 the same, and say so: they are mine then, unless you have published them
//!   6 let go    | question u64 | numbers                 I guard these no more
//!   7 published | node u64 | numbers                     these wills of that node were published
//!   8 heard     | numbers                                I know that these wills of mine were: forget that
//!
//! client id  (2 + n)              numbers  of sessions, u64 each, to the end
//! ```

use bytes::{Buf, BufMut, Bytes};
use cluster::NodeId;
use cluster::peer_header::PeerError;
use mqtt::ids::SessionNumber;
use protocol::Text;

use crate::peer_body::{put_short, short};

const VERSION: u8 = 1;

const BEGIN: u8 = 1;
const GUARD: u8 = 2;
const ALL: u8 = 3;
const GONE: u8 = 4;
const ASK: u8 = 5;
const LET_GO: u8 = 6;
const PUBLISHED: u8 = 7;
const HEARD: u8 = 8;

/// What a node says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WillMessage {
    Begin,
    Guard {
        client_id: Text,
        /// The session's record.
        record: Bytes,
    },
    All,
    Gone(Vec<SessionNumber>),
    Ask(u64, Vec<SessionNumber>),
    LetGo(u64, Vec<SessionNumber>),
    Published(NodeId, Vec<SessionNumber>),
    Heard(Vec<SessionNumber>),
}

pub(super) fn encode(incarnation: u32, message: &WillMessage) -> Bytes {
    let mut bytes = Vec::new();
    let kind = match message {
        WillMessage::Begin => BEGIN,
        WillMessage::Guard { .. } => GUARD,
        WillMessage::All => ALL,
        WillMessage::Gone(_) => GONE,
        WillMessage::Ask(..) => ASK,
        WillMessage::LetGo(..) => LET_GO,
        WillMessage::Published(..) => PUBLISHED,
        WillMessage::Heard(_) => HEARD,
    };
    bytes.put_u8(VERSION);
    bytes.put_u8(kind);
    bytes.put_u32(incarnation);
    match message {
        WillMessage::Begin | WillMessage::All => {}
        WillMessage::Guard { client_id, record } => {
            put_short(&mut bytes, client_id.as_bytes());
            bytes.put_slice(record);
        }
        WillMessage::Gone(numbers) | WillMessage::Heard(numbers) => put_numbers(&mut bytes, numbers),
        WillMessage::Ask(question, numbers) | WillMessage::LetGo(question, numbers) => {
            bytes.put_u64(*question);
            put_numbers(&mut bytes, numbers);
        }
        WillMessage::Published(node, numbers) => {
            bytes.put_u64(node.0);
            put_numbers(&mut bytes, numbers);
        }
    }
    bytes.into()
}

/// What these bytes say, and their sender's incarnation.
pub(super) fn decode(bytes: &Bytes) -> Result<(u32, WillMessage), PeerError> {
    let version = bytes.first().copied().unwrap_or_default();
    if version != VERSION {
        return Err(PeerError::Version { found: version });
    }
    read(bytes.slice(1..)).ok_or(PeerError::Damaged)
}

fn read(mut bytes: Bytes) -> Option<(u32, WillMessage)> {
    let kind = bytes.try_get_u8().ok()?;
    let incarnation = bytes.try_get_u32().ok()?;
    let message = match kind {
        BEGIN if bytes.is_empty() => WillMessage::Begin,
        ALL if bytes.is_empty() => WillMessage::All,
        GUARD => WillMessage::Guard {
            client_id: Text::from_bytes(short(&mut bytes)?).ok()?,
            record: bytes,
        },
        GONE => WillMessage::Gone(numbers(&bytes)?),
        HEARD => WillMessage::Heard(numbers(&bytes)?),
        ASK => WillMessage::Ask(bytes.try_get_u64().ok()?, numbers(&bytes)?),
        LET_GO => WillMessage::LetGo(bytes.try_get_u64().ok()?, numbers(&bytes)?),
        PUBLISHED => WillMessage::Published(NodeId(bytes.try_get_u64().ok()?), numbers(&bytes)?),
        _ => return None,
    };
    Some((incarnation, message))
}

fn put_numbers(bytes: &mut Vec<u8>, numbers: &[SessionNumber]) {
    numbers.iter().for_each(|number| bytes.put_u64(number.0));
}

fn numbers(bytes: &Bytes) -> Option<Vec<SessionNumber>> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    let numbers = numbers
        .iter()
        .map(|number| SessionNumber(u64::from_be_bytes(*number)));
    rest.is_empty().then(|| numbers.collect())
}

#[cfg(test)]
mod tests;
