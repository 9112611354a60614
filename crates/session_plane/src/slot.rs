//! Slot: the unit of ownership, of transfer and of sharding.
//!
//! A client's sessions are in the slot of its client id. A shared group has eight parts, each
//! placed by a hash of its own, so that a busy group is not one node's work. Two further slots are
//! maps that every node owns: [`Slot::ROUTES`] and [`Slot::RETAINED`]. They have copies, streams,
//! holes and transfers as all others have. *Invariant*: a [`Slot`] in hand is below
//! [`Slot::COUNT`]; what a peer sends is parsed by [`Slot::new`].

use crate::hash::hash;

/// Slots of a cluster, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(u16);

impl Slot {
    /// Slots that a hash names, of clients and of groups: the numbers below this one. A format for
    /// ever, as the hash is.
    pub const HASHED: u16 = 4_096;

    /// Map of every node: sessions, their ends and their subscriptions, of all clients.
    pub const ROUTES: Slot = Slot(Slot::HASHED);

    /// Map of every node: retained messages and clears, with the topic in the place of the client id.
    pub const RETAINED: Slot = Slot(Slot::HASHED + 1);

    /// Number of slots.
    pub const COUNT: u16 = Slot::HASHED + 2;

    /// Slot with the number `number`, as a peer or the disk names it.
    ///
    /// # Errors
    ///
    /// [`SlotOutOfRange`] where there is no such slot.
    pub fn new(number: u16) -> Result<Slot, SlotOutOfRange> {
        if number < Slot::COUNT {
            Ok(Slot(number))
        } else {
            Err(SlotOutOfRange { number })
        }
    }

    /// Slot of a client's sessions.
    pub fn of_client(client_id: &[u8]) -> Slot {
        Slot::of_hash(hash(client_id))
    }

    /// Slot of one part of a shared group.
    ///
    /// The hashed bytes are the group's, then one byte with the part.
    pub fn of_group(group: &[u8], part: GroupPart) -> Slot {
        let mut name = Vec::with_capacity(group.len() + 1);
        name.extend_from_slice(group);
        name.push(part.0);
        Slot::of_hash(hash(&name))
    }

    /// Every slot, in ascending order: those that a hash names, then the maps of every node.
    pub fn all() -> impl DoubleEndedIterator<Item = Slot> {
        (0..Slot::COUNT).map(Slot)
    }

    /// Slots that a hash names, in ascending order.
    pub(crate) fn hashed() -> impl DoubleEndedIterator<Item = Slot> {
        (0..Slot::HASHED).map(Slot)
    }

    /// The slot is a map that every node of a view owns.
    pub fn is_of_every_node(self) -> bool {
        self.0 >= Slot::HASHED
    }

    /// Number of the slot, as it is sent and stored.
    pub fn number(self) -> u16 {
        self.0
    }

    /// Place in arrays of [`Slot::COUNT`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    fn of_hash(hash: u64) -> Slot {
        let number = hash % u64::from(Slot::HASHED);
        Slot(u16::try_from(number).expect("a remainder is below its divisor"))
    }
}

/// A slot was named that no cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("slot {number} is out of range: slots are 0 to {}", Slot::COUNT - 1)]
pub struct SlotOutOfRange {
    /// Number that was named.
    pub number: u16,
}

/// Part of a shared group: the topics that one owner distributes to the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupPart(u8);

impl GroupPart {
    /// Parts of each shared group; a format for ever, as the hash is.
    pub const COUNT: u8 = 8;

    /// Part that distributes messages of `topic`; all messages of a topic are in one part, and so
    /// in order.
    pub fn of_topic(topic: &[u8]) -> GroupPart {
        let number = hash(topic) % u64::from(GroupPart::COUNT);
        GroupPart(u8::try_from(number).expect("a remainder is below its divisor"))
    }

    /// Every part, in ascending order.
    pub fn all() -> impl DoubleEndedIterator<Item = GroupPart> {
        (0..GroupPart::COUNT).map(GroupPart)
    }

