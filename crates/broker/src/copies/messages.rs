//! What nodes say to each other about copies of sessions, as bytes. All numbers are big endian.
//!
//! ```text
//! version u8 (1) | kind u8 | incarnation of the sender u32 | ...
//!   1 begin   |                                       what I hold comes anew
//!   2 offer   | number u64 | client id | clock | connected u8 (0, 1)      I hold this session, and you are to have a copy
//!   3 all     |                                       whatever else you have a copy of, I do not hold any more
//!   4 changes | positions | for each session: number u64 | event u64 | what u8 (0 goes on, 1 begins, 2 has ended) | [1: client id]
//!             | [0, 1: changes]
//!   5 whole   | number u64 | client id | clock | flags u8 (bit 0 first, 1 last) | positions | changes
//!   6 answer  | number u64 | 0 I have it; 1 I want it whole; 2 there is another one: u8 | [2: clock | holder u64 | connected u8 (0, 1)]
//!   7 drop    | number u64                            others have it: you are to have a copy no more
//!   8 ask     | number u64                            say when I have all that I am to have
//!   9 done    | number u64                            you have
//!  10 ended   | client id | at u64 | clock | count u8, for each: node u64    this session has ended, at this Unix millisecond; these nodes do not hear of it now
//!  11 parted  | offer, and count u8, for each: node u64, number there u64, next sequence u64    offered, of a session that comes from copies of these: up to there it is the same
//!
//! positions  count u16, for each: node u64, incarnation u32, number u64    up to where the sender has taken what others sent
//! changes    count u32, for each: what u8 (1 session, 2 subscription, 3 no subscription, 4 delivery, 5 no delivery, 6 received, 7 released)
//!            | key behind the session's number (2 + n), none of 1 | value of 1, 2, 4: 0 u8 and (4 + n), or 1 u8 and which value before it u32
//! client id  (2 + n)                  clock  (4 + n)
//! ```
//!
//! A message to many sessions is one value in all their records: it is sent once in an item.

mod origins;

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes};
use cluster::NodeId;
use cluster::peer_header::PeerError;
use cluster::session_plane::VectorClock;
use cluster::session_plane::encoding::{decode_clock, encode_clock};
use mqtt::ids::SessionNumber;
use mqtt::origin::Position;
use protocol::Text;

use crate::cluster_records::copy::Mark;
use crate::peer_body::{flag, long, put_long, put_short, short};

const VERSION: u8 = 1;

const BEGIN: u8 = 1;
const OFFER: u8 = 2;
const ALL: u8 = 3;
const CHANGES: u8 = 4;
const WHOLE: u8 = 5;
const ANSWER: u8 = 6;
const DROP: u8 = 7;
const ASK: u8 = 8;
const DONE: u8 = 9;
const ENDED: u8 = 10;
const PARTED: u8 = 11;

/// Where a message says which session it is about: behind its version, its kind and the sender's incarnation.
const ABOUT: std::ops::RangeFrom<usize> = 6..;

/// Up to where a holder has taken what others sent.
pub(super) type Positions = BTreeMap<NodeId, Position>;

/// What a node says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CopyMessage {
    Begin,
    Offer {
        number: SessionNumber,
        client_id: Text,
        clock: VectorClock,
        is_connected: bool,
        /// The sessions that it comes from, which may still be there: their nodes and numbers, and from where on it is another one.
        origins: Vec<Mark>,
    },
    All,
    Changes(Positions, Vec<Piece>),
    Whole(Box<Part>),
    Answer(SessionNumber, CopyAnswer),
    Drop(SessionNumber),
    Ask(u64),
    Done(u64),
    Ended(Ended),
}

/// A session that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) client_id: Text,
    /// When, in Unix milliseconds.
    pub(super) at: u64,
    pub(super) clock: VectorClock,
    /// The nodes that do not hear of it now, and may have it still.
    pub(super) away: Vec<NodeId>,
}

/// A session of the sender's, or one of the receiver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Theirs(SessionNumber),
    Own(SessionNumber),
}

/// What the owner of a copy says to an offer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CopyAnswer {
    Have,
    Want,
    /// It has another one.
    Other(Other),
}

/// A session of the same client that somebody holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Other {
    pub(super) clock: VectorClock,
    pub(super) holder: NodeId,
    pub(super) is_connected: bool,
}

