//! UTF-8 encoded strings as MQTT defines them (MQTT 5.0 section 1.5.4).

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

use crate::byte_search;

/// A UTF-8 encoded string: at most 65,535 bytes, no U+0000. [MQTT-1.5.4-1] [MQTT-1.5.4-2]
///
/// Control characters and non-characters, which a receiver may refuse as well, are taken as they are.
///
/// Backed by [`Bytes`]: cloning does not copy, and a string cut out of a received packet shares its memory.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(ByteString);

/// Why some bytes are no MQTT string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Longer than the two-byte length can say.
    #[error("the string is longer than 65,535 bytes")]
    TooLong,
    /// Not UTF-8, or it encodes a surrogate. [MQTT-1.5.4-1]
    #[error("the string is not UTF-8")]
    NotUtf8,
    /// Contains U+0000. [MQTT-1.5.4-2]
    #[error("the string contains U+0000")]
    Null,
}

impl Text {
    /// The longest string, in bytes.
    pub const LENGTH_MAX: usize = u16::MAX as usize;

    /// A string known at compile time.
    ///
    /// # Panics
    ///
    /// If it is longer than 65,535 bytes or contains U+0000.
    pub const fn from_static(text: &'static str) -> Self {
        assert!(text.len() <= Self::LENGTH_MAX, "longer than 65,535 bytes");
        let mut rest = text.as_bytes();
        while let Some((first, others)) = rest.split_first() {
            assert!(*first != 0, "contains U+0000");
            rest = others;
        }
        Self(ByteString::from_static(text))
    }

    /// Takes over received bytes without copying them.
    #[inline]
    pub fn from_bytes(bytes: Bytes) -> Result<Self, TextError> {
        let text = ByteString::try_from(bytes).map_err(|_| TextError::NotUtf8)?;
        Self::from_byte_string(text)
    }

    /// Takes over a string.
    pub fn new(text: impl Into<String>) -> Result<Self, TextError> {
        Self::from_byte_string(ByteString::from(text.into()))
    }

    #[inline]
    fn from_byte_string(text: ByteString) -> Result<Self, TextError> {
        if text.len() > Self::LENGTH_MAX {
            return Err(TextError::TooLong);
        }
        if byte_search::has_null(text.as_bytes()) {
            return Err(TextError::Null);
        }
        Ok(Self(text))
    }

    /// The string itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The string's bytes, shared.
    pub fn as_bytes(&self) -> &Bytes {
        self.0.as_bytes()
    }

    /// The same string in memory of its own, so that it does not keep a whole receive buffer alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(ByteString::from(self.as_str()))
    }
}

/// Whether `bytes` could be a [`Text`], without making one.
#[inline]
pub(crate) fn check(bytes: &[u8]) -> Result<(), TextError> {
    if bytes.len() > Text::LENGTH_MAX {
        return Err(TextError::TooLong);
    }
    if byte_search::is_plain(bytes) {
        return Ok(());
    }
    if std::str::from_utf8(bytes).is_err() {
        return Err(TextError::NotUtf8);
    }
    if byte_search::has_null(bytes) {
        Err(TextError::Null)
    } else {
        Ok(())
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl std::borrow::Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mqtt_1_5_4_1_a_string_is_utf_8() {
        for bytes in [
            &b"\xff"[..],
            b"\xc3",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"plain, then \xc0\xaf",
        ] {
            assert_eq!(
                Text::from_bytes(Bytes::copy_from_slice(bytes)),
                Err(TextError::NotUtf8),
                "{bytes:x?}"
            );
            assert_eq!(check(bytes), Err(TextError::NotUtf8), "{bytes:x?}");
        }
        for text in [
            "",
            "a",
            "é",
            "\u{FEFF}",
            "\u{10FFFF}",
            "\u{FDD0}",
            "\u{7F}\u{1}",
            "12345678é",
        ] {
            assert_eq!(Text::new(text).unwrap().as_str(), text);
            assert_eq!(check(text.as_bytes()), Ok(()));
        }
    }

    #[test]
    fn mqtt_1_5_4_2_a_string_has_no_u_0000() {
        for text in ["\0", "1234567\0", "\x0012345678", "é\0"] {
            assert_eq!(Text::new(text), Err(TextError::Null));
            assert_eq!(check(text.as_bytes()), Err(TextError::Null));
        }
    }

    #[test]
    fn a_string_has_at_most_65_535_bytes() {
        assert_eq!(Text::new("x".repeat(65_535)).unwrap().len(), 65_535);
        assert_eq!(Text::new("x".repeat(65_536)), Err(TextError::TooLong));
        assert_eq!(check(&[b'x'; 65_536]), Err(TextError::TooLong));
    }

    #[test]
    fn a_detached_string_has_memory_of_its_own() {
        let received = Bytes::from_static(b"received");
        let text = Text::from_bytes(received.clone()).unwrap();

        assert_eq!(text.as_bytes().as_ptr(), received.as_ptr());
        assert_ne!(text.detached().as_bytes().as_ptr(), received.as_ptr());
        assert_eq!(text.detached(), text);
        assert_eq!(format!("{text} {text:?}"), "received \"received\"");
    }
}
