//! Filter of subscriptions, as bytes. What it matches is the node's to know.

use std::borrow::Borrow;
use std::sync::Arc;

/// Bytes of a filter at most: as many as a string of MQTT has.
const FILTER_BYTES_MAX: usize = 65_535;

/// Filter of subscriptions, as bytes that are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicFilter(Arc<[u8]>);

impl TopicFilter {
    /// Filter with these bytes.
    ///
    /// # Errors
    ///
    /// [`FilterTooLong`] where they are more than a string of MQTT has.
    pub fn new(bytes: &[u8]) -> Result<TopicFilter, FilterTooLong> {
        if bytes.len() > FILTER_BYTES_MAX {
            return Err(FilterTooLong { bytes: bytes.len() });
        }
        Ok(TopicFilter(Arc::from(bytes)))
    }

    /// Bytes of the filter.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for TopicFilter {
    /// Maps by filter are searched with bytes alone.
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// A filter is longer than MQTT allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a filter has {bytes} bytes, at most {FILTER_BYTES_MAX}")]
pub struct FilterTooLong {
    /// Length that was refused.
    pub bytes: usize,
}
