//! Properties that several packets share.

use bytes::Bytes;

use crate::text::{Text, TextError};

/// User properties in their order, kept as the bytes they have on the wire.
///
/// A message's user properties travel from publisher to subscribers untouched [MQTT-3.3.2-17], so they are
/// checked once and then passed on without being taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserProperties {
    /// Zero or more of: 0x26, name as UTF-8 encoded string, value as UTF-8 encoded string.
    pub(crate) encoded: Bytes,
}

impl UserProperties {
    /// No properties.
    pub const EMPTY: Self = Self { encoded: Bytes::new() };

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// The wire form: what `0x26` starts, repeated.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// The pairs of names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.encoded.as_ref();
        std::iter::from_fn(move || {
            let (0x26, after) = rest.split_first()? else { return None };
            let (name, after) = split_text(after)?;
            let (value, after) = split_text(after)?;
            rest = after;
            Some((name, value))
        })
    }

    /// The value of the first property called `name`.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| value)
    }

    /// Encodes pairs of names and values.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, TextError> {
        let mut encoded = Vec::new();
        for (name, value) in pairs {
            encoded.push(0x26);
            for text in [name, value] {
                let length = u16::try_from(text.len()).map_err(|_| TextError::TooLong)?;
                if text.as_bytes().contains(&0) {
                    return Err(TextError::Null);
                }
                encoded.extend_from_slice(&length.to_be_bytes());
                encoded.extend_from_slice(text.as_bytes());
            }
        }
        Ok(Self { encoded: Bytes::from(encoded) })
    }
}

/// A UTF-8 encoded string with its two-byte length, and what follows it.
fn split_text(encoded: &[u8]) -> Option<(&str, &[u8])> {
    let (length, after) = encoded.split_first_chunk::<2>()?;
    let (text, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(text).ok()?, after))
}

/// Properties of a message that a subscriber sees: of a PUBLISH, or of a will.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageProperties {
    /// Payload Format Indicator: `Some(true)` says the payload is UTF-8.
    pub payload_is_utf8: Option<bool>,
    /// Message Expiry Interval in seconds; 0 is legal.
    pub message_expiry: Option<u32>,
    /// Content Type.
    pub content_type: Option<Text>,
    /// Response Topic: a topic name without wildcards. [MQTT-3.3.2-14]
    pub response_topic: Option<Text>,
    /// Correlation Data.
    pub correlation_data: Option<Bytes>,
    /// User properties.
    pub user_properties: UserProperties,
}

/// Why and with what further words: the two properties of every acknowledgement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Reason String, meant for people.
    pub reason_string: Option<Text>,
    /// User properties.
    pub user_properties: UserProperties,
}