    /// Number of the part, below [`GroupPart::COUNT`].
    pub fn number(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Never to be edited: with other values, stored sessions are not found.
    #[test]
    fn slots_of_clients_are_golden() {
        let golden: [(&[u8], u16); 5] = [
            (b"", 2_457),
            (b"press-7", 3_825),
            (b"panel", 3_482),
            ("größe".as_bytes(), 677),
            (&[0xFF; 64], 2_948),
        ];
        for (client_id, number) in golden {
            assert_eq!(Slot::of_client(client_id).number(), number, "{client_id:?}");
        }
    }

    /// Never to be edited: with other values, members of a group are not found.
    #[test]
    fn slots_of_groups_are_golden() {
        let slots: Vec<u16> = GroupPart::all()
            .map(|part| Slot::of_group(b"presses", part).number())
            .collect();
        assert_eq!(slots, [1_150, 2_420, 1_987, 3_890, 1_642, 3_570, 564, 206]);
        let parts = [b"plant/7/cmd".as_slice(), b"plant/8/cmd", b""].map(GroupPart::of_topic);
        assert_eq!(parts.map(GroupPart::number), [3, 2, 1]);
    }

    #[test]
    fn a_number_out_of_range_is_named() {
        let error = Slot::new(4_098).expect_err("the first that is no slot");
        assert_eq!(
            error.to_string(),
            "slot 4098 is out of range: slots are 0 to 4097"
        );
        assert_eq!(Slot::all().count(), 4_098);
        assert!(Slot::all().all(|slot| Slot::new(slot.number()) == Ok(slot)));
    }

    /// Never to be edited: the numbers are sent and stored.
    #[test]
    fn maps_of_every_node_are_behind_the_slots_that_a_hash_names() {
        assert_eq!(Slot::new(4_096), Ok(Slot::ROUTES));
        assert_eq!(Slot::new(4_097), Ok(Slot::RETAINED));
        let of_every_node = Slot::all().filter(|slot| slot.is_of_every_node());
        assert!(of_every_node.eq([Slot::ROUTES, Slot::RETAINED]));
        let others = Slot::all().filter(|slot| !slot.is_of_every_node());
        assert!(others.eq(Slot::hashed()));
        assert_eq!(Slot::HASHED, 4_096, "the hash modulus is a format for ever");
    }

    /// 40 clients for each slot: none has more than twice that, six standard deviations away.
    #[test]
    fn clients_are_spread_over_all_slots() {
        let mut counts = vec![0_u32; usize::from(Slot::HASHED)];
        for client in 0..40 * u32::from(Slot::HASHED) {
            counts[Slot::of_client(format!("client-{client}").as_bytes()).index()] += 1;
        }
        assert!(counts.iter().all(|count| (1..=80).contains(count)));
    }

    proptest! {
        #[test]
        fn a_slot_is_the_remainder_of_the_hash(client_id in proptest::collection::vec(any::<u8>(), 0..80)) {
            let slot = Slot::of_client(&client_id);
            prop_assert_eq!(u64::from(slot.number()), hash(&client_id) % 4_096);
            prop_assert_eq!(Slot::new(slot.number()), Ok(slot));
        }

        #[test]
        fn a_topic_is_in_one_part(topic in proptest::collection::vec(any::<u8>(), 0..80)) {
            let part = GroupPart::of_topic(&topic);
            prop_assert_eq!(u64::from(part.number()), hash(&topic) % 8);
            prop_assert!(GroupPart::all().any(|each| each == part));
        }

        #[test]
        fn parts_of_a_group_are_apart(group in "[a-z]{1,12}") {
            let slots: BTreeSet<Slot> = GroupPart::all()
                .map(|part| Slot::of_group(group.as_bytes(), part))
                .collect();
            prop_assert!(slots.len() >= 5, "eight parts in {} slots", slots.len());
        }
    }
}
