//! Which packet identifier comes next.
//!
//! Identifiers are given in turn, so that one is not used again soon after its acknowledgement. Whether a run of
//! identifiers is free is found out once for the run, not once for each identifier.

use protocol::packet::PacketId;

/// Gives packet identifiers that are not in use. [MQTT-2.2.1-4]
#[derive(Debug, Default)]
pub(super) struct PacketIds {
    /// The identifier that comes next, less one: 0 to 65,534.
    next: u32,
    /// How many identifiers from there on are known not to be in use.
    free: u32,
}

impl PacketIds {
    /// Takes the next identifier that is not among `in_use`; `None` if all 65,535 are.
    pub(super) fn take(&mut self, in_use: impl Iterator<Item = PacketId>) -> Option<PacketId> {
        if self.free == 0 {
            self.find_free(in_use);
        }
        self.take_known()
    }

    /// Takes `wanted` if it is not among `in_use`.
    pub(super) fn take_this(&mut self, wanted: PacketId, in_use: impl Iterator<Item = PacketId>) -> bool {
        let ahead = distance(self.next, wanted);
        if ahead < self.free {
            self.skip(ahead);
        } else {
            self.next = u32::from(wanted.get()) - 1;
            self.find_free(in_use);
            if distance(self.next, wanted) != 0 || self.free == 0 {
                return false;
            }
        }
        self.take_known() == Some(wanted)
    }

    /// Identifiers were taken in another way.
    pub(super) fn forget(&mut self) {
        self.free = 0;
    }

    fn take_known(&mut self) -> Option<PacketId> {
        if self.free == 0 {
            return None;
        }
        let id = u16::try_from(self.next + 1).ok().and_then(PacketId::new);
        self.skip(1);
        id
    }

    fn skip(&mut self, count: u32) {
        assert!(count <= self.free);
        self.next = (self.next + count) % COUNT;
        self.free -= count;
    }

    /// Moves `next` to the first free identifier and counts how many are free from there.
    fn find_free(&mut self, in_use: impl Iterator<Item = PacketId>) {
        let mut taken: Vec<u32> = in_use.map(|id| distance(self.next, id)).collect();
        taken.sort_unstable();
        let mut first_free = 0;
        let mut end = COUNT;
        for distance in taken {
            if distance > first_free {
                end = distance;
                break;
            }
            first_free = distance + 1;
        }
        self.next = (self.next + first_free) % COUNT;
        self.free = end.saturating_sub(first_free);
    }
}

/// How many identifiers `id` is ahead of the one at `next`.
fn distance(next: u32, id: PacketId) -> u32 {
    (u32::from(id.get()) - 1 + COUNT - next) % COUNT
}

/// How many packet identifiers there are.
const COUNT: u32 = 65_535;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn id(id: u16) -> PacketId {
        PacketId::new(id).unwrap()
    }

    #[test]
    fn mqtt_2_2_1_4_identifiers_in_use_are_passed_over() {
        let mut ids = PacketIds::default();
        let in_use = [id(2), id(3), id(5)];
        let taken: Vec<u16> = (0..4)
            .map(|_| ids.take(in_use.into_iter()).unwrap().get())
            .collect();
        assert_eq!(taken, [1, 4, 6, 7]);
    }

    #[test]
    fn identifiers_come_round_after_65535() {
        let mut ids = PacketIds::default();
        assert!(ids.take_this(id(65_535), [].into_iter()));
        assert_eq!(ids.take([id(65_535)].into_iter()), Some(id(1)));
    }

    #[test]
    fn none_is_left_when_all_are_in_use() {
        let mut ids = PacketIds::default();
        let all = || (1..=u16::MAX).map(id);
        assert_eq!(ids.take(all()), None);
        assert!(!ids.take_this(id(9), all()));
        assert_eq!(ids.take(all().filter(|other| other.get() != 700)), Some(id(700)));
    }

    proptest! {
        #[test]
        fn no_identifier_is_given_twice(calls in prop::collection::vec((0..3_u8, 1..40_u16), 0..200)) {
            let mut ids = PacketIds::default();
            let mut in_use: BTreeSet<PacketId> = BTreeSet::new();
            for (call, number) in calls {
                match call {
                    0 => {
                        let taken = ids.take(in_use.iter().copied()).unwrap();
                        prop_assert!(in_use.insert(taken));
                    }
                    1 => {
                        let is_free = !in_use.contains(&id(number));
                        prop_assert_eq!(ids.take_this(id(number), in_use.iter().copied()), is_free);
                        in_use.insert(id(number));
                    }
                    _ => {
                        let nth = in_use.iter().nth(usize::from(number) % in_use.len().max(1)).copied();
                        in_use.retain(|other| Some(*other) != nth);
                    }
                }
            }
        }
    }
}
