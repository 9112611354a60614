//! Subscription of a session, or of a member of a shared group.
//!
//! ```text
//! options as in SUBSCRIBE (1), Subscription Identifier or 0 (4), 0 or 1 since (1), since (8),
//! filter as subscribed, with $share/name/ if it is shared (2 + n)
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use cluster::session_plane::Hlc;
use mqtt::records::RecordError;
use mqtt::records::encoding::{Reader, put_short};
use mqtt::records::subscription::{encoded_options, options};
use protocol::Text;
use protocol::packet::{SubscriptionId, SubscriptionOptions};
use protocol::topic::SubscriptionFilter;

use crate::fields::{put_optional_clock, take_optional_clock};
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
}

impl SubscriptionTerms {
    /// Subscription with these parts, in memory of its own.
    pub fn new(parts: &SubscriptionParts) -> SubscriptionTerms {
        let parts = SubscriptionParts {
            filter: parts.filter.detached(),
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

    pub(crate) fn memory(&self) -> usize {
        let share = self.filter().share.as_ref().map_or(0, |share| share.len());
        memory::SUBSCRIPTION + share + self.filter().filter.as_str().len()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(encoded_options(self.options()));
        out.put_u32(self.id().map_or(0, SubscriptionId::get));
        put_optional_clock(out, self.since());
        put_short(out, self.filter().to_string().as_bytes());
    }

    pub(crate) fn take(reader: &mut Reader) -> Result<SubscriptionTerms, RecordError> {
        let options = options(reader)?;
        let id = reader.subscription_id()?;
        let since = take_optional_clock(reader)?;
        let text = Text::from_bytes(Bytes::copy_from_slice(&reader.short()?));
        let text = reader.parse(text, "a filter is not a text")?;
        let filter = reader.parse(SubscriptionFilter::parse(text), "a filter is not valid")?;
        Ok(SubscriptionTerms(Arc::new(SubscriptionParts {
            filter,
            options,
            id,
            since,
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
    }
}

impl PartialOrd for SubscriptionTerms {
    fn partial_cmp(&self, other: &SubscriptionTerms) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
