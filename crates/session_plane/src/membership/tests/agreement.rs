//! Histories of faults: nodes agree on who is present once the faults are over.

use super::*;

/// Time in which everybody agrees once everything is whole: peers that still answer the other side
/// of an old stay are given up, handshakes follow, and states.
const REST: u64 = 8 * SILENCE_MAX + FOUND_AFTER;

#[derive(Debug, Clone)]
enum Step {
    Cut(Index, Index),
    CutBoth(Index, Index),
    Slow(Index, Index),
    /// Cuts all links to a node, from it, or both.
    Isolate(Index, bool, bool),
    Heal,
    Pause(Index),
    Crash(Index),
    Restart(Index),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = any::<Index>;
    let step = prop_oneof![
        3 => (id(), id()).prop_map(|(from, to)| Step::Cut(from, to)),
        2 => (id(), id()).prop_map(|(from, to)| Step::CutBoth(from, to)),
        2 => (id(), id()).prop_map(|(from, to)| Step::Slow(from, to)),
        2 => (id(), any::<bool>(), any::<bool>()).prop_map(|(of, to, from)| Step::Isolate(of, to, from)),
        3 => Just(Step::Heal),
        2 => id().prop_map(Step::Pause),
        2 => id().prop_map(Step::Crash),
        2 => id().prop_map(Step::Restart),
        4 => (1..6_u64).prop_map(|ticks| Step::Pass(50 * ticks)),
        4 => (1..40_u64).prop_map(|ticks| Step::Pass(100 * ticks)),
    ];
    proptest::collection::vec(step, 0..50)
}

impl World {
    fn id_of(&self, index: &Index) -> u64 {
        1 + index.index(self.ids().count()) as u64
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Cut(from, to) => self.network.cut((self.id_of(from), self.id_of(to))),
            Step::CutBoth(from, to) => self.cut_both(self.id_of(from), self.id_of(to)),
            Step::Slow(from, to) => self.network.slow((self.id_of(from), self.id_of(to))),
            Step::Isolate(of, to, from) => {
                let of = self.id_of(of);
                for other in self.ids().filter(|other| *other != of) {
                    if *to {
                        self.network.cut((other, of));
                    }
                    if *from {
                        self.network.cut((of, other));
                    }
                }
            }
            Step::Heal => self.network.heal(),
            Step::Pause(id) => {
                let id = self.id_of(id);
                let machine = self.machines.get_mut(&id).expect("a node");
                machine.is_paused = !machine.is_paused;
            }
            Step::Crash(id) => self.crash(self.id_of(id)),
            Step::Restart(id) => self.restart(self.id_of(id)),
            Step::Pass(millis) => self.pass(*millis),
        }
    }

    fn cut_both(&mut self, one: u64, other: u64) {
        self.network.cut((one, other));
        self.network.cut((other, one));
    }

    /// Heals everything and starts everybody.
    fn end_faults(&mut self) {
        self.network.heal();
        for id in self.ids() {
            self.machines.get_mut(&id).expect("a node").is_paused = false;
            if !self.machines[&id].is_alive {
                self.restart(id);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_agree_once_faults_are_over(count in 2..=5_u64, steps in steps()) {
        let mut world = World::settled(count);
        for step in &steps {
            world.step(step);
        }
        world.end_faults();
        world.pass(REST);
        world.assert_agreed();
        world.seen.clear();
        world.pass(3 * SILENCE_MAX);
        world.assert_agreed();
        let changes = world.seen.iter().filter(|seen| !matches!(seen.action, Action::SendHandshake { .. }));
        prop_assert_eq!(changes.count(), 0, "nothing changes at rest");
    }

    #[test]
    fn of_two_groups_without_a_link_the_one_of_the_lowest_node_stays(
        groups in proptest::collection::vec(0..3_u8, 3..=6),
        ways in 1..4_u8,
    ) {
        let of_group = |group| (1_u64..).zip(&groups).filter(move |(_, of)| **of == group).map(|(id, _)| id);
        let [witnesses, mut stays, mut goes] = [0, 1, 2].map(|group| of_group(group).collect::<Vec<u64>>());
        if goes.first() < stays.first() {
            std::mem::swap(&mut stays, &mut goes);
        }
        let mut world = World::settled(groups.len() as u64);
        for (one, other) in stays.iter().flat_map(|one| goes.iter().map(move |other| (*one, *other))) {
            if ways & 1 != 0 {
                world.network.cut((one, other));
            }
            if ways & 2 != 0 {
                world.network.cut((other, one));
            }
        }
        world.pass(10 * SILENCE_MAX);
        for witness in witnesses {
            let all = world.gave_up();
            let own = all.iter().filter(|(by, _)| *by == witness).map(|(_, whom)| *whom);
            let gone = if stays.is_empty() { &stays } else { &goes };
            prop_assert!(own.eq(gone.iter().copied()), "witness {}: {:?}", witness, all);
            prop_assert!(world.membership(witness).is_complete(), "they come back");
        }
        world.network.heal();
        world.pass(REST);
        world.assert_agreed();
    }
}

#[test]
fn a_process_that_is_gone_is_given_up_early() {
    let mut world = World::settled(3);
    world.crash(3);
    let begin = world.now;
    world.pass(GONE + 300);
    assert_eq!(world.gave_up(), [(1, 3), (2, 3)]);
    assert!(world.seen.iter().all(|seen| seen.at >= begin + GONE - 200));
    world.restart(3);
    world.pass(2 * OFFER_EVERY);
    assert!(world.ids().all(|id| world.membership(id).is_complete()));
}

#[test]
fn a_new_run_ends_the_old_one_at_once() {
    let mut world = World::settled(3);
    world.restart(1);
    world.restart(3);
    world.pass(2 * OFFER_EVERY);
    let by_new_run = |seen: &&world::Seen| {
        matches!(
            seen.action,
            Action::GaveUp {
                reason: GiveUpReason::NewerRun,
                ..
            }
        )
    };
    assert_eq!(world.seen.iter().filter(by_new_run).count(), 2);
    assert_eq!(world.gave_up(), [(2, 1), (2, 3)]);
    assert!(world.ids().all(|id| world.membership(id).is_complete()));
}

#[test]
fn of_two_sides_exactly_the_smaller_one_merges() {
    for (smaller, larger) in [(&[1, 2][..], &[3, 4, 5][..]), (&[3, 4], &[1, 2]), (&[2], &[1])] {
        let mut world = World::settled((smaller.len() + larger.len()) as u64);
        for one in smaller {
            for other in larger {
                world.cut_both(*one, *other);
            }
        }
        world.pass(3 * SILENCE_MAX);
        world.seen.clear();
        world.network.heal();
        world.pass(REST);
        world.assert_agreed();
        let merging = world.seen.iter().filter(|seen| {
            let state = NodeState::MergeMinority;
            seen.action == Action::StateChanged { state }
        });
        let merging: BTreeSet<u64> = merging.map(|seen| seen.by).collect();
        assert!(merging.iter().eq(smaller), "{merging:?}");
    }
}
