//! Keys as the maps of the store hold them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// A key, not empty. A short one lies in the node of the map that holds it, so that a search through a large
/// map compares keys without following a pointer for each; a long one is shared by all maps that hold it.
#[derive(Clone)]
pub(crate) enum Key {
    Inline { length: u8, bytes: [u8; INLINE_MAX] },
    Shared(Arc<[u8]>),
}

impl Key {
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut bytes = [0; INLINE_MAX];
        match (bytes.get_mut(..key.len()), u8::try_from(key.len())) {
            (Some(start), Ok(length)) => {
                start.copy_from_slice(key);
                Self::Inline { length, bytes }
            }
            _ => Self::Shared(Arc::from(key)),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Shared(bytes) => bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(crate) fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_slice())
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

/// With the length and the variant, three machine words.
const INLINE_MAX: usize = 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_three_words() {
        assert_eq!(size_of::<Key>(), 24);
    }

    #[test]
    fn keys_of_both_kinds_are_ordered_by_their_bytes() {
        let long = vec![b'a'; INLINE_MAX + 1];
        let ordered: [&[u8]; 6] = [b"a", &long[1..], &long, b"aab", b"b", b"\xff"];
        for pair in ordered.windows(2) {
            assert!(Key::new(pair[0]) < Key::new(pair[1]), "{pair:?}");
        }
        for key in ordered {
            assert_eq!(Key::new(key).as_slice(), key);
            assert_eq!(Key::new(key), Key::new(key).clone());
        }
    }
}
