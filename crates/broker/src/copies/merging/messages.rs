//! What nodes say to each other when a session is to be one again, as bytes. All numbers are big endian.
//!
//! ```text
//! version u8 (2) | kind u8 | number u64, mostly of the session that gives way | ...
//!   1 leave    | client id | flags u8 (bit 0 first, 1 last, 2 a client was here, 3 marked, 4 filters incomplete,
//!              | 5 begun with Clean Start, 6 receiver lost) | record (4 + n)
//!              | clock (4 + n) | [3: node u64, number u64, next sequence u64] | [6: next sequence u64] | filters subscribed to | filters unsubscribed from
//!              | count u32, of each subscription: filter, value (4 + n)
//!   2 joined   | flags u8 (bit 0 from, 1 what is before is the same, 2 taken over) | [0: next sequence u64]
//!              | [2: from: node u64, at its loss after: run u32, word u64]
//!   3 fence    | node u64                            say what of your messages that node gets as well; the number is this question's
//!   4 fenced   | incarnation u32 | number u64 | count u16, of each redirection: after u64, up to u64
//!              | count u16, of each loss: node u64, after: run u32, word u64, up to u64
//!   5 leavings | flags u8 (bit 0 first, 1 last) | sent below u64
//!              | count u32, of each delivery that is left of the time before: sequence u64, packet id if it is released or 0 u16
//!              | count u16, of each received packet id: u16 | count u32, of each delivery: sequence u64, class u8 (0, 1), value (4 + n)
//!   6 merged   | is there u8 (0, 1)                  1: I have it; 0: I have no such session
//!   7 sound                                           answer behind all that you want and have not told me; the number is this question's
//!   8 sounded
//!   9 acknowledged | runs (`mqtt/src/session/got.rs`)
//!  10 crossed                                           your session stays: mine gives way
//!
//! filters    count u16, of each: (2 + n)             filter  as the key of a subscription ends, (2 + n)
//! client id  (2 + n)
//! ```

use bytes::{Buf, BufMut, Bytes};
use cluster::peer_header::PeerError;
use cluster::session_plane::VectorClock;
use cluster::session_plane::announcement::Word;
use cluster::session_plane::encoding::{decode_clock, encode_clock};
use cluster::{Incarnation, NodeId};
use mqtt::ids::SessionNumber;
use mqtt::session::got::Got;
use protocol::Text;
use protocol::packet::PacketId;

use crate::cluster_records::copy::Mark;
use crate::peer_body::{flag, long, put_long, put_short, short};
use crate::routes::{LossSaid, Since, TakenAt};

const VERSION: u8 = 2;

const LEAVE: u8 = 1;
const JOINED: u8 = 2;
const FENCE: u8 = 3;
const FENCED: u8 = 4;
const LEAVINGS: u8 = 5;
const MERGED: u8 = 6;
const SOUND: u8 = 7;
const SOUNDED: u8 = 8;
const ACKNOWLEDGED: u8 = 9;
const CROSSED: u8 = 10;

/// What a node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MergeMessage {
    /// A session gives way to that of the receiver.
    Leave(Box<Leave>),
    /// The receiver's subscriptions are here, and known to all.
    Joined(SessionNumber, Joined),
    /// The receiver is to say, behind all that it has sent before, since when this other node gets the same.
    Fence(u64, NodeId),
    Fenced(u64, Since),
    Leavings(Box<Leavings>),
    /// Everything is here, or (false) there is no such session.
    Merged(SessionNumber, bool),
    /// The receiver is to answer behind all that its sessions want.
    Sound(u64),
    Sounded(u64),
    /// What the client has acknowledged of late to a session that gives way: said before what that one leaves.
    Acknowledged(SessionNumber, Got),
    /// The receiver's session stays: the one that it was left to gives way itself, and its `Leave` has gone before.
    Crossed(SessionNumber),
}

/// The session that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Joined {
    /// What may be missing there of the deliveries of the one that gives way.
    pub(super) base: Option<From>,
    /// Where it comes from, if its node has not begun it.
    pub(super) taken: Option<TakenAt>,
}

/// From where on deliveries may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct From {
    pub(super) sequence: u64,
    /// Lower sequences are the same deliveries at both nodes.
    pub(super) is_common: bool,
}

