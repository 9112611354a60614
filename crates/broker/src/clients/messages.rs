//! What nodes say to each other about clients: whose connection it is, and what travels between a client and the node that holds its session.
//!
//! ```text
//! version u8 (1) | kind u8, then
//!   1 take      | question u64 | at, Unix ms u64 | clean start u8 | client id | principal    this client connects here: end its connection, and say what you have
//!   2 answer    | question u64 | place u8
//!   3 names     | client id, for each                                              these clients are connected here
//!   4 open      | tunnel u64 | owner (4 + n) | proof u8 (0, or 1 and 4 + n) | CONNECT
//!   5 elsewhere | tunnel u64                                                       I do not hold its session
//!   6 packets   | tunnel u64 | MQTT                                                from the client
//!   7 bytes     | tunnel u64 | MQTT                                                for the client
//!   8 taken     | tunnel u64 | bytes u32                                           so much from the client was taken
//!   9 ask       | tunnel u64                                                       say when the client has taken everything
//!  10 drained   | tunnel u64                                                       it has
//!  11 close     | tunnel u64                                                       the connection ends behind that
//!  12 gone      | tunnel u64                                                       the client is gone
//!  13 known     | tunnel u64 | owner (4 + n)                                       the client has authenticated again
//!  14 begin                                                                      there are no tunnels between us
//!
//! client id  (2 + n)       principal  u8 (0, or 1 and the name, 2 + n, or 2 and the method and the name)
//! owner  as in a session's record; of nobody: no bytes
//! place      0 nothing, 1 the session, 2 the same but not RUNNING, 3 a copy whose holder is lost, 4 the client connects here later, 5 it is not this principal's,
//!            6 a copy whose holder is there
//! ```
//!
//! A question or tunnel has a number of its own in all runs of the node that has begun it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cluster::peer_header::PeerError;
use mqtt::ownership::Owner;
use mqtt::principal::Principal;
use mqtt::records::session::{owner_of, put_owner};
use protocol::packet::{Connect, Decoder, encode};
use protocol::{Packet, Text};

use crate::peer_body::{flag, long, put_long, put_short, short};

const VERSION: u8 = 1;

/// How a principal begins: with its name, or with the method that found it out.
const NAMED: u8 = 1;
const NAMED_BY_METHOD: u8 = 2;

const TAKE: u8 = 1;
const ANSWER: u8 = 2;
const NAMES: u8 = 3;
const OPEN: u8 = 4;
const ELSEWHERE: u8 = 5;
const PACKETS: u8 = 6;
const BYTES: u8 = 7;
const TAKEN: u8 = 8;
const ASK: u8 = 9;
const DRAINED: u8 = 10;
const CLOSE: u8 = 11;
const GONE: u8 = 12;
const KNOWN: u8 = 13;
const BEGIN: u8 = 14;

/// A question of the node that asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QuestionNumber(pub(super) u64);

/// A tunnel of the node that has opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TunnelNumber(pub(crate) u64);

/// What a node says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientMessage {
    Take(QuestionNumber, Take),
    Answer(QuestionNumber, Place),
    Names(Vec<Text>),
    Open(TunnelNumber, Box<Opening>),
    OfTunnel(TunnelNumber, TunnelMessage),
    Begin,
}

/// A client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Take {
    /// Of two nodes that ask at once the later one has the client.
    pub(crate) at: u64,
    pub(crate) clean_start: bool,
    pub(crate) client_id: Text,
    /// Its principal, without attributes.
    pub(crate) principal: Option<Principal>,
}

/// What a node has of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Nothing,
    /// Its session.
    Held {
        is_running: bool,
    },
    /// A copy of its session, whose holder is lost.
    Orphan,
    /// A copy of its session, whose holder is not lost as far as this node knows.
    Copy,
    /// It connects here, later.
    Later,
    /// It is somebody else's.
    Denied,
}

