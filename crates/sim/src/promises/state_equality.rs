//! Equal state machines: two nodes that have applied a group's log up to the same entry have the same store, byte for byte. (Ongaro 2014,
//! section 3.2, state machine safety; `store` promises that apply is a pure function.)

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use cluster::{GroupId, Index};
use store::Store;

/// Digests of stores.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    /// Of the store behind an entry, and whose it was first.
    known: BTreeMap<(GroupId, Index), (u64, u64)>,
    compared: u64,
}

impl Stores {
    /// A node has applied everything up to this entry, and has this store.
    pub(crate) fn compare(
        &mut self,
        node: u64,
        (group, applied): (GroupId, Index),
        store: &Store,
    ) -> Result<(), String> {
        let chunks: Vec<_> = store.image().into_chunks().collect();
        let digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(&chunks);
        let (known, first) = *self.known.entry((group, applied)).or_insert((digest, node));
        self.compared += u64::from(first != node);
        if known == digest {
            Ok(())
        } else {
            Err(format!(
                "equal state machines: {first} and {node} have different stores of group {group} behind entry {applied}"
            ))
        }
    }

    /// How many stores were compared with one of another node.
    pub(crate) fn compared(&self) -> u64 {
        self.compared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_differ_behind_an_entry_are_found() {
        let (mut one, mut stores) = (Store::new(), Stores::default());
        let at = |index| (GroupId(0), Index(index));
        stores.compare(1, at(1), &one).unwrap();
        stores.compare(2, at(1), &one).unwrap();
        one.begin(store::Stamp::first(5));
        assert!(stores.compare(2, at(1), &one).is_err());
        stores.compare(2, at(2), &one).unwrap();
        assert!(stores.compare(1, at(2), &Store::new()).is_err());
    }
}
