//! Which passwords were verified lately, so that a fleet that comes back does not wait for thousands of hashes.
//!
//! What is kept is a BLAKE3 of name, line of the file and password under a key that only this process has: a set of random-looking
//! numbers. It finds a password again; whoever reads the process's memory with the key can try passwords faster than by the file, and
//! could as well wait for them to come by. A line that has changed is another key, so nothing has to be forgotten then.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use aws_lc_rs::rand;

use super::hash::PasswordHash;

/// A set that forgets the older half when it is full.
pub(super) struct Verified {
    key: [u8; blake3::KEY_LEN],
    most: usize,
    generations: RefCell<Generations>,
}

/// What stands for one name, line and password.
pub(super) type Seal = [u8; blake3::OUT_LEN];

#[derive(Default)]
struct Generations {
    newer: BTreeSet<Seal>,
    older: BTreeSet<Seal>,
}

impl Verified {
    pub(super) fn new(most: usize) -> Self {
        let mut key = [0; blake3::KEY_LEN];
        rand::fill(&mut key).expect("the system has random numbers");
        Self {
            key,
            most,
            generations: RefCell::default(),
        }
    }

    pub(super) fn seal(&self, name: &str, hash: &PasswordHash, password: &[u8]) -> Seal {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in [name.as_bytes(), hash.to_string().as_bytes(), password] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// A number that is always the same for a name, and that nobody outside can know.
    pub(super) fn number(&self, name: &str) -> (u64, Seal) {
        let hash = blake3::keyed_hash(&self.key, name.as_bytes());
        let (first, _) = hash.as_bytes().split_at(size_of::<u64>());
        let number = u64::from_le_bytes(first.try_into().expect("as many bytes"));
        (number, *hash.as_bytes())
    }

    pub(super) fn has(&self, seal: &Seal) -> bool {
        let mut generations = self.generations.borrow_mut();
        if generations.newer.contains(seal) {
            return true;
        }
        let is_older = generations.older.remove(seal);
        if is_older {
            generations.put(*seal, self.most);
        }
        is_older
    }

    pub(super) fn put(&self, seal: Seal) {
        if self.most > 0 {
            self.generations.borrow_mut().put(seal, self.most);
        }
    }
}

impl Generations {
    fn put(&mut self, seal: Seal, most: usize) {
        self.newer.insert(seal);
        if self.newer.len() > most / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Verified")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(verified: &Verified, number: u32) -> Seal {
        verified.number(&number.to_string()).1
    }

    #[test]
    fn what_is_used_stays_and_the_number_is_bounded() {
        let verified = Verified::new(100);
        let used = seal(&verified, 0);
        verified.put(used);
        for number in 1..10_000 {
            verified.put(seal(&verified, number));
            assert!(verified.has(&used));
            let generations = verified.generations.borrow();
            assert!(generations.newer.len() + generations.older.len() <= 102);
        }
        assert!(!verified.has(&seal(&verified, 1)));
    }

    #[test]
    fn none_are_remembered_if_none_shall_be() {
        let verified = Verified::new(0);
        let seal = seal(&verified, 0);
        verified.put(seal);
        assert!(!verified.has(&seal));
    }

    #[test]
    fn parts_do_not_run_into_each_other_and_processes_do_not_agree() {
        let (one, other) = (Verified::new(1), Verified::new(1));
        let hash = PasswordHash::decoy(super::super::hash::Cost::default(), b"saltsalt");
        assert_ne!(one.seal("ab", &hash, b"c"), one.seal("a", &hash, b"bc"));
        assert_ne!(one.seal("a", &hash, b"c"), other.seal("a", &hash, b"c"));
        assert_eq!(one.seal("a", &hash, b"c"), one.seal("a", &hash, b"c"));
        let another = PasswordHash::decoy(super::super::hash::Cost::default(), b"saltsalt");
        assert_ne!(one.seal("a", &hash, b"c"), one.seal("a", &another, b"c"));
    }
}
