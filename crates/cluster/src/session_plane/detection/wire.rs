//! Messages of failure detection as bytes. All numbers are big endian.
//!
//! ```text
//! header | sender: life | its incarnation u16 | receiver: life | message u8, and what belongs to it
//! member | life | incarnation u16 | state u8: 1 alive, 2 suspected, 3 down
//! life   | node u64 | run u32 | life u32
//! ```
//!
//! | message | | what belongs to it |
//! |---|---|---|
//! | 1, 2 | ping, ack | number u8 |
//! | 3 | ping somebody for me | whom: life, number u8 |
//! | 4 | ping for somebody | for whom: life, number u8 |
//! | 5 | ack to that | for whom: life, number u8 |
//! | 6 | ack of somebody | of whom: life, number u8 |
//! | 7, 8, 9, 10 | announce, feed, gossip, you are taken for dead | nothing |
//!
//! After the header foca puts how many members follow, as u16. The version is that of the message which all of this travels in
//! ([`announcement`](super::super::announcement)).

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Buf, BufMut};
use foca::{Codec, Header, Identity, Member, Message, State};

use crate::session_plane::Actor;
use crate::{Incarnation, NodeId};

/// A run of a node, as failure detection sees it: after it was taken for dead it lives again as the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    /// Which run of which node.
    pub(super) actor: Actor,
    /// How often that run was taken for dead.
    pub(super) life: u32,
}

impl Identity for Life {
    type Addr = NodeId;

    /// It is renewed from outside.
    fn renew(&self) -> Option<Self> {
        None
    }

    fn addr(&self) -> NodeId {
        self.actor.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self > adversary
    }
}

/// Who says to have sent a message.
pub(super) fn sender(mut message: &[u8]) -> Option<NodeId> {
    message.try_get_u64().ok().map(NodeId)
}

/// A message to an earlier life of this run is one to this life; unless it says that that one is taken for dead, which is known.
pub(super) fn readdressed(message: &[u8], own: Life) -> Cow<'_, [u8]> {
    let is_to_earlier = |header: &Header<Life>| {
        let is_known = matches!(header.message, Message::TurnUndead);
        header.dst.actor == own.actor && header.dst.life < own.life && !is_known
    };
    match Wire.decode_header(message).ok().filter(is_to_earlier) {
        Some(_) => {
            let mut readdressed = message.to_vec();
            put_life(own, &mut &mut readdressed[RECEIVER]);
            Cow::Owned(readdressed)
        }
        None => Cow::Borrowed(message),
    }
}

/// How foca writes and reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire;

/// Bytes that are not what they should be, or no room for more.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("{0}")]
pub(super) struct WireError(&'static str);

const MALFORMED: WireError = WireError("it is too short, or says what nobody says");

const LIFE_LEN: usize = 16;

const MEMBER_LEN: usize = LIFE_LEN + 3;

/// Where a message says to whom it is.
const RECEIVER: Range<usize> = LIFE_LEN + 2..2 * LIFE_LEN + 2;

impl Codec<Life> for Wire {
    type Error = WireError;

    fn encode_header(&mut self, header: &Header<Life>, mut buf: impl BufMut) -> Result<(), WireError> {
        if buf.remaining_mut() < 3 * LIFE_LEN + 4 {
            return Err(WireError("there is no room"));
        }
        put_life(header.src, &mut buf);
        buf.put_u16(header.src_incarnation);
        put_life(header.dst, &mut buf);
        put_message(&header.message, &mut buf);
        Ok(())
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<Life>, WireError> {
        let src = take_life(&mut buf)?;
        let src_incarnation = buf.try_get_u16().map_err(|_| MALFORMED)?;
        let dst = take_life(&mut buf)?;
        let message = take_message(&mut buf)?;
        Ok(Header {
            src,
            src_incarnation,
            dst,
            message,
        })
    }

    fn encode_member(&mut self, member: &Member<Life>, mut buf: impl BufMut) -> Result<(), WireError> {
        if buf.remaining_mut() < MEMBER_LEN {
            return Err(WireError("there is no room"));
        }
        put_life(*member.id(), &mut buf);
        buf.put_u16(member.incarnation());
        buf.put_u8(match member.state() {
            State::Alive => 1,
            State::Suspect => 2,
            State::Down => 3,
        });
        Ok(())
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<Life>, WireError> {
        let life = take_life(&mut buf)?;
        let incarnation = buf.try_get_u16().map_err(|_| MALFORMED)?;
        let state = match take_u8(&mut buf)? {
            1 => State::Alive,
            2 => State::Suspect,
            3 => State::Down,
            _ => return Err(MALFORMED),
        };
        Ok(Member::new(life, incarnation, state))
    }
}

fn put_life(life: Life, buf: &mut impl BufMut) {
    buf.put_u64(life.actor.node.0);
    buf.put_u32(life.actor.incarnation.0);
    buf.put_u32(life.life);
}

fn put_message(message: &Message<Life>, buf: &mut impl BufMut) {
    let (code, about, number) = match message {
        Message::Ping(number) => (1, None, Some(number)),
        Message::Ack(number) => (2, None, Some(number)),
        Message::PingReq { target, probe_number } => (3, Some(target), Some(probe_number)),
        Message::IndirectPing { origin, probe_number } => (4, Some(origin), Some(probe_number)),
        Message::IndirectAck { target, probe_number } => (5, Some(target), Some(probe_number)),
        Message::ForwardedAck { origin, probe_number } => (6, Some(origin), Some(probe_number)),
        Message::Announce => (7, None, None),
        Message::Feed => (8, None, None),
        Message::Gossip => (9, None, None),
        Message::TurnUndead => (10, None, None),
        Message::Broadcast => unreachable!("nothing is broadcast that is not foca's own"),
    };
    buf.put_u8(code);
    if let Some(life) = about {
        put_life(*life, buf);
    }
    if let Some(number) = number {
        buf.put_u8(*number);
    }
}

fn take_u8(buf: &mut impl Buf) -> Result<u8, WireError> {
    buf.try_get_u8().map_err(|_| MALFORMED)
}

fn take_life(buf: &mut impl Buf) -> Result<Life, WireError> {
    let node = buf.try_get_u64().map_err(|_| MALFORMED)?;
    let incarnation = buf.try_get_u32().map_err(|_| MALFORMED)?;
    let life = buf.try_get_u32().map_err(|_| MALFORMED)?;
    let actor = Actor {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
    };
    Ok(Life { actor, life })
}

fn take_message(buf: &mut impl Buf) -> Result<Message<Life>, WireError> {
    let code = take_u8(buf)?;
    Ok(match code {
        1 => Message::Ping(take_u8(buf)?),
        2 => Message::Ack(take_u8(buf)?),
        3..=6 => {
            let (about, probe_number) = (take_life(buf)?, take_u8(buf)?);
            match code {
                3 => Message::PingReq {
                    target: about,
                    probe_number,
                },
                4 => Message::IndirectPing {
                    origin: about,
                    probe_number,
                },
                5 => Message::IndirectAck {
                    target: about,
                    probe_number,
                },
                _ => Message::ForwardedAck {
                    origin: about,
                    probe_number,
                },
            }
        }
        7 => Message::Announce,
        8 => Message::Feed,
        9 => Message::Gossip,
        10 => Message::TurnUndead,
        _ => return Err(MALFORMED),
    })
}
