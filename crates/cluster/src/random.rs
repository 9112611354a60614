//! Seeded random numbers: SplitMix64, the same on every machine and in every version of the program. Not for secrets.

/// A generator of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number from `low` (included) to `high` (excluded).
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        assert!(low < high, "the range holds at least one number");
        low + (self.next() % (high - low) as u64) as usize
    }

    /// The next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "it never ends, and is not meant to be iterated"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
