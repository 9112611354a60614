//! What kinds of bytes a string has, found out eight at a time: every topic and property that arrives is searched.

/// True if every byte is ASCII and none is 0.
#[inline]
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    // Leaves the high bit of a byte that has it already, and of a zero, from which 1 cannot be taken.
    !any_word(bytes, |word| word | word.wrapping_sub(repeat(0x01)))
}

/// True if there is a zero.
#[inline]
pub(crate) fn has_null(bytes: &[u8]) -> bool {
    any_word(bytes, zeros)
}

/// True if there is a `+` or a `#`.
#[inline]
pub(crate) fn has_wildcard(bytes: &[u8]) -> bool {
    // The two differ in one bit.
    const DIFFERENCE: u8 = b'+' ^ b'#';
    any_word(bytes, |word| {
        zeros((word | repeat(DIFFERENCE)) ^ repeat(b'+' | b'#'))
    })
}

/// Whether `mark` sets the high bit of any byte of any eight bytes of `bytes`.
#[inline]
fn any_word(bytes: &[u8], mark: impl Fn(u64) -> u64) -> bool {
    let (words, rest) = bytes.as_chunks();
    let mut marked = 0;
    for word in words {
        marked |= mark(u64::from_ne_bytes(*word));
    }
    if !rest.is_empty() {
        marked |= mark(last_word(bytes));
    }
    marked & repeat(0x80) != 0
}

/// The last eight bytes of `bytes`, which is not empty; of fewer, all of them, some twice or with letters added.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.last_chunk() {
        return u64::from_ne_bytes(*word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_ne_bytes(*first)) << 32 | u64::from(u32::from_ne_bytes(*last));
    }
    let byte = |index: usize| bytes.get(index).copied().unwrap_or(b'_');
    u64::from_ne_bytes([byte(0), byte(1), byte(2), b'_', b'_', b'_', b'_', b'_'])
}

/// Has a high bit set if and only if `word` has a zero byte.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(repeat(0x01)) & !word & repeat(0x80)
}

const fn repeat(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_look_at_each_byte_finds(bytes in vec(byte(), 0..40)) {
            prop_assert_eq!(is_plain(&bytes), bytes.iter().all(|byte| (0x01..=0x7F).contains(byte)));
            prop_assert_eq!(has_null(&bytes), bytes.contains(&0));
            prop_assert_eq!(has_wildcard(&bytes), bytes.iter().any(|byte| matches!(byte, b'+' | b'#')));
        }
    }

    /// Mostly letters, so that what is searched for is there about half of the time.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![40 => b'a'..=b'z', 1 => any::<u8>(), 1 => Just(0), 1 => Just(1), 1 => Just(0x80), 1 => Just(b'#')]
    }
}
