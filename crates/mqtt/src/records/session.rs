//! Durable sessions.
//!
//! ```text
//! key    client id
//! value  version (1) = 1, session number (8), expiry interval in seconds, 2^32 - 1 for ever (4),
//!        0 connected or 1 disconnected (1), since, Unix ms (8), next sequence (8), none was sent from this
//!        sequence on (8), 0 or 1 will (1), will
//! value, of a session with an owner
//!        version (1) = 2, the same, owner
//! will   0 or 1 delay (1), delay in seconds (4), message
//! owner  flags (1): bit 0 principal, 1 policy, 2 method of the principal; [2: method (2 + n)] [0: name (2 + n), count of attributes (4), of each its name (2 + n) and value (2 + n)]
//!        [1: name of the policy (2 + n)]
//! ```
//!
//! Written when the client connects and when its connection ends.

use bytes::{BufMut, Bytes};
use cluster::write::{Keyspace, Write};
use protocol::Text;
use protocol::packet::Will;

use super::RecordError;
use super::encoding::{Reader, put_short};
use super::message;
use crate::ids::SessionNumber;
use crate::ownership::Owner;
use crate::principal::{Attributes, Principal};
use crate::will;

/// Positions in the queue of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Positions {
    /// Sequence of the next delivery.
    pub next_sequence: u64,
    /// No delivery from this sequence on has been sent.
    pub sent_below: u64,
}

/// What is stored of a session itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// What its other records are stored under.
    pub number: SessionNumber,
    /// Session Expiry Interval in seconds; `u32::MAX` is for ever.
    pub expiry: u32,
    /// Whether a connection held it.
    pub presence: Presence,
    /// Where its queue stood.
    pub positions: Positions,
    /// Published if the connection is lost, by a crash of the server too; or waiting for its delay.
    pub will: Option<Will>,
    /// Whom it belongs to. A record of version 1 does not say: then it is whose client comes first.
    pub owner: Option<Owner>,
}

impl SessionRecord {
    /// Whether its time is over at this moment, in Unix milliseconds, when its connection has ended at the latest now.
    pub fn is_over(&self, wall: u64) -> bool {
        match self.presence {
            Presence::Connected { .. } => self.expiry == 0,
            Presence::Disconnected { since } => {
                let ends_at = since.saturating_add(u64::from(self.expiry) * 1_000);
                self.expiry != u32::MAX && ends_at <= wall
            }
        }
    }
}

/// Whether a connection held the session when its record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Found after a restart: the server ended without ending the connection.
    Connected {
        /// Unix milliseconds.
        since: u64,
    },
    /// The session ends when the expiry interval has passed since then.
    Disconnected {
        /// Unix milliseconds.
        since: u64,
    },
}

/// Stores a session.
pub fn put(client_id: &Text, record: &SessionRecord) -> Write {
    let (presence, since) = match record.presence {
        Presence::Connected { since } => (CONNECTED, since),
        Presence::Disconnected { since } => (DISCONNECTED, since),
    };
    // A will may be large: growing would take twice as much.
    let will = record.will.as_ref().map_or(0, will::size);
    let mut value = Vec::with_capacity(64 + usize::try_from(will).expect("a will is in memory"));
    value.put_u8(record.owner.as_ref().map_or(VERSION, |_| VERSION_OWNED));
    value.put_u64(record.number.0);
    value.put_u32(record.expiry);
    value.put_u8(presence);
    value.put_u64(since);
    value.put_u64(record.positions.next_sequence);
    value.put_u64(record.positions.sent_below);
    value.put_u8(u8::from(record.will.is_some()));
    if let Some(will) = &record.will {
        message::put_will(&mut value, will);
    }
    if let Some(owner) = &record.owner {
        put_owner(&mut value, owner);
    }
    Write::Put {
        keyspace: Keyspace::Sessions,
        key: key(client_id),
        value: value.into(),
    }
}

/// Removes a session's own record; see [`super::remove_all`] for the others.
pub fn remove(client_id: &Text) -> Write {
    Write::Remove {
        keyspace: Keyspace::Sessions,
        key: key(client_id),
    }
}

