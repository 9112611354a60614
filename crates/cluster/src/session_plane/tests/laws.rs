//! The laws, for every kind.

use proptest::prelude::*;

use super::world::{Step, World, steps};
use super::*;

/// Plays any steps, lets all hear of everything, and ends everything.
fn check_world<V: Numbered>(nodes: usize, steps: &[Step]) {
    let mut world = World::<V>::new(nodes);
    world.play(steps);
    check_laws(&world);
    world.converge();
    world.end_all();
    world.play(steps);
    world.end_all();
}

/// A copy merged with another is a join: commutative, associative, idempotent, and never less than either.
fn check_laws<V: Numbered>(world: &World<V>) {
    let reached: Vec<Record<V>> = world.reached().into_iter().rev().take(7).collect();
    for one in &reached {
        assert_eq!(joined(one, &Record::absent()), joined(&Record::absent(), one));
        let one_and_itself = joined(one, one);
        assert_eq!(joined(&one_and_itself, one), one_and_itself);
        for other in &reached {
            let both = joined(one, other);
            assert_eq!(both, joined(other, one));
            assert!(both.clock().covers(one.clock()));
            assert!(both.clock().covers(other.clock()));
            let causality = one.clock().compare(other.clock());
            let back = match other.clock().compare(one.clock()) {
                Causality::Before => Causality::After,
                Causality::After => Causality::Before,
                same => same,
            };
            assert_eq!(causality, back);
            for third in &reached {
                let first = joined(&both, third);
                assert_eq!(first, joined(one, &joined(other, third)));
                let in_order = |one: &Record<V>, other: &Record<V>| other.clock().covers(one.clock());
                let is_transitive = !in_order(one, other) || !in_order(other, third) || in_order(one, third);
                assert!(is_transitive);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn sessions_keep_the_laws(nodes in 1..5_usize, steps in steps(60)) {
        check_world::<SessionState>(nodes, &steps);
    }

    #[test]
    fn subscriptions_keep_the_laws(nodes in 1..5_usize, steps in steps(60)) {
        check_world::<Subscription>(nodes, &steps);
    }

    #[test]
    fn queues_keep_the_laws(nodes in 1..5_usize, steps in steps(60)) {
        check_world::<Queued>(nodes, &steps);
    }

    #[test]
    fn received_packet_ids_keep_the_laws(nodes in 1..5_usize, steps in steps(60)) {
        check_world::<ReceivedId>(nodes, &steps);
    }

    #[test]
    fn wills_keep_the_laws(nodes in 1..5_usize, steps in steps(60)) {
        check_world::<WillState>(nodes, &steps);
    }

    /// Topics' records, which have a rule of their own.
    #[test]
    fn retained_messages_keep_the_laws(
        acts in prop::collection::vec((0..3_usize, 0..4_usize, 0..20_u64, any::<bool>()), 1..40),
    ) {
        let mut writers = [1, 2, 3].map(writer);
        let mut copies: [Option<Retained>; 3] = [const { None }; 3];
        let mut reached = Vec::new();
        for (number, (node, from, wall, is_message)) in acts.into_iter().enumerate() {
            let message = is_message.then(|| Bytes::copy_from_slice(&number.to_be_bytes()));
            let other = copies.get(from).cloned().flatten();
            let copy = &mut copies[node];
            match (copy, other) {
                (Some(copy), Some(other)) => {
                    let before = copy.clone();
                    copy.merge(&other).unwrap();
                    prop_assert!(copy.hlc() >= before.hlc().max(other.hlc()));
                }
                (None, Some(other)) => copies[node] = Some(other),
                (Some(copy), None) => {
                    copy.set(&mut writers[node], wall, message.clone()).unwrap();
                    prop_assert_eq!(copy.message(), message.as_ref());
                }
                (copy @ None, None) => {
                    *copy = Some(Retained::new(&mut writers[node], wall, message).unwrap());
                }
            }
            reached.extend(copies[node].clone());
        }
        let joined = |one: &Retained, other: &Retained| {
            let mut one = one.clone();
            one.merge(other).unwrap();
            one
        };
        let last: Vec<_> = reached.iter().rev().take(7).collect();
        for one in &last {
            prop_assert_eq!(&joined(one, one), *one);
            for other in &last {
                prop_assert_eq!(joined(one, other), joined(other, one));
                for third in &last {
                    prop_assert_eq!(joined(&joined(one, other), third), joined(one, &joined(other, third)));
                }
            }
        }
    }
}
