//! Properties that several packets share.

use bytes::Bytes;

use crate::packet::PropertyId;
use crate::text::{self, Text, TextError};

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
    pub const EMPTY: Self = Self {
        encoded: Bytes::new(),
    };

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// The wire form: what `0x26` starts, repeated.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Encodes pairs of names and values.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, TextError> {
        let mut encoded = Vec::new();
        for (name, value) in pairs {
            encoded.push(USER_PROPERTY);
            for text in [name, value] {
                let length = u16::try_from(text.len()).map_err(|_| TextError::TooLong)?;
                text::check(text.as_bytes())?;
                encoded.extend_from_slice(&length.to_be_bytes());
                encoded.extend_from_slice(text.as_bytes());
            }
        }
        Ok(Self {
            encoded: Bytes::from(encoded),
        })
    }

    /// Takes back what [`encoded`](Self::encoded) gave, from a disk for example, without copying it.
    pub fn from_encoded(encoded: Bytes) -> Result<Self, UserPropertiesError> {
        let mut rest = &encoded[..];
        while !rest.is_empty() {
            let (name, value, after) = split_first(rest).ok_or(UserPropertiesError::Damaged)?;
            text::check(name)?;
            text::check(value)?;
            rest = after;
        }
        Ok(Self { encoded })
    }

    /// Names and values in their order; a name may come more than once.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.iter_bytes()
            .map(|(name, value)| (checked_text(name), checked_text(value)))
    }

    /// The value of the first property called `name`.
    ///
    /// Compares lengths and bytes only, so it costs a few nanoseconds for each property before the one found.
    pub fn find(&self, name: &str) -> Option<&str> {
        let (_, value) = self.iter_bytes().find(|(other, _)| *other == name.as_bytes())?;
        Some(checked_text(value))
    }

    /// The same properties in memory of their own, so that they do not keep a whole receive buffer alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            encoded: Bytes::copy_from_slice(&self.encoded),
        }
    }

    fn iter_bytes(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.encoded[..];
        std::iter::from_fn(move || {
            let (name, value, after) = split_first(rest)?;
            rest = after;
            Some((name, value))
        })
    }
}

/// Why some bytes are no encoded user properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UserPropertiesError {
    /// A property does not begin or end where it should.
    #[error("the user properties are damaged")]
    Damaged,
    /// A name or value is no MQTT string.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// The name and value of the first user property in `encoded`, and what follows them.
fn split_first(encoded: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name, rest) = split_prefixed(encoded.strip_prefix(&[USER_PROPERTY])?)?;
    let (value, rest) = split_prefixed(rest)?;
    Some((name, value, rest))
}

fn split_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

fn checked_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("names and values were checked when the properties were made")
}

/// The property identifier in front of each.
const USER_PROPERTY: u8 = PropertyId::UserProperty as u8;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_is_found_by_its_name() {
        let properties =
            UserProperties::from_pairs([("a", "1"), ("ab", ""), ("a", "2"), ("é", "ü")]).unwrap();

        assert_eq!(properties.find("a"), Some("1"));
        assert_eq!(properties.find("ab"), Some(""));
        assert_eq!(properties.find("é"), Some("ü"));
        assert_eq!(properties.find("b"), None);
        assert_eq!(
            properties.iter().collect::<Vec<_>>(),
            [("a", "1"), ("ab", ""), ("a", "2"), ("é", "ü")]
        );
    }

    #[test]
    fn the_encoded_form_is_the_one_on_the_wire() {
        let properties = UserProperties::from_pairs([("k", "va")]).unwrap();

        assert_eq!(&properties.encoded()[..], b"\x26\0\x01k\0\x02va");
        assert_eq!(
            UserProperties::from_encoded(properties.encoded().clone()),
            Ok(properties.clone())
        );
        assert_eq!(properties.detached(), properties);
        assert!(UserProperties::EMPTY.is_empty());
        assert_eq!(UserProperties::EMPTY.iter().count(), 0);
    }

    #[test]
    fn damaged_properties_are_refused() {
        let check = |bytes: &'static [u8], error| {
            assert_eq!(
                UserProperties::from_encoded(Bytes::from_static(bytes)),
                Err(error),
                "{bytes:x?}"
            );
        };
        check(b"\x27\0\x01k\0\x01v", UserPropertiesError::Damaged);
        check(b"\x26\0\x01k\0\x02v", UserPropertiesError::Damaged);
        check(b"\x26\0\x01k\0", UserPropertiesError::Damaged);
        check(
            b"\x26\0\x01\xff\0\x01v",
            UserPropertiesError::Text(TextError::NotUtf8),
        );
        check(b"\x26\0\x01k\0\x01\0", UserPropertiesError::Text(TextError::Null));
    }

    #[test]
    fn pairs_that_are_no_strings_are_refused() {
        let long = "x".repeat(65_536);

        assert_eq!(
            UserProperties::from_pairs([("k", long.as_str())]),
            Err(TextError::TooLong)
        );
        assert_eq!(UserProperties::from_pairs([("k\0", "v")]), Err(TextError::Null));
    }
}