impl Leave {
    /// Of a session, with nothing in it.
    pub(super) fn of(number: SessionNumber, client_id: Text) -> Self {
        Self {
            number,
            client_id,
            is_first: false,
            is_last: false,
            had_client: false,
            is_incomplete: false,
            is_clean: false,
            record: Bytes::new(),
            clock: VectorClock::new(),
            mark: None,
            lost_at: None,
            subscribed: Vec::new(),
            unsubscribed: Vec::new(),
            subscriptions: Vec::new(),
        }
    }
}

impl From {
    /// What is before is the same at both nodes.
    pub(super) fn common(sequence: u64) -> Self {
        Self {
            sequence,
            is_common: true,
        }
    }

    pub(super) fn new(sequence: u64) -> Self {
        Self {
            sequence,
            is_common: false,
        }
    }
}

/// The subscriptions of a session that gives way, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leave {
    pub(super) number: SessionNumber,
    pub(super) client_id: Text,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    pub(super) had_client: bool,
    pub(super) is_incomplete: bool,
    /// The client has begun it anew.
    pub(super) is_clean: bool,
    /// The session's own record.
    pub(super) record: Bytes,
    /// The session's clock; empty in other parts than the first.
    pub(super) clock: VectorClock,
    /// From where it was taken over.
    pub(super) mark: Option<Mark>,
    /// The next sequence when the receiver was lost, which had a copy.
    pub(super) lost_at: Option<u64>,
    pub(super) subscribed: Vec<Bytes>,
    pub(super) unsubscribed: Vec<Bytes>,
    pub(super) subscriptions: Vec<(Bytes, Bytes)>,
}

/// What else a session leaves, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leavings {
    pub(super) number: SessionNumber,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    pub(super) sent_below: u64,
    /// What is there of the deliveries that are common.
    pub(super) remaining: Vec<(u64, Option<PacketId>)>,
    pub(super) received: Vec<PacketId>,
    pub(super) deliveries: Vec<Left>,
}

/// A delivery that is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    pub(super) sequence: u64,
    /// The receiver has got the message as well, if its session was subscribed to it.
    pub(super) is_known: bool,
    /// Its record.
    pub(super) value: Bytes,
}

/// The bytes.
pub(super) fn encode(message: &MergeMessage) -> Bytes {
    let begin = |kind: u8, number: u64| {
        let mut bytes = vec![VERSION, kind];
        bytes.put_u64(number);
        bytes
    };
    let bytes = match message {
        MergeMessage::Leave(leave) => put_leave(begin(LEAVE, leave.number.0), leave),
        MergeMessage::Joined(number, joined) => put_joined(begin(JOINED, number.0), *joined),
        MergeMessage::Fence(number, node) => {
            let mut bytes = begin(FENCE, *number);
            bytes.put_u64(node.0);
            bytes
        }
        MergeMessage::Fenced(number, since) => put_since(begin(FENCED, *number), since),
        MergeMessage::Leavings(leavings) => put_leavings(begin(LEAVINGS, leavings.number.0), leavings),
        MergeMessage::Merged(number, is_there) => {
            let mut bytes = begin(MERGED, number.0);
            bytes.put_u8(u8::from(*is_there));
            bytes
        }
        MergeMessage::Sound(number) => begin(SOUND, *number),
        MergeMessage::Sounded(number) => begin(SOUNDED, *number),
        MergeMessage::Acknowledged(number, got) => {
            let mut bytes = begin(ACKNOWLEDGED, number.0);
            got.put(&mut bytes);
            bytes
        }
        MergeMessage::Crossed(number) => begin(CROSSED, number.0),
    };
    bytes.into()
}

fn put_joined(mut bytes: Vec<u8>, Joined { base, taken }: Joined) -> Vec<u8> {
    let is_common = base.is_some_and(|from| from.is_common);
    bytes.put_u8(flags_of(&[base.is_some(), is_common, taken.is_some()]));
    bytes.extend(base.iter().flat_map(|from| from.sequence.to_be_bytes()));
    if let Some((from, at)) = taken {
        bytes.put_u64(from.0);
        put_word(&mut bytes, at);
    }
    bytes
}

fn put_since(mut bytes: Vec<u8>, since: &Since) -> Vec<u8> {
    bytes.put_u32(since.incarnation);
    bytes.put_u64(since.number);
    bytes.put_u16(u16::try_from(since.redirected.len()).expect("few are remembered"));
    for (after, up_to) in &since.redirected {
        bytes.put_u64(*after);
        bytes.put_u64(*up_to);
    }
    bytes.put_u16(u16::try_from(since.losses.len()).expect("few are remembered"));
    for said in &since.losses {
        bytes.put_u64(said.lost.0);
        put_word(&mut bytes, said.after);
        bytes.put_u64(said.number);
    }
    bytes
}

