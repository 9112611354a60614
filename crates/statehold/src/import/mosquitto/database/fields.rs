//! What stands in a chunk.

use super::{Expiry, Queued, Record, STRUCTURES_SINCE, Stage, Stored, Subscribed};

/// The fields of a chunk, one after the other. Numbers are in the order of the network, unless C has written them as they lay in
/// memory; that was little-endian on every machine that matters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    version: u32,
}

/// Sessions of MQTT 3.1.1, for which older versions wrote nothing.
const FOR_EVER: u32 = u32::MAX;

/// No properties.
const NO_PROPERTIES: [u8; 1] = [0];

/// The lengths with which a message begins.
#[derive(Debug, Clone, Copy)]
struct Head {
    number: u64,
    expires_at: Option<u64>,
    payload: usize,
    client_id: usize,
    username: usize,
    topic: usize,
    qos: u8,
}

impl<'a> Fields<'a> {
    pub(super) fn new(rest: &'a [u8], version: u32) -> Self {
        Self { rest, version }
    }

    pub(super) fn message(mut self) -> Option<Stored> {
        if !self.has_structure() {
            return self.old_message();
        }
        let head = self.head()?;
        self.bytes(head.client_id)?;
        self.bytes(head.username)?;
        let topic = self.bytes(head.topic)?.to_vec();
        let payload = self.bytes(head.payload)?.to_vec();
        let properties = match self.rest {
            [] => NO_PROPERTIES.to_vec(),
            properties => properties.to_vec(),
        };
        Some(Stored {
            number: head.number,
            topic,
            payload,
            qos: head.qos,
            expires_at: head.expires_at,
            properties,
        })
    }

    /// Of a message of which only the first bytes are there.
    pub(super) fn head_of_message(mut self) -> Option<Record> {
        let (number, topic) = if self.has_structure() {
            let head = self.head()?;
            let before = head.client_id + head.username;
            let topic = self.rest.get(before..).unwrap_or_default();
            (head.number, topic.get(..head.topic).unwrap_or(topic))
        } else {
            (self.number()?, Default::default())
        };
        let topic = topic.to_vec();
        Some(Record::TooLarge { number, topic })
    }

    pub(super) fn retained(mut self) -> Option<Record> {
        let number = self.number()?;
        Some(Record::Retained { number })
    }

    pub(super) fn session(mut self) -> Option<Record> {
        if !self.has_structure() {
            let client_id = self.text()?.to_vec();
            let expiry = Expiry {
                interval: FOR_EVER,
                at: None,
            };
            return Some(Record::Session { client_id, expiry });
        }
        let at = self.seconds()?;
        let interval = self.u32()?;
        self.u16()?;
        let length = self.u16()?;
        // Port and user name, and what makes the structure a multiple of 8 bytes.
        if self.version > STRUCTURES_SINCE {
            self.bytes(8)?;
        }
        let client_id = self.bytes(length.into())?.to_vec();
        let expiry = Expiry { interval, at };
        Some(Record::Session { client_id, expiry })
    }

    pub(super) fn subscription(mut self) -> Option<Subscribed> {
        if !self.has_structure() {
            return Some(Subscribed {
                client_id: self.text()?.to_vec(),
                filter: self.text()?.to_vec(),
                qos: self.u8()?,
                options: 0,
                identifier: 0,
            });
        }
        let identifier = self.u32()?;
        let (client_id, filter) = (self.u16()?, self.u16()?);
        let (qos, options) = (self.u8()?, self.u8()?);
        // What makes the structure a multiple of 4 bytes.
        self.bytes(2)?;
        Some(Subscribed {
            client_id: self.bytes(client_id.into())?.to_vec(),
            filter: self.bytes(filter.into())?.to_vec(),
            qos,
            options,
            identifier,
        })
    }

    pub(super) fn queued(mut self) -> Option<Queued> {
        if !self.has_structure() {
            return self.old_queued();
        }
        let number = self.number()?;
        let (packet_id, length) = (self.u16()?, self.u16()?);
        let (qos, state) = (self.u8()?, self.u8()?);
        let (flags, direction) = (self.u8()?, self.u8()?);
        let client_id = self.bytes(length.into())?.to_vec();
        let properties = match self.rest {
            [] => NO_PROPERTIES.to_vec(),
            properties => properties.to_vec(),
        };
        Some(Queued {
            client_id,
            number,
            packet_id,
            qos,
            retain: flags >> 4 != 0,
            stage: stage(direction, state, flags & 0xF != 0),
            properties,
        })
    }

    fn old_queued(mut self) -> Option<Queued> {
        let client_id = self.text()?.to_vec();
        let (number, packet_id) = (self.number()?, self.u16()?);
        let (qos, retain) = (self.u8()?, self.u8()?);
        let (direction, state, dup) = (self.u8()?, self.u8()?, self.u8()?);
        Some(Queued {
            client_id,
            number,
            packet_id,
            qos,
            retain: retain != 0,
            stage: stage(direction, state, dup != 0),
            properties: NO_PROPERTIES.to_vec(),
        })
    }

    fn old_message(mut self) -> Option<Stored> {
        let number = self.number()?;
        self.text()?;
        if self.version >= 4 {
            self.text()?;
            self.u16()?;
        }
        self.bytes(4)?;
        let topic = self.text()?.to_vec();
        let (qos, _) = (self.u8()?, self.u8()?);
        let payload = usize::try_from(self.u32()?).ok()?;
        Some(Stored {
            number,
            topic,
            payload: self.bytes(payload)?.to_vec(),
            qos,
            expires_at: None,
            properties: NO_PROPERTIES.to_vec(),
        })
    }

    fn head(&mut self) -> Option<Head> {
        let number = self.number()?;
        let expires_at = self.seconds()?;
        let payload = usize::try_from(self.u32()?).ok()?;
        self.u16()?;
        let (client_id, username, topic) = (self.u16()?, self.u16()?, self.u16()?);
        self.u16()?;
        let (qos, _) = (self.u8()?, self.u8()?);
        Some(Head {
            number,
            expires_at,
            payload,
            client_id: client_id.into(),
            username: username.into(),
            topic: topic.into(),
            qos,
        })
    }

    fn has_structure(&self) -> bool {
        self.version >= STRUCTURES_SINCE
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// With its length before it.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.bytes(length.into())
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Of a message, as it lay in memory.
    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A moment, as it lay in memory; 0: none.
    fn seconds(&mut self) -> Option<Option<u64>> {
        let seconds = i64::from_le_bytes(self.array()?);
        Some(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0))
    }
}

/// How far a message is, of its direction, its state and whether it was sent before.
fn stage(direction: u8, state: u8, dup: bool) -> Stage {
    match state {
        _ if direction == FROM_CLIENT => Stage::FromClient,
        RESEND_PUBREL | WAIT_FOR_PUBCOMP => Stage::Released,
        WAIT_FOR_PUBACK | WAIT_FOR_PUBREC => Stage::Sent,
        _ if dup => Stage::Sent,
        _ => Stage::Waiting,
    }
}

const FROM_CLIENT: u8 = 0;

const WAIT_FOR_PUBACK: u8 = 3;
const WAIT_FOR_PUBREC: u8 = 5;
const RESEND_PUBREL: u8 = 6;
const WAIT_FOR_PUBCOMP: u8 = 9;
