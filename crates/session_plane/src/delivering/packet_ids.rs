//! Packet ids to one client: which are in use, and which one a message gets.
//!
//! A message prefers a packet id that follows from its event. So the next node of the session gives it
//! the same one without an entry, and so do both sides of a split. Messages of one run prefer
//! different packet ids for 65,535 in a row. Where the preferred one is in use, the message gets the
//! next free one that is half of all ids away: those nearby are preferred by the next messages.
//!
//! *Invariant*: ranges of used ids neither overlap nor touch. There are at most as many ranges as ids
//! in use, and each search looks at two of them.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use crate::Dot;
use crate::hash::hash;
use crate::publishing::PacketId;

/// Packet ids in use, as ranges: the first id of each, and the last.
#[derive(Debug)]
pub(super) struct PacketIds {
    used: BTreeMap<u16, u16>,
    /// From here on the next id without an event is looked for: one that was freed is not used again at once.
    next: u16,
}

impl Default for PacketIds {
    /// All are free.
    fn default() -> PacketIds {
        let used = BTreeMap::new();
        PacketIds { used, next: 1 }
    }
}

impl PacketIds {
    /// Takes a packet id; false if it is in use.
    pub(super) fn take(&mut self, id: PacketId) -> bool {
        let id = id.0.get();
        let below = self.range_from(id);
        if below.is_some_and(|(_, last)| last >= id) {
            return false;
        }
        let first = match below {
            Some((first, last)) if last + 1 == id => first,
            _ => id,
        };
        let above = id.checked_add(1).and_then(|next| self.used.remove(&next));
        self.used.insert(first, above.unwrap_or(id));
        true
    }

    /// Frees a packet id.
    pub(super) fn free(&mut self, id: PacketId) {
        let id = id.0.get();
        let Some((first, last)) = self.range_from(id).filter(|(_, last)| *last >= id) else {
            return;
        };
        self.used.remove(&first);
        if first < id {
            self.used.insert(first, id - 1);
        }
        if id < last {
            self.used.insert(id + 1, last);
        }
    }

    /// Packet id for a message. None where all are in use.
    pub(super) fn for_message(&self, message: Dot) -> Option<PacketId> {
        let preferred = preferred_id(message);
        if self.free_from(preferred.0.get()) == Some(preferred.0.get()) {
            return Some(preferred);
        }
        let far = preferred.0.get().wrapping_add(HALF).max(1);
        let free = self.free_from(far).or_else(|| self.free_from(1))?;
        NonZeroU16::new(free).map(PacketId)
    }

    /// Packet id for a message that no event stands for. None where all are in use.
    pub(super) fn next_free(&mut self) -> Option<PacketId> {
        let free = self.free_from(self.next).or_else(|| self.free_from(1))?;
        self.next = free.checked_add(1).unwrap_or(1);
        NonZeroU16::new(free).map(PacketId)
    }

    /// Lowest free id that is not below `id`.
    fn free_from(&self, id: u16) -> Option<u16> {
        match self.range_from(id) {
            Some((_, last)) if last >= id => last.checked_add(1),
            _ => Some(id),
        }
    }

    /// Last range that begins at `id` or below.
    fn range_from(&self, id: u16) -> Option<(u16, u16)> {
        let below = self.used.range(..=id).next_back();
        below.map(|(first, last)| (*first, *last))
    }
}

/// Packet id of a message, unless that is in use. A format for ever: with another function messages
/// would change their packet ids when nodes are upgraded.
pub(super) fn preferred_id(message: Dot) -> PacketId {
    let Dot { run, number } = message;
    let mut of_run = [0; 12];
    of_run[..8].copy_from_slice(&run.node.0.to_be_bytes());
    of_run[8..].copy_from_slice(&run.incarnation.0.to_be_bytes());
    let place = (hash(&of_run) % IDS + number % IDS) % IDS;
    let id = u16::try_from(place + 1).ok().and_then(NonZeroU16::new);
    PacketId(id.expect("a remainder and 1 is a packet id"))
}

/// Packet ids that MQTT has: 1 to 65,535.
const IDS: u64 = 65_535;
const HALF: u16 = u16::MAX / 2;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cluster::{Incarnation, NodeId};
    use proptest::prelude::*;

    use super::*;
    use crate::Run;

    fn packet_id(id: u16) -> PacketId {
        PacketId(NonZeroU16::new(id).expect("a sample is no zero"))
    }

    fn message(number: u64) -> Dot {
        let run = Run {
            node: NodeId(1),
            incarnation: Incarnation(1),
        };
        Dot { run, number }
    }

    /// Few ids at both ends, so that ranges meet.
    fn id() -> impl Strategy<Value = u16> {
        prop_oneof![1..12_u16, 65_525..=u16::MAX]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn ranges_are_a_set_of_ids(steps in proptest::collection::vec((any::<bool>(), id()), 0..80)) {
            let (mut ids, mut naive) = (PacketIds::default(), BTreeSet::new());
            for (takes, id) in steps {
                if takes {
                    prop_assert_eq!(ids.take(packet_id(id)), naive.insert(id));
                } else {
                    ids.free(packet_id(id));
                    naive.remove(&id);
                }
                for from in (1..14).chain(65_523..=u16::MAX) {
                    let next = (from..=u16::MAX).find(|id| !naive.contains(id));
                    prop_assert_eq!(ids.free_from(from), next);
                }
                let ranges = naive.iter().filter(|id| !naive.contains(&(*id - 1))).count();
                prop_assert_eq!(ids.used.len(), ranges);
            }
        }
    }

    #[test]
    fn messages_of_a_run_prefer_different_ids_for_as_many_as_there_are() {
        let ids: BTreeSet<PacketId> = (1..=IDS).map(|number| preferred_id(message(number))).collect();
        assert_eq!(ids.len(), 65_535);
        assert_eq!(preferred_id(message(1)), preferred_id(message(1 + IDS)));
        assert_eq!(
            preferred_id(message(u64::MAX)),
            preferred_id(message(u64::MAX % IDS + IDS))
        );
    }

    #[test]
    fn preferred_ids_stay() {
        let ids = [1, 2, 65_536, u64::MAX].map(|number| preferred_id(message(number)).0.get());
        assert_eq!(ids, [24_069, 24_070, 24_069, 24_068]);
    }

    #[test]
    fn a_message_gets_a_free_id_far_from_its_own_if_that_is_in_use() {
        let mut ids = PacketIds::default();
        let preferred = preferred_id(message(7));
        assert_eq!(ids.for_message(message(7)), Some(preferred));
        ids.take(preferred);
        let other = ids.for_message(message(7)).expect("there are many");
        assert!(other.0.get().abs_diff(preferred.0.get()) > 1_000, "{other:?}");
    }

    #[test]
    fn no_id_is_given_while_all_are_in_use() {
        let mut ids = PacketIds::default();
        for id in 1..=u16::MAX {
            assert!(ids.take(packet_id(id)));
        }
        assert_eq!(ids.for_message(message(7)), None);
        assert_eq!(ids.used.len(), 1);
        for id in [1, 9, u16::MAX] {
            ids.free(packet_id(id));
            assert_eq!(ids.for_message(message(7)), Some(packet_id(id)));
            ids.take(packet_id(id));
        }
    }
}
