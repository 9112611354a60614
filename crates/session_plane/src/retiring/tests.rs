use cluster::NodeId;

use self::world::{Action, World};
use super::*;
use crate::version_vector::INTERVALS_MAX;
use crate::{Dot, Run, VersionVector};

mod world;

use proptest::prelude::*;

fn action() -> impl Strategy<Value = Action> {
    let at = || 0..world::MEMBERS;
    let copy = || 0..world::COPIES;
    prop_oneof![
        6 => (at(), any::<u8>()).prop_map(|(at, reaches)| Action::Make { at, reaches }),
        4 => at().prop_map(|at| Action::Claim { at }),
        5 => (at(), at(), copy()).prop_map(|(at, from, copy)| Action::Merge { at, from, copy }),
        2 => at().prop_map(|at| Action::Restart { at }),
        1 => at().prop_map(|at| Action::Replace { at }),
        1 => (at(), copy()).prop_map(|(at, copy)| Action::NewCopy { at, copy }),
        6 => (at(), any::<u8>()).prop_map(|(at, reaches)| Action::Tell { at, reaches }),
        2 => at().prop_map(|at| Action::Notice { at }),
        2 => (at(), copy()).prop_map(|(at, copy)| Action::MergeLost { at, copy }),
        6 => at().prop_map(|at| Action::Retire { at }),
        2 => Just(Action::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn a_retired_run_hides_no_event_that_a_copy_lacks(actions in proptest::collection::vec(action(), 0..60)) {
        let mut world = World::new();
        for action in actions {
            world.play(action);
            world.check()?;
        }
        world.play(Action::Settle);
        world.play(Action::Settle);
        world.check()?;
        prop_assert!(world.intervals() <= world.nodes(), "{} intervals", world.intervals());
    }
}

/// A member gets an event after it told, from a node that is lost before that has told the others.
#[test]
fn an_event_that_a_lost_node_gave_away_is_not_hidden() {
    let mut world = World::new();
    let (met, source, other, all) = (0, 1, 2, u8::MAX);
    world.play(Action::Make {
        at: source,
        reaches: 0,
    });
    world.play(Action::Restart { at: source });
    for at in [met, other] {
        world.play(Action::Tell { at, reaches: all });
    }
    world.play(Action::Replace { at: source });
    for at in [source, other] {
        world.play(Action::Notice { at });
    }
    for at in [source, other] {
        world.play(Action::Tell { at, reaches: all });
    }
    for copy in 0..world::COPIES {
        world.play(Action::MergeLost { at: met, copy });
    }
    world.play(Action::Retire { at: other });
    world.check().expect("a member has the event");
    world.play(Action::Settle);
    world.check().expect("all have it");
    assert_eq!(world.floor(other, 2), Some(Incarnation(u32::MAX)));
}

/// Every restart makes a run, and every run makes events.
#[test]
fn a_vector_stays_as_long_as_there_are_nodes() {
    let mut world = World::new();
    for restart in 0..1_000 {
        let at = restart % world::MEMBERS;
        world.play(Action::Restart { at });
        for at in 0..world::MEMBERS {
            world.play(Action::Make { at, reaches: u8::MAX });
        }
        world.play(Action::Agree);
        assert!(world.intervals() <= world::MEMBERS, "after {restart} restarts");
        assert!(world.told() <= world::MEMBERS, "after {restart} restarts");
    }
    assert_eq!(
        world.floor(0, 1),
        Some(Incarnation(334)),
        "its starts but the present one"
    );
}

fn run(node: u64, start: u32) -> Run {
    Run {
        node: NodeId(node),
        incarnation: Incarnation(start),
    }
}

fn vector_of(intervals: &[Option<Interval>]) -> VersionVector {
    let mut vector = VersionVector::default();
    for interval in intervals {
        vector
            .insert(interval.expect("ascending"))
            .expect("there is room");
    }
    vector
}

/// What is settled of the first run of node 1, which has ended.
fn settled(covered: &VersionVector) -> Settled {
    let none = VersionVector::default();
    let copy = CopySets {
        covered,
        taken: &none,
        holes: &none,
    };
    Settled::of_copies([copy], &none, &BTreeMap::from([(NodeId(1), Incarnation(0))]))
}

fn up_to(last: u64) -> VersionVector {
    vector_of(&[Interval::up_to(run(1, 0), last)])
}

fn floor() -> VersionVector {
    vector_of(&[Interval::of_runs(NodeId(1), Incarnation(0), Incarnation(0))])
}

fn nodes(nodes: impl IntoIterator<Item = u64>) -> BTreeSet<NodeId> {
    nodes.into_iter().map(NodeId).collect()
}

/// First runs of nodes.
fn runs(nodes: impl IntoIterator<Item = u64>) -> BTreeSet<Run> {
    nodes.into_iter().map(|node| run(node, 0)).collect()
}

/// Node 3 has told `own`, and its only peer each of `peers` in turn.
fn agreed(own: &VersionVector, peers: &[VersionVector], is_complete: bool) -> Vec<Retired> {
    let mut retiring = Retiring::new(NodeId(3));
    retiring.tell(settled(own));
    for peer in peers {
        retiring.record(NodeId(2), settled(peer), runs([2, 3]));
    }
    let members = if is_complete {
        nodes([2, 3])
    } else {
        nodes([2, 3, 4])
    };
    retiring.agreed(&settled(own), &runs([2, 3]), &members, |_, _| true)
}

#[test]
fn a_run_is_retired_when_all_members_have_told_the_same() {
    assert_eq!(agreed(&up_to(5), &[up_to(5)], true).len(), 1);
    assert_eq!(agreed(&up_to(5), &[up_to(4)], true), []);
    assert_eq!(agreed(&up_to(5), &[up_to(5)], false), [], "a member is away");
    assert_eq!(agreed(&up_to(5), &[], true), [], "the peer has told nothing");
}

#[test]
fn the_word_of_a_peer_is_taken_if_both_had_told_the_same() {
    let retired = agreed(&up_to(5), &[up_to(5), floor()], false);
    let [retired] = &retired[..] else {
        panic!("{retired:?} is not one run");
    };
    let mut same = up_to(5);
    assert_eq!(retired.apply(&mut same), Ok(true));
    assert_eq!(same, floor());
    let mut later = VersionVector::default();
    assert_eq!(retired.apply(&mut later), Ok(false), "it has to merge");
    assert!(later.is_empty());
    assert_eq!(agreed(&up_to(4), &[up_to(5), floor()], true), []);
}

/// It told that it has nothing, before it merged (seed 893 of the model).
#[test]
fn a_node_in_the_place_of_a_lost_one_takes_no_word() {
    assert_eq!(agreed(&VersionVector::default(), &[floor()], true), []);
    assert_eq!(agreed(&VersionVector::default(), &[up_to(5), floor()], true), []);
}

#[test]
fn what_has_changed_since_it_was_told_is_not_retired() {
    let mut retiring = Retiring::new(NodeId(3));
    retiring.tell(settled(&up_to(5)));
    let (members, present) = (nodes([2, 3]), runs([2, 3]));
    retiring.record(NodeId(2), settled(&up_to(5)), present.clone());
    assert_eq!(
        retiring.agreed(&settled(&up_to(6)), &present, &members, |_, _| true),
        []
    );
    assert_eq!(
        retiring
            .agreed(&settled(&up_to(5)), &present, &members, |_, _| true)
            .len(),
        1
    );
    retiring.forget(NodeId(2));
    assert_eq!(
        retiring.agreed(&settled(&up_to(5)), &present, &members, |_, _| true),
        [],
        "a new stay"
    );
}

/// A node that was lost may have given the peer an event since (seed 1820000000164 of the model).
#[test]
fn the_word_of_a_peer_counts_only_if_it_had_exactly_the_members() {
    let (members, present) = (nodes([2, 3, 5]), runs([2, 3, 5]));
    let mut retiring = Retiring::new(NodeId(3));
    retiring.tell(settled(&up_to(5)));
    retiring.record(NodeId(5), settled(&up_to(5)), present.clone());
    for among in [runs([2, 3, 4]), runs([2, 3]), runs([2, 3, 4, 5])] {
        retiring.record(NodeId(2), settled(&up_to(5)), among);
        assert_eq!(
            retiring.agreed(&settled(&up_to(5)), &present, &members, |_, _| true),
            []
        );
    }
    retiring.record(NodeId(2), settled(&up_to(5)), present.clone());
    assert_eq!(
        retiring
            .agreed(&settled(&up_to(5)), &present, &members, |_, _| true)
            .len(),
        1
    );
}

/// A run that has ended since may have given the peer a number that no node has beside it (seed 49530914184507
/// of the model).
#[test]
fn the_word_of_a_peer_counts_only_among_the_runs_that_are_present() {
    let members = nodes([2, 3, 5]);
    let before = runs([2, 3, 5]);
    let present = BTreeSet::from([run(2, 0), run(3, 0), run(5, 1)]);
    let mut retiring = Retiring::new(NodeId(3));
    retiring.tell(settled(&up_to(5)));
    retiring.record(NodeId(5), settled(&up_to(5)), present.clone());
    retiring.record(NodeId(2), settled(&up_to(5)), before);
    assert_eq!(
        retiring.agreed(&settled(&up_to(5)), &present, &members, |_, _| true),
        []
    );
    retiring.record(NodeId(2), settled(&up_to(5)), present.clone());
    assert_eq!(
        retiring
            .agreed(&settled(&up_to(5)), &present, &members, |_, _| true)
            .len(),
        1
    );
}

/// A node that has deleted a copy with numbers that it does not know any more has made a marker.
#[test]
fn the_word_of_a_peer_counts_only_if_it_knew_the_last_markers() {
    let (members, present) = (nodes([2, 3, 5]), runs([2, 3, 5]));
    let mut retiring = Retiring::new(NodeId(3));
    retiring.tell(settled(&up_to(5)));
    for peer in [2, 5] {
        retiring.record(NodeId(peer), settled(&up_to(5)), present.clone());
    }
    let of_node_5 = |number| Dot {
        run: run(5, 0),
        number,
    };
    let mut agreed = |last: u64, known: u64| {
        retiring.record_marker(of_node_5(last));
        let has_told_of = |peer, marker: Dot| peer == NodeId(5) || marker.number <= known;
        retiring.agreed(&settled(&up_to(5)), &present, &members, has_told_of)
    };
    assert_eq!(agreed(7, 7).len(), 1);
    assert_eq!(agreed(9, 7), []);
    assert_eq!(agreed(9, 9).len(), 1);
    retiring.forget(NodeId(5));
    let none = |_, _| false;
    assert_eq!(
        retiring.agreed(&settled(&up_to(5)), &runs([2, 3]), &nodes([2, 3]), none),
        []
    );
    retiring.record(NodeId(2), settled(&up_to(5)), runs([2, 3]));
    let agreed = retiring.agreed(&settled(&up_to(5)), &runs([2, 3]), &nodes([2, 3]), none);
    assert_eq!(
        agreed.len(),
        1,
        "the marker of a node that is gone counts no more"
    );
}

#[test]
fn nothing_is_settled_that_a_copy_lacks_or_an_entry_names() {
    let none = VersionVector::default();
    let (five, six) = (up_to(5), vector_of(&[Interval::new(run(1, 0), 6, 6)]));
    let ended = BTreeMap::from([(NodeId(1), Incarnation(0))]);
    let up_to = |covered: [&VersionVector; 2], taken, holes, named| {
        let copies = covered.map(|covered| CopySets {
            covered,
            taken,
            holes,
        });
        Settled::of_copies(copies, named, &ended).up_to(NodeId(1))
    };
    let all = Some(Incarnation(0));
    assert_eq!(up_to([&five, &five], &none, &none, &five), all);
    assert_eq!(up_to([&five, &none], &none, &none, &none), None);
    assert_eq!(up_to([&none, &five], &none, &none, &none), None);
    assert_eq!(up_to([&five, &five], &six, &none, &none), None);
    assert_eq!(up_to([&five, &five], &none, &six, &none), None);
    assert_eq!(up_to([&five, &five], &none, &none, &six), None);
    assert_eq!(Settled::of_copies([], &none, &ended), Settled::default());
}

#[test]
fn parts_that_no_member_tells_are_refused() {
    let count = SETTLED_NODES_MAX + 1;
    let many = (1..=count as u64).map(|node| (NodeId(node), Incarnation(1)));
    assert_eq!(
        Settled::new(many.collect(), VersionVector::default()),
        Err(SettledError::TooManyNodes { count })
    );
    let node = NodeId(1);
    let one = BTreeMap::from([(node, Incarnation(0))]);
    let not_settled = SettledError::NotSettled { node };
    let later = vector_of(&[Interval::up_to(run(1, 1), 5)]);
    assert_eq!(Settled::new(one, later), Err(not_settled));
    assert_eq!(Settled::new(BTreeMap::new(), up_to(5)), Err(not_settled));
    let told = settled(&up_to(5));
    let runs = told.runs().collect();
    assert_eq!(Settled::new(runs, told.events().clone()), Ok(told));
}

/// What was told before is longer than a vector may be.
#[test]
fn the_record_of_a_peer_is_bounded() {
    let mut told = Told::default();
    for half in 0..3_u32 {
        let (start, runs) = (1 + half, INTERVALS_MAX as u64 - 1);
        let scattered: Vec<Dot> = (1..=runs)
            .map(|at| Dot {
                run: run(1 + u64::from(half), start),
                number: 2 * at,
            })
            .collect();
        let events = vector_of(&scattered.into_iter().map(Interval::one).collect::<Vec<_>>());
        let up_to = BTreeMap::from([(NodeId(1 + u64::from(half)), Incarnation(start))]);
        told.record(Settled::new(up_to, events).expect("it is bounded"));
        assert_eq!(told.nodes().count(), 1);
        assert!(told.events().intervals().len() <= INTERVALS_MAX);
    }
}