/// Reads a record.
pub fn decode(key: &[u8], value: Bytes) -> Result<(Text, SessionRecord), RecordError> {
    let (mut reader, version) = Reader::of_versions(value, RECORD, &[VERSION, VERSION_OWNED])?;
    let number = SessionNumber(reader.u64()?);
    let expiry = reader.u32()?;
    let (presence, since) = (reader.u8()?, reader.u64()?);
    let presence = match presence {
        CONNECTED => Presence::Connected { since },
        DISCONNECTED => Presence::Disconnected { since },
        _ => return Err(reader.damaged("neither connected nor disconnected")),
    };
    let positions = Positions {
        next_sequence: reader.sequence()?,
        sent_below: reader.sequence()?,
    };
    let will = match reader.u8()? {
        0 => None,
        1 => Some(message::will(&mut reader)?),
        _ => return Err(reader.damaged("neither with nor without a will")),
    };
    let owner = (version == VERSION_OWNED)
        .then(|| owner(&mut reader))
        .transpose()?;
    reader.end()?;
    let client_id = reader.parse(
        Text::from_bytes(Bytes::copy_from_slice(key)),
        "a client id is not valid",
    )?;
    if client_id.is_empty() {
        return Err(reader.damaged("a client id is empty"));
    }
    Ok((
        client_id,
        SessionRecord {
            number,
            expiry,
            presence,
            positions,
            will,
            owner,
        },
    ))
}

/// Reads what [`put_owner`] wrote.
///
/// # Errors
/// If it is no owner.
pub fn owner_of(bytes: Bytes) -> Result<Owner, RecordError> {
    let mut reader = Reader::of_rest(bytes, RECORD);
    let owner = owner(&mut reader)?;
    reader.end()?;
    Ok(owner)
}

/// Appends an owner, as in a session's record.
pub fn put_owner(out: &mut Vec<u8>, owner: &Owner) {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let method = owner.principal.as_ref().map(|principal| &principal.method);
    let method = method.filter(|method| !method.is_empty());
    out.put_u8(
        flag(owner.principal.is_some(), PRINCIPAL)
            | flag(owner.policy.is_some(), POLICY)
            | flag(method.is_some(), METHOD),
    );
    if let Some(method) = method {
        put_short(out, method.as_bytes());
    }
    if let Some(principal) = &owner.principal {
        put_short(out, principal.name.as_bytes());
        out.put_u32(u32::try_from(principal.attributes.len()).expect("fewer than 2^32 attributes"));
        for (name, value) in principal.attributes.iter() {
            put_short(out, name.as_bytes());
            put_short(out, value.as_bytes());
        }
    }
    if let Some(policy) = &owner.policy {
        put_short(out, policy.as_bytes());
    }
}

fn owner(reader: &mut Reader) -> Result<Owner, RecordError> {
    let flags = reader.u8()?;
    if flags & !(PRINCIPAL | POLICY | METHOD) != 0 || flags & (PRINCIPAL | POLICY) == 0 {
        return Err(reader.damaged("unknown flags of an owner"));
    }
    if flags & METHOD != 0 && flags & PRINCIPAL == 0 {
        return Err(reader.damaged("a method of nobody"));
    }
    let method = (flags & METHOD != 0).then(|| reader.text()).transpose()?;
    let principal = (flags & PRINCIPAL != 0).then(|| principal(reader)).transpose()?;
    let principal = match (principal, method) {
        (Some(principal), Some(method)) => Some(principal.by_method(method)),
        (principal, _) => principal,
    };
    let policy = (flags & POLICY != 0).then(|| reader.text()).transpose()?;
    Ok(Owner { principal, policy })
}

fn principal(reader: &mut Reader) -> Result<Principal, RecordError> {
    let name = reader.text()?;
    let count = reader.u32()?;
    let attributes: Attributes = (0..count)
        .map(|_| Ok((reader.text()?, reader.text()?)))
        .collect::<Result<_, RecordError>>()?;
    Ok(Principal::new(name, attributes))
}

fn key(client_id: &Text) -> Bytes {
    assert!(
        !client_id.is_empty(),
        "the server gives a client id to a client without one"
    );
    // Shared with the session: a client id may be 65,535 bytes long.
    client_id.as_bytes().clone()
}

const VERSION: u8 = 1;
const VERSION_OWNED: u8 = 2;
const PRINCIPAL: u8 = 1;
const POLICY: u8 = 2;
/// Before the principal stands the method that found it out.
const METHOD: u8 = 4;
const RECORD: &str = "session";
const CONNECTED: u8 = 0;
const DISCONNECTED: u8 = 1;