/// What the node that holds a session has to know of the client's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) connect: Box<Connect>,
    pub(crate) owner: Option<Owner>,
    /// The last word of its authentication.
    pub(crate) proof: Option<Bytes>,
}

/// What goes through a tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TunnelMessage {
    Elsewhere,
    Packets(Bytes),
    Bytes(Bytes),
    Taken(u32),
    Ask,
    Drained,
    Close,
    Gone,
    Known(Option<Owner>),
}

/// The bytes of what a node says.
pub(super) fn put(message: &ClientMessage) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u8(VERSION);
    match message {
        ClientMessage::Take(question, take) => {
            out.put_u8(TAKE);
            out.put_u64(question.0);
            out.put_u64(take.at);
            out.put_u8(u8::from(take.clean_start));
            put_short(&mut out, take.client_id.as_bytes());
            put_principal(&mut out, take.principal.as_ref());
        }
        ClientMessage::Answer(question, place) => {
            out.put_u8(ANSWER);
            out.put_u64(question.0);
            out.put_u8(place.code());
        }
        ClientMessage::Names(names) => {
            out.put_u8(NAMES);
            names.iter().for_each(|name| put_short(&mut out, name.as_bytes()));
        }
        ClientMessage::Open(tunnel, opening) => {
            out.put_u8(OPEN);
            out.put_u64(tunnel.0);
            put_owner_or_none(&mut out, opening.owner.as_ref());
            out.put_u8(u8::from(opening.proof.is_some()));
            opening.proof.iter().for_each(|proof| put_long(&mut out, proof));
            let connect = Packet::Connect(opening.connect.clone());
            let is_put = encode(&connect, opening.connect.version, u32::MAX, &mut out);
            is_put.expect("it has come as a packet");
        }
        ClientMessage::Begin => out.put_u8(BEGIN),
        ClientMessage::OfTunnel(tunnel, said) => {
            out.put_u8(said.kind());
            out.put_u64(tunnel.0);
            match said {
                TunnelMessage::Packets(bytes) | TunnelMessage::Bytes(bytes) => out.put_slice(bytes),
                TunnelMessage::Taken(bytes) => out.put_u32(*bytes),
                TunnelMessage::Known(owner) => put_owner_or_none(&mut out, owner.as_ref()),
                _ => {}
            }
        }
    }
    out.freeze()
}

/// What a node says.
pub(super) fn read(body: &Bytes) -> Result<ClientMessage, PeerError> {
    let version = body.first().copied().unwrap_or_default();
    if version != VERSION {
        return Err(PeerError::Version { found: version });
    }
    read_message(body.slice(1..)).ok_or(PeerError::Damaged)
}

fn read_message(mut body: Bytes) -> Option<ClientMessage> {
    let kind = body.try_get_u8().ok()?;
    let body = &mut body;
    let message = match kind {
        TAKE => ClientMessage::Take(question(body)?, take(body)?),
        ANSWER => ClientMessage::Answer(question(body)?, Place::of(body.try_get_u8().ok()?)?),
        NAMES => {
            let mut names = Vec::new();
            while !body.is_empty() {
                names.push(text(body)?);
            }
            ClientMessage::Names(names)
        }
        OPEN => ClientMessage::Open(tunnel(body)?, Box::new(opening(body)?)),
        BEGIN => ClientMessage::Begin,
        kind => ClientMessage::OfTunnel(tunnel(body)?, of_tunnel(kind, body)?),
    };
    body.is_empty().then_some(message)
}

fn of_tunnel(kind: u8, body: &mut Bytes) -> Option<TunnelMessage> {
    Some(match kind {
        ELSEWHERE => TunnelMessage::Elsewhere,
        PACKETS => TunnelMessage::Packets(std::mem::take(body)),
        BYTES => TunnelMessage::Bytes(std::mem::take(body)),
        TAKEN => TunnelMessage::Taken(body.try_get_u32().ok()?),
        ASK => TunnelMessage::Ask,
        DRAINED => TunnelMessage::Drained,
        CLOSE => TunnelMessage::Close,
        GONE => TunnelMessage::Gone,
        KNOWN => TunnelMessage::Known(owner_or_none(body)?),
        _ => return None,
    })
}

