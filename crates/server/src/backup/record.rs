//! Records of a backup, as bytes and back.

use broker::backups::{RetainedItem, SessionItem, SessionPart};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use protocol::Text;
use store::{KeyRecord, Version};

use super::About;

/// Something of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// What it is a backup of; the first record of a file.
    About(About),
    /// A group of the state store: its number, its clock (Unix milliseconds), and what keys that it lacks are to get greater versions than.
    Group(u32, u64, Version),
    /// A key of the group before it.
    Key(KeyRecord),
    /// A retained message.
    Retained(RetainedItem),
    /// A session.
    Session(SessionItem),
}

const ABOUT: u8 = 1;
const GROUP: u8 = 2;
const KEY: u8 = 3;
const RETAINED: u8 = 4;
const SESSION: u8 = 5;
pub(super) const END: u8 = 255;

/// The longest packet of MQTT.
const KEY_BYTES_MAX: usize = 256 << 20;

const SUBSCRIPTION: u8 = 1;
const RECEIVED: u8 = 2;
const DELIVERY: u8 = 3;

impl Record {
    /// The bytes between the length and the checksum. `None`: a part of it is longer than the format has room for, which nothing of a server is.
    pub(super) fn encode(&self) -> Option<BytesMut> {
        let mut out = BytesMut::new();
        match self {
            Self::About(about) => {
                out.put_u8(ABOUT);
                out.put_u64(about.made_at);
                put_short(&mut out, about.cluster.as_bytes())?;
                put_short(&mut out, about.server_version.as_bytes())?;
                out.put_u16(about.nodes);
                out.put_u32(about.groups);
            }
            Self::Group(number, clock, floor) => {
                out.put_u8(GROUP);
                out.put_u32(*number);
                out.put_u64(*clock);
                out.put_u64(floor.wall);
                out.put_u32(floor.counter);
            }
            Self::Key(record) => {
                out.put_u8(KEY);
                out.put_slice(&record.encode());
            }
            Self::Retained(item) => {
                out.put_u8(RETAINED);
                put_short(&mut out, &item.topic)?;
                out.put_slice(&item.value);
            }
            Self::Session(item) => put_session(&mut out, item)?,
        }
        Some(out)
    }

    /// Reads such bytes. `None`: they are none.
    pub(super) fn decode(mut body: Bytes) -> Option<Self> {
        let record = match body.try_get_u8().ok()? {
            ABOUT => Self::About(About {
                made_at: body.try_get_u64().ok()?,
                cluster: text(&mut body)?,
                server_version: text(&mut body)?,
                nodes: body.try_get_u16().ok()?,
                groups: body.try_get_u32().ok()?,
            }),
            GROUP => Self::Group(
                body.try_get_u32().ok()?,
                body.try_get_u64().ok()?,
                floor(&mut body)?,
            ),
            // Nothing larger came in as a packet.
            KEY if body.len() > KEY_BYTES_MAX => return None,
            KEY => Self::Key(KeyRecord::decode(std::mem::take(&mut body)).ok()?),
            RETAINED => Self::Retained(RetainedItem {
                topic: short(&mut body)?,
                value: std::mem::take(&mut body),
            }),
            SESSION => Self::Session(session(&mut body)?),
            _ => return None,
        };
        body.is_empty().then_some(record)
    }
}

/// A version that the log of a group takes: what is in the log has to be read by everybody.
fn floor(body: &mut Bytes) -> Option<Version> {
    let version = Version {
        wall: body.try_get_u64().ok()?,
        counter: body.try_get_u32().ok()?,
    };
    // The store knows what a version may be.
    let key = KeyRecord {
        key: Bytes::from_static(b"any"),
        value: Bytes::new(),
        version,
        deadline: None,
        fencing: None,
    };
    KeyRecord::decode(key.encode()).is_ok().then_some(version)
}

fn put_session(out: &mut BytesMut, item: &SessionItem) -> Option<()> {
    out.reserve(item.size());
    out.put_u8(SESSION);
    put_short(out, item.client_id.as_bytes())?;
    put_long(out, &item.record)?;
    for part in &item.parts {
        match part {
            SessionPart::Subscription(key, value) => {
                out.put_u8(SUBSCRIPTION);
                put_short(out, key)?;
                put_long(out, value)?;
            }
            SessionPart::Received(key) => {
                out.put_u8(RECEIVED);
                put_short(out, key)?;
            }
            SessionPart::Delivery(key, value) => {
                out.put_u8(DELIVERY);
                put_short(out, key)?;
                put_long(out, value)?;
            }
        }
    }
    Some(())
}

fn session(body: &mut Bytes) -> Option<SessionItem> {
    let client_id = Text::from_bytes(short(body)?).ok();
    let client_id = client_id.filter(|client_id| !client_id.is_empty())?;
    let record = long(body)?;
    let mut parts = Vec::new();
    while let Ok(what) = body.try_get_u8() {
        let key = short(body)?;
        parts.push(match what {
            SUBSCRIPTION => SessionPart::Subscription(key, long(body)?),
            RECEIVED => SessionPart::Received(key),
            DELIVERY => SessionPart::Delivery(key, long(body)?),
            _ => return None,
        });
    }
    Some(SessionItem {
        client_id,
        record,
        parts,
    })
}

fn put_short(out: &mut BytesMut, bytes: &[u8]) -> Option<()> {
    out.put_u16(u16::try_from(bytes.len()).ok()?);
    out.put_slice(bytes);
    Some(())
}

fn put_long(out: &mut BytesMut, bytes: &[u8]) -> Option<()> {
    out.put_u32(u32::try_from(bytes.len()).ok()?);
    out.put_slice(bytes);
    Some(())
}

fn short(body: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(body.try_get_u16().ok()?);
    (length <= body.len()).then(|| body.split_to(length))
}

fn long(body: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(body.try_get_u32().ok()?).ok()?;
    (length <= body.len()).then(|| body.split_to(length))
}

fn text(body: &mut Bytes) -> Option<String> {
    String::from_utf8(short(body)?.to_vec()).ok()
}
