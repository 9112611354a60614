//! Few slots: a cluster with as many sessions as a simulation has, and not with thousands of empty slots beside.
//!
//! What a node does with a slot does not depend on how many there are, and most of the time of a simulation goes into the
//! others. So most seeds have few slots, and names of clients that belong there. Every sixteenth seed has all of them.

use session_plane::{GroupPart, Slot, SlotSet};

/// Of so many slots one is there.
const ONE_OF: u16 = 128;

/// Seeds that are a multiple of this have all slots.
const ALL_SLOTS_EVERY: u64 = 16;

/// Shared groups of the simulations: share names and filters.
const GROUPS: [&str; 5] = ["crew/t/#", "s/a", "s/a/#", "s/g/0", "s/g/#"];

/// Slots of the cluster of a seed. None: all.
pub fn of_seed(seed: u64) -> Option<SlotSet> {
    (!seed.is_multiple_of(ALL_SLOTS_EVERY)).then(few_slots)
}

/// Name of a client in one of the few slots: `name`, or `name` with a number.
pub fn named(name: &str) -> String {
    if is_there(name) {
        return name.to_owned();
    }
    let names = (1_u32..).map(|number| format!("{name}-{number}"));
    let mut names = names.filter(|name| is_there(name));
    names.next().expect("one of 128 names is there")
}

fn is_there(name: &str) -> bool {
    Slot::of_client(name.as_bytes()).number().is_multiple_of(ONE_OF)
}

fn few_slots() -> SlotSet {
    let some = Slot::all().filter(|slot| slot.is_of_every_node() || slot.number().is_multiple_of(ONE_OF));
    let of_groups = GROUPS
        .iter()
        .flat_map(|group| GroupPart::all().map(|part| Slot::of_group(group.as_bytes(), part)));
    some.chain(of_groups).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_slots_that_are_there() {
        let slots = of_seed(1).expect("few slots");
        assert!(slots.len() < 64, "{}", slots.len());
        for number in 0..100 {
            let name = named(&format!("client{number}"));
            assert!(slots.contains(Slot::of_client(name.as_bytes())), "{name}");
            assert_eq!(named(&name), name);
        }
        assert_eq!(of_seed(0), None);
        assert_eq!(of_seed(32), None);
    }
}