/// What a batch has changed of one session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) number: SessionNumber,
    /// Its number among the holder's changes of the session.
    pub(super) event: u64,
    pub(super) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    GoesOn(Vec<Change>),
    Begins(Text, Vec<Change>),
    HasEnded,
}

/// A part of a whole session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) number: SessionNumber,
    pub(super) client_id: Text,
    pub(super) clock: VectorClock,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    pub(super) positions: Positions,
    pub(super) changes: Vec<Change>,
}

/// A write, without the session's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The session's own record, with the holder's number.
    Session(Bytes),
    Subscribed(Bytes, Bytes),
    Unsubscribed(Bytes),
    Delivery(Bytes, Bytes),
    Delivered(Bytes),
    Received(Bytes),
    Released(Bytes),
}

/// Puts an item together.
#[derive(Debug)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// Where values are in memory, and which they were.
    values: BTreeMap<(usize, usize), u32>,
}

impl Writer {
    pub(super) fn changes(incarnation: u32, positions: &Positions) -> Self {
        let mut bytes = begin(CHANGES, incarnation);
        put_positions(&mut bytes, positions);
        Self {
            bytes,
            values: BTreeMap::new(),
        }
    }

    pub(super) fn part(incarnation: u32, part: &Part) -> Bytes {
        let mut bytes = begin(WHOLE, incarnation);
        bytes.put_u64(part.number.0);
        put_short(&mut bytes, part.client_id.as_bytes());
        put_long(&mut bytes, &encode_clock(&part.clock));
        bytes.put_u8(u8::from(part.is_first) | u8::from(part.is_last) << 1);
        put_positions(&mut bytes, &part.positions);
        let mut writer = Self {
            bytes,
            values: BTreeMap::new(),
        };
        writer.put_changes(&part.changes);
        writer.finish()
    }

