//! How far each node is in the session plane, as whole nodes tell each other.

use std::time::Duration;

use cluster::session_plane::lifecycle::NodeState::{self, Dead, Joining, Running};

use crate::places::Places;

const SECOND: Duration = Duration::from_secs(1);

/// What a node takes each of the three for.
fn states(places: &Places, node: usize) -> Vec<NodeState> {
    let states = places.machine(node).node().node_states();
    states.into_iter().map(|(_, state)| state).collect()
}

#[test]
fn nodes_of_a_cluster_run_and_know_it_of_each_other() {
    let mut places = Places::new(1, |_| {});
    assert_eq!(
        states(&places, 0),
        [Joining, Dead, Dead],
        "it does not know the others yet"
    );
    places.run(5 * SECOND);
    for node in 0..3 {
        assert_eq!(states(&places, node), [Running; 3]);
    }
}

#[test]
fn a_node_that_is_cut_off_goes_on_by_itself_and_comes_back() {
    let mut places = Places::new(2, |_| {});
    places.run(5 * SECOND);
    places.split(2);
    places.run(5 * SECOND);
    assert_eq!(states(&places, 0), [Running, Running, Dead]);
    assert_eq!(states(&places, 1), [Running, Running, Dead]);
    assert_eq!(states(&places, 2), [Dead, Dead, Running]);
    places.heal();
    places.run(5 * SECOND);
    for node in 0..3 {
        assert_eq!(states(&places, node), [Running; 3]);
    }
}
