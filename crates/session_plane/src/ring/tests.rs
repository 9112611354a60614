use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::view::tests::present;
use crate::{PresentNode, ViewError};

fn ring(nodes: &[PresentNode]) -> Ring {
    Ring::new(&View::new(nodes.to_vec()).expect("samples are views"))
}

fn running(ids: impl IntoIterator<Item = u64>) -> Vec<PresentNode> {
    ids.into_iter()
        .map(|node| present(node, NodeState::Running))
        .collect()
}

/// First three nodes by the clockwise distance of their nearest virtual node.
fn naive_first(nodes: &[PresentNode], slot: Slot, is_on: impl Fn(NodeState) -> bool) -> Vec<NodeId> {
    let from = u64::from(slot.number()) << 52;
    let distance = |node: NodeId| {
        let distances = (0..VIRTUAL_NODES).map(|number| place(node, number).wrapping_sub(from));
        distances.min()
    };
    let on = nodes.iter().filter(|present| is_on(present.state));
    let mut walk: Vec<NodeId> = on.map(|present| present.run.node).collect();
    walk.sort_by_cached_key(|node| (distance(*node), *node));
    walk.truncate(OWNERS);
    walk
}

/// Owners as the model has them: the fallback is a third walk.
fn naive_owners(nodes: &[PresentNode], slot: Slot) -> Vec<NodeId> {
    if slot == Slot::ROUTES || slot == Slot::RETAINED {
        return naive_every_node(nodes);
    }
    let primary = naive_first(nodes, slot, |state| state == NodeState::Running);
    let minority = naive_first(nodes, slot, |state| state != NodeState::MergeMinority);
    let fallback = if primary.is_empty() {
        naive_first(nodes, slot, |_| true)
    } else {
        Vec::new()
    };
    let mut owners = Vec::new();
    for node in [primary, fallback, minority].concat() {
        if !owners.contains(&node) {
            owners.push(node);
        }
    }
    owners
}

/// All nodes: the lowest RUNNING one, then the rest.
fn naive_every_node(nodes: &[PresentNode]) -> Vec<NodeId> {
    let running = nodes.iter().filter(|present| present.state == NodeState::Running);
    let first: Vec<NodeId> = running.map(|present| present.run.node).take(1).collect();
    let all = nodes.iter().map(|present| present.run.node);
    let rest: Vec<NodeId> = all.filter(|node| !first.contains(node)).collect();
    [first, rest].concat()
}

fn states() -> impl Strategy<Value = NodeState> {
    prop_oneof![
        1 => Just(NodeState::Joining),
        3 => Just(NodeState::Running),
        1 => Just(NodeState::MergeMinority),
        1 => Just(NodeState::Merging),
    ]
}

/// Nodes with any ids in any states.
fn samples() -> impl Strategy<Value = Vec<PresentNode>> {
    proptest::collection::btree_map(1..u64::MAX, states(), 1..9).prop_map(|nodes| {
        nodes
            .into_iter()
            .map(|(node, state)| present(node, state))
            .collect()
    })
}

fn slots() -> impl Strategy<Value = Slot> {
    prop_oneof![3 => 0..Slot::HASHED, 1 => Slot::HASHED..Slot::COUNT]
        .prop_map(|number| Slot::new(number).expect("in range"))
}

