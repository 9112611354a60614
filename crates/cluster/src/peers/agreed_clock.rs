//! A wall clock that the nodes of a cluster agree on, so that one that is wrong stamps nothing.
//!
//! Each node hears several times a second what the system clocks of the others say. It goes by the median of what a majority says,
//! itself included, so a clock that jumps is outvoted before anything is stamped with it. Where no majority is heard it goes on by
//! its monotonic clock. A node alone follows its own system clock.
//!
//! What it follows may itself be set. A difference of up to `skew_max` is followed: forward at once, back by running at half the pace.
//! A larger one is in doubt for [`DOUBTED_FOR`], while time goes on at its pace; one that lasts is believed. So a jump forth and
//! back changes nothing, and a clock that is set right at last is followed without a restart.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::NodeId;

/// Wall clock of a node, as far as nodes agree.
#[derive(Debug, Clone)]
pub struct AgreedClock {
    skew_max: i128,
    /// Moment up to which time was told, and what it was then.
    told: Reading,
    /// Whether what it follows was ever heard of; it is taken as it is the first time.
    has_agreed: bool,
    doubted_since: Option<Instant>,
    /// Nodes that have a say, this one included.
    members: usize,
    others: BTreeMap<NodeId, Reading>,
    /// What the others say, less their monotonic time: it stays the same while their clocks run.
    offsets: Vec<i128>,
    /// Zero of the monotonic time that `offsets` are reckoned with.
    origin: Instant,
}

/// What a clock said at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The moment, by this node's monotonic clock.
    pub at: Instant,
    /// Milliseconds since the Unix epoch.
    pub wall: u64,
}

/// What an operator should know of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockNews {
    /// What it follows is ahead by so many milliseconds, too many to be believed yet.
    Doubted {
        /// Below zero: it is behind.
        ahead: i64,
    },
    /// It came back.
    Reassured,
    /// It stayed so for long enough: the clock has jumped by so many milliseconds.
    Believed {
        /// Below zero: back.
        ahead: i64,
    },
}

/// A difference that lasts for so long is believed.
pub const DOUBTED_FOR: Duration = Duration::from_secs(60);

/// What a node said longer ago has no say.
const HEARD_FOR: Duration = Duration::from_secs(60);

impl AgreedClock {
    /// Begins with what this node's system clock says, and follows it as a node alone does.
    pub fn new(skew_max: Duration, system: Reading) -> Self {
        Self {
            skew_max: i128::try_from(skew_max.as_millis()).unwrap_or(i128::MAX),
            told: system,
            has_agreed: true,
            doubted_since: None,
            members: 1,
            others: BTreeMap::new(),
            offsets: Vec::new(),
            origin: system.at,
        }
    }

    /// From here on as many nodes have a say, this one included. What is heard first from a majority of several is taken as it is.
    pub fn set_members(&mut self, members: usize) {
        if self.members <= 1 && members > 1 {
            self.has_agreed = false;
        }
        self.members = members;
    }

    /// A node said what its system clock says.
    pub fn hear(&mut self, node: NodeId, said: Reading) {
        self.others
            .retain(|_, other| said.at.saturating_duration_since(other.at) <= HEARD_FOR);
        // Only members connect: there are few.
        self.others.insert(node, said);
        self.reckon();
    }

    /// A node has no say any more.
    pub fn forget(&mut self, node: NodeId) {
        self.others.remove(&node);
        self.reckon();
    }

    /// The time at the moment of a reading of this node's system clock; and what is new about it.
    pub fn read(&mut self, system: Reading) -> (u64, Option<ClockNews>) {
        let passed = system.at.saturating_duration_since(self.told.at);
        let steady = i128::from(self.told.wall) + millis(passed);
        let target = self.target(system, steady);
        let ahead = target.map_or(0, |target| target - steady);
        let (wall, news) = self.follow(system.at, (steady, passed), ahead);
        self.has_agreed |= target.is_some();
        let wall = u64::try_from(wall.max(0)).unwrap_or(u64::MAX);
        self.tell(system.at, wall, passed);
        (wall, news)
    }

    /// The monotonic clock goes on in less than milliseconds: what is told begins anew only with a whole one.
    fn tell(&mut self, at: Instant, wall: u64, passed: Duration) {
        let part = Duration::from_nanos(u64::from(passed.subsec_nanos() % 1_000_000));
        self.told = Reading {
            at: at.checked_sub(part).unwrap_or(at),
            wall,
        };
    }

