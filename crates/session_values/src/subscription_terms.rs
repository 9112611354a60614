//! Subscription of a session, or of a member of a shared group.
//!
//! ```text
//! options as in SUBSCRIBE (1), Subscription Identifier or 0 (4), 0 or 1 since (1), since (8),
//! filter as subscribed, with $share/name/ if it is shared (2 + n),
//! 0 or 1 retained messages are due (1), place of their search (4 + n)
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use cluster::session_plane::Hlc;
use mqtt::records::RecordError;
use mqtt::records::encoding::{Reader, put_long, put_short};
use mqtt::records::subscription::{encoded_options, options};
use protocol::Text;
use protocol::packet::{SubscriptionId, SubscriptionOptions};
use protocol::topic::SubscriptionFilter;

use crate::fields::{put_flag, put_optional_clock, take_flag, take_optional_clock};
use crate::memory;

/// Value of the entry of a subscription. A clone shares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionTerms(Arc<SubscriptionParts>);

/// Parts of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionParts {
    /// Filter as subscribed.
    pub filter: SubscriptionFilter,
    /// Subscription options.
    pub options: SubscriptionOptions,
    /// Subscription Identifier.
    pub id: Option<SubscriptionId>,
    /// Clock of the first SUBSCRIBE to the filter, where the entry's event is a later one. Messages
    /// that are not later do not match.
    pub since: Option<Hlc>,
    /// Place from which retained messages are due, in the order of topics. None: all were delivered.
    pub retained_from: Option<Bytes>,
}

impl SubscriptionTerms {
    /// Subscription with these parts, in memory of its own.
    pub fn new(parts: &SubscriptionParts) -> SubscriptionTerms {
        let place = parts.retained_from.as_ref();
        let parts = SubscriptionParts {
            filter: parts.filter.detached(),
            retained_from: place.map(|place| Bytes::copy_from_slice(place)),
            ..*parts
        };
        SubscriptionTerms(Arc::new(parts))
    }

    /// Filter as subscribed.
    pub fn filter(&self) -> &SubscriptionFilter {
        &self.0.filter
    }

    /// Subscription options.
    pub fn options(&self) -> SubscriptionOptions {
        self.0.options
    }

    /// Subscription Identifier.
    pub fn id(&self) -> Option<SubscriptionId> {
        self.0.id
    }

    /// Clock of the first SUBSCRIBE to the filter, where the entry's event is a later one.
    pub fn since(&self) -> Option<Hlc> {
        self.0.since
    }

    /// Place from which retained messages are due.
    pub fn retained_from(&self) -> Option<&Bytes> {
        self.0.retained_from.as_ref()
    }

    pub(crate) fn memory(&self) -> usize {
        let share = self.filter().share.as_ref().map_or(0, |share| share.len());
        let place = self.retained_from().map_or(0, Bytes::len);
        memory::SUBSCRIPTION + share + self.filter().filter.as_str().len() + place
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(encoded_options(self.options()));
        out.put_u32(self.id().map_or(0, SubscriptionId::get));
        put_optional_clock(out, self.since());
        put_short(out, self.filter().to_string().as_bytes());
        put_flag(out, self.retained_from().is_some());
        if let Some(place) = self.retained_from() {
            put_long(out, place);
        }
    }

    pub(crate) fn take(reader: &mut Reader) -> Result<SubscriptionTerms, RecordError> {
        let options = options(reader)?;
        let id = reader.subscription_id()?;
        let since = take_optional_clock(reader)?;
        let text = Text::from_bytes(Bytes::copy_from_slice(&reader.short()?));
        let text = reader.parse(text, "a filter is not a text")?;
        let filter = reader.parse(SubscriptionFilter::parse(text), "a filter is not valid")?;
        let is_due = take_flag(reader)?;
        let place = is_due.then(|| reader.long()).transpose()?;
        Ok(SubscriptionTerms(Arc::new(SubscriptionParts {
            filter,
            options,
            id,
            since,
            retained_from: place.map(|place| Bytes::copy_from_slice(&place)),
        })))
    }
}

/// By filter, then by the other parts. The order has no other meaning.
impl Ord for SubscriptionTerms {
    fn cmp(&self, other: &SubscriptionTerms) -> Ordering {
        let by_options = || encoded_options(self.options()).cmp(&encoded_options(other.options()));
        self.filter()
            .cmp(other.filter())
            .then_with(by_options)
            .then_with(|| self.id().cmp(&other.id()))
            .then_with(|| self.since().cmp(&other.since()))
            .then_with(|| self.retained_from().cmp(&other.retained_from()))
    }
}

impl PartialOrd for SubscriptionTerms {
    fn partial_cmp(&self, other: &SubscriptionTerms) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
