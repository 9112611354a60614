//! A histogram of microseconds in fixed memory.

/// Counts of values by size: eight buckets for each power of two, so a quantile is at most 12.5 % too high.
///
/// Values above [`Histogram::LARGEST`] count as that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum: u64,
    max: u64,
}

impl Histogram {
    /// 2^27 - 1 microseconds, a little more than two minutes.
    pub const LARGEST: u64 = (1 << OCTAVE_LAST) - 1;

    /// Counts one value.
    pub fn record(&mut self, micros: u64) {
        let micros = micros.min(Self::LARGEST);
        self.counts[bucket(micros)] += 1;
        self.count += 1;
        self.sum += micros;
        self.max = self.max.max(micros);
    }

    /// Counts one duration.
    pub fn record_duration(&mut self, duration: std::time::Duration) {
        self.record(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds what another histogram counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, in microseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest of them, in microseconds.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// A value that is not below the given share of the values (0 to 1), in microseconds; 0 without values.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return largest_in(index).min(self.max);
            }
        }
        self.max
    }

    /// For each power of two from 16 microseconds on: the power, and how many values were below it.
    pub fn below_powers_of_two(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (OCTAVE_SHOWN..=OCTAVE_LAST).map(|octave| {
            let border = 1 << octave;
            let below = bucket(border - 1);
            (border, self.counts[..=below].iter().sum())
        })
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            sum: 0,
            max: 0,
        }
    }
}

/// Values below 8 have a bucket each; above, the three bits after the highest one choose within its octave.
fn bucket(micros: u64) -> usize {
    if micros < SUB_BUCKETS {
        return micros as usize;
    }
    let octave = micros.ilog2();
    let within = (micros >> (octave - SUB_BITS)) & (SUB_BUCKETS - 1);
    ((u64::from(octave - SUB_BITS) + 1) * SUB_BUCKETS + within) as usize
}

/// The largest value that `bucket` puts there.
fn largest_in(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB_BUCKETS {
        return index;
    }
    let shift = index / SUB_BUCKETS - 1;
    let within = index % SUB_BUCKETS;
    ((SUB_BUCKETS + within + 1) << shift) - 1
}

const SUB_BITS: u32 = 3;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;
const OCTAVE_LAST: u32 = 27;

/// 16 microseconds: what is faster is not told apart in `/metrics`.
const OCTAVE_SHOWN: u32 = 4;

/// One for each value below 8, and eight for each octave from 2^3 to 2^26.
const BUCKETS: usize = ((OCTAVE_LAST - SUB_BITS + 1) as u64 * SUB_BUCKETS) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_at_most_an_eighth_above_it() {
        let mut values: Vec<u64> = (0..5_000).collect();
        values
            .extend((3..OCTAVE_LAST).flat_map(|octave| [(1 << octave) - 1, 1 << octave, (1 << octave) + 1]));
        values.push(Histogram::LARGEST);
        for value in values {
            let end = largest_in(bucket(value));
            assert!(end >= value, "{value}");
            assert!(end - value <= value / 8, "{value} is counted as {end}");
            assert_eq!(bucket(end), bucket(value));
        }
        assert_eq!(bucket(Histogram::LARGEST), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut histogram = Histogram::default();
        (1..=1_000).for_each(|micros| histogram.record(micros));
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1_000)] {
            let found = histogram.quantile(share);
            assert!(found >= exact && found <= exact + exact / 8, "{share}: {found}");
        }
        assert_eq!(
            (histogram.count(), histogram.sum(), histogram.max()),
            (1_000, 500_500, 1_000)
        );
        assert_eq!(Histogram::default().quantile(0.99), 0);
    }

    #[test]
    fn what_is_below_a_power_of_two_is_counted_exactly() {
        let mut histogram = Histogram::default();
        [0, 15, 16, 31, 32, u64::MAX]
            .into_iter()
            .for_each(|micros| histogram.record(micros));
        let below: Vec<_> = histogram.below_powers_of_two().collect();
        assert_eq!(below[..3], [(16, 2), (32, 4), (64, 5)]);
        assert_eq!(below.last(), Some(&(1 << 27, 6)));
    }

    #[test]
    fn histograms_are_added() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.record(5);
        other.record(7_000);
        one.add(&other);
        assert_eq!((one.count(), one.sum(), one.max()), (2, 7_005, 7_000));
    }
}
