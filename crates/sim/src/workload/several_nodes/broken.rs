//! Links that are broken for the whole storm of a run, beside those that its faults break for a while.
//!
//! A broken link carries nothing in either direction. Both nodes find that out, as from any link that is cut (`links.rs`).

use super::network::Link;

/// A combination of broken links, as bits: those of the pairs (1, 2), (1, 3), (2, 3), (1, 4) and so on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BrokenLinks(u64);

impl BrokenLinks {
    /// The combination with this number.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// How many combinations so many nodes have; at most 11 nodes.
    pub fn combinations(nodes: u64) -> u64 {
        1 << (nodes * (nodes - 1) / 2)
    }

    /// The broken links between so many nodes, in both directions.
    pub(super) fn links(self, nodes: usize) -> impl Iterator<Item = Link> {
        let pairs = (0..nodes).flat_map(|high| (0..high).map(move |low| (low, high)));
        let broken = pairs.zip(0..64).filter(move |(_, bit)| self.0 & 1 << bit != 0);
        broken.flat_map(|((low, high), _)| [(low, high), (high, low)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_breaks_other_links() {
        assert_eq!(BrokenLinks::combinations(3), 8);
        assert_eq!(BrokenLinks::combinations(5), 1_024);
        let links = |number| BrokenLinks::new(number).links(3).collect::<Vec<_>>();
        assert_eq!(links(0), []);
        assert_eq!(links(0b101), [(0, 1), (1, 0), (1, 2), (2, 1)]);
        assert_eq!(links(0b111).len(), 6);
    }
}
