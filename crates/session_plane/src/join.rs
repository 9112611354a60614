//! Join of two maps: one pass over both, in the order of their keys, in which they give their entries.

use std::cmp::Ordering;

/// Values of both maps under one key; at least one is there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Joined<K, T> {
    pub(crate) key: K,
    pub(crate) mine: Option<T>,
    pub(crate) theirs: Option<T>,
}

/// Every key of `mine` and of `theirs` once, in ascending order.
pub(crate) fn join<K: Ord, T>(
    mine: impl IntoIterator<Item = (K, T)>,
    theirs: impl IntoIterator<Item = (K, T)>,
) -> impl Iterator<Item = Joined<K, T>> {
    let mut mine = mine.into_iter().peekable();
    let mut theirs = theirs.into_iter().peekable();
    std::iter::from_fn(move || {
        let order = match (mine.peek(), theirs.peek()) {
            (Some((one, _)), Some((other, _))) => one.cmp(other),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let of_mine = if order.is_le() { mine.next() } else { None };
        let of_theirs = if order.is_ge() { theirs.next() } else { None };
        let (key, mine, theirs) = match (of_mine, of_theirs) {
            (Some((key, mine)), theirs) => (key, Some(mine), theirs.map(|(_, theirs)| theirs)),
            (None, theirs) => theirs.map(|(key, theirs)| (key, None, Some(theirs)))?,
        };
        Some(Joined { key, mine, theirs })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_key_is_joined_once(
            mine in proptest::collection::btree_map(0..20_u8, any::<u8>(), 0..12),
            theirs in proptest::collection::btree_map(0..20_u8, any::<u8>(), 0..12),
        ) {
            let keys = (0..20_u8).filter(|key| mine.contains_key(key) || theirs.contains_key(key));
            let expected: Vec<Joined<u8, u8>> = keys
                .map(|key| Joined {
                    key,
                    mine: mine.get(&key).copied(),
                    theirs: theirs.get(&key).copied(),
                })
                .collect();
            prop_assert_eq!(join(mine, theirs).collect::<Vec<_>>(), expected);
        }
    }
}
