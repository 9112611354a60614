use super::*;
use crate::clock;

const KIB: usize = 1 << 10;

/// A budget of 64 KiB, of which strangers have 8, and what each connection holds of it.
struct Budget {
    budget: ReadBudget,
    now: Instant,
    held: BTreeMap<ConnectionId, Holding>,
}

impl Budget {
    fn new() -> Self {
        let memory_max = (64 * KIB) as u64 * PART_OF_MEMORY;
        Self {
            budget: ReadBudget::new(memory_max, 1_024, 1_024),
            now: clock::instant(),
            held: BTreeMap::new(),
        }
    }

    fn hold(&mut self, number: u32, kib: usize, is_stranger: bool) {
        let now = Holding {
            bytes: kib * KIB,
            is_stranger,
        };
        let before = self.held.insert(id(number), now).unwrap_or_default();
        self.budget.hold(id(number), before, now);
    }

    fn client(&mut self, number: u32, kib: usize) {
        self.hold(number, kib, false);
    }

    fn may_go_on(&mut self, number: u32, missing_kib: usize) -> bool {
        self.budget.may_go_on(self.now, id(number), missing_kib * KIB)
    }

    fn end(&mut self, number: u32) -> Vec<ConnectionId> {
        self.client(number, 0);
        self.budget.end_turn(self.now, id(number))
    }

    fn overrun(&self) -> Option<ConnectionId> {
        self.budget.overrun(self.now)
    }
}

fn id(number: u32) -> ConnectionId {
    ConnectionId::new(number, number)
}

#[test]
fn everybody_reads_on_until_half_of_it_is_held() {
    let mut budget = Budget::new();
    budget.client(1, 32);
    assert!(budget.may_go_on(2, 1_000), "half is not too much");
    budget.client(2, 1);
    assert!(budget.may_go_on(3, 30), "there is room for its rest");
    assert!(!budget.may_go_on(4, 3), "there is none for this one, too");
    assert!(!budget.may_go_on(5, 1), "nobody overtakes it");
    assert!(budget.may_go_on(3, 10), "it goes on to its end");
    assert_eq!(budget.end(3), [id(4), id(5)], "in the order in which they asked");
    assert!(budget.may_go_on(5, 1));
}

#[test]
fn one_packet_goes_on_however_large_it_is() {
    let mut budget = Budget::new();
    budget.client(1, 33);
    assert!(budget.may_go_on(1, 1_000));
}

#[test]
fn a_connection_that_holds_its_turn_for_too_long_ends_if_others_wait() {
    let mut budget = Budget::new();
    budget.client(1, 33);
    assert!(budget.may_go_on(1, 32));
    budget.now += TURN_MAX;
    assert_eq!(budget.overrun(), None, "nobody waits");
    assert_eq!(budget.budget.deadline(), None);
    assert!(!budget.may_go_on(2, 1));
    assert_eq!(budget.budget.deadline(), Some(budget.now));
    assert_eq!(budget.overrun(), Some(id(1)));
    assert_eq!(budget.end(1), [id(2)]);
    assert_eq!(budget.overrun(), None);
}

#[test]
fn when_all_is_held_the_largest_without_a_turn_ends_and_of_equals_the_newest() {
    let mut budget = Budget::new();
    budget.client(1, 40);
    assert!(budget.may_go_on(1, 1), "it has a turn");
    for number in [2, 3] {
        budget.client(number, 10);
    }
    budget.client(4, 4);
    assert_eq!(budget.overrun(), None, "that is just all of it");
    budget.client(5, 1);
    assert_eq!(budget.overrun(), Some(id(3)));
    budget.end(3);
    assert_eq!(budget.overrun(), None);
}

#[test]
fn strangers_have_a_part_of_their_own_and_give_way_to_nobody_else() {
    let mut budget = Budget::new();
    for number in 1..=4 {
        budget.hold(number, 2, true);
    }
    assert_eq!(budget.overrun(), None);
    budget.hold(5, 1, true);
    assert_eq!(
        budget.overrun(),
        Some(id(4)),
        "the largest, and the newest of those"
    );
    // Let in, it holds as a client.
    budget.hold(4, 2, false);
    assert_eq!(budget.overrun(), None);
}

#[test]
fn who_waits_and_leaves_is_forgotten() {
    let mut budget = Budget::new();
    budget.client(1, 33);
    assert!(budget.may_go_on(1, 32));
    assert!(!budget.may_go_on(2, 1));
    assert!(budget.end(2).is_empty());
    assert!(budget.end(1).is_empty());
    assert!(budget.budget.waiting.is_empty());
    assert_eq!((budget.budget.promised, budget.budget.held()), (0, 0));
}