    /// Appends what has changed of a session.
    pub(super) fn piece(&mut self, piece: &Piece) {
        self.bytes.put_u64(piece.number.0);
        self.bytes.put_u64(piece.event);
        match &piece.what {
            What::GoesOn(changes) => {
                self.bytes.put_u8(0);
                self.put_changes(changes);
            }
            What::Begins(client_id, changes) => {
                self.bytes.put_u8(1);
                put_short(&mut self.bytes, client_id.as_bytes());
                self.put_changes(changes);
            }
            What::HasEnded => self.bytes.put_u8(2),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn finish(self) -> Bytes {
        self.bytes.into()
    }

    fn put_changes(&mut self, changes: &[Change]) {
        self.bytes
            .put_u32(u32::try_from(changes.len()).expect("fewer than 2^32 changes"));
        for change in changes {
            match change {
                Change::Session(value) => {
                    self.bytes.put_u8(1);
                    self.put_value(value);
                }
                Change::Subscribed(key, value) => self.put_with_value(2, key, value),
                Change::Unsubscribed(key) => self.put_key(3, key),
                Change::Delivery(key, value) => self.put_with_value(4, key, value),
                Change::Delivered(key) => self.put_key(5, key),
                Change::Received(key) => self.put_key(6, key),
                Change::Released(key) => self.put_key(7, key),
            }
        }
    }

    fn put_with_value(&mut self, what: u8, key: &Bytes, value: &Bytes) {
        self.put_key(what, key);
        self.put_value(value);
    }

    fn put_key(&mut self, what: u8, key: &Bytes) {
        self.bytes.put_u8(what);
        put_short(&mut self.bytes, key);
    }

    fn put_value(&mut self, value: &Bytes) {
        let place = (value.as_ptr().addr(), value.len());
        let next = u32::try_from(self.values.len()).expect("fewer than 2^32 values");
        if let Some(known) = self.values.get(&place) {
            self.bytes.put_u8(1);
            self.bytes.put_u32(*known);
            return;
        }
        self.values.insert(place, next);
        self.bytes.put_u8(0);
        put_long(&mut self.bytes, value);
    }
}

/// The bytes of whatever has no changes.
pub(super) fn encode(incarnation: u32, message: &CopyMessage) -> Bytes {
    let simple = |kind, number: Option<u64>| {
        let mut bytes = begin(kind, incarnation);
        bytes.extend(number.into_iter().flat_map(u64::to_be_bytes));
        bytes
    };
    let bytes = match message {
        CopyMessage::Begin => simple(BEGIN, None),
        CopyMessage::All => simple(ALL, None),
        CopyMessage::Drop(number) => simple(DROP, Some(number.0)),
        CopyMessage::Ask(number) => simple(ASK, Some(*number)),
        CopyMessage::Done(number) => simple(DONE, Some(*number)),
        CopyMessage::Offer {
            number,
            client_id,
            clock,
            is_connected,
            origins,
        } => {
            let kind = if origins.is_empty() { OFFER } else { PARTED };
            let mut bytes = simple(kind, Some(number.0));
            put_short(&mut bytes, client_id.as_bytes());
            put_long(&mut bytes, &encode_clock(clock));
            bytes.put_u8(u8::from(*is_connected));
            if !origins.is_empty() {
                origins::put(&mut bytes, origins);
            }
            bytes
        }
        CopyMessage::Ended(ended) => {
            let mut bytes = simple(ENDED, None);
            put_short(&mut bytes, ended.client_id.as_bytes());
            bytes.put_u64(ended.at);
            put_long(&mut bytes, &encode_clock(&ended.clock));
            bytes.put_u8(u8::try_from(ended.away.len()).expect("fewer than 64 nodes"));
            ended.away.iter().for_each(|node| bytes.put_u64(node.0));
            bytes
        }
        CopyMessage::Answer(number, answer) => {
            let mut bytes = simple(ANSWER, Some(number.0));
            match answer {
                CopyAnswer::Have => bytes.put_u8(0),
                CopyAnswer::Want => bytes.put_u8(1),
                CopyAnswer::Other(other) => {
                    bytes.put_u8(2);
                    put_long(&mut bytes, &encode_clock(&other.clock));
                    bytes.put_u64(other.holder.0);
                    bytes.put_u8(u8::from(other.is_connected));
                }
            }
            bytes
        }
        CopyMessage::Whole(part) => return Writer::part(incarnation, part),
        CopyMessage::Changes(positions, pieces) => {
            let mut writer = Writer::changes(incarnation, positions);
            pieces.iter().for_each(|piece| writer.piece(piece));
            return writer.finish();
        }
    };
    bytes.into()
}

/// What a node says, and in which of its runs.
pub(super) fn decode(body: &Bytes) -> Result<(u32, CopyMessage), PeerError> {
    let version = body.first().copied().unwrap_or_default();
    if version != VERSION {
        return Err(PeerError::Version { found: version });
    }
    read(body.slice(1..)).ok_or(PeerError::Damaged)
}

/// Which session a message is about that cannot be read. `None`: about none, or about several.
pub(super) fn about(body: &Bytes) -> Option<About> {
    let (kind, after) = (body.get(1)?, body.get(ABOUT)?);
    let number = SessionNumber(u64::from_be_bytes(*after.first_chunk()?));
    match *kind {
        OFFER | PARTED | WHOLE => Some(About::Theirs(number)),
        ANSWER => Some(About::Own(number)),
        _ => None,
    }
}

fn read(mut body: Bytes) -> Option<(u32, CopyMessage)> {
    let kind = body.try_get_u8().ok()?;
    let incarnation = body.try_get_u32().ok()?;
    let body = &mut body;
    let message = match kind {
        BEGIN => CopyMessage::Begin,
        ALL => CopyMessage::All,
        DROP => CopyMessage::Drop(number(body)?),
        ASK => CopyMessage::Ask(body.try_get_u64().ok()?),
        DONE => CopyMessage::Done(body.try_get_u64().ok()?),
        ENDED => CopyMessage::Ended(ended(body)?),
        OFFER | PARTED => CopyMessage::Offer {
            number: number(body)?,
            client_id: client_id(body)?,
            clock: clock(body)?,
            is_connected: flag(body)?,
            origins: if kind == PARTED {
                origins::take(body)?
            } else {
                Vec::new()
            },
        },
        ANSWER => {
            let number = number(body)?;
            let answer = match body.try_get_u8().ok()? {
                0 => CopyAnswer::Have,
                1 => CopyAnswer::Want,
                2 => CopyAnswer::Other(Other {
                    clock: clock(body)?,
                    holder: NodeId(body.try_get_u64().ok()?),
                    is_connected: flag(body)?,
                }),
                _ => return None,
            };
            CopyMessage::Answer(number, answer)
        }
        CHANGES => {
            let positions = positions(body)?;
            let (mut pieces, mut values) = (Vec::new(), Vec::new());
            while !body.is_empty() {
                pieces.push(piece(body, &mut values)?);
            }
            CopyMessage::Changes(positions, pieces)
        }
        WHOLE => {
            let (number, client_id, clock) = (number(body)?, client_id(body)?, clock(body)?);
            let flags = body.try_get_u8().ok()?;
            let positions = positions(body)?;
            let changes = changes(body, &mut Vec::new())?;
            CopyMessage::Whole(Box::new(Part {
                number,
                client_id,
                clock,
                is_first: flags & 1 != 0,
                is_last: flags & 2 != 0,
                positions,
                changes,
            }))
        }
        _ => return None,
    };
    body.is_empty().then_some((incarnation, message))
}

fn ended(body: &mut Bytes) -> Option<Ended> {
    let client_id = client_id(body)?;
    let (at, clock) = (body.try_get_u64().ok()?, clock(body)?);
    let count = body.try_get_u8().ok()?;
    let away = (0..count).map(|_| Some(NodeId(body.try_get_u64().ok()?)));
    let away = away.collect::<Option<_>>()?;
    Some(Ended {
        client_id,
        at,
        clock,
        away,
    })
}

fn piece(body: &mut Bytes, values: &mut Vec<Bytes>) -> Option<Piece> {
    let (number, event) = (number(body)?, body.try_get_u64().ok()?);
    let what = match body.try_get_u8().ok()? {
        0 => What::GoesOn(changes(body, values)?),
        1 => What::Begins(client_id(body)?, changes(body, values)?),
        2 => What::HasEnded,
        _ => return None,
    };
    Some(Piece { number, event, what })
}

fn changes(body: &mut Bytes, values: &mut Vec<Bytes>) -> Option<Vec<Change>> {
    let count = body.try_get_u32().ok()?;
    let mut changes = Vec::new();
    for _ in 0..count {
        changes.push(match body.try_get_u8().ok()? {
            1 => Change::Session(value(body, values)?),
            2 => Change::Subscribed(short(body)?, value(body, values)?),
            3 => Change::Unsubscribed(short(body)?),
            4 => Change::Delivery(short(body)?, value(body, values)?),
            5 => Change::Delivered(short(body)?),
            6 => Change::Received(short(body)?),
            7 => Change::Released(short(body)?),
            _ => return None,
        });
    }
    Some(changes)
}

fn value(body: &mut Bytes, values: &mut Vec<Bytes>) -> Option<Bytes> {
    let is_known = body.try_get_u8().ok()?;
    let number = usize::try_from(body.try_get_u32().ok()?).ok()?;
    match is_known {
        0 if number <= body.len() => {
            // In memory of its own: it stays for longer than the frame it came in.
            let value = Bytes::copy_from_slice(&body.split_to(number));
            values.push(value.clone());
            Some(value)
        }
        1 => values.get(number).cloned(),
        _ => None,
    }
}

fn positions(body: &mut Bytes) -> Option<Positions> {
    let count = body.try_get_u16().ok()?;
    let mut positions = Positions::new();
    for _ in 0..count {
        let node = NodeId(body.try_get_u64().ok()?);
        let incarnation = body.try_get_u32().ok()?;
        let number = body.try_get_u64().ok()?;
        positions.insert(node, Position { incarnation, number });
    }
    Some(positions)
}

fn number(body: &mut Bytes) -> Option<SessionNumber> {
    Some(SessionNumber(body.try_get_u64().ok()?))
}

fn client_id(body: &mut Bytes) -> Option<Text> {
    let text = Text::from_bytes(Bytes::copy_from_slice(&short(body)?)).ok()?;
    (!text.is_empty()).then_some(text)
}

fn clock(body: &mut Bytes) -> Option<VectorClock> {
    decode_clock(&long(body)?).ok()
}

fn begin(kind: u8, incarnation: u32) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind];
    bytes.put_u32(incarnation);
    bytes
}

fn put_positions(bytes: &mut Vec<u8>, positions: &Positions) {
    bytes.put_u16(u16::try_from(positions.len()).expect("a cluster has few nodes"));
    for (node, position) in positions {
        bytes.put_u64(node.0);
        bytes.put_u32(position.incarnation);
        bytes.put_u64(position.number);
    }
}

#[cfg(test)]
mod tests;