fn put_word(bytes: &mut Vec<u8>, word: Word) {
    bytes.put_u32(word.run.0);
    bytes.put_u64(word.number);
}

fn put_leave(mut bytes: Vec<u8>, leave: &Leave) -> Vec<u8> {
    put_short(&mut bytes, leave.client_id.as_bytes());
    let flags = [
        leave.is_first,
        leave.is_last,
        leave.had_client,
        leave.mark.is_some(),
        leave.is_incomplete,
        leave.is_clean,
        leave.lost_at.is_some(),
    ];
    bytes.put_u8(flags_of(&flags));
    put_long(&mut bytes, &leave.record);
    put_long(&mut bytes, &encode_clock(&leave.clock));
    if let Some(mark) = leave.mark {
        bytes.put_u64(mark.node.0);
        bytes.put_u64(mark.number.map_or(0, |number| number.0));
        bytes.put_u64(mark.next_sequence);
    }
    bytes.extend(leave.lost_at.into_iter().flat_map(u64::to_be_bytes));
    for filters in [&leave.subscribed, &leave.unsubscribed] {
        bytes.put_u16(u16::try_from(filters.len()).expect("few filters are marked"));
        filters.iter().for_each(|filter| put_short(&mut bytes, filter));
    }
    put_count(&mut bytes, leave.subscriptions.len());
    for (filter, value) in &leave.subscriptions {
        put_short(&mut bytes, filter);
        put_long(&mut bytes, value);
    }
    bytes
}

fn put_leavings(mut bytes: Vec<u8>, leavings: &Leavings) -> Vec<u8> {
    bytes.put_u8(flags_of(&[leavings.is_first, leavings.is_last]));
    bytes.put_u64(leavings.sent_below);
    put_count(&mut bytes, leavings.remaining.len());
    for (sequence, packet_id) in &leavings.remaining {
        bytes.put_u64(*sequence);
        bytes.put_u16(packet_id.map_or(0, PacketId::get));
    }
    bytes.put_u16(u16::try_from(leavings.received.len()).expect("there are 65,535 packet ids"));
    leavings
        .received
        .iter()
        .for_each(|packet_id| bytes.put_u16(packet_id.get()));
    put_count(&mut bytes, leavings.deliveries.len());
    for left in &leavings.deliveries {
        bytes.put_u64(left.sequence);
        bytes.put_u8(u8::from(left.is_known));
        put_long(&mut bytes, &left.value);
    }
    bytes
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.put_u32(u32::try_from(count).expect("fewer than 2^32 of a session"));
}

fn flags_of(flags: &[bool]) -> u8 {
    let bits = flags
        .iter()
        .enumerate()
        .map(|(bit, is_set)| u8::from(*is_set) << bit);
    bits.sum()
}

/// What a node says.
///
/// # Errors
/// If it is nothing that this version says.
pub(super) fn decode(body: &Bytes) -> Result<MergeMessage, PeerError> {
    let version = body.first().copied().unwrap_or_default();
    if version != VERSION {
        return Err(PeerError::Version { found: version });
    }
    read(body.slice(1..)).ok_or(PeerError::Damaged)
}

fn read(mut body: Bytes) -> Option<MergeMessage> {
    let body = &mut body;
    let kind = body.try_get_u8().ok()?;
    let number = body.try_get_u64().ok()?;
    let message = match kind {
        LEAVE => MergeMessage::Leave(Box::new(leave(body, SessionNumber(number))?)),
        JOINED => MergeMessage::Joined(SessionNumber(number), joined(body)?),
        FENCE => MergeMessage::Fence(number, NodeId(body.try_get_u64().ok()?)),
        FENCED => MergeMessage::Fenced(number, since(body)?),
        LEAVINGS => MergeMessage::Leavings(Box::new(leavings(body, SessionNumber(number))?)),
        MERGED => MergeMessage::Merged(SessionNumber(number), flag(body)?),
        SOUND => MergeMessage::Sound(number),
        SOUNDED => MergeMessage::Sounded(number),
        ACKNOWLEDGED => MergeMessage::Acknowledged(SessionNumber(number), Got::read(body)?),
        CROSSED => MergeMessage::Crossed(SessionNumber(number)),
        _ => return None,
    };
    body.is_empty().then_some(message)
}