fn take(body: &mut Bytes) -> Option<Take> {
    Some(Take {
        at: body.try_get_u64().ok()?,
        clean_start: flag(body)?,
        client_id: text(body)?,
        principal: principal(body)?,
    })
}

fn opening(body: &mut Bytes) -> Option<Opening> {
    let owner = owner_or_none(body)?;
    let proof = if flag(body)? {
        Some(own(&long(body)?))
    } else {
        None
    };
    let mut bytes = BytesMut::from(&std::mem::take(body)[..]);
    let packet = Decoder::for_server(u32::MAX).decode(&mut bytes).ok()??;
    match packet {
        Packet::Connect(connect) if bytes.is_empty() && !connect.client_id.is_empty() => Some(Opening {
            connect,
            owner,
            proof,
        }),
        _ => None,
    }
}

impl Place {
    fn code(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Held { is_running: true } => 1,
            Self::Held { is_running: false } => 2,
            Self::Orphan => 3,
            Self::Later => 4,
            Self::Denied => 5,
            Self::Copy => 6,
        }
    }

    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Nothing,
            1 => Self::Held { is_running: true },
            2 => Self::Held { is_running: false },
            3 => Self::Orphan,
            4 => Self::Later,
            5 => Self::Denied,
            6 => Self::Copy,
            _ => return None,
        })
    }
}

impl TunnelMessage {
    fn kind(&self) -> u8 {
        match self {
            Self::Elsewhere => ELSEWHERE,
            Self::Packets(_) => PACKETS,
            Self::Bytes(_) => BYTES,
            Self::Taken(_) => TAKEN,
            Self::Ask => ASK,
            Self::Drained => DRAINED,
            Self::Close => CLOSE,
            Self::Gone => GONE,
            Self::Known(_) => KNOWN,
        }
    }
}

fn put_principal(out: &mut BytesMut, principal: Option<&Principal>) {
    let Some(principal) = principal else {
        return out.put_u8(0);
    };
    if principal.method.is_empty() {
        out.put_u8(NAMED);
    } else {
        out.put_u8(NAMED_BY_METHOD);
        put_short(out, principal.method.as_bytes());
    }
    put_short(out, principal.name.as_bytes());
}

fn principal(body: &mut Bytes) -> Option<Option<Principal>> {
    Some(match body.try_get_u8().ok()? {
        0 => None,
        NAMED => Some(Principal::named(text(body)?)),
        NAMED_BY_METHOD => {
            let method = text(body)?;
            Some(Principal::named(text(body)?).by_method(method))
        }
        _ => return None,
    })
}

fn put_owner_or_none(out: &mut BytesMut, owner: Option<&Owner>) {
    let mut bytes = Vec::new();
    owner.iter().for_each(|owner| put_owner(&mut bytes, owner));
    put_long(out, &bytes);
}

fn owner_or_none(body: &mut Bytes) -> Option<Option<Owner>> {
    let bytes = own(&long(body)?);
    if bytes.is_empty() {
        return Some(None);
    }
    owner_of(bytes).ok().map(Some)
}

fn question(body: &mut Bytes) -> Option<QuestionNumber> {
    Some(QuestionNumber(body.try_get_u64().ok()?))
}

fn tunnel(body: &mut Bytes) -> Option<TunnelNumber> {
    Some(TunnelNumber(body.try_get_u64().ok()?))
}

fn text(body: &mut Bytes) -> Option<Text> {
    Text::from_bytes(own(&short(body)?)).ok()
}

/// In memory of its own: it stays for longer than the frame it came in.
fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests;
