//! Sessions by client id, in parts.
//!
//! A table that grows moves everything that is in it, and reads every client id for that: tens of milliseconds for a million sessions,
//! in the middle of one CONNECT. Parts grow one by one.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use protocol::Text;

use crate::ids::SessionKey;

/// The session of each client id.
#[derive(Debug)]
pub struct ClientIds {
    parts: Vec<HashMap<Text, SessionKey, FixedState>>,
    hash: FixedState,
    len: usize,
}

/// With a million sessions a part has 16,384.
const PARTS: usize = 64;

/// A part is chosen by bits of the hash that it does not look at itself: not the lowest, and not the top 7.
const PART_SHIFT: u32 = 40;

impl ClientIds {
    /// `seed` is to be random, so that no client can choose ids whose hashes collide.
    pub fn new(seed: u64) -> Self {
        let hash = FixedState::with_seed(seed);
        Self {
            parts: (0..PARTS).map(|_| HashMap::with_hasher(hash.clone())).collect(),
            hash,
            len: 0,
        }
    }

    /// Finds the session of a client id.
    pub fn get(&self, client_id: &str) -> Option<SessionKey> {
        self.parts[self.part_of(client_id)].get(client_id).copied()
    }

    /// Adds a session; the one that the client id had.
    pub fn insert(&mut self, client_id: Text, key: SessionKey) -> Option<SessionKey> {
        let part = self.part_of(&client_id);
        let before = self.parts[part].insert(client_id, key);
        self.len += usize::from(before.is_none());
        before
    }

    /// Removes a client id; its session, if there was one.
    pub fn remove(&mut self, client_id: &str) -> Option<SessionKey> {
        let part = self.part_of(client_id);
        let removed = self.parts[part].remove(client_id);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Number of client ids.
    pub fn count(&self) -> usize {
        self.len
    }

    fn part_of(&self, client_id: &str) -> usize {
        (self.hash.hash_one(client_id) >> PART_SHIFT) as usize % PARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_id_has_its_session_and_all_parts_are_used() {
        let mut ids = ClientIds::new(0x5eed);
        let id = |number: u32| Text::new(format!("client-{number}")).unwrap();
        for number in 0..10_000 {
            assert_eq!(ids.insert(id(number), SessionKey(number)), None);
        }
        let fullest = ids.parts.iter().map(HashMap::len).max();
        assert!(
            fullest.is_some_and(|most| most < 10_000 / PARTS * 2),
            "{fullest:?}"
        );
        for number in 0..10_000 {
            assert_eq!(ids.get(&id(number)), Some(SessionKey(number)));
            assert_eq!(ids.remove(&id(number)), Some(SessionKey(number)));
            assert_eq!(ids.get(&id(number)), None);
        }
        assert_eq!(ids.count(), 0);
    }
}
