//! What all retained messages of a node come to, as numbers: nodes with equal ones have the same.
//!
//! Topics are sorted into buckets by a hash of their names. A bucket's digest is the sum over its topics of a number that follows from the topic and the edition
//! that counts there, so it is kept up to date with each write, and does not depend on the order of writes.

use mqtt::retained::Edition;
use xxhash_rust::xxh64::xxh64;

/// How many buckets there are: with fewer, one difference means that more is listed; with more, a comparison of equal nodes has more to say.
pub(super) const BUCKETS: usize = 256;

/// A digest for each bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digests(Box<[u64; BUCKETS]>);

/// Some of the buckets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Buckets([u64; BUCKETS / 64]);

impl Default for Digests {
    fn default() -> Self {
        Self(Box::new([0; BUCKETS]))
    }
}

impl Digests {
    pub(super) fn of(digests: Box<[u64; BUCKETS]>) -> Self {
        Self(digests)
    }

    /// Of each bucket, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().copied()
    }

    /// This edition of a topic counts now.
    pub(super) fn add(&mut self, topic: &str, edition: Edition) {
        let (bucket, number) = place_of(topic, edition);
        self.0[bucket] = self.0[bucket].wrapping_add(number);
    }

    /// It does not any more.
    pub(super) fn remove(&mut self, topic: &str, edition: Edition) {
        let (bucket, number) = place_of(topic, edition);
        self.0[bucket] = self.0[bucket].wrapping_sub(number);
    }

    /// The buckets in which two nodes differ.
    pub(super) fn differing(&self, other: &Self) -> Buckets {
        let mut buckets = Buckets::default();
        let pairs = self.iter().zip(other.iter()).enumerate();
        for (bucket, _) in pairs.filter(|(_, (one, other))| one != other) {
            buckets.0[bucket / 64] |= 1 << (bucket % 64);
        }
        buckets
    }
}

impl Buckets {
    pub(super) fn of(words: [u64; BUCKETS / 64]) -> Self {
        Self(words)
    }

    pub(super) fn words(self) -> [u64; BUCKETS / 64] {
        self.0
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(super) fn has(self, topic: &str) -> bool {
        let bucket = bucket_of(hash(topic));
        self.0[bucket / 64] >> (bucket % 64) & 1 == 1
    }

    /// These and the others.
    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }
}

fn place_of(topic: &str, edition: Edition) -> (usize, u64) {
    let hash = hash(topic);
    let mut bytes = [0; 28];
    bytes[..8].copy_from_slice(&hash.to_be_bytes());
    bytes[8..16].copy_from_slice(&edition.at.to_bits().to_be_bytes());
    bytes[16..24].copy_from_slice(&edition.by.node.0.to_be_bytes());
    bytes[24..].copy_from_slice(&edition.by.incarnation.0.to_be_bytes());
    (bucket_of(hash), xxh64(&bytes, SEED))
}

fn hash(topic: &str) -> u64 {
    xxh64(topic.as_bytes(), SEED)
}

fn bucket_of(hash: u64) -> usize {
    (hash >> 56) as usize
}

/// Nodes must agree.
const SEED: u64 = 0;

#[cfg(test)]
mod tests {
    use cluster::NodeId;

    use super::*;

    #[test]
    fn equal_contents_have_equal_digests_whatever_came_before() {
        let [one, two] = [1, 2].map(|node| Edition::of_old(NodeId(node)));
        let (mut here, mut there) = (Digests::default(), Digests::default());
        here.add("a", one);
        here.add("b", one);
        there.add("b", two);
        there.add("a", one);
        let differing = here.differing(&there);
        assert!(differing.has("b") && !differing.has("a"));
        there.remove("b", two);
        there.add("b", one);
        assert!(here.differing(&there).is_empty());
    }

    #[test]
    fn the_digest_of_an_edition_is_the_same_in_all_versions() {
        let mut digests = Digests::default();
        digests.add("plant/1/temperature", Edition::of_old(NodeId(1)));
        let found: Vec<_> = digests
            .iter()
            .enumerate()
            .filter(|(_, digest)| *digest > 0)
            .collect();
        assert_eq!(found, [(141, 2_758_300_746_034_150_042)]);
    }
}