fn joined(body: &mut Bytes) -> Option<Joined> {
    let flags = body.try_get_u8().ok();
    let flags = flags.filter(|flags| flags >> 3 == 0 && flags & 3 != 2)?;
    let sequence = (flags & 1 != 0).then(|| body.try_get_u64()).transpose().ok()?;
    let base = sequence.map(|sequence| From {
        sequence,
        is_common: flags & 2 != 0,
    });
    let taken = match flags & 4 {
        0 => None,
        _ => Some((NodeId(body.try_get_u64().ok()?), word(body)?)),
    };
    Some(Joined { base, taken })
}

fn since(body: &mut Bytes) -> Option<Since> {
    let incarnation = body.try_get_u32().ok()?;
    let number = body.try_get_u64().ok()?;
    let count = body.try_get_u16().ok()?;
    let redirected = (0..count).map(|_| Some((body.try_get_u64().ok()?, body.try_get_u64().ok()?)));
    let redirected = redirected.collect::<Option<_>>()?;
    let count = body.try_get_u16().ok()?;
    let losses = (0..count).map(|_| {
        Some(LossSaid {
            lost: NodeId(body.try_get_u64().ok()?),
            after: word(body)?,
            number: body.try_get_u64().ok()?,
        })
    });
    Some(Since {
        incarnation,
        number,
        redirected,
        losses: losses.collect::<Option<_>>()?,
    })
}

fn word(body: &mut Bytes) -> Option<Word> {
    Some(Word {
        run: Incarnation(body.try_get_u32().ok()?),
        number: body.try_get_u64().ok()?,
    })
}

fn leave(body: &mut Bytes, number: SessionNumber) -> Option<Leave> {
    let client_id = Text::from_bytes(detached(&short(body)?)).ok()?;
    let flags = body.try_get_u8().ok().filter(|flags| flags >> 7 == 0)?;
    let record = detached(&long(body)?);
    let clock = decode_clock(&long(body)?).ok()?;
    let mark = if flags & 8 != 0 { Some(mark(body)?) } else { None };
    let lost_at = if flags & 64 != 0 {
        Some(body.try_get_u64().ok()?)
    } else {
        None
    };
    let mut filters = || -> Option<Vec<Bytes>> {
        let count = body.try_get_u16().ok()?;
        (0..count).map(|_| Some(detached(&short(body)?))).collect()
    };
    let (subscribed, unsubscribed) = (filters()?, filters()?);
    let count = body.try_get_u32().ok()?;
    let subscriptions = (0..count).map(|_| Some((detached(&short(body)?), detached(&long(body)?))));
    let subscriptions = subscriptions.collect::<Option<_>>()?;
    (!client_id.is_empty()).then_some(Leave {
        number,
        client_id,
        is_first: flags & 1 != 0,
        is_last: flags & 2 != 0,
        had_client: flags & 4 != 0,
        is_incomplete: flags & 16 != 0,
        is_clean: flags & 32 != 0,
        record,
        clock,
        mark,
        lost_at,
        subscribed,
        unsubscribed,
        subscriptions,
    })
}

fn mark(body: &mut Bytes) -> Option<Mark> {
    Some(Mark {
        node: NodeId(body.try_get_u64().ok()?),
        number: Some(SessionNumber(body.try_get_u64().ok()?)),
        next_sequence: body.try_get_u64().ok()?,
    })
}

fn leavings(body: &mut Bytes, number: SessionNumber) -> Option<Leavings> {
    let flags = body.try_get_u8().ok().filter(|flags| flags >> 2 == 0)?;
    let sent_below = body.try_get_u64().ok()?;
    let count = body.try_get_u32().ok()?;
    let remaining = (0..count).map(|_| {
        let sequence = body.try_get_u64().ok()?;
        Some((sequence, PacketId::new(body.try_get_u16().ok()?)))
    });
    let remaining = remaining.collect::<Option<_>>()?;
    let count = body.try_get_u16().ok()?;
    let received = (0..count).map(|_| PacketId::new(body.try_get_u16().ok()?));
    let received = received.collect::<Option<_>>()?;
    let count = body.try_get_u32().ok()?;
    let deliveries = (0..count).map(|_| {
        Some(Left {
            sequence: body.try_get_u64().ok()?,
            is_known: flag(body)?,
            value: detached(&long(body)?),
        })
    });
    Some(Leavings {
        number,
        is_first: flags & 1 != 0,
        is_last: flags & 2 != 0,
        sent_below,
        remaining,
        received,
        deliveries: deliveries.collect::<Option<_>>()?,
    })
}

/// In memory of its own: it stays for longer than the frame it came in.
fn detached(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests;
