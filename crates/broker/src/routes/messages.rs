//! What the session planes of two nodes say to each other, as bytes.
//!
//! The header begins like that of all (`cluster/src/peer_header.rs`), with a group number of its own. Numbers big endian:
//!
//! ```text
//! version u8 (1) | group u32 (fffffffe) | kind u8 | incarnation of the sender u32 | ...
//!   32 probe   | number u64                       are you there, and up to where have you taken my items?
//!   33 items   | after u64 (0: nothing before is missing) | settled u64, for each item: number u64 | length u32 | item
//!   34 loose   | for each message of QoS 0: length u32 | forwarded message
//!   35 answer  | incarnation that is answered u32 | probe u64 | taken u64 | durable u64 | gap u8 (0, 1)   of a build before copies, where
//!              | the same as of 36                                                                      durable says what on disk says
//!   36 answer  | incarnation that is answered u32 | probe u64 | taken u64 | on disk u64 | durable u64 | gap u8 (0, 1)
//!              | for each share of which nobody is here any more: number u64 | length u16 | $share/name/filter
//!
//! item:  1 add | filter        2 remove | filter        3 share | connected u32 | all u32 | $share/name/filter
//!        4 begin               5 end                    6 message | waited u32, milliseconds | forwarded message
//!       7 about clients | ...  8 about copies | ...    (9 was about retained messages)
//!      10 ask                 11 lost | node u64 | its last run u32 | word u64      12 taken over | node u64
//!      13 redirected | waited u32, milliseconds | lost nodes u8, for each: node u64 | number u64 | message (cluster_records/forwarded.rs)
//!      14 about wills | ...  15 about merging | ...
//!      16 owed | waited u32, milliseconds | number u64 | nodes of the side where it was published u8, for each: node u64 | lost nodes u8, for each: node u64 | number u64
//!              | message (cluster_records/forwarded.rs); ffffffffffffffff in place of a number: for the sessions alone that were taken over from the node
//!      17 known | number u64, of the last item of what the receiver wants
//!
//! forwarded message: for subscriptions u8 (0, 1) | shares u8, for each: point u8 (0, 1) | point u64 | length u16 | $share/name/filter
//!                    | message (cluster_records/forwarded.rs)
//! ```
//!
//! Between begin and end comes every filter of the sender; what it announced before and not between them is gone then.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cluster::peer_header::{self, HEADER_LENGTH, PeerError};
use cluster::session_plane::announcement::Word;
use cluster::{Incarnation, NodeId};
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::subscriptions::Point;
use protocol::Text;
use protocol::topic::{SubscriptionFilter, TopicFilter};
use smallvec::SmallVec;

use super::ROUTES;
use super::losses::Lost;
use crate::cluster_records::forwarded;
use crate::peer_body::{flag, long, short};

/// The sender's incarnation, behind the header.
const INCARNATION: usize = 4;

const PROBE: u8 = 32;
const ITEMS: u8 = 33;
const LOOSE: u8 = 34;
const ANSWER_ON_DISK: u8 = 35;
const ANSWER: u8 = 36;

pub(super) const ADD: u8 = 1;
pub(super) const REMOVE: u8 = 2;
pub(super) const SHARE: u8 = 3;
pub(super) const BEGIN: u8 = 4;
pub(super) const END: u8 = 5;
pub(super) const MESSAGE: u8 = 6;
const CLIENTS: u8 = 7;
const COPIES: u8 = 8;
pub(super) const ASK: u8 = 10;
pub(super) const LOST: u8 = 11;
pub(super) const TAKEN_OVER: u8 = 12;
pub(super) const REDIRECTED: u8 = 13;
const WILLS: u8 = 14;
const MERGING: u8 = 15;
pub(super) const OWED: u8 = 16;
pub(super) const KNOWN: u8 = 17;

/// Lost nodes for which a message was on its way, one after the other, and its number among what was sent to each.
pub(super) type CameBy = Box<[(NodeId, u64)]>;

/// So many are told of; nodes before these are forgotten.
pub(super) const CAME_BY_MAX: usize = 8;

/// A share that a message is for, and with what it is kept together.
pub(crate) type ForShare = (SubscriptionFilter, Option<Point>);

/// What came from another node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Probe {
        number: u64,
    },
    Items {
        after: u64,
        settled: u64,
        items: Vec<(u64, Item)>,
    },
    Loose(Vec<Forwarded>),
    Answer(Answer),
}

