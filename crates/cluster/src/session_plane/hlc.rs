//! When something was written, in an order that every node agrees on and that follows cause and effect.
//!
//! A hybrid logical clock (Kulkarni et al., Logical Physical Clocks, 2014) in 64 bits, as that paper proposes: the wall clock in milliseconds and a
//! counter. The node, which makes it unique, is in the [`Dot`](super::Dot) beside it. Timestamps of the state store are others
//! (`protocol::Hlc`): those are for clients.

/// A moment: 47 bits of milliseconds since the Unix epoch, 16 bits that count moments in one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hlc(u64);

impl Hlc {
    /// Before everything.
    pub const ZERO: Hlc = Hlc(0);

    /// The first moment of a millisecond. From the year 6429 on it is always the same one.
    pub fn at(wall: u64) -> Hlc {
        Hlc(wall.min(WALL_MAX) << COUNTER_BITS)
    }

    /// The next moment.
    #[must_use]
    pub fn next(self) -> Hlc {
        Hlc(self.0 + 1)
    }

    /// Milliseconds since the Unix epoch.
    pub fn wall(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    /// As a number that orders as the moments do.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The moment that is written so. `None`: it is too late to be one; more moments than there are numbers left could follow no other.
    pub fn from_bits(bits: u64) -> Option<Hlc> {
        (bits >> COUNTER_BITS <= WALL_MAX).then_some(Hlc(bits))
    }
}

const COUNTER_BITS: u32 = 16;
const WALL_MAX: u64 = (1 << 47) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_follow_each_other_within_a_millisecond_and_beyond() {
        let mut moment = Hlc::at(1_000);
        for _ in 0..1 << COUNTER_BITS {
            assert_eq!(moment.wall(), 1_000);
            moment = moment.next();
        }
        assert_eq!(moment, Hlc::at(1_001));
    }

    #[test]
    fn bits_that_leave_no_room_for_more_are_no_moment() {
        let last = Hlc::at(u64::MAX);
        assert_eq!(Hlc::from_bits(last.to_bits()), Some(last));
        assert_eq!(Hlc::from_bits(1 << 63), None);
        assert_eq!(Hlc::from_bits(u64::MAX), None);
    }
}
