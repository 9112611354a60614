//! Damage to a valid packet.

use proptest::prelude::*;

/// Changes one to four places: a bit, a byte, an inserted, removed or repeated piece.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut impl Rng) {
    for _ in 0..random.random_range(1..=4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => bytes[at] = [0x00, 0x7F, 0x80, 0xFF][random.random_range(0..4)],
            3 => bytes.insert(at, random.random()),
            4 => drop(bytes.remove(at)),
            _ => {
                let end = random.random_range(at..=bytes.len());
                bytes.extend_from_within(at..end);
            }
        }
    }
}
