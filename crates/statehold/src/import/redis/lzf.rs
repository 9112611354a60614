//! LZF, with which Redis compresses long strings.

/// What became of a compressed string; `None`: it is none, or not of that length.
///
/// `length` is not believed: nothing grows beyond it, and nothing is allocated because of it.
pub(super) fn decompressed(compressed: &[u8], length: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    let mut input = compressed.iter().copied();
    while let Some(control) = input.next() {
        let control = usize::from(control);
        if control < LITERALS {
            for _ in 0..=control {
                plain.push(input.next()?);
            }
        } else {
            let mut count = control >> 5;
            if count == LONG {
                count += usize::from(input.next()?);
            }
            let back = ((control & 0x1F) << 8) + usize::from(input.next()?) + 1;
            let from = plain.len().checked_sub(back)?;
            // What is repeated may overlap with what it becomes.
            for place in from..from + count + 2 {
                plain.push(plain[place]);
            }
        }
        if plain.len() as u64 > length {
            return None;
        }
    }
    (plain.len() as u64 == length).then_some(plain)
}

/// A smaller control byte is followed by literals, a greater one repeats.
const LITERALS: usize = 32;

/// The length of a repetition has another byte.
const LONG: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_repetitions() {
        // "ab", then 3 from 2 back, then 7 + 5 + 2 from 1 back.
        let compressed = [1, b'a', b'b', 0x20, 1, 0xE0, 5, 0];
        assert_eq!(
            decompressed(&compressed, 19).as_deref(),
            Some(&b"ababaaaaaaaaaaaaaaa"[..])
        );
        assert_eq!(decompressed(&[], 0), Some(Vec::new()));
    }

    #[test]
    fn what_is_none_is_refused() {
        let cases: [(&[u8], u64); 6] = [
            (&[1, b'a'], 2),
            (&[0x20, 0], 3),
            (&[0, b'a', 0x20, 1], 4),
            (&[0, b'a', 0x20], 4),
            (&[0, b'a'], 2),
            (&[0, b'a', 0xE0, 255, 0], 5),
        ];
        for (compressed, length) in cases {
            assert_eq!(decompressed(compressed, length), None, "{compressed:?}");
        }
    }
}
