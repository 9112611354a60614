//! Subscriptions of durable sessions.
//!
//! ```text
//! key    session number (8), filter as subscribed, with $share/name/ if it is shared
//! value  version (1) = 1, options as in SUBSCRIBE (1), subscription identifier or 0 (4)
//! value, while retained messages are due
//!        version (1) = 2, options as in SUBSCRIBE (1), subscription identifier or 0 (4), place (4 + n)
//! ```
//!
//! The place is where the search for retained messages goes on: a topic's bytes with 0 between its levels, or what stands before
//! all topics that are left.
//!
//! Records of a data directory without a session plane, and of backups. Version 2 is read only.

use bytes::{BufMut, Bytes};
use cluster::write::{Keyspace, Write};
use protocol::Text;
use protocol::packet::{RetainHandling, SubscriptionId, SubscriptionOptions};
use protocol::topic::SubscriptionFilter;

use super::RecordError;
use super::encoding::Reader;
use super::message;
use crate::ids::SessionNumber;
use crate::subscriptions::Subscription;

/// Stores a subscription.
pub fn put(number: SessionNumber, filter: &SubscriptionFilter, subscription: &Subscription) -> Write {
    let mut value = Vec::with_capacity(6);
    value.put_u8(VERSION);
    value.put_u8(encoded_options(subscription.options));
    value.put_u32(subscription.id.map_or(0, SubscriptionId::get));
    Write::Put {
        keyspace: Keyspace::Subscriptions,
        key: key(number, filter),
        value: value.into(),
    }
}

/// A record's session, filter and subscription, and from which place on retained messages are due.
pub type Decoded = (SessionNumber, SubscriptionFilter, Subscription, Option<Vec<u8>>);

/// Reads a record.
pub fn decode(key: &[u8], value: Bytes) -> Result<Decoded, RecordError> {
    let (mut reader, version) = Reader::of_versions(value, RECORD, &[VERSION, VERSION_DUE])?;
    let options = options(&mut reader)?;
    let id = reader.subscription_id()?;
    let place = (version == VERSION_DUE).then(|| reader.long()).transpose()?;
    reader.end()?;
    let (number, filter) = decode_key(key)?;
    let place = place.map(|place| place.to_vec());
    Ok((number, filter, Subscription { options, id }, place))
}

/// Subscription options in the byte that SUBSCRIBE has.
pub fn encoded_options(options: SubscriptionOptions) -> u8 {
    options.qos as u8
        | u8::from(options.no_local) << 2
        | u8::from(options.retain_as_published) << 3
        | (options.retain_handling as u8) << 4
}

/// Reads subscription options in the byte that SUBSCRIBE has.
///
/// # Errors
/// If there are no such options.
pub fn options(reader: &mut Reader) -> Result<SubscriptionOptions, RecordError> {
    let flags = reader.u8()?;
    let retain_handling = match flags >> 4 {
        0 => RetainHandling::Send,
        1 => RetainHandling::SendIfNew,
        2 => RetainHandling::DoNotSend,
        _ => return Err(reader.damaged("unknown subscription options")),
    };
    Ok(SubscriptionOptions {
        qos: message::qos(reader, u16::from(flags & 0b11))?,
        no_local: flags & 0b100 != 0,
        retain_as_published: flags & 0b1000 != 0,
        retain_handling,
    })
}

fn decode_key(key: &[u8]) -> Result<(SessionNumber, SubscriptionFilter), RecordError> {
    let mut reader = Reader::of_key(key, RECORD);
    let number = SessionNumber(reader.u64()?);
    let filter = Text::from_bytes(reader.rest());
    let filter = reader.parse(filter, "a filter is not a text")?;
    let filter = reader.parse(SubscriptionFilter::parse(filter), "a filter is not valid")?;
    Ok((number, filter))
}

fn key(number: SessionNumber, filter: &SubscriptionFilter) -> Bytes {
    let mut key = Vec::with_capacity(8 + filter.filter.as_str().len());
    key.put_u64(number.0);
    if let Some(share) = &filter.share {
        key.put_slice(b"$share/");
        key.put_slice(share.as_str().as_bytes());
        key.put_u8(b'/');
    }
    key.put_slice(filter.filter.as_str().as_bytes());
    key.into()
}

const VERSION: u8 = 1;
const VERSION_DUE: u8 = 2;
const RECORD: &str = "subscription";