fn owned_counts(ring: &Ring, owners: usize) -> BTreeMap<NodeId, f64> {
    let mut counts = BTreeMap::new();
    for owner in Slot::hashed().flat_map(|slot| ring.owners(slot).take(owners)) {
        *counts.entry(owner).or_default() += 1.0;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn owners_are_the_first_of_both_rings(
        nodes in samples(),
        slots in proptest::collection::vec(slots(), 8),
    ) {
        let ring = ring(&nodes);
        for slot in slots {
            let owners: Vec<NodeId> = ring.owners(slot).collect();
            prop_assert_eq!(&owners, &naive_owners(&nodes, slot));
            prop_assert_eq!(Some(&ring.primary_owner(slot)), owners.first());
            for present in &nodes {
                let node = present.run.node;
                prop_assert_eq!(ring.is_owner(node, slot), owners.contains(&node));
                prop_assert_eq!(ring.slots_of(node).contains(slot), owners.contains(&node));
            }
        }
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(nodes in samples(), by in any::<prop::sample::Index>()) {
        let mut turned = nodes.clone();
        turned.rotate_left(by.index(nodes.len()));
        turned.reverse();
        prop_assert_eq!(ring(&turned), ring(&nodes));
    }

    /// The others keep their slots and their order, and one node follows where the ring has one.
    #[test]
    fn only_slots_of_a_node_that_goes_change(
        ids in proptest::collection::btree_set(1..u64::MAX, 2..12),
        by in any::<prop::sample::Index>(),
    ) {
        let nodes = running(ids);
        let gone = nodes[by.index(nodes.len())];
        let left: Vec<PresentNode> = nodes.iter().copied().filter(|node| *node != gone).collect();
        let (before, after) = (ring(&nodes), ring(&left));
        for slot in Slot::all() {
            let expected = if slot.is_of_every_node() { left.len() } else { OWNERS.min(left.len()) };
            let kept: Vec<NodeId> = before.owners(slot).filter(|node| *node != gone.run.node).collect();
            let now: Vec<NodeId> = after.owners(slot).collect();
            prop_assert_eq!(&now[..kept.len()], &kept[..]);
            prop_assert_eq!(now.len(), expected);
        }
        prop_assert!(after.slots_of(gone.run.node).is_empty());
    }

    /// The variance of a count is that of the arcs, a 500th of the mean's square, and that of the
    /// slots on them, the mean. Six standard deviations are the bound.
    #[test]
    fn slots_are_balanced(ids in proptest::collection::btree_set(1..u64::MAX, 3..=40)) {
        let nodes = running(ids);
        let ring = ring(&nodes);
        for owners in [1, OWNERS] {
            let mean = owners as f64 * f64::from(Slot::HASHED) / nodes.len() as f64;
            for (node, count) in owned_counts(&ring, owners) {
                let bound = 6.0 * (mean + mean * mean / f64::from(VIRTUAL_NODES)).sqrt();
                prop_assert!((count - mean).abs() < bound, "{:?} owns {}, mean {}", node, count, mean);
            }
        }
    }
}

/// Never to be edited: with other owners, nodes of two versions would route past each other.
#[test]
fn owners_are_golden() {
    let ring = ring(&running(1..=5));
    let owners = |number: u16| -> Vec<u64> {
        let slot = Slot::new(number).expect("in range");
        ring.owners(slot).map(|node| node.0).collect()
    };
    assert_eq!(owners(0), [2, 3, 5]);
    assert_eq!(owners(1_000), [4, 2, 3]);
    assert_eq!(owners(2_048), [4, 5, 1]);
    assert_eq!(owners(3_000), [5, 4, 1]);
    assert_eq!(owners(4_095), [2, 3, 5]);
    assert_eq!(owners(4_096), [1, 2, 3, 4, 5]);
    assert_eq!(owners(4_097), [1, 2, 3, 4, 5]);
}

#[test]
fn a_ring_has_room_for_all_nodes_in_all_states() {
    let states = [
        NodeState::Running,
        NodeState::Joining,
        NodeState::MergeMinority,
        NodeState::Merging,
    ];
    let nodes: Vec<PresentNode> = (1..=NODES_MAX as u64)
        .map(|node| present(node, states[node as usize % states.len()]))
        .collect();
    let ring = ring(&nodes);
    let owning: BTreeSet<NodeId> = Slot::hashed().flat_map(|slot| ring.owners(slot)).collect();
    let on_no_ring = nodes
        .iter()
        .filter(|present| present.state == NodeState::MergeMinority);
    assert_eq!(owning.len(), NODES_MAX - on_no_ring.count());
    for slot in [Slot::ROUTES, Slot::RETAINED] {
        let owners: BTreeSet<NodeId> = ring.owners(slot).collect();
        assert_eq!(owners.len(), NODES_MAX, "a map of every node, in any state");
        assert_eq!(ring.primary_owner(slot), NodeId(4), "the lowest that is RUNNING");
    }
    assert_eq!(size_of::<Owners>(), 7, "the documented size is 4,096 of them");
    let more = running(1..=NODES_MAX as u64 + 1);
    assert_eq!(
        View::new(more),
        Err(ViewError::TooManyNodes { count: NODES_MAX + 1 })
    );
}

#[test]
fn a_node_alone_owns_everything_in_any_state() {
    for state in [NodeState::Joining, NodeState::MergeMinority, NodeState::Merging] {
        let ring = ring(&[present(7, state)]);
        assert_eq!(ring.slots_of(NodeId(7)).len(), usize::from(Slot::COUNT));
        assert!(ring.slots_of(NodeId(8)).is_empty());
    }
}

#[test]
fn a_joining_node_is_no_primary_owner() {
    let mut nodes = running(1..=4);
    nodes[0].state = NodeState::Joining;
    let ring = ring(&nodes);
    assert!(Slot::all().all(|slot| ring.primary_owner(slot) != NodeId(1)));
    assert!(Slot::hashed().all(|slot| ring.owners(slot).len() <= OWNERS + 1));
    assert!(ring.slots_of(NodeId(1)).len() > usize::from(Slot::COUNT) / 2);
}
