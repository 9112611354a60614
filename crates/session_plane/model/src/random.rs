//! Pseudo-random numbers of a history: for each purpose a sequence of its own.
//!
//! An action draws from the sequence of its own number, so that the minimiser can leave an action out without changing the
//! others.

/// What a sequence is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Slots, number of nodes, disks.
    Founding,
    /// Which clients take messages with QoS 2.
    Subscribers,
    /// The plan of the history.
    Plan,
    Action(u32),
    Tick(u32),
    /// What publishers of QoS 2 do beside an action, and at a tick.
    PublisherAction(u32),
    PublisherTick(u32),
    /// Which wills a CONNECT of a client has, and how a connection ends.
    Wills {
        now: u32,
        client: u8,
    },
    /// Whether there is a shared group, and where.
    Group,
    /// What a member does beside an action.
    MemberAction(u32),
    /// How far the clocks of nodes are ahead.
    Clocks,
    /// Whether something is interrupted.
    Interruption {
        now: u32,
        node: u8,
    },
    /// Fate of what is under way when a node declares another one dead.
    Parting {
        now: u32,
        pair: u32,
    },
}

impl Purpose {
    fn number(self) -> u64 {
        match self {
            Purpose::Founding => 7,
            Purpose::Subscribers => 11,
            Purpose::Plan => 3,
            Purpose::Action(index) => 0xABCD_0000 + u64::from(index),
            Purpose::Tick(now) => u64::from(now) << 32 | 99,
            Purpose::PublisherAction(index) => 0xC0FF_EE00 + u64::from(index),
            Purpose::PublisherTick(now) => u64::from(now) << 32 | 0x5151,
            Purpose::Wills { now, client } => u64::from(now) << 12 | u64::from(client) | 0x717 << 44,
            Purpose::Group => 17,
            Purpose::MemberAction(index) => 0x6E0_0000_0000 + u64::from(index),
            Purpose::Clocks => 13,
            Purpose::Interruption { now, node } => u64::from(now) << 12 | u64::from(node) | 0x1217 << 44,
            Purpose::Parting { now, pair } => u64::from(now) << 20 | u64::from(pair),
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, purpose: Purpose) -> Random {
        let seed =
            seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose.number().wrapping_mul(0xD1B5_4A32_D192_ED03);
        let mut random = Random(seed ^ 0x0123_4567);
        for _ in 0..4 {
            random.draw();
        }
        random
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.draw() % limit as u64) as usize
    }

    /// As [`Random::below`], for ticks.
    pub fn ticks(&mut self, limit: u32) -> u32 {
        (self.draw() % u64::from(limit)) as u32
    }

    /// True in `wins` of `of` cases.
    pub fn chance(&mut self, wins: u64, of: u64) -> bool {
        self.draw() % of < wins
    }

    /// One of `choices`, which are not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