    fn follow(
        &mut self,
        now: Instant,
        (steady, passed): (i128, Duration),
        ahead: i128,
    ) -> (i128, Option<ClockNews>) {
        if ahead.abs() <= self.skew_max || !self.has_agreed {
            let was_doubted = self.doubted_since.take().is_some();
            let news = was_doubted.then_some(ClockNews::Reassured);
            let is_first = !self.has_agreed;
            let by = if ahead >= 0 || is_first {
                ahead
            } else {
                ahead.max(-millis(passed) / 2)
            };
            return (steady + by, news);
        }
        let shown = i64::try_from(ahead).unwrap_or(if ahead > 0 { i64::MAX } else { i64::MIN });
        match self.doubted_since {
            None => {
                self.doubted_since = Some(now);
                (steady, Some(ClockNews::Doubted { ahead: shown }))
            }
            Some(since) if now.saturating_duration_since(since) < DOUBTED_FOR => (steady, None),
            Some(_) => {
                self.doubted_since = None;
                (steady + ahead, Some(ClockNews::Believed { ahead: shown }))
            }
        }
    }

    /// What a majority agrees on: the median, and of two in the middle whatever between them is nearest to `steady`.
    fn target(&self, system: Reading, steady: i128) -> Option<i128> {
        if self.members <= 1 {
            return Some(i128::from(system.wall));
        }
        let count = self.offsets.len() + 1;
        if count <= self.members / 2 {
            return None;
        }
        let now = self.reckoned(system.at);
        let own = i128::from(system.wall) - now;
        let (low, high) = (self.at_place((count - 1) / 2, own), self.at_place(count / 2, own));
        Some(steady.clamp(low + now, high + now))
    }

    /// What stands at this place when this node's own clock is put in its place among the others.
    fn at_place(&self, place: usize, own: i128) -> i128 {
        let after = self.offsets.get(place).map_or(own, |next| own.min(*next));
        match place.checked_sub(1) {
            Some(before) => after.max(self.offsets[before]),
            None => after,
        }
    }

    fn reckon(&mut self) {
        let offset = |said: &Reading| i128::from(said.wall) - self.reckoned(said.at);
        self.offsets = self.others.values().map(offset).collect();
        self.offsets.sort_unstable();
    }

    fn reckoned(&self, at: Instant) -> i128 {
        millis(at.saturating_duration_since(self.origin)) - millis(self.origin.saturating_duration_since(at))
    }
}