/// Something that comes once, and in its order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Add(TopicFilter),
    Remove(TopicFilter),
    Share {
        filter: SubscriptionFilter,
        connected: u32,
        all: u32,
    },
    Begin,
    End,
    Message(Box<Forwarded>),
    About(Subject, Bytes),
    /// The receiver announces everything anew.
    Ask,
    /// The sender has lost a node: what was on its way there follows.
    Lost(Lost),
    /// The sender goes on with the sessions of a lost node, as far as it is to, and has announced what they want.
    TakenOver(NodeId),
    Redirected(Box<Redirected>),
    Owed(Box<OwedMessage>),
    /// The sender knows what it was told up to this number.
    Known(u64),
}

/// A message for sessions that were taken over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirected {
    pub(super) came_by: CameBy,
    pub(super) message: Message,
}

/// A message for sessions that nobody had on the side where it was published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwedMessage {
    /// Counts what the sender has owed.
    pub(super) number: u64,
    /// The nodes of that side.
    pub(super) side: Box<[NodeId]>,
    /// Under which numbers it was on its way to nodes that were lost then.
    pub(super) came_by: CameBy,
    pub(super) message: Message,
}

/// What else nodes tell each other, each once and in its order, and in one order with their messages. What it says is its own part's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Where whose session is.
    Clients,
    /// Copies of durable sessions.
    Copies,
    /// Sessions that have gone on at two nodes.
    Merging,
    /// Wills of sessions that end with their node.
    Wills,
}

impl Subject {
    pub(super) fn kind(self) -> u8 {
        match self {
            Self::Clients => CLIENTS,
            Self::Copies => COPIES,
            Self::Merging => MERGING,
            Self::Wills => WILLS,
        }
    }

    fn of(kind: u8) -> Option<Self> {
        let all = [Self::Clients, Self::Copies, Self::Merging, Self::Wills];
        all.into_iter().find(|subject| subject.kind() == kind)
    }
}

/// A message, and whom of this node's it is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) is_for_subscriptions: bool,
    pub(crate) shares: SmallVec<[ForShare; 1]>,
    pub(crate) message: Message,
}

/// Up to where a node has taken the items of another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Of the node that is answered.
    pub(crate) incarnation: u32,
    /// The latest that came.
    pub(crate) probe: u64,
    pub(crate) taken: u64,
    /// On its disk.
    pub(crate) on_disk: u64,
    /// There, and at all nodes that have copies of what it changed.
    pub(crate) durable: u64,
    /// Something before what came last is missing.
    pub(crate) has_gap: bool,
    pub(crate) declined: Vec<(u64, SubscriptionFilter)>,
}

