//! Random numbers that are next to nothing to compute.

/// xorshift64*: even enough for keys.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The same seed, the same numbers.
    pub(super) fn new(seed: u64) -> Self {
        // Zero would stay zero.
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Less than `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end.max(1)
    }
}