fn millis(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "an `Instant` cannot be made in another way"
    )]
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    const WALL: u64 = 1_700_000_000_000;
    const HOUR: i64 = 3_600_000;
    const DECADES: i64 = 20 * 365 * 24 * HOUR;

    /// What a clock says that is wrong by so many milliseconds, so long after the beginning.
    fn reading(after_ms: u64, wrong: i64) -> Reading {
        Reading {
            at: *ORIGIN + Duration::from_millis(after_ms),
            wall: (WALL + after_ms).saturating_add_signed(wrong),
        }
    }

    fn alone() -> AgreedClock {
        AgreedClock::new(Duration::from_millis(500), reading(0, 0))
    }

    /// By how much the clock is wrong when it is read.
    fn read(clock: &mut AgreedClock, after_ms: u64, wrong: i64) -> (i64, Option<ClockNews>) {
        let (wall, news) = clock.read(reading(after_ms, wrong));
        (wall.cast_signed() - (WALL + after_ms).cast_signed(), news)
    }

    #[test]
    fn small_corrections_are_followed_and_time_never_goes_back_for_them() {
        let mut clock = alone();
        assert_eq!(read(&mut clock, 1_000, 300), (300, None));
        // Back: half the pace, until it is right.
        assert_eq!(read(&mut clock, 1_100, 0), (250, None));
        assert_eq!(read(&mut clock, 1_101, 0), (250, None));
        assert_eq!(read(&mut clock, 1_500, 0), (51, None));
        assert_eq!(read(&mut clock, 3_000, 0), (0, None));
    }

    #[test]
    fn a_jump_forth_and_back_changes_nothing() {
        for jump in [HOUR, -HOUR, DECADES, -DECADES, 3_000, -3_000] {
            let mut clock = alone();
            let doubted = Some(ClockNews::Doubted { ahead: jump });
            assert_eq!(read(&mut clock, 1_000, jump), (0, doubted));
            assert_eq!(read(&mut clock, 5_000, jump), (0, None));
            assert_eq!(read(&mut clock, 6_000, 0), (0, Some(ClockNews::Reassured)));
        }
    }

    #[test]
    fn a_difference_that_lasts_is_believed_and_taken_back_in_the_same_way() {
        let mut clock = alone();
        read(&mut clock, 1_000, DECADES);
        assert_eq!(read(&mut clock, 60_999, DECADES).0, 0);
        let believed = Some(ClockNews::Believed { ahead: DECADES });
        assert_eq!(read(&mut clock, 61_000, DECADES), (DECADES, believed));
        read(&mut clock, 70_000, 0);
        assert_eq!(read(&mut clock, 130_000, 0).0, 0);
    }

    /// A clock of one of three nodes, the others of which said a moment ago that they are wrong by so much.
    fn one_of_three(others: [i64; 2]) -> AgreedClock {
        let mut clock = alone();
        clock.set_members(3);
        for (node, wrong) in (2..).map(NodeId).zip(others) {
            clock.hear(node, reading(0, wrong));
        }
        clock
    }

    #[test]
    fn a_clock_that_is_wrong_alone_is_outvoted_at_once() {
        for jump in [HOUR, -HOUR, DECADES, -DECADES] {
            let mut clock = one_of_three([0, 10]);
            let (wrong, _) = read(&mut clock, 100, 5);
            assert_eq!(wrong, 5);
            let (wrong, news) = read(&mut clock, 200, jump);
            assert!((0..=10).contains(&wrong), "{wrong}");
            assert_eq!(news, None);
        }
        // Another one's is.
        let mut clock = one_of_three([0, HOUR]);
        assert_eq!(read(&mut clock, 100, 5), (5, None));
    }

    #[test]
    fn with_two_of_three_a_jump_of_one_is_no_majority() {
        let mut clock = one_of_three([0, 0]);
        read(&mut clock, 100, 0);
        clock.forget(NodeId(3));
        assert_eq!(read(&mut clock, 200, HOUR), (0, None));
        assert_eq!(read(&mut clock, 90_000, HOUR), (0, None));
    }

    #[test]
    fn without_a_majority_time_goes_on_by_itself() {
        let mut clock = one_of_three([0, 0]);
        read(&mut clock, 100, 0);
        clock.forget(NodeId(2));
        clock.forget(NodeId(3));
        for after in [200, 100_000, 200_000] {
            assert_eq!(read(&mut clock, after, HOUR), (0, None));
        }
    }

    #[test]
    fn what_was_heard_long_ago_has_no_say() {
        let mut clock = one_of_three([0, 0]);
        clock.hear(NodeId(2), reading(61_000, HOUR));
        // Two of three are left, and their clocks are an hour apart.
        assert_eq!(read(&mut clock, 61_000, 0).0, 0);
        clock.hear(NodeId(3), reading(62_000, HOUR));
        assert!(matches!(
            read(&mut clock, 62_000, 0),
            (0, Some(ClockNews::Doubted { ahead: HOUR }))
        ));
    }

    #[test]
    fn what_a_majority_says_first_is_taken_as_it_is() {
        for wrong in [HOUR, -HOUR] {
            let mut clock = AgreedClock::new(Duration::from_millis(500), reading(0, wrong));
            clock.set_members(3);
            assert_eq!(read(&mut clock, 100, wrong).0, wrong, "nobody was heard yet");
            clock.hear(NodeId(2), reading(100, 0));
            clock.hear(NodeId(3), reading(100, 3));
            assert_eq!(read(&mut clock, 200, wrong).0, if wrong > 0 { 3 } else { 0 });
        }
    }

    #[test]
    fn parts_of_milliseconds_are_not_lost() {
        let mut clock = alone();
        clock.set_members(3);
        let mut wall = 0;
        for tick in 1..=10_000 {
            let at = *ORIGIN + Duration::from_micros(tick * 700);
            wall = clock.read(Reading { at, wall: 0 }).0;
        }
        assert_eq!(wall, WALL + 7_000);
    }
}