/// What of a redirected message comes before the message.
pub(super) fn came_by(came_by: &[(NodeId, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u8(u8::try_from(came_by.len()).expect("at most as many as are told of"));
    for (lost, number) in came_by {
        bytes.put_u64(lost.0);
        bytes.put_u64(*number);
    }
    bytes
}

/// What of an owed message comes before the message.
pub(super) fn owed(number: u64, side: &[NodeId], numbers: &[(NodeId, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(number);
    bytes.put_u8(u8::try_from(side.len()).expect("fewer than 64 nodes"));
    side.iter().for_each(|node| bytes.put_u64(node.0));
    bytes.extend(came_by(numbers));
    bytes
}

/// The bytes of an item that says what is known.
pub(super) fn known_item(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// The bytes of an item that tells of a loss.
pub(super) fn lost_item(lost: Lost) -> Bytes {
    let mut bytes = Vec::with_capacity(20);
    bytes.put_u64(lost.node.0);
    bytes.put_u32(lost.after.run.0);
    bytes.put_u64(lost.after.number);
    bytes.into()
}

/// The bytes of an item that is about a node.
pub(super) fn node_item(node: NodeId) -> Bytes {
    Bytes::copy_from_slice(&node.0.to_be_bytes())
}

/// Whether an item is about routes, which are announced anew when a node has not got all.
pub(super) fn is_route(kind: u8) -> bool {
    matches!(kind, ADD | REMOVE | SHARE | BEGIN | END)
}

/// The bytes of a frame with nothing behind its header.
fn header(kind: u8, incarnation: u32, capacity: usize) -> BytesMut {
    let mut bytes = peer_header::begin(ROUTES, INCARNATION + capacity);
    bytes.put_u8(kind);
    bytes.put_u32(incarnation);
    bytes
}

pub(super) fn probe(incarnation: u32, number: u64) -> Bytes {
    let mut bytes = header(PROBE, incarnation, 8);
    bytes.put_u64(number);
    bytes.freeze()
}

/// Begins a frame of items.
pub(super) fn items(incarnation: u32, after: u64, settled: u64, capacity: usize) -> BytesMut {
    let mut bytes = header(ITEMS, incarnation, 16 + capacity);
    bytes.put_u64(after);
    bytes.put_u64(settled);
    bytes
}

/// Appends an item: its kind, what is its receiver's alone, and what all receivers get.
pub(super) fn put_item(bytes: &mut BytesMut, number: u64, parts: [&[u8]; 3]) {
    bytes.put_u64(number);
    put_message(bytes, parts);
}

/// Begins a frame of messages that nobody waits for.
pub(super) fn loose(incarnation: u32) -> BytesMut {
    header(LOOSE, incarnation, 1_024)
}

/// Appends the parts as one, with its length.
pub(super) fn put_message(bytes: &mut BytesMut, parts: [&[u8]; 3]) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    bytes.put_u32(u32::try_from(length).expect("a packet has less than 256 MiB"));
    parts.iter().for_each(|part| bytes.put_slice(part));
}

pub(super) fn answer(incarnation: u32, answer: &Answer) -> Bytes {
    let mut bytes = header(ANSWER, incarnation, 40);
    bytes.put_u32(answer.incarnation);
    bytes.put_u64(answer.probe);
    bytes.put_u64(answer.taken);
    bytes.put_u64(answer.on_disk);
    bytes.put_u64(answer.durable);
    bytes.put_u8(u8::from(answer.has_gap));
    for (number, share) in &answer.declined {
        bytes.put_u64(*number);
        put_filter(&mut bytes, share);
    }
    bytes.freeze()
}

/// What of a forwarded message comes before the message.
pub(super) fn put_receivers(
    bytes: &mut Vec<u8>,
    is_for_subscriptions: bool,
    shares: &[(std::sync::Arc<SubscriptionFilter>, Option<Point>)],
) {
    bytes.put_u8(u8::from(is_for_subscriptions));
    bytes.put_u8(u8::try_from(shares.len()).expect("at most as many as are looked for"));
    for (share, point) in shares {
        bytes.put_u8(u8::from(point.is_some()));
        bytes.put_u64(point.map_or(0, Point::number));
        put_filter(bytes, share);
    }
}

/// The bytes of an item that is about a share.
pub(super) fn share_item(filter: &SubscriptionFilter, (connected, all): (u32, u32)) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(connected);
    bytes.put_u32(all);
    bytes.put_slice(filter.to_string().as_bytes());
    bytes
}

/// What the text of a share is made of, in bytes.
pub(super) fn length_of(share: &SubscriptionFilter) -> usize {
    let name = share.share.as_ref().map_or(0, |name| name.len());
    name + share.filter.as_str().len()
}

fn put_filter(bytes: &mut impl BufMut, filter: &SubscriptionFilter) {
    let text = filter.to_string();
    bytes.put_u16(u16::try_from(text.len()).expect("a client has sent it as one text"));
    bytes.put_slice(text.as_bytes());
}

/// The frame in these bytes, whose group was looked at, and its sender's incarnation.
pub(super) fn decode(bytes: &Bytes, now: Now) -> Result<(u32, Frame), PeerError> {
    read(bytes, now).ok_or(PeerError::Damaged)
}

fn read(bytes: &Bytes, now: Now) -> Option<(u32, Frame)> {
    let mut body = bytes.clone();
    let kind = *body.get(HEADER_LENGTH - 1)?;
    body.advance(HEADER_LENGTH);
    let incarnation = body.try_get_u32().ok()?;
    let frame = match kind {
        PROBE => {
            let number = body.try_get_u64().ok()?;
            body.is_empty().then_some(Frame::Probe { number })?
        }
        ITEMS => {
            let after = body.try_get_u64().ok()?;
            let settled = body.try_get_u64().ok()?;
            let mut items = Vec::new();
            while !body.is_empty() {
                let number = body.try_get_u64().ok()?;
                items.push((number, item(long(&mut body)?, now)?));
            }
            Frame::Items {
                after,
                settled,
                items,
            }
        }
        LOOSE => {
            let mut messages = Vec::new();
            while !body.is_empty() {
                messages.push(forwarded_message(long(&mut body)?, Duration::ZERO, now)?);
            }
            Frame::Loose(messages)
        }
        ANSWER | ANSWER_ON_DISK => Frame::Answer(read_answer(&mut body, kind)?),
        _ => return None,
    };
    Some((incarnation, frame))
}

fn read_answer(body: &mut Bytes, kind: u8) -> Option<Answer> {
    let incarnation = body.try_get_u32().ok()?;
    let probe = body.try_get_u64().ok()?;
    let taken = body.try_get_u64().ok()?;
    let on_disk = body.try_get_u64().ok()?;
    let durable = if kind == ANSWER {
        body.try_get_u64().ok()?
    } else {
        on_disk
    };
    let mut answer = Answer {
        incarnation,
        probe,
        taken,
        on_disk,
        durable,
        has_gap: flag(body)?,
        declined: Vec::new(),
    };
    while !body.is_empty() {
        let number = body.try_get_u64().ok()?;
        answer.declined.push((number, filter(body)?));
    }
    Some(answer)
}

fn item(mut body: Bytes, now: Now) -> Option<Item> {
    match body.try_get_u8().ok()? {
        ADD => Some(Item::Add(topic_filter(body)?)),
        REMOVE => Some(Item::Remove(topic_filter(body)?)),
        SHARE => {
            let connected = body.try_get_u32().ok()?;
            let all = body.try_get_u32().ok()?;
            Some(Item::Share {
                filter: share(body)?,
                connected,
                all,
            })
        }
        BEGIN if body.is_empty() => Some(Item::Begin),
        END if body.is_empty() => Some(Item::End),
        MESSAGE => {
            let waited = Duration::from_millis(body.try_get_u32().ok()?.into());
            let message = forwarded_message(body, waited, now)?;
            Some(Item::Message(Box::new(message)))
        }
        ASK if body.is_empty() => Some(Item::Ask),
        LOST => Some(Item::Lost(lost(body)?)),
        TAKEN_OVER => Some(Item::TakenOver(node_alone(body)?)),
        REDIRECTED => Some(Item::Redirected(Box::new(redirected(body, now)?))),
        OWED => Some(Item::Owed(Box::new(owed_message(body, now)?))),
        KNOWN => Some(Item::Known(number_alone(body)?)),
        kind => Some(Item::About(Subject::of(kind)?, body)),
    }
}

fn redirected(mut body: Bytes, now: Now) -> Option<Redirected> {
    let waited = Duration::from_millis(body.try_get_u32().ok()?.into());
    Some(Redirected {
        came_by: read_came_by(&mut body)?,
        message: forwarded::decode(body, waited, now).ok()?,
    })
}

fn read_came_by(body: &mut Bytes) -> Option<CameBy> {
    let count = body.try_get_u8().ok()?;
    let came_by = (0..count).map(|_| Some((NodeId(body.try_get_u64().ok()?), body.try_get_u64().ok()?)));
    came_by.collect()
}

fn owed_message(mut body: Bytes, now: Now) -> Option<OwedMessage> {
    let waited = Duration::from_millis(body.try_get_u32().ok()?.into());
    let number = body.try_get_u64().ok()?;
    let count = body.try_get_u8().ok()?;
    let side = (0..count).map(|_| Some(NodeId(body.try_get_u64().ok()?)));
    Some(OwedMessage {
        number,
        side: side.collect::<Option<_>>()?,
        came_by: read_came_by(&mut body)?,
        message: forwarded::decode(body, waited, now).ok()?,
    })
}

fn lost(mut body: Bytes) -> Option<Lost> {
    let node = NodeId(body.try_get_u64().ok()?);
    let after = Word {
        run: Incarnation(body.try_get_u32().ok()?),
        number: body.try_get_u64().ok()?,
    };
    body.is_empty().then_some(Lost { node, after })
}

fn node_alone(mut body: Bytes) -> Option<NodeId> {
    let node = NodeId(body.try_get_u64().ok()?);
    body.is_empty().then_some(node)
}

fn number_alone(mut body: Bytes) -> Option<u64> {
    let number = body.try_get_u64().ok()?;
    body.is_empty().then_some(number)
}

fn forwarded_message(mut body: Bytes, waited: Duration, now: Now) -> Option<Forwarded> {
    let is_for_subscriptions = flag(&mut body)?;
    let count = body.try_get_u8().ok()?;
    let mut shares = SmallVec::new();
    for _ in 0..count {
        let has_point = flag(&mut body)?;
        let point = Point::of_number(body.try_get_u64().ok()?);
        shares.push((filter(&mut body)?, has_point.then_some(point)));
    }
    Some(Forwarded {
        is_for_subscriptions,
        shares,
        message: forwarded::decode(body, waited, now).ok()?,
    })
}

fn filter(body: &mut Bytes) -> Option<SubscriptionFilter> {
    share(short(body)?)
}

fn share(text: Bytes) -> Option<SubscriptionFilter> {
    let filter = SubscriptionFilter::parse(Text::from_bytes(text).ok()?).ok()?;
    filter.share.is_some().then_some(filter)
}

fn topic_filter(text: Bytes) -> Option<TopicFilter> {
    TopicFilter::parse(Text::from_bytes(text).ok()?).ok()
}

#[cfg(test)]
mod tests;
